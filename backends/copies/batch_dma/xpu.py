"""Copies on XPU's current stream, one SYCL queue copy a descriptor: Level Zero has no batch call.

Written against torch's documentation of `torch.xpu` and DLPack; not run on a device. Host memory can't be registered
after the fact there, so registered kinds are declared unsupported.
"""

from __future__ import annotations

from collections.abc import Callable

from backends.contract import Device, Memory, Stream, Support
from backends.copies.torch_copy import copy_views
from backends.descriptors import Descriptors

_MEMORY = frozenset({Memory.DEVICE, Memory.PINNED, Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY})


class XpuBatch:
    """Submits copies through torch, whose copies are SYCL queue copies."""

    def __init__(self, copy: Callable[[Descriptors], None]) -> None:
        self._copy = copy

    def support(self, device: Device) -> Support:
        """Memory that SYCL allocated, and plain host memory; XPU has no per-thread stream."""
        return Support(memory=_MEMORY, streams=frozenset({Stream.SIDE, Stream.DEFAULT}))

    def submit(self, descriptors: Descriptors, order_any: bool) -> str:
        """Enqueue in stream order, whatever `order_any` permits."""
        self._copy(descriptors)
        return "loop of SYCL queue copies"


def engine() -> XpuBatch:
    """On torch's current XPU stream."""
    return XpuBatch(copy_views)
