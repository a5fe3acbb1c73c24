"""How the Triton copy is spread over a device: the numbers to tune, one set a direction. Speed only, never bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """What a launch is made of.

    A kernel that reads host memory wants many programs, since each waits long for its bytes; one that writes host
    memory may collapse when many do.
    """

    programs: int  # at most
    chunk: int  # bytes of a tile; a power of two, 2048 or more
    warps: int
    table_on_device: bool  # copy the descriptors to the device first; else the kernel reads them in pinned memory
    streak: bool  # a program takes consecutive tiles; else every n-th, for n programs


# Design aims on one H200 over PCIe, to be replaced by what is measured: a load of pages of 16 KiB and more within 1.15
# of one contiguous copy; a store as fast as a dozen programs of 8-byte words.
INTO_DEVICE = Shape(programs=1024, chunk=16384, warps=8, table_on_device=False, streak=True)
INTO_HOST = Shape(programs=32, chunk=16384, warps=4, table_on_device=False, streak=False)

# The interpreter's time goes by tiles, hardly by bytes.
INTERPRETED = Shape(programs=1, chunk=1 << 16, warps=1, table_on_device=False, streak=False)


def default_shape(platform: str, into_device: bool) -> Shape:
    """The shape for a copy on `platform` whose destination is device memory, or isn't."""
    if platform == "cpu":
        return INTERPRETED
    return INTO_DEVICE if into_device else INTO_HOST
