"""One opened GPU behind torch.cuda, which is CUDA or HIP: the driver does the memory, torch the streams.

The driver and torch are arguments, so that all of this runs in tests against a stand-in for the driver over real host
memory. It deliberately does not use torch's allocator for device memory: its blocks have mapped neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from backends.contract import Device, DeviceError, Memory, Stream
from backends.drivers.memory import GpuDriver
from backends.platforms import torch_build
from backends.platforms.contract import Bytes, Region
from backends.platforms.memory import host_regions, hostmap
from backends.platforms.memory.device_regions import DeviceRegions
from backends.platforms.memory.host_regions import HostRegions
from backends.platforms.memory.hostmap import PAGE
from backends.platforms.memory.registered import REGISTERED_KINDS, registrations, split
from backends.platforms.torch_errors import torch_errors

_PER_THREAD_HANDLE = 2  # cudaStreamPerThread, hipStreamPerThread
_CALIBRATION_CYCLES = 2_000_000  # about a millisecond


class GpuDevice:
    """Device `index` of this process, initialised by torch and used through `driver` from one thread."""

    def __init__(self, platform: str, index: int, torch: Any, driver: GpuDriver, runtime: str) -> None:
        self._torch, self._driver = torch, driver
        with torch_errors(f"initialising {platform} device {index}"):
            torch.cuda.set_device(index)
            torch.empty(1, device=f"cuda:{index}")  # makes the context that the driver's calls need
            torch.cuda.synchronize(index)
        self._index = index
        self._device = DeviceRegions(driver, index)
        self._host = HostRegions()
        self._pinned: dict[int, Any] = {}
        self._registered: dict[int, list[tuple[int, int]]] = {}
        self._staged: list[Any] = []  # what late writes still read
        self._cycles_per_second = 0.0
        self._staging = torch.cuda.Stream(index)
        self._streams = {
            Stream.SIDE: torch.cuda.Stream(index),
            Stream.DEFAULT: torch.cuda.default_stream(index),
            Stream.PER_THREAD: torch.cuda.ExternalStream(_PER_THREAD_HANDLE, device=index),
        }
        self.facts = self._find_facts(platform, runtime)

    def map(self, memory: Memory, nbytes: int) -> Region:
        self._require(memory)
        if memory is Memory.DEVICE:
            return self._device.map(nbytes)
        if memory is Memory.PINNED:
            return self._map_pinned(nbytes)
        return self._register(self._host.map(memory, nbytes))

    def map_sparse(self, memory: Memory, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        self._require(memory)
        if memory is Memory.DEVICE:
            return self._device.map_sparse(span, extents, align)
        if memory is Memory.PINNED:
            raise DeviceError("pinned memory can't be sparse: its allocator backs every byte")
        return self._register(self._host.map_sparse(memory, span, extents, align))

    def granule(self, memory: Memory) -> int:
        return self._device.granule if memory is Memory.DEVICE else host_regions.granule(memory)

    def unmap(self, region: Region) -> None:
        """The region must not be in use by a stream any more."""
        if region.memory is Memory.DEVICE:
            self._device.unmap(region)
        elif region.memory is Memory.PINNED:
            if self._pinned.pop(region.address, None) is None:
                raise DeviceError(f"no live region of pinned memory at {region.address:#x}")
        else:
            try:
                self._unregister(region.address)
            finally:
                self._host.unmap(region)

    def protect(self, region: Region, read_only: bool) -> None:
        self._host.protect(region, read_only)

    def write(self, memory: Memory, address: int, data: Bytes) -> None:
        if memory is not Memory.DEVICE:
            host_regions.write(address, data)
            return
        if not data.flags.c_contiguous:
            raise ValueError("data has to be one contiguous array")
        self._driver.to_device(address, data.ctypes.data, data.nbytes)

    def read(self, memory: Memory, address: int, out: Bytes) -> None:
        if memory is not Memory.DEVICE:
            host_regions.read(address, out)
            return
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError("out has to be one contiguous, writable array")
        self._driver.to_host(out.ctypes.data, address, out.nbytes)

    def write_late(self, memory: Memory, address: int, data: Bytes, delay_seconds: float) -> None:
        """Spin on the current stream, then copy from a staging buffer that lives until `synchronize`."""
        parts = self._late_parts(memory, address, data.nbytes)
        on_device = memory is Memory.DEVICE
        with torch_errors("staging a late write"):
            # The copy has to be asynchronous, so the other side must be what the copy engine reaches by itself.
            where = {"pin_memory": True} if on_device else {"device": f"cuda:{self._index}"}
            staging = self._torch.empty(max(data.nbytes, 1), dtype=self._torch.uint8, **where)
            self._staged.append(staging)
            self._stage(staging.data_ptr(), np.ascontiguousarray(data), on_device)
            self._spin(delay_seconds)
            stream = self._torch.cuda.current_stream(self._index).cuda_stream
        for part, nbytes in parts:
            staged = staging.data_ptr() + part - address
            if on_device:
                self._driver.to_device_async(part, staged, nbytes, stream)
            else:
                self._driver.to_host_async(part, staged, nbytes, stream)

    def stream(self, kind: Stream) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self._torch.cuda.stream(self._streams[kind])
        return context

    def synchronize_stream(self) -> None:
        with torch_errors("waiting for the current stream"):
            self._torch.cuda.current_stream().synchronize()

    def synchronize(self) -> None:
        self._driver.synchronize()
        self._staged.clear()

    def health(self) -> str | None:
        """A sticky error is reported every time, one that is merely pending in the runtime once, and so cleared."""
        try:
            self.synchronize()
        except DeviceError as error:
            return str(error)
        return self._driver.pending_error()

    def descriptor_tensor(self, values: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        return torch_build.descriptor_tensor(values)

    def close(self) -> None:
        """Wait for the device and give everything back. After a sticky error only host memory can be given back."""
        try:
            self.synchronize()
            for address in list(self._registered):
                self._unregister(address)
            self._device.close()
        finally:
            self._pinned.clear()
            self._host.close()

    def _find_facts(self, platform: str, runtime: str) -> Device:
        properties = self._torch.cuda.get_device_properties(self._index)
        kinds = [Memory.DEVICE, Memory.PINNED, Memory.SHARED, Memory.PAGEABLE, Memory.READ_ONLY]
        extra = {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "uuid": str(getattr(properties, "uuid", "unknown")),
            "total_memory": str(properties.total_memory),
            "granule": str(self._device.granule),
        }
        same_address = False
        try:
            same_address = self._registered_address_is_host_address()
            kinds += sorted(REGISTERED_KINDS.difference(host_regions.SOMETIMES), key=lambda kind: kind.value)
            for memory in host_regions.granted():
                self.unmap(self._register(self._host.map(memory, 1)))
                kinds.append(memory)
        except DeviceError as error:
            extra["not_registered"] = str(error)
        return Device(
            platform=platform,
            index=self._index,
            name=str(properties.name),
            driver=self._driver.version(),
            runtime=runtime,
            torch=str(self._torch.__version__),
            triton=torch_build.triton_version(),
            memory=tuple(kind.value for kind in kinds),
            streams=tuple(kind.value for kind in self._streams),
            pageable_access=self._driver.pageable_access(self._index),
            registered_address_is_host_address=same_address,
            batch_api=self._driver.batch_api(),
            fences=True,
            extra=extra,
        )

    def _registered_address_is_host_address(self) -> bool:
        region = self._register(self._host.map(Memory.REGISTERED, PAGE))
        try:
            return self._driver.device_address(region.address) == region.address
        finally:
            self.unmap(region)

    def _require(self, memory: Memory) -> None:
        if memory.value not in self.facts.memory:
            reason = self.facts.extra.get("not_registered")
            raise DeviceError(
                f"{self.facts.name} has no {memory.value} memory here, only {', '.join(self.facts.memory)}"
                + (f" ({reason})" if reason else "")
            )

    def _map_pinned(self, nbytes: int) -> Region:
        nbytes = hostmap.round_up(max(nbytes, 1), PAGE)
        with torch_errors(f"pinning {nbytes} bytes of host memory"):
            tensor = self._torch.empty(nbytes + PAGE, dtype=self._torch.uint8, pin_memory=True)
        address = hostmap.round_up(tensor.data_ptr(), PAGE)
        self._pinned[address] = tensor
        return Region(Memory.PINNED, address, nbytes, fenced=False, handle=tensor)

    def _register(self, region: Region) -> Region:
        """Register what the region's kind asks for; on failure nothing stays, neither mapped nor registered."""
        done = self._registered[region.address] = []
        try:
            for offset, size in self._host.extents(region):
                for address, nbytes in registrations(region.memory, region.address + offset, size):
                    self._driver.register(address, nbytes)
                    done.append((address, nbytes))
        except DeviceError as error:
            self.unmap(region)
            raise DeviceError(f"registering {region.memory.value} memory: {error}") from error
        return region

    def _unregister(self, region_address: int) -> None:
        for address, _ in self._registered.pop(region_address, []):
            self._driver.unregister(address)

    def _late_parts(self, memory: Memory, address: int, nbytes: int) -> list[tuple[int, int]]:
        if memory in (Memory.DEVICE, Memory.PINNED):
            return [(address, nbytes)]
        if memory not in REGISTERED_KINDS:
            raise DeviceError(f"write_late: a copy to {memory.value} memory is not asynchronous")
        return split(address, nbytes, (each for ranges in self._registered.values() for each in ranges))

    def _stage(self, staging: int, data: Bytes, pinned: bool) -> None:
        """Fill a staging buffer, finished on return, without waiting for the default streams: a late write before
        this one may still spin there, and a plain copy to the device would wait for it."""
        if pinned:
            host_regions.write(staging, data)
        else:
            self._driver.to_device_async(staging, data.ctypes.data, data.nbytes, self._staging.cuda_stream)
            self._staging.synchronize()

    def _spin(self, seconds: float) -> None:
        """Occupy the current stream for about so long; the clock's rate is measured at the first call."""
        cuda = self._torch.cuda
        if not self._cycles_per_second:
            with cuda.stream(cuda.Stream(self._index)):
                cuda._sleep(_CALIBRATION_CYCLES)  # loads the kernel
                begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                begin.record()
                cuda._sleep(_CALIBRATION_CYCLES)
                end.record()
                end.synchronize()
            self._cycles_per_second = _CALIBRATION_CYCLES / max(begin.elapsed_time(end) / 1000, 1e-6)
        cuda._sleep(int(seconds * self._cycles_per_second))
