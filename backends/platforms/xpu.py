"""Intel XPU: found in sysfs, opened through torch.xpu alone.

Written against torch's documentation; not run on a device. Without a driver underneath, device memory comes from
torch's allocator: it has mapped neighbours, so there are no fences and no sparse regions, and host memory can't be
registered.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from backends.contract import Device, DeviceError, Memory, Stream
from backends.platforms import torch_build
from backends.platforms.contract import Bytes, Region
from backends.platforms.memory import host_regions, hostmap
from backends.platforms.memory.host_regions import HostRegions
from backends.platforms.memory.hostmap import PAGE
from backends.platforms.torch_errors import torch_errors

VISIBLE_VARIABLE = "ZE_AFFINITY_MASK"
CARDS = Path("/sys/class/drm")
_INTEL = "0x8086"
_ALLOCATED = (Memory.DEVICE, Memory.PINNED)  # by torch; the other kinds are mapped
_SCRATCH_BYTES = 64 << 20  # what one step of a delay adds one to


class XpuPlatform:
    """See the module."""

    name = "xpu"

    def missing(self) -> str | None:
        build = torch_build.torch_build()
        reason = torch_build.why_not_built_for("XPU", build, build.xpu if build else None)
        if reason:
            return reason
        if not _cards():
            return f"no XPU device: {CARDS} lists no GPU made by Intel"
        if self.device_count() == 0:
            return f"no visible XPU device; {VISIBLE_VARIABLE}={os.environ.get(VISIBLE_VARIABLE)!r}"
        return None

    def device_count(self) -> int:
        """One a card; or as many different entries as the mask has that name a card. A card of several tiles shows
        more devices than that, which only its driver knows."""
        cards = len(_cards())
        mask = os.environ.get(VISIBLE_VARIABLE)
        if not mask:  # Level Zero takes an empty mask for none
            return cards
        entries = {entry.strip() for entry in mask.split(",")}
        numbers = [entry.partition(".")[0] for entry in entries]
        return sum(1 for number in numbers if number.isdecimal() and int(number) < cards)

    def visible_env(self) -> str:
        return VISIBLE_VARIABLE

    def preload(self) -> None:
        importlib.import_module("torch")
        with suppress(ImportError):
            importlib.import_module("triton")

    def open(self, index: int) -> XpuDevice:
        import torch

        if not torch.xpu.is_available():
            raise DeviceError(f"torch {torch.__version__} finds no XPU device")
        return XpuDevice(index, torch)


class XpuDevice:
    """Device `index` of this process. `torch` is an argument, so that tests can hand in a stand-in."""

    def __init__(self, index: int, torch: Any) -> None:
        self._torch, self._index, self._place = torch, index, f"xpu:{index}"
        self._host = HostRegions()
        self._tensors: dict[int, tuple[Region, Any]] = {}  # by address: torch copies between tensors, not addresses
        self._staged: list[Any] = []
        self._scratch: Any = None
        self._seconds_per_step = 0.0
        with torch_errors(f"initialising xpu device {index}"):
            torch.xpu.set_device(index)
            self._streams = {Stream.SIDE: torch.xpu.Stream(index), Stream.DEFAULT: torch.xpu.current_stream(index)}
            properties = torch.xpu.get_device_properties(index)
        self.facts = Device(
            platform="xpu",
            index=index,
            name=str(properties.name),
            driver=str(getattr(properties, "driver_version", "unknown")),
            runtime=str(torch.version.xpu),
            torch=str(torch.__version__),
            triton=torch_build.triton_version(),
            memory=tuple(kind.value for kind in (*_ALLOCATED, Memory.SHARED, Memory.PAGEABLE, Memory.READ_ONLY)),
            streams=tuple(kind.value for kind in self._streams),
            pageable_access=False,
            registered_address_is_host_address=False,
            batch_api=None,
            fences=False,
            extra={"pageable_access": "not probed", "total_memory": str(properties.total_memory)},
        )

    def map(self, memory: Memory, nbytes: int) -> Region:
        self._require(memory)
        if memory not in _ALLOCATED:
            return self._host.map(memory, nbytes)
        nbytes = hostmap.round_up(max(nbytes, 1), PAGE)
        where = {"device": self._place} if memory is Memory.DEVICE else {"pin_memory": True}
        with torch_errors(f"allocating {nbytes} bytes of {memory.value} memory"):
            whole = self._torch.empty(nbytes + PAGE, dtype=self._torch.uint8, **where)
        address = hostmap.round_up(whole.data_ptr(), PAGE)
        lead = address - whole.data_ptr()
        region = Region(memory, address, nbytes, fenced=False)
        self._tensors[address] = region, whole[lead : lead + nbytes]
        return region

    def map_sparse(self, memory: Memory, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        self._require(memory)
        if memory in _ALLOCATED:
            raise DeviceError(f"{memory.value} memory can't be sparse on xpu: torch's allocator backs every byte")
        return self._host.map_sparse(memory, span, extents, align)

    def granule(self, memory: Memory) -> int:
        return host_regions.granule(memory)

    def unmap(self, region: Region) -> None:
        if region.memory not in _ALLOCATED:
            self._host.unmap(region)
        elif self._tensors.pop(region.address, None) is None:
            raise DeviceError(f"no live region of {region.memory.value} memory at {region.address:#x}")

    def protect(self, region: Region, read_only: bool) -> None:
        self._host.protect(region, read_only)

    def write(self, memory: Memory, address: int, data: Bytes) -> None:
        if memory is not Memory.DEVICE:
            host_regions.write(address, data)
            return
        with torch_errors("writing device memory"):
            self._slice(address, data.nbytes).copy_(self._torch.from_numpy(data.copy()))
            self._torch.xpu.synchronize(self._index)

    def read(self, memory: Memory, address: int, out: Bytes) -> None:
        if memory is not Memory.DEVICE:
            host_regions.read(address, out)
            return
        with torch_errors("reading device memory"):
            self._torch.from_numpy(out).copy_(self._slice(address, out.nbytes))
            self._torch.xpu.synchronize(self._index)

    def write_late(self, memory: Memory, address: int, data: Bytes, delay_seconds: float) -> None:
        if memory not in _ALLOCATED:
            raise DeviceError(f"write_late: a copy to {memory.value} memory is not asynchronous")
        with torch_errors("a late write"):
            values = self._torch.from_numpy(data.copy())
            staging = values.pin_memory() if memory is Memory.DEVICE else values.to(self._place)
            self._staged.append(staging)
            self._occupy(delay_seconds)
            self._slice(address, data.nbytes).copy_(staging, non_blocking=True)

    def stream(self, kind: Stream) -> AbstractContextManager[None]:
        if kind not in self._streams:
            raise DeviceError(f"xpu has no {kind.value} stream, only {', '.join(self.facts.streams)}")
        context: AbstractContextManager[None] = self._torch.xpu.stream(self._streams[kind])
        return context

    def synchronize_stream(self) -> None:
        with torch_errors("waiting for the current stream"):
            self._torch.xpu.current_stream().synchronize()

    def synchronize(self) -> None:
        with torch_errors("waiting for the device"):
            self._torch.xpu.synchronize(self._index)
        self._staged.clear()

    def health(self) -> str | None:
        try:
            self.synchronize()
        except DeviceError as error:
            return str(error)
        return None

    def descriptor_tensor(self, values: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        return torch_build.descriptor_tensor(values)

    def close(self) -> None:
        try:
            self.synchronize()
        finally:
            self._tensors.clear()
            self._host.close()

    def _require(self, memory: Memory) -> None:
        if memory.value not in self.facts.memory:
            raise DeviceError(f"xpu has no {memory.value} memory here, only {', '.join(self.facts.memory)}")

    def _slice(self, address: int, nbytes: int) -> Any:
        for region, tensor in self._tensors.values():
            offset = address - region.address
            if offset >= 0 and offset + nbytes <= region.nbytes:
                return tensor[offset : offset + nbytes]
        raise DeviceError(f"{nbytes} bytes at {address:#x} are not inside a live region that torch allocated")

    def _occupy(self, seconds: float) -> None:
        """Keep the current stream busy for about so long. Torch has no sleep for XPU, so it adds ones."""
        if self._scratch is None:
            self._scratch = self._torch.zeros(_SCRATCH_BYTES, dtype=self._torch.uint8, device=self._place)
            for steps in (1, 20):  # the first loads the kernel
                self._torch.xpu.synchronize(self._index)
                begin = time.perf_counter()
                for _ in range(steps):
                    self._scratch.add_(1)
                self._torch.xpu.synchronize(self._index)
                self._seconds_per_step = max((time.perf_counter() - begin) / steps, 1e-6)
        for _ in range(int(seconds / self._seconds_per_step) + 1):
            self._scratch.add_(1)


def _cards() -> list[str]:
    """The render nodes of GPUs made by Intel, integrated ones included."""
    found = []
    for node in sorted(CARDS.glob("renderD*")):
        with suppress(OSError):
            if (node / "device" / "vendor").read_text(encoding="ascii").strip() == _INTEL:
                found.append(node.name)
    return found


PLATFORM = XpuPlatform()
