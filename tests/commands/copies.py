"""Copy functions for replays: right, wrong, deadly, endless, limited."""

from __future__ import annotations

import ctypes
import os
import signal

import torch

from backends.contract import Device, Support


def right(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    for source, destination, size in _rows(src_ptrs, dst_ptrs, sizes):
        ctypes.memmove(destination, source, size)


def short(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    for source, destination, size in _rows(src_ptrs, dst_ptrs, sizes):
        ctypes.memmove(destination, source, size - 1)


def deadly(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def every_other(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    every_other.calls += 1
    (short if every_other.calls % 2 else right)(src_ptrs, dst_ptrs, sizes)


every_other.calls = 0


def limited(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    if (sizes % 8).any():
        raise ValueError("sizes are multiples of eight")
    right(src_ptrs, dst_ptrs, sizes)


limited.kvconform_support = Support(size_multiple=8)


def elsewhere(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> None:
    raise AssertionError("never called")


def _only_elsewhere(device: Device) -> Support:
    return Support(unavailable=f"made for other hardware than {device.platform}")


elsewhere.kvconform_support = _only_elsewhere


def _rows(src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor) -> list[tuple[int, int, int]]:
    return list(zip(src_ptrs.tolist(), dst_ptrs.tolist(), sizes.tolist(), strict=True))
