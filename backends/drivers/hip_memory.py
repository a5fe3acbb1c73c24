"""HIP's runtime for arenas: symbol names, error texts, versions.

Written against the headers and documentation of ROCm 6 and 7; not run on a device. What is least certain: backing
only part of a reservation (`hipMemMap` inside a larger `hipMemAddressReserve`), which is marked beta.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int
from pathlib import Path
from typing import Any, ClassVar

from backends.contract import DeviceError
from backends.drivers.memory import GpuDriver, loaded_library

_VERSION_FILE = Path("/sys/module/amdgpu/version")


class HipDriver(GpuDriver):
    """`libamdhip64.so`: HIP has no driver library apart from its runtime."""

    symbols: ClassVar = {
        "reserve": "hipMemAddressReserve",
        "free_addresses": "hipMemAddressFree",
        "create": "hipMemCreate",
        "release": "hipMemRelease",
        "map": "hipMemMap",
        "unmap": "hipMemUnmap",
        "set_access": "hipMemSetAccess",
        "granularity": "hipMemGetAllocationGranularity",
        "register": "hipHostRegister",
        "unregister": "hipHostUnregister",
        "device_pointer": "hipHostGetDevicePointer",
        "to_device": "hipMemcpyHtoD",
        "to_host": "hipMemcpyDtoH",
        "to_device_async": "hipMemcpyHtoDAsync",
        "to_host_async": "hipMemcpyDtoHAsync",
        "synchronize": "hipDeviceSynchronize",
        "attribute": "hipDeviceGetAttribute",
        "driver_version": "hipDriverGetVersion",
    }
    pageable_attribute = 65  # hipDeviceAttributePageableMemoryAccess

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        for name in ("hipGetErrorName", "hipGetErrorString"):
            call = getattr(library, name)
            call.argtypes, call.restype = [c_int], c_char_p

    def error(self, code: int) -> str:
        name, words = self.library.hipGetErrorName(code), self.library.hipGetErrorString(code)
        return f"{name.decode()} ({code}): {words.decode()}"

    def pending_error(self) -> str | None:
        code = int(self.library.hipGetLastError())
        return f"pending in the HIP runtime: {self.error(code)}" if code else None

    def batch_api(self) -> str | None:
        return "hipMemcpyBatchAsync/9" if getattr(self.library, "hipMemcpyBatchAsync", None) is not None else None

    def version(self) -> str:
        try:
            return _VERSION_FILE.read_text(encoding="ascii").strip()
        except OSError:  # the driver of a stock kernel has no version of its own
            return f"HIP {self.api_version()}"


def load() -> HipDriver:
    """The runtime that torch loaded. Raises DeviceError where it can't be loaded."""
    try:
        return HipDriver(ctypes.CDLL(loaded_library("libamdhip64.so") or "libamdhip64.so"))
    except OSError as error:
        raise DeviceError(f"the HIP runtime can't be loaded: {error}") from error
