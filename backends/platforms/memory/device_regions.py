"""Regions of device memory with nothing mapped beside them: a kernel that leaves one faults.

An ordinary allocation has neighbours, so that a read just beyond it goes unnoticed. Here addresses are reserved
first, and only windows of them, whole granules of the driver (2 MiB on an H200), get memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from backends.contract import DeviceError, Memory
from backends.drivers.memory import GpuDriver
from backends.platforms.contract import Region
from backends.platforms.memory import hostmap


class DeviceRegions:
    """Live regions of one device's memory, by address. Not thread-safe."""

    def __init__(self, driver: GpuDriver, device: int) -> None:
        self._driver = driver
        self._device = device
        self.granule = driver.granule(device)
        self._live: dict[int, _Reservation] = {}

    def map(self, nbytes: int) -> Region:
        """A fenced region of at least `nbytes` bytes."""
        return self.map_sparse(nbytes, [(0, max(nbytes, 1))])

    def map_sparse(self, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        """A region of `span` addresses with memory behind `extents` only, rounded out to granules."""
        granule, nbytes = self.granule, hostmap.round_up(max(span, 1), self.granule)
        backed = hostmap.windows(extents, granule, nbytes)
        align = max(align, granule)
        reservation = _Reservation(self._driver, nbytes + 2 * granule + align)
        address = hostmap.round_up(reservation.base + granule, align)
        try:
            for offset, size in backed:
                reservation.back(address + offset, size, self._device)
        except DeviceError:
            reservation.close()
            raise
        self._live[address] = reservation
        return Region(Memory.DEVICE, address, nbytes, fenced=True, handle=tuple(backed))

    def unmap(self, region: Region) -> None:
        reservation = self._live.pop(region.address, None)
        if reservation is None:
            raise DeviceError(f"no live region of device memory at {region.address:#x}")
        reservation.close()

    def close(self) -> None:
        """Give all that is left back."""
        while self._live:
            self._live.popitem()[1].close()


class _Reservation:
    """Reserved addresses and the memory behind some of them."""

    def __init__(self, driver: GpuDriver, nbytes: int) -> None:
        self._driver, self._nbytes = driver, nbytes
        self.base = driver.reserve(nbytes)
        self._handles: list[int] = []
        self._mapped: list[tuple[int, int]] = []

    def back(self, address: int, nbytes: int, device: int) -> None:
        handle = self._driver.create(nbytes, device)
        self._handles.append(handle)
        self._driver.map(address, nbytes, handle)
        self._mapped.append((address, nbytes))
        self._driver.allow(address, nbytes, device)

    def close(self) -> None:
        while self._mapped:
            self._driver.unmap(*self._mapped.pop())
        while self._handles:
            self._driver.release(self._handles.pop())
        self._driver.free_addresses(self.base, self._nbytes)
