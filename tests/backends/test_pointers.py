"""Tensors over raw addresses."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from backends.drivers.pointers import is_device, tensor_at, view

CPU = torch.device("cpu")


def test_shares_the_memory_at_any_residue() -> None:
    """Reads and writes go to the address itself."""
    memory = np.arange(64, dtype=np.uint8)
    tensor = tensor_at(memory.ctypes.data + 3, 20, CPU)
    assert tensor.shape == (20,)
    assert tensor.dtype is torch.uint8
    assert tensor.data_ptr() == memory.ctypes.data + 3
    tensor[0] = 200
    assert memory[3] == 200


def test_views_outlive_the_tensor() -> None:
    """The header lives as long as any view of it."""
    memory = np.arange(64, dtype=np.uint8)
    tail = tensor_at(memory.ctypes.data, 64, CPU)[60:]
    gc.collect()
    assert tail.tolist() == [60, 61, 62, 63]


def test_sizes_beyond_32_bits() -> None:
    """Nothing is touched, so a tensor may cover more than there is."""
    assert tensor_at(4096, 1 << 44, CPU).numel() == 1 << 44


def test_a_device_that_torch_lacks_is_an_error() -> None:
    """Torch's own words, and no leak of what it didn't take."""
    with pytest.raises(RuntimeError):
        tensor_at(4096, 16, torch.device("xpu"))


def test_on_a_cpu_everything_is_host_memory() -> None:
    """The CPU platform's device memory differs by name only."""
    memory = np.zeros(8, dtype=np.uint8)
    assert not is_device(memory.ctypes.data)
    assert view(memory.ctypes.data, 8).device == CPU
