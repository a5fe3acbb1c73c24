"""Copies with exactly one fault each, and correct ones beside them, all with the field's signature, for the CPU.

Each checks its arguments, skips entries of size zero and copies with memmove, except for its fault. They are what the
suite is held against: every fault has to be found, and nothing that is right may be reported.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from backends.contract import Device, Refused, Support
from backends.descriptors import check
from backends.drivers import cpu_stream

Row = tuple[int, int, int]  # source address, destination address, bytes
CHUNK = 8192


def _rows(source: torch.Tensor, destination: torch.Tensor, sizes: torch.Tensor) -> list[Row]:
    """Checked descriptors without those of size zero. Raises DescriptorError."""
    return list(check(source, destination, sizes).rows())


def _move(rows: Iterable[Row]) -> None:
    for source, destination, size in rows:
        ctypes.memmove(destination, source, size)


def _poke(address: int, value: int) -> None:
    ctypes.c_uint8.from_address(address).value = value


def _peek(address: int) -> int:
    return ctypes.c_uint8.from_address(address).value


# --- what is right ---------------------------------------------------------------------------------------------------


def plain_loop(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """In the order given."""
    _move(_rows(s, d, n))


def sorted_rows(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """In the order of source addresses."""
    _move(sorted(_rows(s, d, n)))


def reversed_rows(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """From the last to the first."""
    _move(reversed(_rows(s, d, n)))


def merged_on_both_sides(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Neighbours that follow each other on both sides are one copy."""
    _move(_merged(_rows(s, d, n), lambda last, row: last[0] + last[2] == row[0] and last[1] + last[2] == row[1]))


def numpy_gather(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Everything is read into one buffer, and then written."""
    rows = _rows(s, d, n)
    parts = [np.frombuffer((ctypes.c_uint8 * size).from_address(source), np.uint8) for source, _, size in rows]
    gathered = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    at = 0
    for _, destination, size in rows:
        np.frombuffer((ctypes.c_uint8 * size).from_address(destination), np.uint8)[:] = gathered[at : at + size]
        at += size


def in_chunks(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """8192 bytes at a time, the last chunk shorter."""
    for source, destination, size in _rows(s, d, n):
        for at in range(0, size, CHUNK):
            ctypes.memmove(destination + at, source + at, min(CHUNK, size - at))


def in_threads(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Two threads share the rows, and both are waited for."""
    rows = _rows(s, d, n)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_move, [rows[::2], rows[1::2]]))


def multiples_of_eight(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Declares that sizes are multiples of eight, and refuses others before it writes."""
    rows = _rows(s, d, n)
    _refuse_odd(rows, "size {} is not a multiple of 8")
    _move(rows)


multiples_of_eight.kvconform_support = Support(size_multiple=8)  # type: ignore[attr-defined]


class Asynchronous:
    """Copies on the current stream, from descriptors of its own."""

    name = "asynchronous"

    def support(self, device: Device) -> Support:
        return Support()

    def copy(self, s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        rows = _rows(s, d, n)
        cpu_stream.current().submit(lambda: _move(rows))

    def path(self) -> str:
        return "memmove on the stream"


# --- lengths ---------------------------------------------------------------------------------------------------------


def dropped_tail(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Whole words of eight bytes only."""
    _move((source, destination, size - size % 8) for source, destination, size in _rows(s, d, n))


def touches_padding(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Sizes are rounded up to words of eight bytes."""
    _move((source, destination, -(-size // 8) * 8) for source, destination, size in _rows(s, d, n))


def first_chunk_only(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """The loop over chunks ends after the first."""
    _move((source, destination, min(size, CHUNK)) for source, destination, size in _rows(s, d, n))


def last_partial_chunk_lost(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A size beyond a chunk is cut to whole chunks."""
    _move((a, b, size if size < CHUNK else size - size % CHUNK) for a, b, size in _rows(s, d, n))


def first_size_for_all(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Every row has the first one's size."""
    rows = _rows(s, d, n)
    _move((source, destination, rows[0][2]) for source, destination, _ in rows)


def byte_past_the_end(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Writes a zero behind each block."""
    for source, destination, size in _rows(s, d, n):
        ctypes.memmove(destination, source, size)
        _poke(destination + size, 0)


def over_read(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Reads one byte behind each block, and writes what it should."""
    for source, destination, size in _rows(s, d, n):
        _peek(source + size)
        ctypes.memmove(destination, source, size)


def under_read(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Reads one byte before each block, and writes what it should."""
    for source, destination, size in _rows(s, d, n):
        _peek(source - 1)
        ctypes.memmove(destination, source, size)


# --- places ----------------------------------------------------------------------------------------------------------


def off_by_one_block(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """From the fourth row on, blocks land one further."""
    rows = _rows(s, d, n)
    _move([*rows[:3], *((source, destination + size, size) for source, destination, size in rows[3:])])


def swapped_direction(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """From destination to source."""
    _move((destination, source, size) for source, destination, size in _rows(s, d, n))


def modifies_source(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Leaves a mark in the first byte of each block it has read."""
    for source, destination, size in _rows(s, d, n):
        ctypes.memmove(destination, source, size)
        _poke(source, 0)


def wrong_stride(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Regular destinations are taken for dense ones: rows' padding is forgotten."""
    rows = _rows(s, d, n)
    steps = {b[1] - a[1] for a, b in pairwise(rows)}
    if len(steps) == 1 and len({size for *_, size in rows}) == 1 and steps.pop() > rows[0][2]:
        rows = [(source, rows[0][1] + i * size, size) for i, (source, _, size) in enumerate(rows)]
    _move(rows)


def source_rounded_down(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A source address is taken for a multiple of eight."""
    _move((source - source % 8, destination, size) for source, destination, size in _rows(s, d, n))


def unsigned_32_bit_offsets(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Source offsets from the lowest address are cut to 32 bits."""
    rows = _rows(s, d, n)
    low = min((source for source, *_ in rows), default=0)
    _move((low + (source - low) % (1 << 32), destination, size) for source, destination, size in rows)


def signed_32_bit_offsets(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Destination offsets from the first address are a C int."""
    rows = _rows(s, d, n)
    _move((a, rows[0][1] + ctypes.c_int32(b - rows[0][1]).value, size) for a, b, size in rows)


# --- batches ---------------------------------------------------------------------------------------------------------


def skipped_last(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """The last row is left out."""
    _move(_rows(s, d, n)[:-1])


def _capped(most: int) -> Callable[..., None]:
    def capped(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        _move(_rows(s, d, n)[:most])

    capped.__doc__ = f"Only the first {most} rows are copied."
    return capped


only_64_rows = _capped(64)
only_1024_rows = _capped(1024)
only_4096_rows = _capped(4096)
only_8192_rows = _capped(8192)


def one_place_a_source(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A source that is named twice is copied once."""
    _move({row[0]: row for row in _rows(s, d, n)}.values())


def merged_by_source(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Neighbours in the source are one copy, wherever they go."""
    _move(_merged(_rows(s, d, n), lambda last, row: last[0] + last[2] == row[0]))


def merged_by_destination(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Neighbours in the destination are one copy, wherever they come from."""
    _move(_merged(_rows(s, d, n), lambda last, row: last[1] + last[2] == row[1]))


def first_and_last_look_consecutive(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A batch is one copy if its last row lies where it would in a run."""
    rows = _rows(s, d, n)
    before = sum(size for *_, size in rows[:-1])
    if rows and all(rows[-1][side] - rows[0][side] == before for side in (0, 1)):
        rows = [(rows[0][0], rows[0][1], before + rows[-1][2])]
    _move(rows)


_previous: list[Row] = []


def stale_descriptors(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """As many rows as in the call before: taken for the same rows."""
    rows = _rows(s, d, n)
    if len(rows) != len(_previous):
        _previous[:] = rows
    _move(_previous)


def _merged(rows: Sequence[Row], follows: Callable[[Row, Row], bool]) -> list[Row]:
    merged: list[Row] = []
    for row in rows:
        if merged and follows(merged[-1], row):
            source, destination, size = merged[-1]
            merged[-1] = (source, destination, size + row[2])
        else:
            merged.append(row)
    return merged


def adds_up_duplicates(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A destination named twice gets a mixture that neither source holds."""
    rows = _rows(s, d, n)
    _move(rows)
    seen: set[int] = set()
    for _, destination, size in rows:
        if destination in seen:
            for at in range(destination, destination + size):
                _poke(at, 0)
        seen.add(destination)


def wrong_from_shared_memory(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Blocks that come from shared memory lose their last byte."""
    rows = _rows(s, d, n)
    shared = _shared_ranges()
    for source, destination, size in rows:
        cut = any(start <= source < end for start, end in shared)
        ctypes.memmove(destination, source, size - cut)


def _shared_ranges() -> list[tuple[int, int]]:
    ranges = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, rights, *_ = line.split()
            if rights.endswith("s") and "/dev/shm" in line:
                start, end = place.split("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges


# --- streams ---------------------------------------------------------------------------------------------------------


class IgnoresStream(Asynchronous):
    """Copies at once, whatever the stream still has to do."""

    name = "ignores the stream"

    def copy(self, s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        _move(_rows(s, d, n))


class EarlyWhenAllowed(Asynchronous):
    """Takes the leave to read the source early for a leave to copy early."""

    name = "early when allowed"

    def copy(self, s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        if is_src_access_order_any:
            _move(_rows(s, d, n))
        else:
            super().copy(s, d, n)


class ReadsDescriptorsLate(Asynchronous):
    """Reads the caller's tensors when the stream gets there."""

    name = "reads descriptors late"

    def copy(self, s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        check(s, d, n)

        def later() -> None:
            time.sleep(1e-3)
            _move(_rows(s, d, n))

        cpu_stream.current().submit(later)


class WritesAfterSynchronise(Asynchronous):
    """Leaves the last block to a thread that nobody waits for."""

    name = "writes after synchronise"

    def copy(self, s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        rows = _rows(s, d, n)
        cpu_stream.current().submit(lambda: _move(rows[:-1]))
        threading.Timer(0.02, _move, (rows[-1:],)).start()


# --- what has to be refused -------------------------------------------------------------------------------------------


def zero_size_is_an_error(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A size of zero raises, as some drivers do."""
    rows = _rows(s, d, n)
    if len(rows) != len(n):
        raise ValueError("CUDA_ERROR_INVALID_VALUE (1): a size is zero")
    _move(rows)


def accepts_negative_sizes(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """A negative size counts as zero."""
    _move(_rows(s, d, n.clamp(min=0) if isinstance(n, torch.Tensor) and n.dtype is torch.int64 else n))


def accepts_null_addresses(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Rows with a null address are skipped."""
    try:
        _move(_rows(s, d, n))
    except ValueError as error:
        if "is null" not in str(error):
            raise


def accepts_float_sizes(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Sizes of any dtype are converted."""
    _move(_rows(s, d, n.to(torch.int64) if isinstance(n, torch.Tensor) else n))


def silent_about_malformed_input(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Malformed descriptors raise an error without a word."""
    try:
        rows = _rows(s, d, n)
    except ValueError:
        raise ValueError from None
    _move(rows)


def checks_while_it_copies(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Each row is checked when its turn comes."""
    if not len(s) == len(d) == len(n):
        check(s, d, n)
    for i in range(len(n)):
        _move(_rows(s[i : i + 1], d[i : i + 1], n[i : i + 1]))


def copies_what_pairs_up(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Where lengths differ, the rows that are whole are copied before the error."""
    try:
        rows = _rows(s, d, n)
    except ValueError as error:
        if "lengths differ" in str(error):
            least = min(len(s), len(d), len(n))
            _move(_rows(s[:least], d[:least], n[:least]))
        raise
    _move(rows)


def undeclared_limit(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
    """Refuses sizes that are no multiple of eight, and has never said so."""
    rows = _rows(s, d, n)
    _refuse_odd(rows, "size {} is not a multiple of 8")
    _move(rows)


def undeclared_maximum(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Refuses more than 1024 rows, and has never said so."""
    rows = _rows(s, d, n)
    if len(rows) > 1024:
        raise RuntimeError(f"{len(rows)} rows, at most 1024")
    _move(rows)


def refuses_without_reason(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Declares its limit, and refuses without a word."""
    rows = _rows(s, d, n)
    _refuse_odd(rows, "")
    _move(rows)


def accepts_what_it_declares_unsupported(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Declares a limit, and copies whole words of what is beyond it."""
    _move((source, destination, size - size % 8) for source, destination, size in _rows(s, d, n))


def writes_before_it_refuses(
    s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """Declares its limit, and looks at each row when its turn comes, after the words it can copy."""
    for source, destination, size in _rows(s, d, n):
        ctypes.memmove(destination, source, size - size % 8)
        _refuse_odd([(source, destination, size)], "size {} is not a multiple of 8")


for _function in (refuses_without_reason, accepts_what_it_declares_unsupported, writes_before_it_refuses):
    _function.kvconform_support = Support(size_multiple=8)  # type: ignore[attr-defined]


def _refuse_odd(rows: Iterable[Row], text: str) -> None:
    for *_, size in rows:
        if size % 8:
            raise Refused(text.format(size))
