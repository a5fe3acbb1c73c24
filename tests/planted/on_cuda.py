"""Faults that only a GPU shows: each is otherwise the batch DMA of this project, which copies right, and declares the
limits that it has.

Imported in device processes on CUDA only.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from backends.copies.batch_dma import BatchDma
from backends.copies.triton_copy import TritonCopy
from backends.drivers.pointers import is_device

_PAGEABLE = np.zeros(4096, np.uint8)
FORBIDDEN = _PAGEABLE.ctypes.data  # pageable host memory: no kernel may read it, on devices without HMM or ATS

_right = BatchDma()
_kernel = TritonCopy()


@triton.jit
def _read(address, sink, words: tl.constexpr):
    """Read `words` 8-byte words at `address`; their sum goes to `sink`, so that the reads stay."""
    pointer = tl.cast(address, tl.int64).to(tl.pointer_type(tl.int64))  # a small integer comes as int32
    tl.store(sink, tl.sum(tl.load(pointer + tl.arange(0, words))))


@triton.jit
def _spin(flag):
    """Never ends: waits for a flag that nobody sets."""
    seen = tl.load(flag, volatile=True)
    while seen == 0:
        seen = tl.load(flag, volatile=True)


def undeclared_kernel(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """A kernel that dereferences whatever it is given, pageable memory included, and declares no limit."""
    _kernel.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any)


def illegal_access(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """A batch with a descriptor of 5 bytes makes a kernel read memory that it may not."""
    _right.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any)
    if (sizes == 5).any():
        _read[(1,)](FORBIDDEN, torch.empty(1, dtype=torch.int64, device="cuda"), 1)


def endless_kernel(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """A batch with a descriptor of 5 bytes leaves a kernel on the stream that never ends."""
    _right.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any)
    if (sizes == 5).any():
        _spin[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))


def wild_destination(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """A batch with a descriptor of 5 bytes sends it to the address 0x1000: the driver dies of it."""
    _right.copy(src_ptrs, torch.where(sizes == 5, torch.full_like(dst_ptrs, 0x1000), dst_ptrs), sizes)


def over_read(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """Reads 8 bytes beyond each source on the device. No byte in memory tells; a fence does."""
    _right.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any)
    sink = torch.empty(1, dtype=torch.int64, device="cuda")
    for source, size in zip(src_ptrs.tolist(), sizes.tolist(), strict=True):
        end = source + size
        if size and end % 8 == 0 and is_device(source):
            _read[(1,)](end, sink, 1)


def other_stream(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """Copies on a stream of its own: a source that is written late on the caller's stream is read too early."""
    if not hasattr(other_stream, "stream"):
        other_stream.stream = torch.cuda.Stream()
    with torch.cuda.stream(other_stream.stream):
        _right.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any)


def early_when_allowed(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):
    """Takes the leave to read the source early for a leave to copy early: on a stream of its own, which the caller's
    then waits for. What the caller's stream still does with the destination is not waited for."""
    if not is_src_access_order_any:
        _right.copy(src_ptrs, dst_ptrs, sizes)
        return
    other_stream(src_ptrs, dst_ptrs, sizes)
    torch.cuda.current_stream().wait_stream(other_stream.stream)


for _planted in (illegal_access, endless_kernel, wild_destination, over_read, other_stream, early_when_allowed):
    _planted.kvconform_support = _right.support
