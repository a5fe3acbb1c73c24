"""process_vm_readv on the own process: the Linux kernel's scatter-gather copy as a batch DMA for the CPU platform.

An address that is mapped nowhere is an error with the descriptor's index, not a crash. The call copies at most 1024
ranges and somewhat less than 2 GiB at a time and may stop early; this goes on where it stopped.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache

import numpy as np

from backends.contract import Device, DeviceError, Support
from backends.descriptors import Descriptors, IntArray
from backends.drivers import cpu_stream

MOST_RANGES = 1024  # IOV_MAX, a side
MOST_BYTES = 1 << 30  # a call; the kernel cuts a call at 2 GiB less a page

Transfer = Callable[[IntArray, IntArray], int]


class CpuBatch:
    """Submits batches to the current CpuStream."""

    def __init__(self, transfer: Transfer) -> None:
        """`transfer(to, from)` takes two (n, 2) arrays of (address, nbytes), and returns the bytes copied, or raises
        OSError."""
        self._transfer = transfer

    def support(self, device: Device) -> Support:
        """Everything, unless the kernel forbids the call."""
        return Support(unavailable=self._forbidden())

    def submit(self, descriptors: Descriptors, order_any: bool) -> str:
        """Enqueue; the descriptors are read when the stream gets there."""
        cpu_stream.current().submit(lambda: self._run(descriptors))
        return "process_vm_readv"

    def _forbidden(self) -> str | None:
        probe = np.arange(2, dtype=np.int64)
        try:
            self._transfer(np.array([[probe[1:].ctypes.data, 8]]), np.array([[probe.ctypes.data, 8]]))
        except OSError as error:
            return f"the kernel forbids process_vm_readv: {_name(error)}"
        return None

    def _run(self, descriptors: Descriptors) -> None:
        entry, skipped = 0, 0  # everything before byte `skipped` of entry `entry` is copied
        while entry < len(descriptors):
            window = slice(entry, entry + MOST_RANGES)
            left = descriptors.sizes[window].copy()
            left[0] -= skipped
            left = np.minimum(left, MOST_BYTES)
            ends = np.cumsum(left)
            take = max(1, int(np.searchsorted(ends, MOST_BYTES, side="right")))
            to, source = (
                np.stack([side[window][:take], left[:take]], axis=1)
                for side in (descriptors.destinations, descriptors.sources)
            )
            to[0, 0] += skipped
            source[0, 0] += skipped
            try:
                copied = self._transfer(to, source)
            except OSError as error:
                raise DeviceError(
                    f"process_vm_readv: {_name(error)} at byte {skipped} of {descriptors.describe(entry)}; "
                    "one of its addresses is not mapped, or may not be touched so"
                ) from error
            if not copied:
                raise DeviceError(f"process_vm_readv copied nothing of {descriptors.describe(entry)}")
            whole = int(np.searchsorted(ends[:take], copied, side="right"))
            if not whole or left[0] < descriptors.sizes[entry] - skipped:
                skipped += copied
            else:
                entry, skipped = entry + whole, copied - int(ends[whole - 1])


def engine() -> CpuBatch:
    """On this machine's C library."""
    return CpuBatch(process_vm_readv)


def process_vm_readv(to: IntArray, source: IntArray) -> int:
    """One call on the own process; see `CpuBatch`."""
    call, process = _call(), ctypes.c_int(os.getpid())
    copied: int = call(process, to.ctypes.data, len(to), source.ctypes.data, len(source), 0)
    if copied < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return copied


@cache
def _call() -> Callable[..., int]:
    try:
        call = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except AttributeError:
        raise OSError(errno.ENOSYS, "the C library has no process_vm_readv") from None
    pointer, count = ctypes.c_void_p, ctypes.c_ulong
    call.restype, call.argtypes = ctypes.c_ssize_t, (ctypes.c_int, pointer, count, pointer, count, count)
    checked: Callable[..., int] = call
    return checked


def _name(error: OSError) -> str:
    return f"{errno.errorcode.get(error.errno or 0, 'error')} ({error.errno})"
