"""Where the blocks of one side lie: rows dense, padded or page-aligned, chunks of blocks, any residue of the address.

Also pools too large for memory, whose blocks lie beside the offsets at which 32-bit arithmetic breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hypothesis import strategies as st

from strategies.case import Pool
from strategies.draw.choices import between, pick
from strategies.footprint import PAGE, guard_bytes

PER_CHUNK = (1, 2, 3, 4, 8, 16)
LINES = (1 << 31, 1 << 32, 1 << 40)  # bytes: offsets beside which a block of a far pool lies
MANY_IDS = 1 << 31  # a 32-bit block id is negative from here on
MOST_SPAN = 1 << 42  # bytes of addresses a far pool may take
NEVER_FAR_STRIDE = 1 << 20


@dataclass(frozen=True)
class Rows:
    """The steps of a pool, before it is known how many blocks it holds."""

    stride: int
    per_chunk: int = 1
    chunk_stride: int = 0

    @property
    def chunk_bytes(self) -> int:
        return self.chunk_stride or self.per_chunk * self.stride

    def capacity(self, room: int) -> int:
        """Blocks that fit in `room` bytes together with two guard bands; at least one chunk."""
        guard = guard_bytes(Pool(1, self.stride))
        return max(1, (room - 2 * guard - 3 * PAGE) // self.chunk_bytes) * self.per_chunk


@st.composite
def rows(draw: st.DrawFn, need: int, multiple: int, room: int, dense: bool = False) -> Rows:
    """Steps for blocks of `need` bytes at multiples of `multiple`; a chunk fits in `room` bytes where a block does."""
    equal = round_up(need, multiple)
    kind = 0 if dense else draw(between(0, 7))
    stride, per_chunk, chunk_stride = equal, 1, 0
    if kind in (2, 3):
        stride = equal + multiple * draw(_padding(max(1, 64 // multiple)))
    elif kind in (4, 5):
        stride = aligned(need)
    elif kind in (6, 7):
        per_chunk = draw(pick(*PER_CHUNK[1:]))
        if kind == 7:  # a row of several workers' slots, as in a shared mapping
            chunk_stride = aligned(per_chunk * stride)
        else:
            chunk_stride = per_chunk * stride + multiple * draw(between(0, max(1, 64 // multiple)))
    if 4 * stride > room:
        stride = equal
    found = Rows(stride, per_chunk, chunk_stride)
    return found if 2 * found.chunk_bytes <= room else Rows(equal)


@lru_cache(maxsize=64)
def origins(multiple: int) -> st.SearchStrategy[int]:
    """Bytes before block 0: every residue of 16 often, any within a page sometimes."""
    small = between(0, max(0, 15 // multiple))
    return st.one_of(pick(0), small, small, between(0, 4095 // multiple)).map(lambda count: count * multiple)


@dataclass(frozen=True)
class Far:
    """A pool with blocks beside a line, and the ids of those blocks in the order of interest."""

    pool: Pool
    ids: tuple[int, ...]


@st.composite
def far_pools(draw: st.DrawFn, need: int, multiple: int, stride: int, fenced: bool) -> Far:
    """A pool that is sparse whatever the mapping, and the ids worth copying in it."""
    kind = draw(between(0, 2 if fenced else 3))
    if kind == 3:
        return across_address(draw(pick(*LINES[1:])), need, multiple, stride, draw(between(0, 4)))
    if kind == 2 and stride * (MANY_IDS + 4) <= MOST_SPAN:
        return around_id(MANY_IDS, stride)
    line = draw(pick(*LINES))
    return around_id(line // stride, stride, draw(between(0, 1)))


def around_id(middle: int, stride: int, spare: int = 0) -> Far:
    """Blocks beside number `middle` of a pool that begins at its base."""
    ids = (middle, middle - 1, middle + 1, 0, 1)
    return Far(Pool(blocks=middle + 2 + spare, stride=stride), ids)


def across_address(line: int, need: int, multiple: int, stride: int, place: int) -> Far:
    """Blocks beside the address `line` behind the arena's first: block 1 begins at the line, ends at it or lies across.

    `place` 0: one byte (or multiple) before the line, 1: half a block, 2: all but one byte, 3: a block, 4: nothing."""
    before = (multiple, need // 2, need - multiple, need, 0)[place]
    before = min(max(0, before // multiple * multiple), stride)
    base = round_up(guard_bytes(Pool(1, stride)), PAGE)
    origin = line - base - before - stride
    return Far(Pool(blocks=4, stride=stride, origin=origin), (1, 0, 2, 3))


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is no smaller than `value`."""
    return -(-value // multiple) * multiple


def aligned(need: int) -> int:
    """A row on whole 4 KiB pages that is longer than `need`."""
    return round_up(need + 1, PAGE)


@lru_cache(maxsize=64)
def _padding(most: int) -> st.SearchStrategy[int]:
    return between(1, most)
