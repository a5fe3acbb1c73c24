"""vLLM's selection rule as a subject, of any release that has it, without the engine.

The rule is a function of a module, `_select_swap_blocks_fn`, which reads the platform from its module's
`current_platform` and `HAS_TRITON`. Those two names are set for the length of a call and put back; nothing else of the
module is touched or read. The rule is judged where it is used: loads and stores on CUDA, ROCm and XPU, with host
memory whose registrations end where blocks end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from backends.contract import Direction, Memory
from backends.selection import ACROSS_RANGES, BATCH_DMA, PINNED_MEMORY, TRITON_COPY, Choice, Facts
from conformance.subjects.rules import MUST_SEE, Selector, SelectorError

FUNCTION = "_select_swap_blocks_fn"
PLATFORMS = frozenset({"cuda", "rocm", "xpu"})
DIRECTIONS = frozenset({Direction.LOAD, Direction.STORE})
MEMORY = frozenset(Memory) - ACROSS_RANGES
PREDICATES = ("is_cuda", "is_rocm", "is_xpu", "is_cpu")
_ABSENT = object()


@dataclass(frozen=True)
class PageRef:
    """What the rule reads of a layer's reference."""

    page_size_bytes: int


class SimulatedPlatform:
    """A platform that says it is another one; for everything else the real one answers."""

    def __init__(self, name: str, real: Any) -> None:
        self._real = real
        for predicate in PREDICATES:
            setattr(self, predicate, partial(bool, predicate == f"is_{name}"))
        self.is_cuda_alike = partial(bool, name in ("cuda", "rocm"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def vllm_selector(module: Any, *, name: str = "vllm", fewest_descriptors: int | None = None) -> Selector:
    """The rule of `module` (vLLM's `v1/kv_offload/cpu/gpu_worker.py`, or anything with the same names).

    `fewest_descriptors`: the number below which the Triton copy of that release hands a batch to DMA when called
    (MIN_N of `swap_blocks_triton.py`, 16 in 0.33); without it the number of descriptors is not looked at.
    Raises SelectorError if the function is not there or takes something that this adapter doesn't know.
    """
    function = getattr(module, FUNCTION, None)
    if function is None:
        raise SelectorError(f"{getattr(module, '__name__', module)} has no {FUNCTION}")
    with_pinned = _takes_pinned(function)

    def call(facts: Facts) -> Choice:
        refs = [[PageRef(size) for size in facts.page_sizes]]
        pinned = {"host_memory_is_pinned": facts.host_memory in PINNED_MEMORY} if with_pinned else {}
        with pretend(module, facts.platform, facts.triton_present):
            choice = _as_choice(module, function(refs, facts.direction is Direction.STORE, **pinned))
        least, count = fewest_descriptors or 0, facts.descriptors
        if count is not None and count < least and choice.backend == TRITON_COPY:
            return Choice(BATCH_DMA, None, f"handed over when called: fewer than {least} descriptors")
        return choice

    seen = MUST_SEE | ({"descriptors"} if fewest_descriptors is not None else frozenset())
    return Selector(name, call, seen, PLATFORMS, DIRECTIONS, MEMORY)


@contextmanager
def pretend(module: Any, platform: str, has_triton: bool) -> Iterator[None]:
    """Let `module` believe it is on `platform`, with or without Triton, while the block runs."""
    before = {name: getattr(module, name, _ABSENT) for name in ("current_platform", "HAS_TRITON")}
    module.current_platform = SimulatedPlatform(platform, before["current_platform"])
    module.HAS_TRITON = has_triton
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, value)


def _takes_pinned(function: Callable[..., Any]) -> bool:
    """Whether this release's function is told about pinned memory. The first parameter had several names."""
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    unknown = [name for name in names[2:] if name != "host_memory_is_pinned" and _required(parameters[name])]
    if names[1:2] != ["gpu_to_cpu"] or unknown:
        raise SelectorError(
            f"{FUNCTION}({', '.join(names)}) is not a signature this adapter knows: "
            "(refs by group, gpu_to_cpu), with or without host_memory_is_pinned"
        )
    return "host_memory_is_pinned" in names


def _required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _as_choice(module: Any, chosen: Any) -> Choice:
    if isinstance(chosen, partial) and "bytes_per_chunk" in chosen.keywords:
        return Choice(TRITON_COPY, chosen.keywords["bytes_per_chunk"], "chosen by vLLM's rule")
    if chosen is module.ops.swap_blocks_batch:
        return Choice(BATCH_DMA, None, "chosen by vLLM's rule")
    raise SelectorError(f"{FUNCTION} returned {chosen!r}: neither the batch op nor a Triton copy with bytes_per_chunk")
