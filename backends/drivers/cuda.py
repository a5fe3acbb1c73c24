"""The few calls of the CUDA driver that backends need, through ctypes: no dependency on cuda-bindings.

Numbers are those of cuda.h. It deliberately leaves streams' life, memory and everything else to torch. The loaded
library is an argument, so that tests can hand in a stand-in.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any

from backends.contract import DeviceError

LEGACY_STREAMS = (0, 1)  # the null handle and CU_STREAM_LEGACY
_STREAM_NON_BLOCKING = 1
_EVENT_DISABLE_TIMING = 2
_POINTER_ATTRIBUTE_MEMORY_TYPE = 2
_MEMORY_TYPE_DEVICE = 2
_CAPTURE_STATUS_NONE = 0
_ERROR_INVALID_VALUE = 1


class CudaDriver:
    """Driver calls with checked return codes. Raises DeviceError with the driver's name and number of an error."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self._contexts: dict[int, int] = {}

    def check(self, code: int, what: str) -> None:
        """Raise unless `code` is success."""
        if code:
            raise DeviceError(f"{what}: {self.error_name(code)} ({code})")

    def error_name(self, code: int) -> str:
        """The driver's name of an error, e.g. CUDA_ERROR_INVALID_VALUE."""
        text = c_char_p()
        self.library.cuGetErrorName(c_int(code), byref(text))
        return text.value.decode() if text.value else "unknown CUDA error"

    def version(self) -> int:
        """1000 * major + 10 * minor of the newest CUDA that this driver supports."""
        number = c_int()
        self.check(self.library.cuDriverGetVersion(byref(number)), "cuDriverGetVersion")
        return number.value

    def entry(self, symbol: bytes, version: int) -> int | None:
        """Address of the form that `symbol` had in CUDA `version`, or None. Asking for a version newer than the
        driver's would give an older form, so don't."""
        address, status = c_void_p(), c_int()
        code = self.library.cuGetProcAddress_v2(
            c_char_p(symbol), byref(address), c_int(version), c_uint64(0), byref(status)
        )
        return address.value if code == 0 and status.value == 0 else None

    def make_current(self, device: int) -> None:
        """Make the device's primary context, the one that torch uses, current in this thread."""
        if device not in self._contexts:
            retained = c_void_p()
            self.check(
                self.library.cuDevicePrimaryCtxRetain(byref(retained), c_int(device)), f"primary context of {device}"
            )
            self._contexts[device] = retained.value or 0
        present = c_void_p()
        self.check(self.library.cuCtxGetCurrent(byref(present)), "cuCtxGetCurrent")
        if present.value != self._contexts[device]:
            self.check(self.library.cuCtxSetCurrent(c_void_p(self._contexts[device])), "cuCtxSetCurrent")

    def capturing(self, stream: int) -> bool:
        """Whether a graph is being captured on `stream`."""
        status = c_int()
        self.check(self.library.cuStreamIsCapturing(c_void_p(stream), byref(status)), "cuStreamIsCapturing")
        return status.value != _CAPTURE_STATUS_NONE

    def copy(self, destination: int, source: int, size: int, stream: int) -> int:
        """Enqueue one copy; the return code is the caller's to check."""
        code: int = self.library.cuMemcpyAsync(
            c_uint64(destination), c_uint64(source), c_size_t(size), c_void_p(stream)
        )
        return code

    def is_device(self, address: int) -> bool:
        """Whether `address` is device memory; memory that the driver doesn't know is host memory."""
        kind = c_uint()
        code = self.library.cuPointerGetAttribute(byref(kind), c_int(_POINTER_ATTRIBUTE_MEMORY_TYPE), c_uint64(address))
        if code == _ERROR_INVALID_VALUE:
            return False
        self.check(code, f"cuPointerGetAttribute of {address:#x}")
        return kind.value == _MEMORY_TYPE_DEVICE

    def side_stream(self) -> SideStream:
        """A stream on the current device that waits for no other by itself."""
        return SideStream(self)


class SideStream:
    """A private stream for work that the legacy default stream can't take, kept in order with it by two events."""

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        stream, before, after = c_void_p(), c_void_p(), c_void_p()
        library = driver.library
        driver.check(library.cuStreamCreate(byref(stream), c_uint(_STREAM_NON_BLOCKING)), "cuStreamCreate")
        for event in (before, after):
            driver.check(library.cuEventCreate(byref(event), c_uint(_EVENT_DISABLE_TIMING)), "cuEventCreate")
        self._stream, self._before, self._after = stream, before, after

    def run(self, outer: int, enqueue: Callable[[int], None]) -> None:
        """`enqueue(stream)` after everything on `outer` so far; later work on `outer` waits for it.

        `outer` is made to wait even if `enqueue` raises, for part of its work may be under way."""
        self._follow(self._stream, self._before, c_void_p(outer))
        try:
            enqueue(self._stream.value or 0)
        finally:
            self._follow(c_void_p(outer), self._after, self._stream)

    def _follow(self, later: c_void_p, event: c_void_p, earlier: c_void_p) -> None:
        library = self._driver.library
        self._driver.check(library.cuEventRecord(event, earlier), "cuEventRecord")
        self._driver.check(library.cuStreamWaitEvent(later, event, c_uint(0)), "cuStreamWaitEvent")


@cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine. Raises DeviceError where it can't be loaded."""
    try:
        driver = CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise DeviceError(f"the CUDA driver can't be loaded: {error}") from error
    driver.check(driver.library.cuInit(c_uint(0)), "cuInit")
    return driver
