"""process_vm_readv as batch copy: bad addresses are errors, and short counts are gone on from."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable

import numpy as np
import pytest
import torch
from copy_arena import Arena, Row

from backends.contract import Device, DeviceError
from backends.copies.batch_dma import BatchDma
from backends.copies.batch_dma import cpu as batch_cpu
from backends.copies.batch_dma.cpu import CpuBatch, process_vm_readv
from backends.descriptors import IntArray, check
from backends.drivers import cpu_stream


@pytest.mark.parametrize("side", ["source", "destination"])
def test_unmapped_address_is_an_error(arena: Arena, side: str) -> None:
    """With the caller's index; earlier entries are copied, and the next copy works."""
    batch = arena.descriptors([(0, 0, 100), (0, 0, 0), (200, 200, 100)])
    batch[0 if side == "source" else 1][2] = 4096
    BatchDma().copy(*batch)
    with pytest.raises(DeviceError, match=r"EFAULT \(14\) at byte 0 of descriptor 2 \(100 bytes from") as caught:
        cpu_stream.current().synchronize()
    assert "0x1000" in str(caught.value)
    np.testing.assert_array_equal(arena.destination[:100], arena.source[:100])
    assert (arena.destination[100:] == 0xA5).all()


def test_read_only_destination_is_an_error() -> None:
    """The kernel respects protection."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = np.frombuffer(memory, dtype=np.uint8).ctypes.data
    source = np.ones(16, dtype=np.uint8)
    BatchDma().copy(torch.tensor([source.ctypes.data]), torch.tensor([address]), torch.tensor([16]))
    with pytest.raises(DeviceError, match="EFAULT"):
        cpu_stream.current().synchronize()


def test_fault_in_the_middle_of_an_entry() -> None:
    """The byte at which the kernel stopped is told."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    source = np.frombuffer(memory, dtype=np.uint8)
    target = np.zeros(4 * mmap.PAGESIZE, dtype=np.uint8)

    def stops_at_a_page(to: IntArray, source: IntArray) -> int:
        if to[0, 1] < 2 * mmap.PAGESIZE:
            raise OSError(errno.EFAULT, "Bad address")
        return mmap.PAGESIZE

    descriptors = check(
        torch.tensor([source.ctypes.data]), torch.tensor([target.ctypes.data]), torch.tensor([2 * mmap.PAGESIZE])
    )
    CpuBatch(stops_at_a_page).submit(descriptors, False)
    with pytest.raises(DeviceError, match=f"EFAULT .* at byte {mmap.PAGESIZE} of descriptor 0"):
        cpu_stream.current().synchronize()


def test_more_ranges_than_a_call_takes(arena: Arena) -> None:
    """1024 at a time."""
    arena.check(BatchDma(), [(40 * i, 64 * i, 1 + i % 40) for i in range(3000)])


@pytest.mark.parametrize("most", [1, 7, 64, 1000])
def test_short_counts_and_long_entries(arena: Arena, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little a call may move or does move, every byte arrives once."""
    monkeypatch.setattr(batch_cpu, "MOST_BYTES", most)
    rng = np.random.default_rng(most)
    calls: list[int] = []

    def short(to: IntArray, source: IntArray) -> int:
        assert (to[:, 1] == source[:, 1]).all()
        assert (to[:, 1] > 0).all()
        assert to[:, 1].sum() <= most
        wanted = int(rng.integers(1, to[:, 1].sum() + 1))
        to, source = to.copy(), source.copy()
        keep = int(np.searchsorted(np.cumsum(to[:, 1]), wanted)) + 1
        for ranges in (to, source):
            ranges[keep - 1, 1] -= int(ranges[:keep, 1].sum()) - wanted
        calls.append(wanted)
        return process_vm_readv(to[:keep], source[:keep])

    rows: list[Row] = [(3 * i, 80 * i, size) for i, size in enumerate((5, 1, 70, 8, 2, 64, 7, 33))]
    CpuBatch(short).submit(check(*arena.descriptors(rows)), False)
    cpu_stream.current().synchronize()
    np.testing.assert_array_equal(arena.destination, arena.wanted)
    assert sum(calls) == 190


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_unavailable_where_the_kernel_forbids_it(number: int, device: Callable[..., Device]) -> None:
    """With the kernel's own word for it."""

    def forbidden(to: IntArray, source: IntArray) -> int:
        raise OSError(number, "no")

    support = CpuBatch(forbidden).support(device())
    assert support.unavailable == f"the kernel forbids process_vm_readv: {errno.errorcode[number]} ({number})"
