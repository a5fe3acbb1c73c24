"""How many bytes a block holds: real models' pages, and the sizes around which implementations change their mind.

The real ones stand in data/page_sizes.csv, computed from the published shapes of the models: bytes of one block of one
layer, and the bytes of its row where the engine pads it. A row of the file is a fact, not a limit.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hypothesis import strategies as st

from strategies.draw.choices import between, pick

DATA = Path(__file__).parent / "data" / "page_sizes.csv"
SELECTION_EDGE = 28_672  # bytes: the published rule prefers batch DMA from here on
CHUNK = 8_192  # bytes: the largest chunk of the published Triton copy
SMALL = 64


@dataclass(frozen=True)
class PageSize:
    """One row of the file."""

    model: str
    kind: str  # kv-16bit, latent, latent-padded, hybrid-state
    tensor_parallel: int
    block_tokens: int
    page_bytes: int  # un-padded
    row_bytes: int  # from one block to the next; page_bytes unless padded


def read(path: Path = DATA) -> tuple[PageSize, ...]:
    """The rows of the file, in its order."""
    with path.open(newline="", encoding="utf-8") as lines:
        return tuple(
            PageSize(
                model=row["model"],
                kind=row["kind"],
                tensor_parallel=int(row["tensor_parallel"]),
                block_tokens=int(row["block_tokens"]),
                page_bytes=int(row["page_bytes"]),
                row_bytes=int(row["row_bytes_padded"]),
            )
            for row in csv.DictReader(lines)
        )


REAL = read()
REAL_BYTES = frozenset(size.page_bytes for size in REAL)
PADDED = tuple(dict.fromkeys((size.page_bytes, size.row_bytes) for size in REAL if size.row_bytes > size.page_bytes))


def edges(most: int, multiple: int = 1) -> tuple[int, ...]:
    """Sizes beside which something changes, ascending: one multiple below, at and above each edge, up to `most`."""
    powers = [1 << k for k in range(21)]
    return _multiples([*powers, SELECTION_EDGE, 2 * CHUNK], most, multiple, beside=True)


def real(most: int, multiple: int = 1) -> tuple[int, ...]:
    """The real models' sizes up to `most` that are multiples of `multiple`, ascending."""
    return tuple(size for size in sorted(REAL_BYTES) if size <= most and size % multiple == 0)


@lru_cache(maxsize=1024)
def page_bytes(most: int, multiple: int = 1) -> st.SearchStrategy[int]:
    """Sizes from `multiple` to `most` bytes, multiples of `multiple`; shrinks to the smallest."""
    units = most // multiple
    kinds = [
        between(1, min(SMALL, units)),
        pick(*(size // multiple for size in edges(most, multiple))),
        between(1, min(4096 // multiple + 1, units)),
    ]
    if real(most, multiple):
        kinds.append(pick(*(size // multiple for size in real(most, multiple))))
    kinds.append(between(1, units))
    drawn = st.one_of(kinds)
    return drawn if multiple == 1 else drawn.map(lambda count: count * multiple)


def _multiples(sizes: Iterable[int], most: int, multiple: int, *, beside: bool) -> tuple[int, ...]:
    steps = (-1, 0, 1) if beside else (0,)
    near = {(size // multiple + step) * multiple for size in sizes for step in steps}
    return tuple(sorted(size for size in near if multiple <= size <= most))
