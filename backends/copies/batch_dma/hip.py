"""hipMemcpyBatchAsync on ROCm: nine arguments, since ROCm 7.1. Written against AMD's headers; not run on a device.

Runtimes before 7.13 refuse attributes (hipErrorNotSupported); without them the source is read in stream order, which
is always right and sometimes slower. Batches are cut to 4096 entries, for runtimes before a fix of August 2026 overran
a buffer above 8192. Where the call is missing or not supported, copies are enqueued one by one with every return code
checked, and the path says so.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_size_t, c_void_p

import torch

from backends.contract import Device, Memory, Support
from backends.copies.batch_dma.cuda import ORDER_ANY, ORDER_STREAM, Attributes
from backends.descriptors import Descriptors
from backends.drivers.hip import HipRuntime, hip_runtime

CHUNK = 4096  # entries
ATTRIBUTES_SINCE = 7_13_00000  # HIP_VERSION: 10000000 * major + 100000 * minor + patch
_NOT_SUPPORTED = 801  # hipErrorNotSupported


class HipBatch:
    """Submits batches on torch's current stream of torch's current device."""

    def __init__(self, runtime: HipRuntime, current_stream: Callable[[], tuple[int, int]]) -> None:
        """`current_stream()` gives a stream handle and its device's index."""
        self._runtime = runtime
        self._current_stream = current_stream
        self._has_batch = hasattr(runtime.library, "hipMemcpyBatchAsync")
        self._takes_attributes = runtime.version() >= ATTRIBUTES_SINCE

    def support(self, device: Device) -> Support:
        """All but copies across the end of a registered range."""
        return Support(memory=frozenset(Memory) - {Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY})

    def submit(self, descriptors: Descriptors, order_any: bool) -> str:
        """Enqueue; the runtime has read all descriptors when this returns."""
        stream, device = self._current_stream()
        self._runtime.make_current(device)
        if self._has_batch and self._batches(descriptors, order_any, stream):
            return "hipMemcpyBatchAsync" if self._takes_attributes else "hipMemcpyBatchAsync without attributes"
        self._loop(descriptors, stream)
        return "loop of hipMemcpyAsync"

    def _batches(self, descriptors: Descriptors, order_any: bool, stream: int) -> bool:
        """False if the runtime says, before anything is enqueued, that it has no batch copy for this device."""
        attributes = Attributes(source_access_order=ORDER_ANY if order_any else ORDER_STREAM)
        first = c_size_t(0)
        how = (byref(attributes), byref(first), c_size_t(1)) if self._takes_attributes else (None, None, c_size_t(0))
        sources, destinations, sizes = descriptors.pointers()
        for start in range(0, len(descriptors), CHUNK):
            count = min(CHUNK, len(descriptors) - start)
            failed = c_size_t(count)
            arrays = (c_void_p(column + 8 * start) for column in (destinations, sources, sizes))
            code = self._runtime.library.hipMemcpyBatchAsync(
                *arrays, c_size_t(count), *how, byref(failed), c_void_p(stream)
            )
            if code == _NOT_SUPPORTED and start == 0:
                return False
            if code:
                where = f"{len(descriptors)} descriptors"
                if failed.value < count:
                    where = descriptors.describe(start + failed.value)
                self._runtime.check(code, f"hipMemcpyBatchAsync, {where}")
        return True

    def _loop(self, descriptors: Descriptors, stream: int) -> None:
        for entry, (source, destination, size) in enumerate(descriptors.rows()):
            code = self._runtime.copy(destination, source, size, stream)
            if code:
                self._runtime.check(code, f"hipMemcpyAsync, {descriptors.describe(entry)}")


def engine() -> HipBatch:
    """On this machine's runtime and torch's current stream."""
    return HipBatch(hip_runtime(), _torch_stream)


def _torch_stream() -> tuple[int, int]:
    stream = torch.cuda.current_stream()  # torch keeps the name cuda on ROCm
    return stream.cuda_stream, stream.device_index
