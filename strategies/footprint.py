"""Where the bytes of a case lie inside the memory of one side: tensor bases, guard bands, fences, sparse windows.

Pure arithmetic on a case. All offsets count from the arena's first address, which is a multiple of 4096; an arena
ends on a multiple of 4096 too when a fence lies behind it. An arena too large to back with memory is *sparse*: only
windows around the blocks that the mapping touches exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from strategies.case import Case, Fence, Pool

PAGE = 4096
DENSE_LIMIT = 64 << 20  # bytes; a larger arena is sparse
LEAST_GUARD, MOST_GUARD = 256, 64 << 10
SPARSE_ALIGN = 1 << 32  # a sparse arena begins at a 4 GiB line, so that a case can lay a page across one


@dataclass(frozen=True)
class Footprint:
    """The layout of one side's arena."""

    bases: tuple[int, ...]  # of each tensor
    span: int  # bytes from the first address to behind the last guard band
    extents: tuple[tuple[int, int], ...]  # (offset, nbytes) of what exists: ascending, apart; the image in this order
    fence: Fence

    @property
    def sparse(self) -> bool:
        return self.span > DENSE_LIMIT

    @property
    def image_bytes(self) -> int:
        return sum(nbytes for _, nbytes in self.extents)

    def image_offset(self, offset: int) -> int:
        """Where the byte at arena offset `offset` lies in the image, which holds the extents end to end.

        Raises ValueError for an offset outside every extent."""
        at = 0
        for start, nbytes in self.extents:
            if start <= offset < start + nbytes:
                return at + offset - start
            at += nbytes
        raise ValueError(f"offset {offset} lies in no extent")

    def arena_offset(self, image_offset: int) -> int:
        """The inverse of `image_offset`."""
        at = image_offset
        for start, nbytes in self.extents:
            if at < nbytes:
                return start + at
            at -= nbytes
        raise ValueError(f"image offset {image_offset} is behind the image")


def source_footprint(case: Case) -> Footprint:
    """The layout of the source arena."""
    sides = [(tensor.source, tensor.sources, tensor.needs[0]) for tensor in case.tensors]
    return _footprint(sides, case.source_fence)


def destination_footprint(case: Case) -> Footprint:
    """The layout of the destination arena."""
    sides = [(tensor.destination, tensor.destinations, tensor.needs[1]) for tensor in case.tensors]
    return _footprint(sides, case.destination_fence)


def guard_bytes(pool: Pool) -> int:
    """The guard band beside a pool: a block long where that is cheap, so that a whole stray block lands in it."""
    return min(max(LEAST_GUARD, pool.stride), MOST_GUARD)


def _footprint(sides: list[tuple[Pool, tuple[int, ...], int]], fence: Fence) -> Footprint:
    bases: list[int] = []
    at = 0
    for pool, _, need in sides:
        if bases or fence is not Fence.BEFORE:
            at = _round_up(at + guard_bytes(pool))
        bases.append(at)
        at += pool.offset(pool.blocks - 1) + need
    if fence is Fence.AFTER:
        lead = _round_up(at) - at
        bases = [base + lead for base in bases]
        span = at + lead
    else:
        span = at + guard_bytes(sides[-1][0])
    if span <= DENSE_LIMIT:
        return Footprint(tuple(bases), span, ((0, span),), fence)
    windows = [
        (max(0, start - PAGE), min(span, start + need + PAGE))
        for (pool, ids, need), base in zip(sides, bases, strict=True)
        for start in {base + pool.offset(block) for block in ids}
    ]
    return Footprint(tuple(bases), span, _merge(windows or [(0, PAGE)]), fence)


def _merge(windows: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[list[int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return tuple((start, end - start) for start, end in merged)


def _round_up(value: int) -> int:
    return -(-value // PAGE) * PAGE
