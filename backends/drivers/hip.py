"""The few calls of the HIP runtime that backends need, through ctypes.

Written against the headers and documentation of ROCm 6 and 7; not run on a device. The loaded library is an argument,
so that tests can hand in a stand-in.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from backends.contract import DeviceError

_ERROR_INVALID_VALUE = 1
_COPY_DEFAULT = 4  # hipMemcpyDefault: the runtime finds out which side is where
_MEMORY_TYPES_ON_DEVICE = (2, 3, 10)  # device, managed, array; 0 is unregistered and 1 host (ROCm 6 and later)


class PointerAttributes(ctypes.Structure):
    """hipPointerAttribute_t of ROCm 6 and later."""

    _fields_ = (
        ("type", c_int),
        ("device", c_int),
        ("device_pointer", c_void_p),
        ("host_pointer", c_void_p),
        ("is_managed", c_int),
        ("allocation_flags", c_uint),
    )


class HipRuntime:
    """Runtime calls with checked return codes. Raises DeviceError with the runtime's name and number of an error."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def check(self, code: int, what: str) -> None:
        """Raise unless `code` is success."""
        if code:
            raise DeviceError(f"{what}: {self.error_name(code)} ({code})")

    def error_name(self, code: int) -> str:
        """The runtime's name of an error, e.g. hipErrorInvalidValue."""
        self.library.hipGetErrorName.restype = c_char_p
        text = self.library.hipGetErrorName(c_int(code))
        return text.decode() if text else "unknown HIP error"

    def version(self) -> int:
        """10000000 * major + 100000 * minor + patch of the HIP runtime."""
        number = c_int()
        self.check(self.library.hipRuntimeGetVersion(byref(number)), "hipRuntimeGetVersion")
        return number.value

    def make_current(self, device: int) -> None:
        """Make the device current in this thread."""
        self.check(self.library.hipSetDevice(c_int(device)), f"hipSetDevice({device})")

    def copy(self, destination: int, source: int, size: int, stream: int) -> int:
        """Enqueue one copy; the return code is the caller's to check."""
        code: int = self.library.hipMemcpyAsync(
            c_void_p(destination), c_void_p(source), c_size_t(size), c_int(_COPY_DEFAULT), c_void_p(stream)
        )
        return code

    def is_device(self, address: int) -> bool:
        """Whether `address` is device memory; memory that the runtime doesn't know is host memory."""
        found = PointerAttributes()
        code = self.library.hipPointerGetAttributes(byref(found), c_void_p(address))
        if code:
            self.library.hipGetLastError()  # or the next launch in this thread would report this refusal as its own
            if code != _ERROR_INVALID_VALUE:
                self.check(code, f"hipPointerGetAttributes of {address:#x}")
            return False
        return found.type in _MEMORY_TYPES_ON_DEVICE


@cache
def hip_runtime() -> HipRuntime:
    """The runtime that torch uses. Raises DeviceError where it can't be loaded."""
    import torch

    bundled = Path(torch.__file__).parent / "lib" / "libamdhip64.so"
    try:
        # A second copy of the runtime would not know torch's streams and memory.
        return HipRuntime(ctypes.CDLL(str(bundled) if bundled.exists() else "libamdhip64.so"))
    except OSError as error:
        raise DeviceError(f"the HIP runtime can't be loaded: {error}") from error
