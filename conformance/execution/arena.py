"""Real memory for both sides of a job: fenced regions that are kept between cases, sparse ones that are not.

Fills and reads back whole images through the platform, never through a backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from backends.contract import Device, DeviceError, Memory
from backends.platforms.contract import OpenDevice, Region
from conformance.execution.prepared import Job
from conformance.judge.fill import Bytes
from strategies.case import Fence
from strategies.footprint import PAGE, SPARSE_ALIGN, Footprint

LEAST_REGION = 2 << 20  # bytes of a kept region: most cases fit, so that regions are mapped once


class Impossible(Exception):
    """This machine can't build the arena that a case asks for; the text says what is missing."""


@dataclass(frozen=True)
class Side:
    """One side of a case in memory: its arena begins at `address`."""

    memory: Memory
    footprint: Footprint
    address: int
    device: OpenDevice
    region: Region

    def upload(self, image: Bytes) -> None:
        """Put the image's extents in place, finished on return."""
        at = 0
        for offset, nbytes in self.footprint.extents:
            self.device.write(self.memory, self.address + offset, image[at : at + nbytes])
            at += nbytes

    def upload_late(self, image: Bytes, delay_seconds: float) -> None:
        """Enqueue the same on the current stream, after a delay."""
        at = 0
        for offset, nbytes in self.footprint.extents:
            self.device.write_late(self.memory, self.address + offset, image[at : at + nbytes], delay_seconds)
            at, delay_seconds = at + nbytes, 0.0

    def download(self, image: Bytes) -> None:
        """Read the extents back into the image."""
        at = 0
        for offset, nbytes in self.footprint.extents:
            self.device.read(self.memory, self.address + offset, image[at : at + nbytes])
            at += nbytes


class Arenas:
    """Arenas on one open device. Keeps one dense region a side and memory kind, grown when a case needs more."""

    def __init__(self, device: OpenDevice) -> None:
        self._device = device
        self._kept: dict[tuple[str, Memory], Region] = {}

    @contextmanager
    def both(self, job: Job) -> Iterator[tuple[Side, Side]]:
        """The source and the destination side of a job. Raises Impossible."""
        with (
            self._side("source", job.source_memory, job.source) as source,
            self._side("destination", job.destination_memory, job.destination) as destination,
        ):
            yield source, destination

    @contextmanager
    def _side(self, name: str, memory: Memory, footprint: Footprint) -> Iterator[Side]:
        facts: Device = self._device.facts
        if memory.value not in facts.memory:
            raise Impossible(f"{name}: {facts.platform} has no {memory.value} memory here; it has {facts.memory}")
        try:
            if footprint.sparse:
                region, address = self._sparse(memory, footprint)
            else:
                region = self._dense(name, memory, footprint.span)
                address = _place(region, footprint)
        except DeviceError as error:
            raise Impossible(f"{name}: {error}") from error
        try:
            yield Side(memory, footprint, address, self._device, region)
        finally:
            if footprint.sparse:
                self._device.unmap(region)

    def _sparse(self, memory: Memory, footprint: Footprint) -> tuple[Region, int]:
        """A region for this case alone, and where its arena begins: later where a fence has to meet a granule."""
        shift = -footprint.span % self._device.granule(memory) if footprint.fence is Fence.AFTER else 0
        extents = [(shift + offset, nbytes) for offset, nbytes in footprint.extents]
        region = self._device.map_sparse(memory, shift + footprint.span, extents, SPARSE_ALIGN)
        return region, region.address + shift

    def _dense(self, name: str, memory: Memory, nbytes: int) -> Region:
        kept = self._kept.get((name, memory))
        if kept is None or kept.nbytes < nbytes or memory is Memory.REGISTERED_PARTLY:
            if kept is not None:
                self._device.unmap(self._kept.pop((name, memory)))
            size = LEAST_REGION
            while size < nbytes:
                size *= 2
            if memory is Memory.REGISTERED_PARTLY:
                size = nbytes  # so that the end of the registered half lies within the case
            kept = self._kept[name, memory] = self._device.map(memory, size)
        return kept


def _place(region: Region, footprint: Footprint) -> int:
    if footprint.fence is not Fence.NONE and not region.fenced:
        raise Impossible(
            f"{region.memory.value} memory can't end at an unmapped page here (fence {footprint.fence.value})"
        )
    address = region.address + (region.nbytes - footprint.span if footprint.fence is Fence.AFTER else 0)
    if address % PAGE:
        raise Impossible(f"{region.memory.value} memory begins at {region.address:#x}, not at a multiple of {PAGE}")
    return address
