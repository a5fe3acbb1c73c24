"""An opened GPU against a stand-in for its driver: the right calls, the right order, nothing left behind."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import GRANULE, FakeCuda, FakeHip, FakeLibrary, FakeTorch

from backends.contract import Device, DeviceError, Memory, Stream
from backends.drivers import memory as memory_driver
from backends.drivers.cuda_memory import CudaDriver
from backends.drivers.hip_memory import HipDriver
from backends.drivers.memory import GpuDriver
from backends.platforms.contract import OpenDevice
from backends.platforms.gpu_device import GpuDevice
from backends.platforms.memory import numa
from backends.platforms.memory.host_regions import SOMETIMES
from backends.platforms.memory.hostmap import PAGE
from backends.platforms.memory.registered import PIECE, PIECES, REGISTERED_KINDS, registrations, split

InChild = Callable[[Callable[[], object]], int]
KINDS = sorted(set(Memory).difference(SOMETIMES), key=lambda kind: kind.value)


@dataclass
class Machine:
    """A fake GPU and the device opened on it."""

    library: FakeLibrary
    torch: FakeTorch
    driver: GpuDriver

    def open(self) -> GpuDevice:
        return GpuDevice("fake", 0, self.torch, self.driver, "13.0")


@pytest.fixture(params=["cuda", "hip"])
def machine(request: pytest.FixtureRequest) -> Machine:
    library: FakeLibrary
    driver: GpuDriver
    if request.param == "cuda":
        library = FakeCuda(CudaDriver.symbols)
        driver = CudaDriver(library)
    else:
        library = FakeHip(HipDriver.symbols)
        driver = HipDriver(library)
    return Machine(library, FakeTorch(library), driver)


def bytes_of(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, count, dtype=np.uint8)


def test_facts_are_probed_and_survive_json(machine: Machine) -> None:
    """Every kind that can be realised is listed, and probing leaves nothing registered."""
    device: OpenDevice = machine.open()
    facts = device.facts
    assert Device.from_json(facts.to_json()) == facts
    assert {kind.value for kind in KINDS} <= set(facts.memory)
    assert facts.streams == ("side", "default", "per-thread")
    assert (facts.name, facts.runtime, facts.torch) == ("Fake GPU", "13.0", "2.11.0+fake")
    assert facts.registered_address_is_host_address
    assert not facts.pageable_access
    assert facts.fences
    assert machine.library.empty


def test_an_alias_of_registered_memory_is_found(machine: Machine) -> None:
    """Where the device knows registered memory by another address, the facts say so."""
    machine.library.alias = 1 << 40
    assert not machine.open().facts.registered_address_is_host_address


def test_without_registration_the_registered_kinds_do_not_exist(machine: Machine) -> None:
    """A driver that refuses to register leaves the kinds out, and asking for one repeats the driver's words."""
    machine.library.failing["register"] = 1
    device = machine.open()
    assert not {kind.value for kind in REGISTERED_KINDS} & set(device.facts.memory)
    with pytest.raises(DeviceError, match=r"no registered memory here.*Register.*\(1\): invalid argument"):
        device.map(Memory.REGISTERED, PAGE)
    assert machine.library.empty


@pytest.mark.parametrize("memory", KINDS, ids=lambda memory: memory.value)
def test_bytes_written_are_bytes_read_and_nothing_stays(machine: Machine, memory: Memory) -> None:
    """Each kind maps, holds bytes from its first to its last, and unmaps without a trace in the driver's books."""
    device = machine.open()
    region = device.map(memory, 100_000)
    assert region.nbytes % device.granule(memory) == 0
    assert region.address % PAGE == 0
    assert region.fenced == (memory is not Memory.PINNED)
    sent, got = bytes_of(region.nbytes), np.zeros(region.nbytes, np.uint8)
    device.write(memory, region.address, sent)
    device.read(memory, region.address, got)
    assert np.array_equal(sent, got)
    device.unmap(region)
    assert machine.library.empty
    with pytest.raises(DeviceError, match="no live region"):
        device.unmap(region)


def test_device_memory_has_unmapped_neighbours(machine: Machine) -> None:
    """One byte beyond either end of device memory is refused by the driver; addresses around it stay reserved."""
    device = machine.open()
    region = device.map(Memory.DEVICE, 1)
    assert region.nbytes == GRANULE
    two = np.zeros(2, np.uint8)
    for address in (region.address - 1, region.address + GRANULE - 1):
        with pytest.raises(DeviceError, match=r"DtoH.*\(1\): invalid argument"):
            device.read(Memory.DEVICE, address, two)
    ((base, (_, reserved)),) = machine.library.reservations.items()
    assert base <= region.address - GRANULE
    assert base + reserved >= region.address + 2 * GRANULE


def test_sparse_device_memory_costs_only_its_windows(machine: Machine) -> None:
    """A span of 2 TiB with two windows holds two granules; windows that touch share one allocation."""
    device = machine.open()
    far = (1 << 40) + 5
    extents = [(0, 8), (far, 8), (1 << 30, GRANULE), ((1 << 30) + GRANULE, 1)]
    region = device.map_sparse(Memory.DEVICE, 2 << 40, extents, 1 << 32)
    assert region.address % (1 << 32) == 0
    assert sorted(machine.library.handles.values()) == [GRANULE, GRANULE, 2 * GRANULE]
    got = np.zeros(8, np.uint8)
    device.write(Memory.DEVICE, region.address + far, bytes_of(8))
    device.read(Memory.DEVICE, region.address + far, got)
    assert np.array_equal(got, bytes_of(8))
    device.unmap(region)
    assert machine.library.empty


@pytest.mark.parametrize("role", ["create", "map", "set_access"])
def test_a_failing_step_of_a_mapping_leaves_nothing(machine: Machine, role: str) -> None:
    """Whatever the driver had done before the step that failed is undone."""
    device = machine.open()
    machine.library.failing[role] = 1
    with pytest.raises(DeviceError, match=r"\(1\): invalid argument"):
        device.map(Memory.DEVICE, 1)
    assert machine.library.empty


def test_registration_follows_the_kind(machine: Machine) -> None:
    """Whole, in adjacent pieces, the first half only, or not at all."""
    device, library = machine.open(), machine.library
    seen = {}
    for memory in KINDS:
        region = device.map(memory, PIECES * PIECE)
        ranges = sorted((address - region.address, size) for address, size in library.registered.items())
        seen[memory] = ranges
        device.unmap(region)
    assert seen[Memory.REGISTERED] == seen[Memory.REGISTERED_ANONYMOUS] == [(0, PIECES * PIECE)]
    assert seen[Memory.REGISTERED_PIECES] == [(at * PIECE, PIECE) for at in range(PIECES)]
    assert seen[Memory.REGISTERED_PARTLY] == [(0, PIECES * PIECE // 2)]
    for memory in (Memory.SHARED, Memory.PAGEABLE, Memory.READ_ONLY, Memory.DEVICE, Memory.PINNED):
        assert seen[memory] == []


def test_memory_of_another_node_is_registered_whole(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is another node, the kind is listed, and its memory is the node's before it is registered."""
    order: list[str] = []
    register = machine.driver.register

    def registered(address: int, nbytes: int) -> None:
        order.append("registered")
        register(address, nbytes)

    monkeypatch.setattr(numa, "other_node", lambda: 1)
    monkeypatch.setattr(numa, "bind", lambda address, nbytes, node: order.append(f"bound to {node}"))
    monkeypatch.setattr(machine.driver, "register", registered)
    device = machine.open()
    assert Memory.OTHER_NODE.value in device.facts.memory
    order.clear()
    region = device.map(Memory.OTHER_NODE, PIECE)
    assert order == ["bound to 1", "registered"]
    assert machine.library.registered == {region.address: PIECE}
    device.unmap(region)
    assert not machine.library.registered


def test_a_registration_that_fails_halfway_is_undone(machine: Machine) -> None:
    """If a later piece can't be registered, the earlier ones are released and the memory is unmapped."""
    device, library = machine.open(), machine.library
    original, calls = machine.driver.register, []

    def third_fails(address: int, nbytes: int) -> None:
        calls.append(address)
        library.failing = {"register": 1} if len(calls) == 3 else {}
        original(address, nbytes)

    machine.driver.register = third_fails  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match=r"registering registered-pieces memory: .*Register"):
        device.map(Memory.REGISTERED_PIECES, 4 * PIECE)
    assert len(calls) == 3
    assert library.empty


def test_small_regions_in_pieces_have_seams_too() -> None:
    """Two pages are two pieces; a partly registered window always has an unregistered half."""
    assert registrations(Memory.REGISTERED_PIECES, 0, 2 * PAGE) == [(0, PAGE), (PAGE, PAGE)]
    assert len(registrations(Memory.REGISTERED_PIECES, 0, 2 << 20)) == PIECES
    assert registrations(Memory.REGISTERED_PARTLY, 0, 2 * PAGE) == [(0, PAGE)]


def test_sparse_host_memory_registers_its_windows(machine: Machine) -> None:
    """A sparse registered region registers each window, beyond 2**40 as well."""
    device = machine.open()
    region = device.map_sparse(Memory.REGISTERED, 2 << 40, [(0, 1), ((1 << 40) + 1, PAGE)])
    expected = {region.address: PAGE, region.address + (1 << 40): 2 * PAGE}
    assert machine.library.registered == expected
    device.unmap(region)
    assert machine.library.empty


def test_pinned_memory_can_not_be_sparse(machine: Machine) -> None:
    """The allocator backs every byte, and the error says so."""
    with pytest.raises(DeviceError, match="pinned memory can't be sparse"):
        machine.open().map_sparse(Memory.PINNED, 1 << 40, [(0, 1)])


@pytest.mark.parametrize(
    ("kind", "handle"), [(Stream.SIDE, 0x5EEE), (Stream.DEFAULT, 0), (Stream.PER_THREAD, 2)], ids=str
)
@pytest.mark.parametrize("memory", [Memory.DEVICE, Memory.PINNED, Memory.REGISTERED], ids=lambda memory: memory.value)
def test_a_late_write_goes_through_the_current_stream(
    machine: Machine, memory: Memory, kind: Stream, handle: int
) -> None:
    """Spin first, then an asynchronous copy of what the data was at the call; visible after synchronize."""
    device = machine.open()
    region, data, got = device.map(memory, PAGE), bytes_of(64), np.zeros(64, np.uint8)
    device.write(memory, region.address, got)
    expected = data.copy()
    with device.stream(kind):
        device.write_late(memory, region.address, data, 0.003)
    data[:] = 0
    assert [stream for *_, stream in machine.library.queue] == [handle]
    assert machine.torch.slept[-1] == 6_000_000  # 2,000,000 cycles took the fake clock one millisecond
    device.read(memory, region.address, got)
    assert not got.any()
    device.synchronize()
    device.read(memory, region.address, got)
    assert np.array_equal(got, expected)


def test_a_late_write_is_cut_at_the_seams_of_registrations(machine: Machine) -> None:
    """A driver refuses a copy across two registrations, so a late write is as many copies as it touches pieces."""
    device = machine.open()
    region = device.map(Memory.REGISTERED_PIECES, PIECES * PIECE)
    data, got = bytes_of(PIECE + 20), np.zeros(PIECE + 20, np.uint8)
    device.write_late(Memory.REGISTERED_PIECES, region.address + PIECE - 10, data, 0)
    assert [nbytes for _, _, nbytes, _ in machine.library.queue] == [10, PIECE, 10]
    device.synchronize()
    device.read(Memory.REGISTERED_PIECES, region.address + PIECE - 10, got)
    assert np.array_equal(got, data)


def test_a_late_write_to_memory_that_is_not_registered_is_refused(machine: Machine) -> None:
    """A copy to pageable memory would wait for the host, so it can't be late."""
    device = machine.open()
    region = device.map(Memory.PAGEABLE, PAGE)
    with pytest.raises(DeviceError, match="pageable memory is not asynchronous"):
        device.write_late(Memory.PAGEABLE, region.address, bytes_of(8), 0)
    region = device.map(Memory.REGISTERED_PARTLY, 2 * PAGE)
    with pytest.raises(DeviceError, match=r"6 of 8 bytes at .* are not registered"):
        device.write_late(Memory.REGISTERED_PARTLY, region.address + PAGE - 2, bytes_of(8), 0)


def test_ranges_are_split_only_where_registrations_meet() -> None:
    """Seams cut, gaps are an error."""
    assert split(5, 10, [(0, 8), (8, 8)]) == [(5, 3), (8, 7)]
    assert split(0, 8, [(8, 8), (0, 8)]) == [(0, 8)]
    with pytest.raises(DeviceError, match="2 of 4 bytes"):
        split(6, 4, [(0, 8), (9, 8)])


def test_host_fences_fault(machine: Machine, in_child: InChild) -> None:
    """A registered region has unmapped neighbours on the host."""
    device = machine.open()
    region = device.map(Memory.REGISTERED, PAGE)
    outside, one = region.address + region.nbytes, np.zeros(1, np.uint8)
    assert in_child(lambda: device.read(Memory.REGISTERED, outside - 1, one)) == 0
    assert in_child(lambda: device.read(Memory.REGISTERED, outside, one)) == -signal.SIGSEGV


def test_errors_of_the_device_are_its_health(machine: Machine) -> None:
    """A failing synchronize is a DeviceError with the driver's name and number, and health repeats it."""
    device = machine.open()
    assert device.health() is None
    machine.library.failing["synchronize"] = 1
    with pytest.raises(DeviceError, match=r"ynchronize: .*\(1\): invalid argument"):
        device.synchronize()
    assert "(1): invalid argument" in (device.health() or "")


def test_close_gives_everything_back(machine: Machine) -> None:
    """Regions of all kinds that were left mapped are unmapped and unregistered."""
    device = machine.open()
    for memory in KINDS:
        device.map(memory, PAGE)
    device.close()
    assert machine.library.empty


def test_torch_errors_come_out_as_device_errors(machine: Machine) -> None:
    """Torch's own exception, out of memory say, is chained to a DeviceError that says what was tried."""
    device = machine.open()

    def refuse(*arguments: object, **options: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    machine.torch.empty = refuse  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="pinning 4096 bytes of host memory: CUDA error: out of memory"):
        device.map(Memory.PINNED, 1)
    with pytest.raises(DeviceError, match="initialising fake device 0: CUDA error"):
        machine.open()


@pytest.mark.parametrize(
    ("version", "expected", "asked"),
    [
        (13010, "cuMemcpyBatchAsync/8", 13000),
        (13000, "cuMemcpyBatchAsync/8", 13000),
        (12090, "cuMemcpyBatchAsync/9", 12080),
        (12070, None, None),
    ],
)
def test_the_batch_call_is_asked_for_in_the_form_that_the_driver_has(
    version: int, expected: str | None, asked: int | None
) -> None:
    """Eight arguments from CUDA 13 on, nine in 12.8 and 12.9, none before."""
    library = FakeCuda(CudaDriver.symbols)
    library.version = version
    assert CudaDriver(library).batch_api() == expected
    assert library.asked == ([(b"cuMemcpyBatchAsync", asked)] if asked else [])


def test_a_hidden_batch_call_is_no_batch_call() -> None:
    """A driver that knows the version but not the call has none."""
    library = FakeCuda(CudaDriver.symbols)
    library.form = None
    assert CudaDriver(library).batch_api() is None


def test_pending_runtime_errors_are_told_with_their_source() -> None:
    """What the runtime holds back is named as pending, for CUDA and HIP."""
    runtime = SimpleNamespace(
        cudaGetLastError=lambda: 98,
        cudaGetErrorName=lambda code: b"cudaErrorInvalidDeviceFunction",
        cudaGetErrorString=lambda code: b"invalid device function",
    )
    assert CudaDriver(FakeCuda(CudaDriver.symbols), runtime).pending_error() == (
        "pending in the CUDA runtime: cudaErrorInvalidDeviceFunction (98): invalid device function"
    )
    assert CudaDriver(FakeCuda(CudaDriver.symbols)).pending_error() is None
    library = FakeHip(HipDriver.symbols)
    library.last = 1
    assert HipDriver(library).pending_error() == (
        "pending in the HIP runtime: hipErrorInvalidValue (1): invalid argument"
    )


def test_errors_without_a_name_still_have_a_number() -> None:
    """A driver newer than its documentation: the number is what remains."""
    assert CudaDriver(FakeCuda(CudaDriver.symbols)).error(4242) == "unknown error (4242): no description"


def test_a_driver_that_lacks_a_call_is_too_old() -> None:
    """The missing symbol is named instead of failing at its first use."""
    library = FakeCuda(CudaDriver.symbols)
    del library.cuMemSetAccess  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="no cuMemSetAccess: it is too old"):
        CudaDriver(library)


def test_structures_have_the_sizes_of_the_headers() -> None:
    """CUmemAllocationProp and CUmemAccessDesc in bytes."""
    assert ctypes.sizeof(memory_driver.AllocationProperties) == 32
    assert ctypes.sizeof(memory_driver.Access) == 12


def test_a_loaded_library_is_found_by_its_file_name() -> None:
    """The C library is loaded in every process; an invented one in none."""
    assert (memory_driver.loaded_library("libc.so") or memory_driver.loaded_library("libc-") or "").startswith("/")
    assert memory_driver.loaded_library("libinvented.so") is None
