"""Copy functions as a project might have them, to try the suite on: one right, one wrong, one of the older kind.

    pytest -n auto --platform cpu --budget smoke --backend examples.copies:swap_blocks_batch
    pytest -n auto --platform cpu --budget smoke --backend examples.copies:dropped_tail
    pytest -n auto --platform cpu --budget smoke --backend examples.copies:older

They copy on the host with memmove, so they need no hardware, and they know nothing of the suite but the last line's
wrapper. Names of malformed descriptors are theirs to reject: see `_rows`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch

from backends.adapters import swap_blocks


def swap_blocks_batch(
    src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Copies right."""
    for source, destination, size in _rows(src_ptrs, dst_ptrs, sizes):
        ctypes.memmove(destination, source, size)


def dropped_tail(
    src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Copies words of eight bytes, as many kernels do, and forgets what is left over."""
    for source, destination, size in _rows(src_ptrs, dst_ptrs, sizes):
        ctypes.memmove(destination, source, size // 8 * 8)


def old_swap_blocks(
    src: torch.Tensor, dst: torch.Tensor, block_size_in_bytes: int, block_mapping: torch.Tensor
) -> None:
    """Copies blocks by their ids: (blocks, bytes) tensors and an (n, 2) mapping."""
    for source, destination in block_mapping.tolist():
        dst[destination, :block_size_in_bytes] = src[source, :block_size_in_bytes]


older = swap_blocks(old_swap_blocks)


def _rows(*columns: torch.Tensor) -> Iterator[tuple[int, int, int]]:
    """(source, destination, nbytes) of each entry. Raises ValueError unless all of them can be copied."""
    for column in columns:
        if not isinstance(column, torch.Tensor) or column.dtype is not torch.int64 or column.device.type != "cpu":
            raise ValueError("descriptors are CPU int64 tensors")
        if column.dim() != 1 or len(column) != len(columns[0]):
            raise ValueError(f"descriptors are 1-D and of equal length, not of shape {tuple(column.shape)}")
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    for source, destination, size in rows:
        if size < 0 or (size and not (source and destination)):
            raise ValueError(f"can't copy {size} bytes from {source:#x} to {destination:#x}")
    return iter(rows)
