"""What a platform must offer for arenas and runs: real memory, reliable reads and writes, streams, health.

None of this goes through a backend: what is under test never fills or reads back the arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backends.contract import Device, Memory, Stream

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Region:
    """A mapped range of one kind of memory: `nbytes` usable bytes from `address` on.

    `fenced`: the byte before `address` and the byte after the end are unmapped, so that touching them faults.
    A sparse region has usable bytes only inside the extents it was mapped with.
    """

    memory: Memory
    address: int
    nbytes: int
    fenced: bool
    handle: object = None  # whatever keeps the memory alive; the platform's own


class OpenDevice(Protocol):
    """One device, opened by the process that owns it. Not thread-safe."""

    facts: Device

    def map(self, memory: Memory, nbytes: int) -> Region:
        """Map at least `nbytes` contiguous bytes (rounded up to the kind's granule; the region says how many), fenced
        on both ends where the kind allows it. Raises DeviceError with what is missing (e.g. /dev/shm too small)."""
        ...

    def map_sparse(self, memory: Memory, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        """Reserve `span` bytes of addresses and back only `extents` (offset, nbytes from the region's address) with
        memory, rounded out to granules. With `align`, the region's address is a multiple of it (e.g. 4 GiB).
        Raises DeviceError where the kind can't be sparse."""
        ...

    def granule(self, memory: Memory) -> int:
        """Bytes to which mappings of this kind are rounded: a fence lies at a multiple of it."""
        ...

    def unmap(self, region: Region) -> None: ...

    def protect(self, region: Region, read_only: bool) -> None:
        """Write-protect (or open) a READ_ONLY region; no effect on other kinds."""
        ...

    def write(self, memory: Memory, address: int, data: Bytes) -> None:
        """Put `data` at `address`, finished on return."""
        ...

    def read(self, memory: Memory, address: int, out: Bytes) -> None:
        """Fill `out` from `address`, finished on return."""
        ...

    def write_late(self, memory: Memory, address: int, data: Bytes, delay_seconds: float) -> None:
        """Enqueue on the current stream: wait about `delay_seconds`, then put `data` at `address`. `data` was copied
        by the time this returns. Only DEVICE, PINNED and registered kinds."""
        ...

    def stream(self, kind: Stream) -> AbstractContextManager[None]:
        """Make the stream of this kind the current one."""
        ...

    def synchronize_stream(self) -> None:
        """Wait for what is enqueued on the current stream, and for nothing else. Raises DeviceError."""
        ...

    def synchronize(self) -> None:
        """Wait for everything on every stream of the device. Raises DeviceError with the driver's text."""
        ...

    def health(self) -> str | None:
        """The device's pending or sticky error, or None."""
        ...

    def descriptor_tensor(self, values: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """A CPU int64 torch tensor that shares `values`."""
        ...

    def close(self) -> None: ...


class Platform(Protocol):
    """One kind of accelerator, e.g. CUDA. Found by name or through the entry point group `kvconform.platforms`."""

    name: str

    def missing(self) -> str | None:
        """Why this platform can't be used on this machine, or None. Imports nothing heavy, touches no device."""
        ...

    def device_count(self) -> int:
        """Visible devices, honouring CUDA_VISIBLE_DEVICES and the like; touches no device and imports no torch."""
        ...

    def visible_env(self) -> str:
        """The variable that restricts a process to some devices, e.g. CUDA_VISIBLE_DEVICES."""
        ...

    def preload(self) -> None:
        """Import what a device process needs (torch, triton, bindings) without touching a device: done once, before
        device processes are forked."""
        ...

    def open(self, index: int) -> OpenDevice:
        """Initialise device `index` in this process."""
        ...
