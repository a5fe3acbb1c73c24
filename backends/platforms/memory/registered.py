"""Which parts of a host region are registered with the driver, by its kind of memory. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from backends.contract import REGISTERED_MEMORY, DeviceError, Memory
from backends.platforms.memory.hostmap import PAGE, round_up

PIECE = 64 << 10  # bytes of one registration of a large region registered in pieces
PIECES = 128  # about how many a smaller region is cut into, so that small cases meet seams too

REGISTERED_KINDS = REGISTERED_MEMORY | {Memory.REGISTERED_PARTLY}


def registrations(memory: Memory, address: int, nbytes: int) -> list[tuple[int, int]]:
    """The ranges (address, nbytes) to register one by one for a backed window of whole pages."""
    if memory not in REGISTERED_KINDS:
        return []
    if memory is Memory.REGISTERED_PIECES:
        piece = min(PIECE, max(PAGE, round_up(nbytes // PIECES, PAGE)))
        return [(address + at, min(piece, nbytes - at)) for at in range(0, nbytes, piece)]
    if memory is Memory.REGISTERED_PARTLY:
        return [(address, round_up(nbytes // 2, PAGE))]
    return [(address, nbytes)]


def split(address: int, nbytes: int, registered: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The range `address`, `nbytes` cut at the seams between registrations: one copy may not cross a seam.

    Raises DeviceError if a part of it is not registered."""
    parts: list[tuple[int, int]] = []
    at, end = address, address + nbytes
    for start, size in sorted(registered):
        if start <= at < start + size:
            stop = min(end, start + size)
            parts.append((at, stop - at))
            at = stop
        if at == end:
            return parts
    raise DeviceError(f"{end - at} of {nbytes} bytes at {address:#x} are not registered with the driver")
