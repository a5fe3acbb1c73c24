"""The calls that arenas need of a GPU driver, by what they do: CUDA and HIP give them the same shapes.

Virtual memory (reserve addresses, back some of them), registration of host memory, copies, errors. Subclasses name the
symbols and add what differs. Nothing here goes through torch or through the wrappers that backends use: what is under
test never fills or reads back an arena. The loaded library is an argument, so that tests can hand in a stand-in.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ulonglong, c_ushort, c_void_p
from pathlib import Path
from typing import Any, ClassVar

from backends.contract import DeviceError

_PINNED_ALLOCATION = 1  # the only type of allocation that can be mapped
_LOCATION_DEVICE = 1
_READ_WRITE = 3
_MINIMUM_GRANULARITY = 0


class Location(ctypes.Structure):
    """CUmemLocation, hipMemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class AllocationFlags(ctypes.Structure):
    """The last member of CUmemAllocationProp."""

    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4))


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp, hipMemAllocationProp: 32 bytes in both."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("windows_metadata", c_void_p),
        ("flags", AllocationFlags),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc, hipMemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


# Argument types by role. A device address goes as a 64-bit number; a host address as a pointer.
SIGNATURES: Mapping[str, list[Any]] = {
    "reserve": [POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_ulonglong],
    "free_addresses": [c_uint64, c_size_t],
    "create": [POINTER(c_uint64), c_size_t, POINTER(AllocationProperties), c_ulonglong],
    "release": [c_uint64],
    "map": [c_uint64, c_size_t, c_size_t, c_uint64, c_ulonglong],
    "unmap": [c_uint64, c_size_t],
    "set_access": [c_uint64, c_size_t, POINTER(Access), c_size_t],
    "granularity": [POINTER(c_size_t), POINTER(AllocationProperties), c_int],
    "register": [c_void_p, c_size_t, c_uint],
    "unregister": [c_void_p],
    "device_pointer": [POINTER(c_uint64), c_void_p, c_uint],
    "to_device": [c_uint64, c_void_p, c_size_t],
    "to_host": [c_void_p, c_uint64, c_size_t],
    "to_device_async": [c_uint64, c_void_p, c_size_t, c_void_p],
    "to_host_async": [c_void_p, c_uint64, c_size_t, c_void_p],
    "synchronize": [],
    "attribute": [POINTER(c_int), c_int, c_int],
    "driver_version": [POINTER(c_int)],
}


class GpuDriver(ABC):
    """Checked calls. Every method raises DeviceError with the call and the driver's name and number of its error."""

    symbols: ClassVar[Mapping[str, str]]  # of each role in SIGNATURES
    pageable_attribute: ClassVar[int]  # the number of the attribute "a kernel may access pageable memory"

    def __init__(self, library: Any) -> None:
        self.library = library
        self._calls: dict[str, Any] = {}
        for role, arguments in SIGNATURES.items():
            call = getattr(library, self.symbols[role], None)
            if call is None:
                raise DeviceError(f"the driver has no {self.symbols[role]}: it is too old for this suite")
            call.argtypes, call.restype = arguments, c_int
            self._calls[role] = call
        self._to_device, self._to_host = self._calls["to_device"], self._calls["to_host"]

    @abstractmethod
    def error(self, code: int) -> str:
        """The driver's name of an error and its words for it."""

    @abstractmethod
    def pending_error(self) -> str | None:
        """The error that the runtime would report at its next check in this thread, which is thereby cleared."""

    @abstractmethod
    def batch_api(self) -> str | None:
        """The batch copy call and its number of arguments, e.g. "cuMemcpyBatchAsync/8"; None without one."""

    @abstractmethod
    def version(self) -> str:
        """The driver's version as its vendor prints it."""

    def granule(self, device: int) -> int:
        """Bytes to which device memory is mapped."""
        size = c_size_t()
        self._call("granularity", byref(size), byref(_properties(device)), _MINIMUM_GRANULARITY)
        return size.value

    def reserve(self, nbytes: int) -> int:
        """Reserve device addresses with nothing behind them."""
        address = c_uint64()
        self._call("reserve", byref(address), nbytes, 0, 0, 0)
        return address.value

    def free_addresses(self, address: int, nbytes: int) -> None:
        """Give reserved addresses back."""
        self._call("free_addresses", address, nbytes)

    def create(self, nbytes: int, device: int) -> int:
        """Allocate whole granules of device memory; a handle."""
        handle = c_uint64()
        self._call("create", byref(handle), nbytes, byref(_properties(device)), 0)
        return handle.value

    def release(self, handle: int) -> None:
        """Free memory made by `create`, once it is mapped nowhere."""
        self._call("release", handle)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Put created memory behind reserved addresses."""
        self._call("map", address, nbytes, 0, handle, 0)

    def allow(self, address: int, nbytes: int, device: int) -> None:
        """Let the device read and write mapped addresses."""
        access = Access(Location(_LOCATION_DEVICE, device), _READ_WRITE)
        self._call("set_access", address, nbytes, byref(access), 1)

    def unmap(self, address: int, nbytes: int) -> None:
        """Take the memory from behind addresses that one `map` covered."""
        self._call("unmap", address, nbytes)

    def register(self, address: int, nbytes: int) -> None:
        """Pin host memory and let the device access it."""
        self._call("register", address, nbytes, 0)

    def unregister(self, address: int) -> None:
        """Undo `register` of the range that begins at `address`."""
        self._call("unregister", address)

    def device_address(self, address: int) -> int:
        """The address by which the device knows registered host memory."""
        found = c_uint64()
        self._call("device_pointer", byref(found), address, 0)
        return found.value

    def to_device(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host to device memory, finished on return.

        The driver's own call returns once pageable bytes are staged; the DMA behind it is ordered with the default
        stream only, so a copy on another stream could still read the old bytes, or be overwritten."""
        if code := self._to_device(address, host, nbytes):
            raise self._failure("to_device", code)
        self.synchronize()

    def to_host(self, host: int, address: int, nbytes: int) -> None:
        """Copy from device to host memory, finished on return."""
        if code := self._to_host(host, address, nbytes):
            raise self._failure("to_host", code)

    def to_device_async(self, address: int, host: int, nbytes: int, stream: int) -> None:
        """Enqueue a copy from pinned host memory to device memory."""
        self._call("to_device_async", address, host, nbytes, stream)

    def to_host_async(self, host: int, address: int, nbytes: int, stream: int) -> None:
        """Enqueue a copy from device memory to pinned or registered host memory."""
        self._call("to_host_async", host, address, nbytes, stream)

    def synchronize(self) -> None:
        """Wait for all streams of the current device."""
        self._call("synchronize")

    def pageable_access(self, device: int) -> bool:
        """Whether a kernel may dereference pageable host memory, as the driver says."""
        value = c_int()
        self._call("attribute", byref(value), self.pageable_attribute, device)
        return bool(value.value)

    def api_version(self) -> int:
        """The newest version of the interface that the driver implements, in the vendor's encoding."""
        value = c_int()
        self._call("driver_version", byref(value))
        return value.value

    def _call(self, role: str, *arguments: Any) -> None:
        if code := self._calls[role](*arguments):
            raise self._failure(role, code)

    def _failure(self, role: str, code: int) -> DeviceError:
        return DeviceError(f"{self.symbols[role]}: {self.error(code)}")


def loaded_library(stem: str) -> str | None:
    """The path of a library that this process has loaded already, by the beginning of its file's name.

    Opening that very file gives the copy that torch uses; another copy would know nothing of torch's memory."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        path = line.partition("/")[2]
        if path.rpartition("/")[2].startswith(stem):
            return f"/{path}"
    return None


def _properties(device: int) -> AllocationProperties:
    return AllocationProperties(type=_PINNED_ALLOCATION, location=Location(_LOCATION_DEVICE, device))
