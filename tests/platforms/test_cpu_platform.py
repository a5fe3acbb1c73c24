"""The CPU platform for real: bytes arrive, fences fault, sparse regions are sparse, streams are late."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.contract import Device, DeviceError, Memory, Stream
from backends.drivers import cpu_stream
from backends.platforms.contract import OpenDevice
from backends.platforms.cpu import PLATFORM, CpuDevice
from backends.platforms.memory import host_regions, hostmap
from backends.platforms.memory.hostmap import PAGE

KINDS = [Memory.DEVICE, Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY]
InChild = Callable[[Callable[[], object]], int]
each_kind = pytest.mark.parametrize("memory", KINDS, ids=lambda memory: memory.value)


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    opened = PLATFORM.open(0)
    yield opened
    opened.close()


def bytes_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


def poke(address: int) -> Callable[[], object]:
    return lambda: ctypes.memset(address, 1, 1)


def peek(address: int) -> Callable[[], object]:
    return lambda: ctypes.string_at(address, 1)


def test_facts_survive_json(device: CpuDevice) -> None:
    """The facts of the device are plain data and name memory and streams that exist."""
    opened: OpenDevice = device
    facts = opened.facts
    assert Device.from_json(facts.to_json()) == facts
    assert {kind.value for kind in KINDS} <= set(facts.memory)
    assert facts.streams == ("side", "default")
    assert facts.name
    assert facts.driver == os.uname().release


@each_kind
def test_bytes_written_are_bytes_read(device: CpuDevice, memory: Memory) -> None:
    """What is written anywhere in a region comes back, first and last byte included."""
    region = device.map(memory, 10_000)
    assert region.nbytes == 3 * PAGE
    assert region.address % PAGE == 0
    sent, got = bytes_of(region.nbytes), np.zeros(region.nbytes, np.uint8)
    device.write(memory, region.address, sent)
    device.read(memory, region.address, got)
    assert np.array_equal(sent, got)


@each_kind
@pytest.mark.parametrize("touch", [peek, poke], ids=["read", "write"])
def test_one_byte_beyond_either_end_faults(
    device: CpuDevice, memory: Memory, touch: Callable[[int], Callable[[], object]], in_child: InChild
) -> None:
    """The bytes before and behind a region are unmapped; the ones just inside are not."""
    region = device.map(memory, PAGE)
    end = region.address + region.nbytes
    assert region.fenced
    assert in_child(touch(region.address)) == 0
    assert in_child(touch(end - 1)) == 0
    assert in_child(touch(region.address - 1)) == -signal.SIGSEGV
    assert in_child(touch(end)) == -signal.SIGSEGV


@each_kind
def test_fences_are_reserved_not_merely_free(device: CpuDevice, memory: Memory) -> None:
    """The addresses on both sides are held without access, so that no later mapping can move in."""
    region = device.map(memory, PAGE)
    end = region.address + region.nbytes
    held = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, access = line.split()[:2]
        start, stop = (int(bound, 16) for bound in bounds.split("-"))
        if access.startswith("---"):
            held.append((start, stop))
    for low, high in ((region.address - hostmap.FENCE, region.address), (end, end + hostmap.FENCE)):
        assert any(start <= low and high <= stop for start, stop in held)


@each_kind
def test_sparse_regions_reach_beyond_two_to_the_forty(device: CpuDevice, memory: Memory, in_child: InChild) -> None:
    """Windows at offsets beyond 2**40 hold bytes, what lies between them faults, and the address obeys `align`."""
    far = (1 << 40) + 4090
    region = device.map_sparse(memory, 2 << 40, [(0, 10), (far, 12)], align=1 << 32)
    assert region.address % (1 << 32) == 0
    sent, got = bytes_of(12), np.zeros(12, np.uint8)
    device.write(memory, region.address + far, sent)
    device.read(memory, region.address + far, got)
    assert np.array_equal(sent, got)
    assert in_child(peek(region.address + PAGE)) == -signal.SIGSEGV
    assert in_child(peek(region.address + (1 << 40) - 1)) == -signal.SIGSEGV
    assert in_child(peek(region.address + (1 << 40) + 2 * PAGE)) == -signal.SIGSEGV


def test_a_read_only_region_faults_when_written_while_protected(device: CpuDevice, in_child: InChild) -> None:
    """Protection stops writes, keeps reads, and can be taken back."""
    region = device.map(Memory.READ_ONLY, PAGE)
    device.protect(region, read_only=True)
    assert in_child(poke(region.address)) == -signal.SIGSEGV
    assert in_child(peek(region.address)) == 0
    device.protect(region, read_only=False)
    assert in_child(poke(region.address)) == 0


def test_protection_leaves_other_kinds_alone(device: CpuDevice, in_child: InChild) -> None:
    """Protecting a pageable region has no effect."""
    region = device.map(Memory.PAGEABLE, PAGE)
    device.protect(region, read_only=True)
    assert in_child(poke(region.address)) == 0


def test_unmapped_memory_faults(device: CpuDevice, in_child: InChild) -> None:
    """After unmap the addresses are gone, and a second unmap says so."""
    region = device.map(Memory.DEVICE, PAGE)
    device.unmap(region)
    assert in_child(peek(region.address)) == -signal.SIGSEGV
    with pytest.raises(DeviceError, match="no live region of device memory"):
        device.unmap(region)


def test_shared_memory_is_shared_with_a_child_and_has_no_name(device: CpuDevice, in_child: InChild) -> None:
    """A child's write to shared memory is seen here, one to pageable memory is not, and /dev/shm stays empty."""
    before = set(Path("/dev/shm").iterdir())
    shared, private = device.map(Memory.SHARED, PAGE), device.map(Memory.PAGEABLE, PAGE)
    assert set(Path("/dev/shm").iterdir()) - before == set()
    for region, seen in ((shared, 1), (private, 0)):
        assert in_child(poke(region.address)) == 0
        got = np.zeros(1, np.uint8)
        device.read(region.memory, region.address, got)
        assert got[0] == seen


def test_too_small_shm_is_said_before_it_is_touched(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the bytes needed and free: touching more than /dev/shm holds would be SIGBUS."""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=2, f_frsize=PAGE))
    device.map(Memory.SHARED, 2 * PAGE)
    with pytest.raises(DeviceError, match=f"/dev/shm is too small: {3 * PAGE} bytes needed, {2 * PAGE} free"):
        device.map(Memory.SHARED, 2 * PAGE + 1)


def test_a_span_larger_than_the_address_space_is_an_error_not_a_crash(device: CpuDevice) -> None:
    """The kernel's refusal comes out as a DeviceError with its own words."""
    with pytest.raises(DeviceError, match=r"reserving addresses: mmap of .* failed: Cannot allocate memory"):
        device.map_sparse(Memory.PAGEABLE, 1 << 62, [(0, 1)])


@pytest.mark.parametrize("extent", [(-1, 4), (0, 0), (PAGE - 1, 2)], ids=str)
def test_extents_lie_inside_their_span(device: CpuDevice, extent: tuple[int, int]) -> None:
    """An extent that is empty or sticks out is refused with its numbers."""
    with pytest.raises(ValueError, match=f"extent \\({extent[0]}, {extent[1]}\\) is not inside"):
        device.map_sparse(Memory.PAGEABLE, PAGE, [extent])


def test_kinds_that_the_cpu_lacks_are_refused_by_name(device: CpuDevice) -> None:
    """Pinned memory does not exist here, and the error lists what does."""
    with pytest.raises(DeviceError, match="no pinned memory here, only device, shared"):
        device.map(Memory.PINNED, PAGE)


def test_huge_pages_exist_exactly_if_one_is_granted(device: CpuDevice) -> None:
    """The facts list huge pages only where the kernel grants one; where it does, a region works."""
    granted = Memory.HUGE in host_regions.granted()
    assert (Memory.HUGE.value in device.facts.memory) == granted
    if granted:
        region = device.map(Memory.HUGE, 1)
        assert region.nbytes == hostmap.huge_page_bytes()
        device.write(Memory.HUGE, region.address, bytes_of(region.nbytes))
    else:
        span = hostmap.Span(2 << 20, 2 << 20)
        with pytest.raises(DeviceError, match="HugePages_Free"):
            span.back_huge([(0, hostmap.huge_page_bytes() or 2 << 20)])
        span.close()


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ([(0, 1)], [(0, 64)]),
        ([(63, 2)], [(0, 128)]),
        ([(200, 1), (0, 1)], [(0, 64), (192, 64)]),
        ([(0, 64), (64, 1)], [(0, 128)]),
        ([(0, 100), (10, 5)], [(0, 128)]),
    ],
)
def test_windows_are_rounded_out_and_merged(extents: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    """Windows that touch become one, so that a driver registers them as one."""
    assert hostmap.windows(extents, 64, 1024) == expected


@pytest.mark.parametrize("kind", [Stream.SIDE, Stream.DEFAULT], ids=lambda kind: kind.value)
def test_a_late_write_is_late_and_copies_its_data_first(device: CpuDevice, kind: Stream) -> None:
    """The destination changes only after the delay, in stream order, to what the data was at the call."""
    region, data, got = device.map(Memory.DEVICE, PAGE), bytes_of(16), np.zeros(16, np.uint8)
    expected = data.copy()
    begin = time.perf_counter()
    with device.stream(kind):
        device.write_late(Memory.DEVICE, region.address, data, 0.05)
        seen_after: list[int] = []
        cpu_stream.current().submit(lambda: seen_after.append(ctypes.string_at(region.address, 1)[0]))
    data[:] = 0
    device.read(Memory.DEVICE, region.address, got)
    assert not got.any()
    device.synchronize()
    assert time.perf_counter() - begin >= 0.05
    device.read(Memory.DEVICE, region.address, got)
    assert np.array_equal(got, expected)
    assert seen_after == [expected[0]]


def test_synchronize_drains_every_stream_and_raises_the_first_error(device: CpuDevice) -> None:
    """An error on one stream does not leave the other undrained."""
    seen: list[int] = []
    with device.stream(Stream.SIDE):
        cpu_stream.current().submit(lambda: 1 // 0)
    with device.stream(Stream.DEFAULT):
        cpu_stream.current().submit(lambda: time.sleep(0.02))
        cpu_stream.current().submit(lambda: seen.append(1))
    with pytest.raises(DeviceError, match="ZeroDivisionError on the side stream"):
        device.synchronize()
    assert seen == [1]
    device.synchronize()
    assert device.health() is None


def test_streams_that_do_not_exist_are_refused(device: CpuDevice) -> None:
    """There is no per-thread default stream on a CPU."""
    with pytest.raises(DeviceError, match="no per-thread stream, only side, default"), device.stream(Stream.PER_THREAD):
        pass


def test_descriptor_tensors_share_their_values(device: CpuDevice) -> None:
    """The tensor and the array are the same memory; other types are refused."""
    values = np.arange(4, dtype=np.int64)
    tensor = device.descriptor_tensor(values)
    values[2] = 77
    assert tensor.tolist() == [0, 1, 77, 3]
    with pytest.raises(ValueError, match="int64 array, not int32"):
        device.descriptor_tensor(values.astype(np.int32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "shown", "expected"),
    [(None, None, 1), ("3", None, 3), ("3", "2,0", 2), ("3", "", 0), ("3", "-1", 0), ("2", "0,7,1", 1)],
)
def test_the_cpu_presents_as_many_devices_as_asked(
    monkeypatch: pytest.MonkeyPatch, count: str | None, shown: str | None, expected: int
) -> None:
    """One device, or KVCONFORM_CPU_DEVICES of them, of which a variable may hide some, as with CUDA."""
    for variable, value in (("KVCONFORM_CPU_DEVICES", count), (PLATFORM.visible_env(), shown)):
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    assert PLATFORM.device_count() == expected


def test_several_devices_live_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two opened devices have streams and memory of their own; a third does not exist."""
    monkeypatch.setenv("KVCONFORM_CPU_DEVICES", "2")
    first, second = PLATFORM.open(0), PLATFORM.open(1)
    assert [first.facts.index, second.facts.index] == [0, 1]
    with first.stream(Stream.SIDE):
        one = cpu_stream.current()
    with second.stream(Stream.SIDE):
        assert cpu_stream.current() is not one
    region = second.map(Memory.DEVICE, PAGE)
    first.close()
    second.write(Memory.DEVICE, region.address, bytes_of(8))
    second.close()
    with pytest.raises(DeviceError, match="cpu has no device 2: 2 visible"):
        PLATFORM.open(2)


def test_a_count_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in the variable is told with the variable's name."""
    monkeypatch.setenv("KVCONFORM_CPU_DEVICES", "two")
    with pytest.raises(DeviceError, match="KVCONFORM_CPU_DEVICES='two' is not a number"):
        PLATFORM.device_count()
