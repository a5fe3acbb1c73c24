"""Where wrong bytes lie, in the words of the field: block 3, its last 5 bytes; padding; guard band; source.

Only called when something is wrong, so it may take its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from conformance.judge.fill import Bytes, Images, comes_from_source
from conformance.judge.oracle import block_offset, pieces
from strategies.case import Case, Pool, Tensor
from strategies.footprint import Footprint, destination_footprint, source_footprint

SHOWN_BYTES = 16  # of each hex line

Offsets = np.ndarray[Any, np.dtype[np.intp]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Difference:
    """One stretch of wrong bytes with one role."""

    side: str  # "source" or "destination"
    place: str  # "block 3 (its last 5 of 512 bytes)", "guard band behind tensor 0 (its first 8 bytes)"
    nbytes: int
    image_offset: int
    copied: bool  # the case copies these bytes (so they are wrong), or it does not (so they had to stay)
    expected: str  # hex around the first wrong byte
    found: str
    origin: str  # what the found bytes look like


@dataclass(frozen=True)
class Comparison:
    """All wrong bytes of one side: how many, and the stretches they form (at most `MOST`)."""

    nbytes: int
    differences: tuple[Difference, ...]

    def lines(self, names: tuple[str, str] = ("expected", "found")) -> tuple[str, ...]:
        """Both contents around the first wrong byte, in hex."""
        width = max(map(len, names))
        first = self.differences[0]
        return (
            f"{names[0]:{width}}  {first.expected}",
            f"{names[1]:{width}}  {first.found}   ({first.origin})",
        )


MOST = 64  # stretches described; the count of bytes is always whole


def compare(case: Case, side: str, expected: Bytes, found: Bytes, before: Images) -> Comparison:
    """Describe the bytes in which `found` differs from `expected` on one side ("source" or "destination")."""
    wrong = np.flatnonzero(expected != found)
    if wrong.size == 0:
        return Comparison(0, ())
    layout = _Layout(case, side)
    copied = _copied_mask(case, side, expected.size)
    described: list[Difference] = []
    for start, stop in _stretches(wrong, layout, copied):
        described.append(_describe(layout, side, start, stop, expected, found, before, bool(copied[start])))
        if len(described) == MOST:
            break
    return Comparison(int(wrong.size), tuple(described))


class _Layout:
    """Names the place of an image offset on one side."""

    def __init__(self, case: Case, side: str) -> None:
        self.case = case
        self.side = side
        self.footprint: Footprint = source_footprint(case) if side == "source" else destination_footprint(case)
        self.pools: list[tuple[Tensor, Pool, Sequence[int]]] = [
            (tensor, tensor.source, tensor.sources)
            if side == "source"
            else (tensor, tensor.destination, tensor.destinations)
            for tensor in case.tensors
        ]

    def place(self, image_offset: int) -> tuple[str, int, int]:
        """(name of the part, its first arena offset, its bytes)."""
        at = self.footprint.arena_offset(image_offset)
        for index, ((tensor, pool, ids), base) in enumerate(zip(self.pools, self.footprint.bases, strict=True)):
            of = f" of tensor {index}" if len(self.pools) > 1 else ""
            first = base + pool.origin
            end = base + block_offset(pool, pool.blocks - 1) + tensor.page_bytes
            if at < first:
                start = self._end_of(index - 1) if index else 0
                return f"guard band before block 0{of}", start, first - start
            if at < end:
                return self._in_pool(tensor, pool, ids, at, base, of)
        start = self._end_of(len(self.pools) - 1)
        return f"guard band behind block {self.pools[-1][1].blocks - 1}", start, self.footprint.span - start

    def _end_of(self, index: int) -> int:
        tensor, pool, _ = self.pools[index]
        return self.footprint.bases[index] + block_offset(pool, pool.blocks - 1) + tensor.page_bytes

    def _in_pool(
        self, tensor: Tensor, pool: Pool, ids: Sequence[int], at: int, base: int, of: str
    ) -> tuple[str, int, int]:
        row = pool.chunk_stride or pool.per_chunk * pool.stride
        chunk, inside = divmod(at - base - pool.origin, row)
        sub = min(inside // pool.stride, pool.per_chunk - 1)
        block = chunk * pool.per_chunk + sub
        start = base + block_offset(pool, block)
        if at < start + tensor.page_bytes:
            mapped = "" if block in set(ids) else ", which is not in the mapping"
            return f"block {block}{of}{mapped}", start, tensor.page_bytes
        stop = base + block_offset(pool, block + 1)
        return f"padding behind block {block}{of}", start + tensor.page_bytes, stop - start - tensor.page_bytes


def _copied_mask(case: Case, side: str, nbytes: int) -> Mask:
    mask = np.zeros(nbytes, bool)
    for piece in pieces(case):
        start = getattr(piece, side)
        mask[start : start + piece.nbytes] = True
    return mask


def _stretches(wrong: Offsets, layout: _Layout, copied: Mask) -> Iterator[tuple[int, int]]:
    """(first, behind last) image offsets of wrong bytes that share a part; small gaps inside a part are bridged."""
    apart = (np.diff(wrong) > SHOWN_BYTES) | (np.diff(copied[wrong].astype(np.int8)) != 0)
    bounds = [0, *(np.flatnonzero(apart) + 1).tolist(), wrong.size]
    for low, high in pairwise(bounds):
        group = wrong[low:high]
        while group.size:
            start = int(group[0])
            _, first, nbytes = layout.place(start)
            end = start + first + nbytes - layout.footprint.arena_offset(start)
            inside = int(np.searchsorted(group, end))
            yield start, int(group[inside - 1]) + 1
            group = group[inside:]


def _describe(
    layout: _Layout,
    side: str,
    start: int,
    stop: int,
    expected: Bytes,
    found: Bytes,
    before: Images,
    copied: bool,
) -> Difference:
    name, first, nbytes = layout.place(start)
    count = int(np.count_nonzero(expected[start:stop] != found[start:stop]))
    from_start = layout.footprint.arena_offset(start) - first
    from_end = first + nbytes - layout.footprint.arena_offset(stop - 1) - 1
    if count == nbytes:
        where = f"all {nbytes} bytes" if nbytes > 1 else "its only byte"
    elif from_start == 0 or from_end == 0:
        end = "first" if from_start == 0 else "last"
        where = f"its {end} {count} of {nbytes} bytes" if count > 1 else f"the {end} of its {nbytes} bytes"
    else:
        where = f"{count} of {nbytes} bytes, from byte {from_start} on"
    shown = slice(max(0, start - 4), start + SHOWN_BYTES - 4)
    return Difference(
        side,
        f"{name} ({where})",
        count,
        start,
        copied,
        _hex(expected[shown], start - shown.start),
        _hex(found[shown], start - shown.start),
        _origin(layout.case, side, start, stop, found, before),
    )


def _hex(part: Bytes, mark: int) -> str:
    words = [f"{byte:02x}" for byte in part]
    return " ".join([*words[:mark], ">" + words[mark], *words[mark + 1 :]])


def _origin(case: Case, side: str, start: int, stop: int, found: Bytes, before: Images) -> str:
    """What the wrong bytes look like: left as they were, another block's, or unknown."""
    part = found[start:stop]
    old = before.source if side == "source" else before.destination
    if np.array_equal(part, old[start:stop]):
        return "as before the copy: never written"
    if not part.any():
        return "zeros"
    if side == "destination" and part.size >= 4 and _from_source(case, part):
        at = before.source.tobytes().find(part[:64].tobytes())
        if at >= 0:
            name, first, _ = _Layout(case, "source").place(at)
            byte = source_footprint(case).arena_offset(at) - first
            return f"bytes of source {name.split(',')[0]}, from byte {byte} on"
    return "bytes of the source" if side == "destination" and _from_source(case, part) else "other bytes"


def _from_source(case: Case, part: Bytes) -> bool:
    return all(comes_from_source(int(byte), case.seed) for byte in part[:64])
