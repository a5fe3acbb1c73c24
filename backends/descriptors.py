"""The check that every built-in backend makes before it copies: descriptors that can't be right are refused here.

What drivers do with such input ranges from silence to a segmentation fault, so this is the one place that looks. It
can't tell whether an address is mapped; that stays with the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from backends.contract import DescriptorError

_MOST = 1 << 63

IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Checked descriptors, in bytes, without entries of size zero. The memory is their own, so the caller may do with
    his tensors what he likes."""

    table: IntArray  # shape (3, n), dense: sources, destinations, sizes
    kept: IntArray | None = None  # the caller's index of each entry; None where nothing was dropped

    def __len__(self) -> int:
        return len(self.table[0])

    @property
    def sources(self) -> IntArray:
        column: IntArray = self.table[0]
        return column

    @property
    def destinations(self) -> IntArray:
        column: IntArray = self.table[1]
        return column

    @property
    def sizes(self) -> IntArray:
        column: IntArray = self.table[2]
        return column

    def pointers(self) -> tuple[int, int, int]:
        """Where the sources, the destinations and the sizes lie in memory, 8 bytes each entry."""
        base, column = int(self.table.ctypes.data), 8 * len(self)
        return base, base + column, base + 2 * column

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(source, destination, size) of each entry, as Python integers."""
        return zip(*self.table.tolist(), strict=True)

    def index(self, entry: int) -> int:
        """The index that the caller knows entry `entry` by."""
        return entry if self.kept is None else int(self.kept[entry])

    def describe(self, entry: int) -> str:
        """One entry for an error text, by the caller's index."""
        source, destination, size = self.table[:, entry]
        return f"descriptor {self.index(entry)} ({size} bytes from {_address(source)} to {_address(destination)})"


def check(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> Descriptors:
    """Read three 1-D CPU int64 tensors of equal length; a strided view is read element by element as torch means it.

    Raises DescriptorError for anything else, and for a negative size, a null address with bytes to copy, or a range
    that leaves the address space. An address above 2^63 is a negative int64, as some devices have them.
    """
    source = _array("src_ptrs", src_ptrs)
    destination = _array("dst_ptrs", dst_ptrs)
    size = _array("sizes", sizes)
    count = len(size)
    if not len(source) == len(destination) == count:
        raise DescriptorError(
            f"lengths differ: {len(source)} src_ptrs, {len(destination)} dst_ptrs, {count} sizes; they go together"
        )
    table = np.empty((3, count), dtype=np.int64)
    table[0], table[1], table[2] = source, destination, size
    if not count or _plain(table):
        return Descriptors(table)
    return _careful(table)


def _plain(table: IntArray) -> bool:
    """Whether nothing in it is zero or negative, and no range can reach beyond 2^63: true of most batches, which need
    no other look."""
    if np.minimum.reduce(table, axis=None) <= 0:
        return False
    source, destination, size = map(int, np.maximum.reduce(table, axis=1))
    return max(source, destination) + size <= _MOST


def _careful(table: IntArray) -> Descriptors:
    size = table[2]
    least = int(size.min())
    if least < 0:
        at = int(size.argmin())
        raise DescriptorError(f"sizes[{at}] is {least}; a size is 0 or more bytes")
    kept = np.flatnonzero(size) if least == 0 else None
    checked = Descriptors(table if kept is None else np.ascontiguousarray(table[:, kept]), kept)
    for name, address in (("src_ptrs", checked.sources), ("dst_ptrs", checked.destinations)):
        if not address.all():
            entry = int(np.flatnonzero(address == 0)[0])
            at = checked.index(entry)
            raise DescriptorError(f"{name}[{at}] is null, but sizes[{at}] is {int(checked.sizes[entry])}")
        # The last byte of a range has the sign of its first, unless the sum left the int64 (or the address) range.
        crossing = (address ^ (address + (checked.sizes - 1))) < 0
        if crossing.any():
            entry = int(np.flatnonzero(crossing)[0])
            at, nbytes = checked.index(entry), int(checked.sizes[entry])
            raise DescriptorError(f"{name}[{at}] + sizes[{at}] overflows: {_address(address[entry])} + {nbytes} bytes")
    return checked


def _array(name: str, tensor: object) -> IntArray:
    if not isinstance(tensor, torch.Tensor):
        raise DescriptorError(f"{name} is {type(tensor).__name__}; a 1-D CPU int64 tensor is needed")
    if tensor.dtype is not torch.int64:
        raise DescriptorError(f"{name} has dtype {tensor.dtype}; torch.int64 is needed")
    if tensor.dim() != 1:
        raise DescriptorError(f"{name} has shape {tuple(tensor.shape)}; one dimension is needed")
    if not tensor.is_cpu:
        raise DescriptorError(f"{name} is on {tensor.device}; descriptors are read by the CPU")
    array: IntArray = tensor.numpy()
    return array


def _address(value: int) -> str:
    return f"{int(value) % (1 << 64):#x}"
