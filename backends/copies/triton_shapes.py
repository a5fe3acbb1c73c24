"""How the Triton copy is spread over a device: the numbers to tune. Speed only, never bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """What a launch is made of.

    A kernel that reads host memory wants many bytes under way, since each waits long; one that writes host memory may
    collapse when many programs do.
    """

    programs: int  # at most
    chunk: int  # bytes of a tile; a power of two, 2048 or more
    warps: int
    streak: bool  # a program takes consecutive tiles; else every n-th, for n programs


# On one H200, of some 20 shapes a direction at nine sizes from 64 x 512 B to 64 x 1 MiB, called in random order, this
# one is within 2 % of the best for stores by the geometric mean, and its neighbours with 32 and 132 programs within 1 %
# for loads. Shapes matter little once stores have no more than some 64 programs (with one a descriptor they take ten
# times as long), and asking the driver which direction it is costs more than a shape for each would gain.
ON_DEVICE = Shape(programs=64, chunk=16384, warps=8, streak=False)

# The interpreter's time goes by tiles, hardly by bytes.
INTERPRETED = Shape(programs=1, chunk=1 << 16, warps=1, streak=False)


def default_shape(platform: str) -> Shape:
    """The shape for copies on `platform`."""
    return INTERPRETED if platform == "cpu" else ON_DEVICE
