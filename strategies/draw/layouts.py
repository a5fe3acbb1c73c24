"""How a page is cut into the pieces that descriptors copy: whole, kernel blocks, heads, parts of writers.

The layouts are those in use: a manager's block made of several kernel blocks; a page kept in canonical form, where the
heads of all tensor-parallel ranks interleave, so that a rank's page is many strided fragments of it; K and V in planes
of their own; a writer that owns a part of the page only. Pieces never overlap, on either side.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from strategies.case import Run
from strategies.draw.choices import between, pick
from strategies.page_sizes import page_bytes

PIECES = (2, 1, 3, 4, 5, 8, 16)
RANKS = (2, 3, 4, 8)


@dataclass(frozen=True)
class Layout:
    """A page, its pieces, and the bytes a block takes on each side."""

    page_bytes: int
    runs: tuple[Run, ...]
    source: int
    destination: int

    @property
    def descriptors(self) -> int:
        """Per page."""
        return sum(run.count for run in self.runs) or 1

    @property
    def mirrored(self) -> Layout:
        """The same copy the other way round."""
        runs = tuple(
            Run(run.destination, run.source, run.nbytes, run.count, run.destination_step, run.source_step)
            for run in self.runs
        )
        return Layout(self.page_bytes, runs, self.destination, self.source)


def whole(page: int) -> Layout:
    """One descriptor a page."""
    return Layout(page, (), page, page)


def kernel_blocks(block: int, count: int, padding: int = 0) -> Layout:
    """A manager's block of `count` kernel blocks; at the destination each is followed by `padding` bytes."""
    page, spread = block * count, (block + padding) * count
    return Layout(page, (Run(0, 0, block, count, block, block + padding),), page, spread)


def canonical(fragment: int, count: int, ranks: int, rank: int) -> Layout:
    """A rank's page to its places in the canonical page, where the fragments of all ranks take turns."""
    page = fragment * count
    run = Run(0, rank * fragment, fragment, count, fragment, ranks * fragment)
    return Layout(page, (run,), page, ranks * page)


def resharded(fragment: int, count: int, ranks: int, rank: int) -> Layout:
    """Strided on both sides with unlike steps."""
    page = fragment * count
    run = Run(rank * fragment, 0, fragment, count, ranks * fragment, 2 * fragment)
    return Layout(page, (run,), ranks * page, 2 * page)


def planes(fragment: int, heads: int, ranks: int, rank: int) -> Layout:
    """K then V, each with the heads of all ranks side by side: two runs of `heads` fragments."""
    local, whole_plane = heads * fragment, ranks * heads * fragment
    runs = tuple(
        Run(plane * local, plane * whole_plane + rank * local, fragment, heads, fragment, fragment) for plane in (0, 1)
    )
    return Layout(2 * local, runs, 2 * local, 2 * whole_plane)


def writers_part(page: int, start: int, nbytes: int) -> Layout:
    """Only the bytes of the page that one writer owns."""
    return Layout(page, (Run(start, start, nbytes),), page, page)


def unequal(first: int, second: int) -> Layout:
    """Two pieces of unequal size that change places: data and scales."""
    page = first + second
    return Layout(page, (Run(0, second, first), Run(first, 0, second)), page, page)


@st.composite
def fragments(draw: st.DrawFn, most: int, unit: int, most_pieces: int) -> Layout:
    """Layouts of more than one piece, of pieces that are multiples of `unit` bytes, in blocks up to about `most` bytes.

    `most` must hold two units."""
    kind = draw(between(0, 5))
    count = min(draw(pick(*PIECES)), most_pieces, most // unit)
    if kind == 0:
        padding = unit * draw(between(0, 2))
        return _either(draw, kernel_blocks(draw(page_bytes(max(unit, most // count), unit)), count, padding))
    if kind == 4:
        page = draw(page_bytes(most // 2, unit)) + unit
        start = unit * draw(between(0, page // unit - 1))
        return writers_part(page, start, page - start if draw(between(0, 1)) else unit)
    if kind == 5:
        return _either(draw, unequal(draw(page_bytes(most // 2, unit)), draw(page_bytes(most // 2, unit))))
    ranks = draw(pick(*RANKS))
    rank = draw(between(0, ranks - 1))
    fragment = draw(page_bytes(max(unit, most // (2 * count * ranks)), unit))
    shape = (canonical, resharded, planes)[kind - 1]
    if shape is planes:
        count = max(1, min(count, most_pieces // 2))
    return _either(draw, shape(fragment, count, ranks, rank))


def _either(draw: st.DrawFn, layout: Layout) -> Layout:
    return layout.mirrored if draw(between(0, 1)) else layout
