"""Facts in words, for sentences that people read: only what is not as usual is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backends.contract import Direction, Stream
from backends.selection import Facts

MOST_SIZES = 4


def describe(facts: Facts) -> str:
    """One phrase, e.g. "a load of 512-byte pages from registered memory on rocm (64 descriptors)"."""
    side = {
        Direction.LOAD: f" from {facts.host_memory.value} memory",
        Direction.STORE: f" to {facts.host_memory.value} memory",
        Direction.HOST_TO_HOST: f" of {facts.host_memory.value} memory",
        Direction.DEVICE_TO_DEVICE: "",
    }[facts.direction]
    pages = f"{_sizes(facts.page_sizes)}-byte pages" if facts.page_sizes else "pages of unknown size"
    kind = facts.direction.value + ("" if facts.direction in (Direction.LOAD, Direction.STORE) else " copy")
    return f"a {kind} of {pages}{side} on {facts.platform} ({'; '.join(_details(facts))})"


def _details(facts: Facts) -> Iterator[str]:
    if facts.explicit is not None:
        yield f"{facts.explicit} asked for by name"
    if facts.descriptors is not None:
        yield f"{facts.descriptors} descriptors"
    if facts.fragment_sizes:
        yield f"submitted in copies of {_sizes(facts.fragment_sizes)} bytes"
    if facts.address_multiple is not None:
        yield f"addresses are multiples of {facts.address_multiple}"
    if not facts.triton_present:
        yield "no Triton"
    if facts.triton_usable is not None:
        yield "a Triton kernel runs" if facts.triton_usable else "a Triton kernel does not run"
    if facts.zero_copy is not None:
        yield f"a kernel {'may' if facts.zero_copy else 'can not'} dereference the host memory"
    if facts.kernel_any_size:
        yield "the kernel copies any size"
    if facts.stream is not Stream.SIDE:
        yield f"on the {facts.stream.value} stream"
    if facts.captured:
        yield "under graph capture"
    yield facts.batch_api or "no batch call"


def _sizes(sizes: Sequence[int]) -> str:
    shown = [str(size) for size in sizes[:MOST_SIZES]]
    return ", ".join(shown) + (f" and {len(sizes) - MOST_SIZES} more" if len(sizes) > MOST_SIZES else "")
