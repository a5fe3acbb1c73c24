"""CUDA's driver for arenas: symbol names, error texts, versions. Numbers are those of cuda.h."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_uint64, c_void_p
from pathlib import Path
from typing import Any, ClassVar

from backends.contract import DeviceError
from backends.drivers.memory import GpuDriver, loaded_library

_BATCH_FORMS = ((13000, "cuMemcpyBatchAsync/8"), (12080, "cuMemcpyBatchAsync/9"))  # by the CUDA version that has it
_VERSION_FILE = Path("/sys/module/nvidia/version")


class CudaDriver(GpuDriver):
    """`libcuda.so.1`, and for pending errors the CUDA runtime that torch loaded, if it can be found."""

    symbols: ClassVar = {
        "reserve": "cuMemAddressReserve",
        "free_addresses": "cuMemAddressFree",
        "create": "cuMemCreate",
        "release": "cuMemRelease",
        "map": "cuMemMap",
        "unmap": "cuMemUnmap",
        "set_access": "cuMemSetAccess",
        "granularity": "cuMemGetAllocationGranularity",
        "register": "cuMemHostRegister_v2",
        "unregister": "cuMemHostUnregister",
        "device_pointer": "cuMemHostGetDevicePointer_v2",
        "to_device": "cuMemcpyHtoD_v2",
        "to_host": "cuMemcpyDtoH_v2",
        "to_device_async": "cuMemcpyHtoDAsync_v2",
        "to_host_async": "cuMemcpyDtoHAsync_v2",
        "synchronize": "cuCtxSynchronize",
        "attribute": "cuDeviceGetAttribute",
        "driver_version": "cuDriverGetVersion",
    }
    pageable_attribute = 88  # CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS

    def __init__(self, library: Any, runtime: Any = None) -> None:
        super().__init__(library)
        self._runtime = runtime
        for name in ("cuGetErrorName", "cuGetErrorString"):
            getattr(library, name).argtypes = [c_int, POINTER(c_char_p)]
        for name in ("cudaGetErrorName", "cudaGetErrorString") if runtime is not None else ():
            call = getattr(runtime, name)
            call.argtypes, call.restype = [c_int], c_char_p
        library.cuGetProcAddress_v2.argtypes = [c_char_p, POINTER(c_void_p), c_int, c_uint64, POINTER(c_int)]

    def error(self, code: int) -> str:
        name, words = c_char_p(), c_char_p()
        self.library.cuGetErrorName(code, byref(name))
        self.library.cuGetErrorString(code, byref(words))
        return f"{_text(name, 'unknown error')} ({code}): {_text(words, 'no description')}"

    def pending_error(self) -> str | None:
        if self._runtime is None:
            return None
        code = int(self._runtime.cudaGetLastError())
        if code == 0:
            return None
        name, words = self._runtime.cudaGetErrorName(code), self._runtime.cudaGetErrorString(code)
        return f"pending in the CUDA runtime: {name.decode()} ({code}): {words.decode()}"

    def batch_api(self) -> str | None:
        # Asked for a version beyond its own, a driver hands out an older form of the call.
        version = self.api_version()
        form = next(((since, name) for since, name in _BATCH_FORMS if version >= since), None)
        if form is None:
            return None
        since, name = form
        address, status = c_void_p(), c_int()
        code = self.library.cuGetProcAddress_v2(b"cuMemcpyBatchAsync", byref(address), since, 0, byref(status))
        return name if code == 0 and address.value else None

    def version(self) -> str:
        try:
            return _VERSION_FILE.read_text(encoding="ascii").strip()
        except OSError:  # containers may hide it; the version of the interface is always known
            version = self.api_version()
            return f"CUDA {version // 1000}.{version % 1000 // 10}"


def load() -> CudaDriver:
    """The driver of this machine, once torch is imported. Raises DeviceError where it can't be loaded."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"the CUDA driver can't be loaded: {error}") from error
    runtime = loaded_library("libcudart.so")
    return CudaDriver(library, ctypes.CDLL(runtime) if runtime else None)


def _text(found: c_char_p, otherwise: str) -> str:
    return found.value.decode() if found.value else otherwise
