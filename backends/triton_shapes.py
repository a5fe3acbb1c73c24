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
    streak: bool  # a program takes consecutive tiles; else every n-th, for n programs


# The best of 48 (loads) and 80 (stores) shapes on one H200, by the geometric mean over eight sizes from 64 x 512 B to
# 64 x 1 MiB of the kernel's time over one contiguous copy: 1.05 at most for pages of 16 KiB and more, and less than 1
# for smaller ones, where that copy's call shows. The call that leads to the kernel comes on top.
INTO_DEVICE = Shape(programs=2048, chunk=16384, warps=16, streak=False)
INTO_HOST = Shape(programs=32, chunk=8192, warps=16, streak=False)

# The interpreter's time goes by tiles, hardly by bytes.
INTERPRETED = Shape(programs=1, chunk=1 << 16, warps=1, streak=False)


def default_shape(platform: str, into_device: bool) -> Shape:
    """The shape for a copy on `platform` whose destination is device memory, or isn't."""
    if platform == "cpu":
        return INTERPRETED
    return INTO_DEVICE if into_device else INTO_HOST
