"""The bytes arenas hold before a copy: from a seed, and never alike in source and destination.

Source bytes lie in 1..127, destination bytes in 128..254, all of them turned over by one mask that the seed chooses:
a found byte tells where it came from, and over all cases every value occurs on both sides. Two neighbours always
differ, so no block is all zero. The tape's length is prime, so no layout repeats in step with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

LENGTH = 1_048_583  # the first prime above 2**20
MASKS = (0x00, 0xFF, 0x80, 0x7F)  # by seed: every value of a byte is copied by some case


@dataclass(frozen=True)
class Images:
    """The contents of both arenas of a case, extent after extent, flat uint8."""

    source: Bytes
    destination: Bytes


class Content(Enum):
    """Whose bytes: each has its own part of the tape."""

    SOURCE = 0
    DESTINATION = 1
    WIPED = 2  # what a source holds before a late write, and between the halves of a round trip


@cache
def _tape() -> Bytes:
    steps = np.random.Generator(np.random.PCG64(20)).integers(1, 127, LENGTH, dtype=np.int64)
    return (np.cumsum(steps) % 127 + 1).astype(np.uint8)


def fill(image: Bytes, seed: int, content: Content) -> None:
    """Overwrite `image` (flat uint8) with the content's bytes for `seed`; seed 0 is the plainest to read."""
    tape = _tape()
    start = (seed * 65_537 + content.value * 349_529) % LENGTH
    at = 0
    while at < image.size:
        piece = tape[start : start + image.size - at]
        image[at : at + piece.size] = piece
        at, start = at + piece.size, 0
    if content is not Content.SOURCE:
        np.add(image, 127, out=image)
    if mask := MASKS[seed % len(MASKS)]:
        np.bitwise_xor(image, mask, out=image)


def comes_from_source(byte: int, seed: int) -> bool:
    """Whether a byte found in memory is one that only the source's fill holds."""
    return 1 <= byte ^ MASKS[seed % len(MASKS)] <= 127
