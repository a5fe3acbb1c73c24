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


# The best of 32 shapes a direction on one H200, by the geometric mean over nine sizes from 64 x 512 B to 64 x 1 MiB of
# the time over one contiguous copy. Loads of 28 KiB pages and more came within 1.14 to 1.17 of it, stores within 1.08
# to 1.24; what smaller batches lose is the time to launch.
INTO_DEVICE = Shape(programs=2048, chunk=16384, warps=8, table_on_device=False, streak=False)
INTO_HOST = Shape(programs=64, chunk=16384, warps=4, table_on_device=False, streak=True)

# The interpreter's time goes by tiles, hardly by bytes.
INTERPRETED = Shape(programs=1, chunk=1 << 16, warps=1, table_on_device=False, streak=False)


def default_shape(platform: str, into_device: bool) -> Shape:
    """The shape for a copy on `platform` whose destination is device memory, or isn't."""
    if platform == "cpu":
        return INTERPRETED
    return INTO_DEVICE if into_device else INTO_HOST
