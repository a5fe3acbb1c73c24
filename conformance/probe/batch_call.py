"""The driver's batch copy call itself, tried inside a device process: no backend stands between.

What a backend does to get round the call's limits (a side stream, entries left out, batches cut) is not seen here on
purpose. XPU's call is an operator of torch's own and is not tried; HIP's is written after its headers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any

import numpy as np

from backends.contract import Memory, Stream
from backends.platforms.contract import OpenDevice
from conformance.device.task import Tools
from conformance.probe.answers import NO, UNKNOWN, YES

STRIDE = 256  # bytes from one block to the next
SIZES = (64, 256, 8, 192)  # bytes, in turn: one driver is known to have crashed over mixed sizes
FEW = 4
Column = np.ndarray[Any, np.dtype[np.int64]]
Call = Callable[[Column, Column, Column, bool], str]  # to, from, sizes, with attributes; the error's text or ""


def ask(tools: Tools, how: str, count: int = FEW) -> tuple[str, str]:
    """Try one thing: (answer, evidence).

    `how` is one of plain, attributes, no attributes, default stream, zero size, capture."""
    device = tools.device
    if device.facts.batch_api is None:
        return (NO if how == "plain" else UNKNOWN), "no batch copy call was found"
    make = _CALLS.get(device.facts.platform)
    if make is None:
        return UNKNOWN, f"{device.facts.batch_api} can't be called by itself on {device.facts.platform}"
    if device.facts.platform == "cpu" and how in _NOT_ON_A_CPU:
        return UNKNOWN, _NOT_ON_A_CPU[how]
    with _Trial(device, count, zero=how == "zero size").memory() as trial:
        call = make(device.facts.batch_api)
        if how == "capture":
            return _capture(trial, call, _attributes(device.facts.platform, how))
        with device.stream(Stream.DEFAULT if how == "default stream" else Stream.SIDE):
            error = call(trial.to, trial.source, trial.sizes, _attributes(device.facts.platform, how))
        if error:
            return NO, error
        device.synchronize()
        return trial.bytes_right()


_NOT_ON_A_CPU = {
    "attributes": "process_vm_readv has no attributes",
    "no attributes": "process_vm_readv has no attributes",
    "default stream": "process_vm_readv knows no streams",
    "capture": "a CPU has no graphs",
}


class _Trial:
    """Blocks in host memory that are to be copied to the device, each to its own place."""

    def __init__(self, device: OpenDevice, count: int, zero: bool) -> None:
        self._device = device
        self.sizes = np.resize(np.array(SIZES, np.int64), count)
        if zero:
            self.sizes[count // 2] = 0
        self._content = np.random.default_rng(count).integers(0, 256, count * STRIDE).astype(np.uint8)
        self.to = self.source = np.zeros(0, np.int64)
        self._address = 0

    @contextmanager
    def memory(self) -> Iterator[_Trial]:
        device, nbytes = self._device, self._content.size
        host = Memory.PINNED if Memory.PINNED.value in device.facts.memory else Memory.PAGEABLE
        regions = [device.map(kind, nbytes) for kind in (host, Memory.DEVICE)]
        offsets = np.arange(self.sizes.size, dtype=np.int64) * STRIDE
        self.source, self.to = (region.address + offsets for region in regions)
        self._address = regions[1].address
        device.write(host, regions[0].address, self._content)
        device.write(Memory.DEVICE, self._address, np.zeros(nbytes, np.uint8))
        try:
            yield self
        finally:
            for region in regions:
                device.unmap(region)

    def bytes_right(self) -> tuple[str, str]:
        """Whether every block is there now, and nothing else."""
        found = np.empty(self._content.size, np.uint8)
        self._device.read(Memory.DEVICE, self._address, found)
        inside = np.arange(STRIDE) < self.sizes[:, None]
        wanted = np.where(inside, self._content.reshape(-1, STRIDE), 0).ravel()
        wrong = int(np.count_nonzero(found != wanted))
        count = self.sizes.size
        return (NO, f"{wrong} bytes wrong") if wrong else (YES, f"every byte of {count} descriptors right")


def _capture(trial: _Trial, call: Call, attributes: bool) -> tuple[str, str]:
    """Capture a batch, replay the graph, look whether it copied."""
    import torch

    graph, errors = torch.cuda.CUDAGraph(), []
    try:
        with torch.cuda.graph(graph):
            errors.append(call(trial.to, trial.source, trial.sizes, attributes))
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
    said = next(filter(None, errors), "")
    if said:
        return NO, said.splitlines()[0]
    answer, evidence = trial.bytes_right()
    return answer, f"after a replay: {evidence}"


def _attributes(platform: str, how: str) -> bool:
    """Whether to pass attributes: as the question asks; else as the platform's call is known to work (HIP: without)."""
    return {"attributes": True, "no attributes": False}.get(how, platform != "rocm")


def _cuda(api: str) -> Call:
    """cuMemcpyBatchAsync in the form that the device's facts name: eight arguments or nine."""
    from backends.drivers.cuda import cuda_driver

    driver, nine = cuda_driver(), api.endswith("/9")
    prototype = ctypes.CFUNCTYPE(
        c_int, *[c_void_p] * 3, c_size_t, c_void_p, c_void_p, c_size_t, *([c_void_p] if nine else []), c_void_p
    )
    address = driver.entry(b"cuMemcpyBatchAsync", 12080 if nine else 13000)
    assert address is not None
    return _async_call(prototype(address), nine, lambda code: f"{driver.error_name(code)} ({code})")


def _rocm(api: str) -> Call:
    """hipMemcpyBatchAsync: nine arguments."""
    from backends.drivers.hip import hip_runtime

    runtime = hip_runtime()
    function = runtime.library.hipMemcpyBatchAsync
    function.argtypes = [*[c_void_p] * 3, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
    return _async_call(function, True, lambda code: f"{runtime.error_name(code)} ({code})")


def _async_call(function: Any, nine: bool, name: Callable[[int], str]) -> Call:
    import torch

    from backends.copies.batch_dma.cuda import ORDER_STREAM, Attributes

    def call(to: Column, source: Column, sizes: Column, attributes: bool) -> str:
        order, first, failed = Attributes(source_access_order=ORDER_STREAM), c_size_t(0), c_size_t(sizes.size)
        how = (byref(order), byref(first), 1) if attributes else (None, None, 0)
        report = (byref(failed),) if nine else ()
        columns = [c_void_p(column.ctypes.data) for column in (to, source, sizes)]
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        code = function(*columns, sizes.size, *how, *report, stream)
        return name(code) if code else ""

    return call


def _cpu(api: str) -> Call:
    """process_vm_readv: one call, which may stop early."""
    from backends.copies.batch_dma.cpu import process_vm_readv

    def call(to: Column, source: Column, sizes: Column, attributes: bool) -> str:
        try:
            copied = process_vm_readv(np.stack([to, sizes], axis=1), np.stack([source, sizes], axis=1))
        except OSError as error:
            return f"{error.strerror} ({error.errno})"
        asked = int(sizes.sum())
        return "" if copied == asked else f"copied {copied} of {asked} bytes"

    return call


_CALLS: Mapping[str, Callable[[str], Call]] = {"cuda": _cuda, "rocm": _rocm, "cpu": _cpu}
