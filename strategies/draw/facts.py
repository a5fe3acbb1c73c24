"""Draws the facts that a selection rule decides by.

Most draws are no more than one fact away from a copy that the kernel is for, so that a rule that misreads a single fact
is found within tens of examples; the others mix everything. Sizes and counts crowd around the published thresholds. A
failure shrinks to a load of 512-byte pages from pinned memory on CUDA, but for the facts that matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from backends.contract import HOST_MEMORY, Direction, Memory, Stream
from backends.selection import BACKENDS, FEWEST_DESCRIPTORS, LARGE_PAGE, MOST_CHUNK, WORD, Facts

PLATFORMS = ("cuda", "rocm", "xpu", "cpu", "npu", "a-new-vendor")
DIRECTIONS = tuple(Direction)
HOST_KINDS = (Memory.PINNED, *(kind for kind in Memory if kind in HOST_MEMORY - {Memory.PINNED}))
MOST_PAGE = 4 << 20  # bytes
SMALL_PAGES = (512, 528, 1152, 2112, 4096, 16384, 18432, 24576)  # bytes of pages in use, below the threshold
LARGE_PAGES = (32768, 65536, 1 << 20)
EDGES = tuple(near for size in (WORD, MOST_CHUNK, LARGE_PAGE) for near in (size, size - 1, size + 1, size + WORD))
COUNTS = (None, FEWEST_DESCRIPTORS, FEWEST_DESCRIPTORS - 1, FEWEST_DESCRIPTORS + 1, 64, 0, 1)
SOME_BATCH_CALL = "a-batch-call/8"

_NOTABLE = st.sampled_from((*SMALL_PAGES, *LARGE_PAGES, *EDGES, *EDGES))
_SIZE = st.one_of(_NOTABLE, _NOTABLE, st.integers(1, MOST_PAGE))
_UNKNOWN_OR_NOT = st.sampled_from((None, True, False))
_USUAL_PAGES = st.lists(st.sampled_from(SMALL_PAGES), min_size=1, max_size=2).map(tuple)
_PAGES = st.one_of(st.tuples(_SIZE), st.lists(_SIZE, max_size=4).map(tuple))

_OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "descriptors": st.sampled_from(COUNTS),
    "zero_copy": _UNKNOWN_OR_NOT,
    "fragment_sizes": st.lists(_SIZE, max_size=3).map(tuple),
    "address_multiple": st.sampled_from((None, *(1 << bit for bit in range(13)))),
    "triton_present": st.sampled_from((True, False)),
    "triton_usable": _UNKNOWN_OR_NOT,
    "kernel_any_size": st.booleans(),
    "batch_api": st.sampled_from((SOME_BATCH_CALL, None)),
    "stream": st.sampled_from(Stream),
    "captured": st.booleans(),
    "explicit": st.sampled_from((None, *BACKENDS, "no_such_backend")),
}
_OFTEN = ("platform", "host_memory", "direction", "fragment_sizes", "descriptors", "zero_copy")
_NAMES = ("page_sizes", *_OFTEN, *(name for name in _OTHERS if name not in _OFTEN))
_OFF = st.one_of(
    st.just(("page_sizes",)),
    st.sampled_from((*_OFTEN, "platform", "host_memory", "host_memory")).map(lambda name: (name,)),
    st.sampled_from(_NAMES).map(lambda name: (name,)),
    st.lists(st.sampled_from(_NAMES), unique=True).map(tuple),
)


@st.composite
def facts(
    draw: st.DrawFn,
    platforms: Sequence[str] = PLATFORMS,
    directions: Sequence[Direction] = DIRECTIONS,
    memory: Sequence[Memory] = HOST_KINDS,
) -> Facts:
    """Facts about copies within a domain: these platforms, directions and kinds of host memory, the usual first."""
    off = draw(_OFF, "facts that are not as usual")
    direction = draw(_among(directions, "direction" in off), "direction")
    kinds = [kind for kind in memory if (direction, kind) != (Direction.STORE, Memory.READ_ONLY)]
    if direction is Direction.DEVICE_TO_DEVICE:
        kinds = [Memory.DEVICE]
    usual: dict[str, Any] = {"triton_present": True, "batch_api": SOME_BATCH_CALL}
    return Facts(
        platform=draw(_among(platforms, "platform" in off), "platform"),
        direction=direction,
        host_memory=draw(_among(kinds, "host_memory" in off), "host_memory"),
        page_sizes=draw(_PAGES if "page_sizes" in off else _USUAL_PAGES, "page_sizes"),
        **{**usual, **{name: draw(values, name) for name, values in _OTHERS.items() if name in off}},
    )


def _among(options: Sequence[Any], any_of_them: bool) -> st.SearchStrategy[Any]:
    return st.sampled_from(tuple(options) if any_of_them else tuple(options)[:1])
