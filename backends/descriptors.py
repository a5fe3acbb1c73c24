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

IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Checked descriptors: three contiguous int64 arrays of equal length, in bytes, without entries of size zero.

    The arrays may share the caller's memory: take `private` before anything reads them after the call returned.
    """

    sources: IntArray
    destinations: IntArray
    sizes: IntArray
    kept: IntArray | None = None  # the caller's index of each entry; None where nothing was dropped

    def __len__(self) -> int:
        return len(self.sizes)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(source, destination, size) of each entry, as Python integers."""
        return zip(self.sources.tolist(), self.destinations.tolist(), self.sizes.tolist(), strict=True)

    def index(self, entry: int) -> int:
        """The index that the caller knows entry `entry` by."""
        return entry if self.kept is None else int(self.kept[entry])

    def describe(self, entry: int) -> str:
        """One entry for an error text, by the caller's index."""
        source, destination, size = self.sources[entry], self.destinations[entry], self.sizes[entry]
        return f"descriptor {self.index(entry)} ({size} bytes from {_address(source)} to {_address(destination)})"

    def private(self) -> Descriptors:
        """The same entries in memory of their own."""
        if self.kept is not None:
            return self
        return Descriptors(self.sources.copy(), self.destinations.copy(), self.sizes.copy())


def check(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> Descriptors:
    """Read three 1-D CPU int64 tensors of equal length; a strided view is read element by element as torch means it.

    Raises DescriptorError for anything else, and for a negative size, a null address with bytes to copy, or a range
    that leaves the address space. An address above 2^63 is a negative int64, as some devices have them.
    """
    source = _array("src_ptrs", src_ptrs)
    destination = _array("dst_ptrs", dst_ptrs)
    size = _array("sizes", sizes)
    if not len(source) == len(destination) == len(size):
        raise DescriptorError(
            f"lengths differ: {len(source)} src_ptrs, {len(destination)} dst_ptrs, {len(size)} sizes; they go together"
        )
    if not len(size):
        return Descriptors(source, destination, size)
    least = int(size.min())
    if least < 0:
        at = int(size.argmin())
        raise DescriptorError(f"sizes[{at}] is {least}; a size is 0 or more bytes")
    kept = None
    if least == 0:
        kept = np.flatnonzero(size)
        source, destination, size = source[kept], destination[kept], size[kept]
    checked = Descriptors(source, destination, size, kept)
    for name, address in (("src_ptrs", source), ("dst_ptrs", destination)):
        if not address.all():
            at = checked.index(int(np.flatnonzero(address == 0)[0]))
            raise DescriptorError(f"{name}[{at}] is null, but sizes[{at}] is {int(sizes[at])}")
        # The last byte of a range has the sign of its first, unless the sum left the int64 (or the address) range.
        crossing = (address ^ (address + (size - 1))) < 0
        if crossing.any():
            entry = int(np.flatnonzero(crossing)[0])
            at = checked.index(entry)
            raise DescriptorError(
                f"{name}[{at}] + sizes[{at}] overflows: {_address(address[entry])} + {int(size[entry])} bytes"
            )
    return checked


def _array(name: str, tensor: object) -> IntArray:
    if not isinstance(tensor, torch.Tensor):
        raise DescriptorError(f"{name} is {type(tensor).__name__}; a 1-D CPU int64 tensor is needed")
    if tensor.dtype is not torch.int64:
        raise DescriptorError(f"{name} has dtype {tensor.dtype}; torch.int64 is needed")
    if tensor.dim() != 1:
        raise DescriptorError(f"{name} has shape {tuple(tensor.shape)}; one dimension is needed")
    if tensor.device.type != "cpu":
        raise DescriptorError(f"{name} is on {tensor.device}; descriptors are read by the CPU")
    array: IntArray = tensor.numpy()
    return np.ascontiguousarray(array)


def _address(value: int) -> str:
    return f"{int(value) % (1 << 64):#x}"
