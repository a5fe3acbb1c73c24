"""The regions of host memory that one opened device holds: mapped, protected, read, written, unmapped.

Every platform uses it for the kinds of memory that need no driver. Registering a region with a driver is the
platform's own business, as is memory that the driver allocates.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress

from backends.contract import DeviceError, Memory
from backends.platforms.contract import Bytes, Region
from backends.platforms.memory import hostmap, numa
from backends.platforms.memory.hostmap import PAGE, Extents, Span

_SHARED = frozenset({Memory.SHARED, Memory.REGISTERED, Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY})

SOMETIMES = (Memory.HUGE, Memory.OTHER_NODE)  # kinds that only some machines have


class HostRegions:
    """Live regions of host memory, by address. Not thread-safe."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[Span, list[tuple[int, int]]]] = {}

    def map(self, memory: Memory, nbytes: int) -> Region:
        """A fenced region of at least `nbytes` bytes."""
        return self.map_sparse(memory, nbytes, [(0, max(nbytes, 1))])

    def map_sparse(self, memory: Memory, span: int, extents: Sequence[tuple[int, int]], align: int = 0) -> Region:
        """A region of `span` addresses with memory behind `extents` only; its handle lists them as rounded out."""
        page = granule(memory)
        nbytes = hostmap.round_up(max(span, 1), page)
        backed = hostmap.windows(extents, page, nbytes)
        reserved = Span(nbytes, max(align, page))
        try:
            _back(reserved, memory, backed)
        except DeviceError:
            reserved.close()
            raise
        self._live[reserved.address] = reserved, backed
        return Region(memory, reserved.address, nbytes, fenced=True, handle=tuple(backed))

    def extents(self, region: Region) -> list[tuple[int, int]]:
        """The backed windows of a live region: (offset, nbytes)."""
        return self._find(region)[1]

    def protect(self, region: Region, read_only: bool) -> None:
        """Write-protect or open a READ_ONLY region; no effect on other kinds."""
        if region.memory is Memory.READ_ONLY:
            span, extents = self._find(region)
            span.write_protect(extents, read_only)

    def unmap(self, region: Region) -> None:
        self._find(region)[0].close()
        del self._live[region.address]

    def close(self) -> None:
        """Unmap all that is left."""
        while self._live:
            self._live.popitem()[1][0].close()

    def _find(self, region: Region) -> tuple[Span, list[tuple[int, int]]]:
        try:
            return self._live[region.address]
        except KeyError:
            raise DeviceError(f"no live region of {region.memory.value} memory at {region.address:#x}") from None


def granted() -> list[Memory]:
    """The kinds of SOMETIMES of which the machine really gives a page now: huge pages where some are set aside,
    memory of another NUMA node where there is one and binding to it is allowed."""
    regions = HostRegions()
    found = []
    for memory in SOMETIMES:
        with suppress(DeviceError):
            regions.map(memory, 1)
            found.append(memory)
    regions.close()
    return found


def granule(memory: Memory) -> int:
    """Bytes to which host mappings of a kind are rounded. A partly registered region has two halves to tell apart."""
    if memory is Memory.HUGE:
        return hostmap.huge_page_bytes() or PAGE
    return 2 * PAGE if memory is Memory.REGISTERED_PARTLY else PAGE


def write(address: int, data: Bytes) -> None:
    """Copy contiguous `data` to a host address. A protected or unmapped address faults."""
    if not data.flags.c_contiguous:
        raise ValueError("data has to be one contiguous array")
    ctypes.memmove(address, data.ctypes.data, data.nbytes)


def read(address: int, out: Bytes) -> None:
    """Fill contiguous `out` from a host address. An unmapped address faults."""
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out has to be one contiguous, writable array")
    ctypes.memmove(out.ctypes.data, address, out.nbytes)


def _back(span: Span, memory: Memory, extents: Extents) -> None:
    if memory is Memory.HUGE:
        span.back_huge(extents)
    elif memory is Memory.OTHER_NODE:
        node = numa.other_node()
        if node is None:
            raise DeviceError("memory of another NUMA node: this machine has one node")
        span.back_on_node(extents, node)
    elif memory in _SHARED:
        span.back_shared(extents)
    else:
        span.back(extents)
