"""The Triton kernel that copies descriptors on raw addresses, and its launch. Importing this imports Triton.

A batch is cut so that a program never meets a tail: `plan` splits every descriptor into whole words and, where source
and destination are not aligned alike, bytes. The kernel then copies tiles of ROWS descriptors by COLS words.
Which tiles a program takes is a matter of speed alone: `Shape` says how many programs, and how large a tile.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from backends.copies.triton_shapes import Shape
from backends.descriptors import Descriptors, IntArray


class Launch(NamedTuple):
    """One launch: descriptors in words of one width, all addresses and sizes multiples of `alignment` bytes."""

    table: IntArray  # shape (3, entries), dense: sources, destinations, sizes in bytes; the kernel reads it
    alignment: int  # 16 and 8: words of 8 bytes; 1: single bytes
    rows: int  # descriptors in a tile
    cols: int  # words in a tile of one descriptor
    tiles_per_row: int  # tiles that the longest descriptor takes

    @property
    def entries(self) -> int:
        return len(self.table[0])

    @property
    def tiles(self) -> int:
        return -(-self.entries // self.rows) * self.tiles_per_row


def plan(descriptors: Descriptors, chunk: int) -> list[Launch]:
    """Split a batch of one entry or more into launches that together copy every byte once.

    Words are cut at multiples of 16 where every source is aligned to 16 as its destination is, else of 8. Heads,
    tails and entries that are aligned otherwise are copied by bytes. Long entries are split, so that one of them
    doesn't make every other one take as many tiles.
    """
    low_bits = int(np.bitwise_or.reduce(descriptors.table, axis=None)) & 15
    if low_bits in (0, 8):
        return [_launch(descriptors.table, 16 if low_bits == 0 else 8, chunk)]
    source, destination, size = descriptors.table
    apart = source ^ destination
    unit = 8 if (apart & 15).any() else 16
    head = np.where(apart & (unit - 1), size, np.minimum(-source & (unit - 1), size))
    body = (size - head) & -unit
    behind = head + body
    words = np.stack([source + head, destination + head, body])
    heads = np.stack([source, destination, head])
    tails = np.stack([source + behind, destination + behind, size - behind])
    parts = ((_nonempty(words), unit), (_nonempty(np.hstack([heads, tails])), 1))
    return [_launch(table, alignment, chunk) for table, alignment in parts if table.size]


def _nonempty(table: IntArray) -> IntArray:
    found: IntArray = np.compress(table[2] > 0, table, axis=1)
    return found


def _launch(table: IntArray, alignment: int, chunk: int) -> Launch:
    word = min(alignment, 8)
    longest = int(np.maximum.reduce(table[2]))
    if longest > chunk:
        piece = max(chunk, _power_of_two(ceil(table[2].mean())))
        if longest > piece:
            table = _split(table, piece)
            longest = piece
    rows = next((rows for rows in (256, 64, 16, 4, 2) if longest * rows <= chunk), 1)
    cols = chunk // rows // word
    return Launch(table, alignment, rows, cols, -(-longest // (cols * word)))


def _split(table: IntArray, piece: int) -> IntArray:
    """Cut entries that are longer than `piece` bytes, which is the mean or more: at most twice as many come out."""
    pieces = -(-table[2] // piece)
    first = np.cumsum(pieces) - pieces
    offset = (np.arange(pieces.sum()) - np.repeat(first, pieces)) * piece
    source, destination, size = np.repeat(table, pieces, axis=1)
    return np.stack([source + offset, destination + offset, np.minimum(size - offset, piece)])


def _power_of_two(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()


def run(launch: Launch, table_address: int, shape: Shape) -> None:
    """Launch on the current stream; the device reads the launch's table at `table_address`."""
    kernel: Any = copy_tiles
    kernel[(min(shape.programs, launch.tiles),)](
        table_address,
        launch.entries,
        launch.tiles_per_row,
        launch.tiles,
        ALIGNMENT=launch.alignment,
        ROWS=launch.rows,
        COLS=launch.cols,
        STREAK=shape.streak,
        num_warps=shape.warps,
    )


@triton.jit(do_not_specialize=["count", "tiles_per_row", "tiles"])  # type: ignore[untyped-decorator]
def copy_tiles(  # type: ignore[no-untyped-def]
    table_address,
    count,
    tiles_per_row,
    tiles,
    ALIGNMENT: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STREAK: tl.constexpr,
):
    """Copy this program's share of a batch's tiles: consecutive ones with STREAK, else every n-th, for n programs.

    `table_address`: 3 * count int64, see `Launch`."""
    word_type: tl.constexpr = tl.uint8 if ALIGNMENT == 1 else tl.int64
    word: tl.constexpr = 1 if ALIGNMENT == 1 else 8
    table = tl.cast(table_address, tl.pointer_type(tl.int64))
    count = tl.cast(count, tl.int64)
    tiles_per_row = tl.cast(tiles_per_row, tl.int64)
    tiles = tl.cast(tiles, tl.int64)
    first = tl.cast(tl.program_id(0), tl.int64)
    step = tl.num_programs(0)
    end = tiles
    if STREAK:
        each = tl.cdiv(tiles, step)
        first = first * each
        end = tl.minimum(first + each, tiles)
        step = 1
    for tile in range(first, end, step):
        entry = tile // tiles_per_row * ROWS + tl.arange(0, ROWS)
        live = entry < count
        source = tl.load(table + entry, mask=live, other=0)
        destination = tl.load(table + count + entry, mask=live, other=0)
        words = tl.load(table + 2 * count + entry, mask=live, other=0) // word
        if ALIGNMENT == 16:
            words = tl.multiple_of(words, 2)
        column = tile % tiles_per_row * COLS + tl.arange(0, COLS)
        mask = column[None, :] < words[:, None]
        from_rows = tl.cast(source, tl.pointer_type(word_type))
        to_rows = tl.cast(destination, tl.pointer_type(word_type))
        if ALIGNMENT > 1:
            from_rows = tl.multiple_of(from_rows, ALIGNMENT)
            to_rows = tl.multiple_of(to_rows, ALIGNMENT)
        data = tl.load(from_rows[:, None] + column[None, :], mask=mask)
        tl.store(to_rows[:, None] + column[None, :], data, mask=mask)


COMPILED = isinstance(copy_tiles, triton.JITFunction)  # else Triton was imported as an interpreter
