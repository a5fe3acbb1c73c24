"""The CPU as a platform of its own: real memory, real fences, real streams, so that every claim can run without a GPU.

"Device" memory is anonymous host memory that only its name sets apart. Several devices may be presented
(KVCONFORM_CPU_DEVICES), all of them this CPU, to try how devices are shared out. There is no pinned or registered
memory: nothing here would make them differ from pageable and shared memory.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from backends.contract import Device, DeviceError, Memory, Stream
from backends.drivers import cpu_stream
from backends.drivers.cpu_stream import CpuStream
from backends.platforms import torch_build
from backends.platforms.contract import Bytes, Region
from backends.platforms.memory import host_regions
from backends.platforms.memory.host_regions import HostRegions
from backends.platforms.visible import visible

COUNT_VARIABLE = "KVCONFORM_CPU_DEVICES"
VISIBLE_VARIABLE = "KVCONFORM_CPU_VISIBLE_DEVICES"


class CpuPlatform:
    """See the module."""

    name = "cpu"

    def missing(self) -> str | None:
        return None if torch_build.torch_build() else "torch is not installed"

    def device_count(self) -> int:
        return len(_visible())

    def visible_env(self) -> str:
        return VISIBLE_VARIABLE

    def preload(self) -> None:
        """Import torch. Triton stays out: its interpreter has to be chosen before the import, by whoever needs it."""
        importlib.import_module("torch")

    def open(self, index: int) -> CpuDevice:
        count = self.device_count()
        if not 0 <= index < count:
            raise DeviceError(f"cpu has no device {index}: {count} visible (see {COUNT_VARIABLE}, {VISIBLE_VARIABLE})")
        return CpuDevice(index)


class CpuDevice:
    """One opened CPU device. Not thread-safe."""

    def __init__(self, index: int) -> None:
        self._streams = {Stream.SIDE: CpuStream("side"), Stream.DEFAULT: cpu_stream.default()}
        self._regions = HostRegions()
        kinds = [Memory.DEVICE, Memory.SHARED, Memory.PAGEABLE, Memory.READ_ONLY, *host_regions.granted()]
        build = torch_build.torch_build()
        self.facts = Device(
            platform="cpu",
            index=index,
            name=_cpu_name(),
            driver=platform.release(),
            runtime="none",
            torch=build.version if build else "none",
            triton=torch_build.triton_version(),
            memory=tuple(kind.value for kind in kinds),
            streams=tuple(kind.value for kind in self._streams),
            pageable_access=True,
            registered_address_is_host_address=True,
            batch_api="process_vm_readv" if _process_vm_readv_works() else None,
            fences=True,
            extra={"machine": platform.machine(), "cores": str(os.cpu_count())},
        )

    def map(self, memory: Memory, nbytes: int) -> Region:
        self._require(memory)
        return self._regions.map(memory, nbytes)

    def map_sparse(self, memory: Memory, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        self._require(memory)
        return self._regions.map_sparse(memory, span, extents, align)

    def granule(self, memory: Memory) -> int:
        return host_regions.granule(memory)

    def unmap(self, region: Region) -> None:
        self._regions.unmap(region)

    def protect(self, region: Region, read_only: bool) -> None:
        self._regions.protect(region, read_only)

    def write(self, memory: Memory, address: int, data: Bytes) -> None:
        host_regions.write(address, data)

    def read(self, memory: Memory, address: int, out: Bytes) -> None:
        host_regions.read(address, out)

    def write_late(self, memory: Memory, address: int, data: Bytes, delay_seconds: float) -> None:
        """All kinds but READ_ONLY: on a CPU none of them needs a driver to be written late."""
        if memory is Memory.READ_ONLY:
            raise DeviceError("write_late: read-only memory can't be written")
        staged = data.copy()

        def later() -> None:
            time.sleep(delay_seconds)
            host_regions.write(address, staged)

        cpu_stream.current().submit(later)

    @contextmanager
    def stream(self, kind: Stream) -> Iterator[None]:
        if kind not in self._streams:
            raise DeviceError(f"the cpu has no {kind.value} stream, only {', '.join(self.facts.streams)}")
        with cpu_stream.use(self._streams[kind]):
            yield

    def synchronize_stream(self) -> None:
        cpu_stream.current().synchronize()

    def synchronize(self) -> None:
        errors = []
        for stream in self._streams.values():
            try:
                stream.synchronize()
            except DeviceError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def health(self) -> str | None:
        return None

    def descriptor_tensor(self, values: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        return torch_build.descriptor_tensor(values)

    def close(self) -> None:
        """Wait for the streams, then unmap every region."""
        try:
            self.synchronize()
        finally:
            self._regions.close()

    def _require(self, memory: Memory) -> None:
        if memory.value not in self.facts.memory:
            raise DeviceError(f"the cpu has no {memory.value} memory here, only {', '.join(self.facts.memory)}")


def _visible() -> list[int]:
    text = os.environ.get(COUNT_VARIABLE, "1")
    if not text.isdecimal() or int(text) == 0:
        raise DeviceError(f"{COUNT_VARIABLE}={text!r} is not a number of devices from 1 on")
    return visible(os.environ.get(VISIBLE_VARIABLE), [""] * int(text))


def _cpu_name() -> str:
    """The model as /proc/cpuinfo names it, else (ARM names none) the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


def _process_vm_readv_works() -> bool:
    """Copy eight bytes inside this process by the call; a sandbox may forbid it."""
    call = getattr(ctypes.CDLL(None), "process_vm_readv", None)
    if call is None:
        return False
    source, destination = ctypes.create_string_buffer(b"kvblocks", 8), ctypes.create_string_buffer(8)
    remote, local = (_IoVec(ctypes.addressof(buffer), 8) for buffer in (source, destination))
    call.restype, call.argtypes = ctypes.c_ssize_t, None
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    copied = call(ctypes.c_int(os.getpid()), ctypes.byref(local), one, ctypes.byref(remote), one, zero)
    return bool(copied == 8 and destination.raw == source.raw)


PLATFORM = CpuPlatform()
