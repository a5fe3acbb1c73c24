"""The XPU batch: what it declares, and that it hands checked descriptors on. Its copies were not run on a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from backends.contract import Device, Memory, Stream
from backends.copies.batch_dma import BatchDma
from backends.copies.batch_dma.xpu import XpuBatch
from backends.descriptors import Descriptors, check


def test_submits_every_entry() -> None:
    """In stream order, whatever is permitted."""
    taken: list[Descriptors] = []
    descriptors = check(torch.tensor([100]), torch.tensor([200]), torch.tensor([3]))
    assert XpuBatch(taken.append).submit(descriptors, True) == "loop of SYCL queue copies"
    assert taken == [descriptors]


def test_declares_what_xpu_lacks(device: Callable[..., Device]) -> None:
    """No registered memory, no per-thread stream."""
    support = BatchDma().support(device(platform="xpu"))
    assert Memory.REGISTERED not in support.memory
    assert Memory.PINNED in support.memory
    assert Stream.PER_THREAD not in support.streams


def test_unknown_platform(device: Callable[..., Device]) -> None:
    """A vendor's own platform brings its own backend."""
    with pytest.raises(LookupError, match=r"no code for platform 'npu'; it knows cuda, rocm, xpu, cpu"):
        BatchDma().support(device(platform="npu"))
