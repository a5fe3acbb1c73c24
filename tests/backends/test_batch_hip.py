"""What the HIP batch copy says to the runtime, on a stand-in for the runtime."""

from __future__ import annotations

import pytest
import torch
from fake_drivers import FakeHip

from backends.contract import DeviceError
from backends.copies.batch_dma.hip import HipBatch
from backends.descriptors import Descriptors, check
from backends.drivers.hip import HipRuntime

STREAM = 0xABC0
OLD, NEW = 7_02_53210, 7_13_00000


def batch(library: FakeHip) -> HipBatch:
    return HipBatch(HipRuntime(library), lambda: (STREAM, 3))


def entries(count: int) -> Descriptors:
    numbers = torch.arange(1, count + 1)
    return check(numbers * 100, numbers * 1000, numbers)


@pytest.mark.parametrize(("order_any", "order"), [(False, 1), (True, 3)])
def test_attributes_where_the_runtime_takes_them(order_any: bool, order: int) -> None:
    """Since 7.13."""
    library = FakeHip(NEW)
    assert batch(library).submit(entries(2), order_any) == "hipMemcpyBatchAsync"
    assert library.calls == [
        ("set device", 3),
        ("batch", [1000, 2000], [100, 200], [1, 2], (order, 0, 0), [0], STREAM),
    ]


def test_no_attributes_before() -> None:
    """Older runtimes refuse them; stream order is their default, and the path says what was lost."""
    library = FakeHip(OLD)
    assert batch(library).submit(entries(2), True) == "hipMemcpyBatchAsync without attributes"
    assert library.named("batch") == [([1000, 2000], [100, 200], [1, 2], None, [], STREAM)]


def test_batches_are_cut() -> None:
    """At 4096 entries, none lost between."""
    library = FakeHip(NEW)
    batch(library).submit(entries(10_000), False)
    parts = library.named("batch")
    assert [len(part[0]) for part in parts] == [4096, 4096, 1808]
    for column, step in enumerate((1000, 100, 1)):
        assert [value for part in parts for value in part[column]] == [step * i for i in range(1, 10_001)]


def test_error_names_the_descriptor_of_a_later_part() -> None:
    """The index is the part's own; the text counts the caller's."""
    library = FakeHip(NEW)
    library.fail_index = 5
    library.codes["batch"] = 1
    with pytest.raises(DeviceError, match=r"descriptor 5 \(6 bytes .*\): hipErrorInvalidValue \(1\)"):
        batch(library).submit(entries(9), False)


@pytest.mark.parametrize("missing", ["the symbol", "the support"])
def test_loop_where_there_is_no_batch_copy(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy by itself with the direction left to the runtime, its code checked."""
    if missing == "the symbol":
        monkeypatch.delattr(FakeHip, "hipMemcpyBatchAsync")
    library = FakeHip(OLD)
    library.codes["batch"] = 801
    copier = batch(library)
    assert copier.submit(entries(2), False) == "loop of hipMemcpyAsync"
    assert library.named("copy") == [(1000, 100, 1, 4, STREAM), (2000, 200, 2, 4, STREAM)]
    library.codes["copy"] = 1
    with pytest.raises(DeviceError, match=r"hipMemcpyAsync, descriptor 0 .*: hipErrorInvalidValue \(1\)"):
        copier.submit(entries(2), False)


@pytest.mark.parametrize(("memory_type", "on_device"), [(0, False), (1, False), (2, True), (3, True)])
def test_memory_types(memory_type: int, on_device: bool) -> None:
    """Unregistered, host, device, managed."""
    library = FakeHip(NEW)
    library.memory_type = memory_type
    assert HipRuntime(library).is_device(4096) is on_device


def test_unknown_address_is_host_memory_and_leaves_no_error_behind() -> None:
    """The runtime keeps the refusal for the next launch unless it is taken back."""
    library = FakeHip(NEW)
    library.codes["attributes"] = 1
    assert not HipRuntime(library).is_device(4096)
    assert library.calls[-1] == ("last error",)
    library.codes["attributes"] = 801
    with pytest.raises(DeviceError, match="hipErrorNotSupported"):
        HipRuntime(library).is_device(4096)
