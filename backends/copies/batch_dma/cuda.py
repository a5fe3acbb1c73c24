"""cuMemcpyBatchAsync on CUDA: eight arguments since driver API 13.0, nine (with failIdx) in 12.8 and 12.9.

Where the driver has neither, and while a graph is captured (the batch call fails there with error 900), copies are
enqueued one by one with every return code checked, and the path says so. The legacy default stream, which the batch
call refuses, is served by a side stream that is forked from it and joined back. An address that is mapped nowhere is a
segmentation fault inside the driver: nothing here can prevent it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any

import torch

from backends.contract import Device, Memory, Support
from backends.descriptors import Descriptors
from backends.drivers.cuda import LEGACY_STREAMS, CudaDriver, SideStream, cuda_driver

ORDER_STREAM, ORDER_ANY = 1, 3  # CU_MEMCPY_SRC_ACCESS_ORDER_*

_SYMBOL = b"cuMemcpyBatchAsync"
_EIGHT = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p)
_NINE = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p
)


class Location(ctypes.Structure):
    """CUmemLocation; all zero is no hint."""

    _fields_ = (("type", c_int), ("id", c_int))


class Attributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = (
        ("source_access_order", c_uint),
        ("source_hint", Location),
        ("destination_hint", Location),
        ("flags", c_uint),
    )


_IN_ORDER = ctypes.pointer(Attributes(source_access_order=ORDER_STREAM))
_EARLY = ctypes.pointer(Attributes(source_access_order=ORDER_ANY))
_FIRST = c_size_t(0)  # the entry from which on the attributes hold


class CudaBatch:
    """Submits batches on torch's current stream of torch's current device."""

    def __init__(self, driver: CudaDriver, current_stream: Callable[[], tuple[int, int]]) -> None:
        """`current_stream()` gives a stream handle and its device's index."""
        self._driver = driver
        self._current_stream = current_stream
        self._arguments, self._call = _find(driver)
        self._sides: dict[int, SideStream] = {}
        self._fork = threading.Lock()

    def support(self, device: Device) -> Support:
        """All but copies across the end of a registered range, which the driver refuses with error 1."""
        return Support(memory=frozenset(Memory) - {Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY})

    def submit(self, descriptors: Descriptors, order_any: bool) -> str:
        """Enqueue; the driver has read all descriptors when this returns."""
        stream, device = self._current_stream()
        self._driver.make_current(device)
        if self._call is None:
            self._loop(descriptors, stream)
            return "loop of cuMemcpyAsync"
        if stream in LEGACY_STREAMS:
            with self._fork:
                if device not in self._sides:
                    self._sides[device] = self._driver.side_stream()
                self._sides[device].run(stream, lambda side: self._batch(descriptors, order_any, side))
            return f"cuMemcpyBatchAsync/{self._arguments} on a side stream"
        if self._driver.capturing(stream):
            self._loop(descriptors, stream)
            return "loop of cuMemcpyAsync (graph capture)"
        self._batch(descriptors, order_any, stream)
        return f"cuMemcpyBatchAsync/{self._arguments}"

    def _batch(self, descriptors: Descriptors, order_any: bool, stream: int) -> None:
        assert self._call is not None
        sources, destinations, sizes = descriptors.pointers()
        failed = c_size_t(len(descriptors))
        report = (byref(failed),) if self._arguments == 9 else ()
        how = (_EARLY if order_any else _IN_ORDER, byref(_FIRST), 1)
        code = self._call(destinations, sources, sizes, len(descriptors), *how, *report, stream)
        if code:
            where = f"{len(descriptors)} descriptors"
            if failed.value < len(descriptors):
                where = descriptors.describe(failed.value)
            self._driver.check(code, f"cuMemcpyBatchAsync, {where}")

    def _loop(self, descriptors: Descriptors, stream: int) -> None:
        for entry, (source, destination, size) in enumerate(descriptors.rows()):
            code = self._driver.copy(destination, source, size, stream)
            if code:
                self._driver.check(code, f"cuMemcpyAsync, {descriptors.describe(entry)}")


def engine() -> CudaBatch:
    """On this machine's driver and torch's current stream."""
    return CudaBatch(cuda_driver(), _torch_stream)


def _torch_stream() -> tuple[int, int]:
    device = torch.cuda.current_device()
    return torch._C._cuda_getCurrentRawStream(device), device  # as Triton asks: 7 us less than by a torch.cuda.Stream


def _find(driver: CudaDriver) -> tuple[int, Callable[..., int] | None]:
    """The newest form of the call that the driver has, with its number of arguments."""
    newest = driver.version()
    forms: tuple[tuple[int, int, Any], ...] = ((13000, 8, _EIGHT), (12080, 9, _NINE))
    for version, arguments, prototype in forms:
        if newest >= version:
            try:
                address = driver.entry(_SYMBOL, version)
            except AttributeError:  # a driver so old that it can't be asked
                break
            if address:
                return arguments, prototype(address)
    return 0, None
