"""An opened XPU device against a stand-in for torch.xpu over torch's CPU tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from backends.contract import Device, DeviceError, Memory, Stream
from backends.platforms.contract import OpenDevice
from backends.platforms.xpu import XpuDevice

KINDS = [Memory.DEVICE, Memory.PINNED, Memory.SHARED, Memory.PAGEABLE, Memory.READ_ONLY]


class FakeTorch:
    """Places named xpu:0 are ordinary CPU memory here; nothing is pinned and nothing is late."""

    uint8 = torch.uint8
    from_numpy = staticmethod(torch.from_numpy)
    __version__ = "2.11.0+xpu"
    version = SimpleNamespace(xpu="20250200")

    def __init__(self) -> None:
        self.error: str | None = None
        self.xpu = SimpleNamespace(
            set_device=lambda index: None,
            Stream=lambda index: "side",
            current_stream=lambda index: "default",
            stream=self._stream,
            synchronize=self._synchronize,
            get_device_properties=lambda index: SimpleNamespace(name="Fake XPU", driver_version="1.6", total_memory=1),
        )
        self.entered = threading.local()

    def empty(self, nbytes: int, dtype: Any, device: str = "cpu", pin_memory: bool = False) -> torch.Tensor:
        return torch.empty(nbytes, dtype=dtype)

    def zeros(self, nbytes: int, dtype: Any, device: str) -> torch.Tensor:
        return torch.zeros(1, dtype=dtype)

    def _synchronize(self, index: int) -> None:
        if self.error:
            raise RuntimeError(self.error)

    @contextmanager
    def _stream(self, stream: str) -> Iterator[None]:
        self.entered.stream = stream
        yield


@pytest.fixture
def fake() -> FakeTorch:
    return FakeTorch()


def test_facts_claim_no_fences(fake: FakeTorch) -> None:
    """The facts say what torch's allocator can't do, and survive JSON."""
    device: OpenDevice = XpuDevice(0, fake)
    assert Device.from_json(device.facts.to_json()) == device.facts
    assert not device.facts.fences
    assert device.facts.memory == tuple(kind.value for kind in KINDS)
    assert device.facts.streams == ("side", "default")


@pytest.mark.parametrize("memory", KINDS, ids=lambda memory: memory.value)
def test_bytes_written_are_bytes_read(fake: FakeTorch, memory: Memory) -> None:
    """Device memory goes through tensors, host memory does not; both give back what they got."""
    device = XpuDevice(0, fake)
    region = device.map(memory, 10_000)
    sent, got = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    at = region.address + region.nbytes - 64
    device.write(memory, at, sent)
    device.read(memory, at, got)
    assert np.array_equal(sent, got)
    assert region.address % 4096 == 0
    device.unmap(region)
    with pytest.raises(DeviceError, match="no live region"):
        device.unmap(region)


def test_addresses_outside_a_region_are_refused(fake: FakeTorch) -> None:
    """Without a driver only tensors can be copied, so an address has to be inside one."""
    device = XpuDevice(0, fake)
    region = device.map(Memory.DEVICE, 4096)
    with pytest.raises(DeviceError, match="not inside a live region"):
        device.write(Memory.DEVICE, region.address + region.nbytes - 1, np.zeros(2, np.uint8))


def test_what_torch_allocates_can_not_be_sparse(fake: FakeTorch) -> None:
    """Sparse pageable memory works, sparse device memory is refused with the reason."""
    device = XpuDevice(0, fake)
    device.map_sparse(Memory.PAGEABLE, 1 << 41, [(1 << 40, 1)])
    with pytest.raises(DeviceError, match="device memory can't be sparse on xpu"):
        device.map_sparse(Memory.DEVICE, 1 << 41, [(0, 1)])
    device.close()


def test_missing_kinds_and_streams_are_named(fake: FakeTorch) -> None:
    """Registered memory and the per-thread stream don't exist here."""
    device = XpuDevice(0, fake)
    with pytest.raises(DeviceError, match="no registered memory here, only device, pinned"):
        device.map(Memory.REGISTERED, 1)
    with pytest.raises(DeviceError, match="no per-thread stream"):
        device.stream(Stream.PER_THREAD)
    with device.stream(Stream.SIDE):
        assert fake.entered.stream == "side"


def test_an_error_of_the_device_is_its_health(fake: FakeTorch) -> None:
    """Torch's text comes out as a DeviceError and as the health."""
    device = XpuDevice(0, fake)
    assert device.health() is None
    fake.error = "UR_RESULT_ERROR_DEVICE_LOST"
    with pytest.raises(DeviceError, match="waiting for the device: UR_RESULT_ERROR_DEVICE_LOST"):
        device.synchronize()
    assert "DEVICE_LOST" in (device.health() or "")


def test_a_late_write_to_mapped_memory_is_refused(fake: FakeTorch) -> None:
    """Only what torch allocated can be written late."""
    device = XpuDevice(0, fake)
    region = device.map(Memory.SHARED, 1)
    with pytest.raises(DeviceError, match="shared memory is not asynchronous"):
        device.write_late(Memory.SHARED, region.address, np.zeros(1, np.uint8), 0)
