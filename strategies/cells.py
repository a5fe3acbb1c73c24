"""Which cells a case lies in: one answer, or several, to each question that coverage asks.

How big is the page, how do the rows lie, what does the order of the ids look like: an axis is a question, a cell is an
answer. Looks at the case alone, never at how it was drawn nor at what the copy did.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from backends.contract import Stream
from strategies.case import Case, Pool, Run, Tensor
from strategies.draw.mappings import NEAR_COUNTS
from strategies.draw.pools import LINES, MANY_IDS
from strategies.footprint import PAGE, Footprint, destination_footprint, source_footprint
from strategies.page_sizes import CHUNK, REAL_BYTES, SELECTION_EDGE
from strategies.request import Offsets, offsets

Cells = tuple[str, ...]

LINE_NAMES = {1 << 31: "2^31", 1 << 32: "2^32", 1 << 40: "2^40"}
NEAR_LINE = 1 << 20  # bytes: how far from a line a block still counts as beside it
FOUR_GIB = 1 << 32
PAGE_CLASSES = (
    (1, 1),
    (2, 7),
    (8, 15),
    (16, 511),
    (512, 4095),
    (4096, 4096),
    (4097, CHUNK - 2),
    (CHUNK - 1, CHUNK - 1),
    (CHUNK, CHUNK),
    (CHUNK + 1, CHUNK + 1),
    (CHUNK + 2, 2 * CHUNK - 2),
    (2 * CHUNK - 1, 2 * CHUNK - 1),
    (2 * CHUNK, 2 * CHUNK),
    (2 * CHUNK + 1, 2 * CHUNK + 1),
    (2 * CHUNK + 2, SELECTION_EDGE - 2),
    (SELECTION_EDGE - 1, SELECTION_EDGE - 1),
    (SELECTION_EDGE, SELECTION_EDGE),
    (SELECTION_EDGE + 1, SELECTION_EDGE + 1),
    (SELECTION_EDGE + 2, 65_535),
    (65_536, 262_143),
    (262_144, 1_048_575),
    (1_048_576, 1_048_576),
)
POWERS = range(3, 21)
EDGE_COUNTS = tuple(near + step for near in NEAR_COUNTS for step in (-1, 0, 1))
MANY_PLACES = 64  # a comparison of the first 64 destination blocks sees nothing behind them


def values(case: Case) -> dict[str, Cells]:
    """The cells of `case` on every axis, by the axis' name. An axis that doesn't apply to the case has no cell."""
    return cells_of(case, source_footprint(case), destination_footprint(case))


def cells_of(case: Case, source: Footprint, destination: Footprint) -> dict[str, Cells]:
    """`values`, for who has the footprints already."""
    submission = case.submission
    found: dict[str, Cells] = {
        "kind": (_kind(case),),
        "direction": (case.direction.value,),
        "source memory": (case.source_memory.value,),
        "destination memory": (case.destination_memory.value,),
        "stream": (submission.stream.value,),
        "source fence": (case.source_fence.value,),
        "destination fence": (case.destination_fence.value,),
        "descriptors": (count_cell(case.descriptors),),
        "groups": _groups(case),
        "calls": (str(submission.calls),),
        "zero entries": _zeros(case),
        "order any": (_yes(submission.order_any),),
        "late source": (_yes(submission.late_source),),
        "late destination": (_yes(submission.late_destination),),
        "reuse descriptors": (_yes(submission.reuse_descriptors),),
    }
    gathered: dict[str, set[str]] = {}
    for tensor, source_base, destination_base in zip(case.tensors, source.bases, destination.bases, strict=True):
        _tensor_cells(gathered, tensor, source_base, destination_base)
    found.update((name, tuple(sorted(cells))) for name, cells in gathered.items())
    found["blind spot"] = _blind_spots(case)
    return found


def _kind(case: Case) -> str:
    if case.submission.malformed:
        return "malformed"
    if case.undefined:
        return "undefined"
    return "round trip" if case.round_trip else "copy"


def _groups(case: Case) -> Cells:
    cells = ["one" if len(case.tensors) == 1 else "two" if len(case.tensors) == 2 else "three or more"]
    if len({tensor.page_bytes for tensor in case.tensors}) > 1:
        cells.append("unequal pages")
    if len(case.tensors) > 1 and not all(tensor.sources for tensor in case.tensors):
        cells.append("an empty group")
    return tuple(cells)


def _zeros(case: Case) -> Cells:
    entries = case.submission.zero_entries
    if not entries:
        return ("none",)
    last = case.descriptors - len(entries)
    where = {"first" if at == 0 else "last" if at >= last else "middle" for at in entries}
    return tuple(sorted(where))


def count_cell(count: int) -> str:
    """The cell of a number of descriptors: itself at the edges, else the range between two edges."""
    if count in EDGE_COUNTS:
        return str(count)
    below = max((edge for edge in EDGE_COUNTS if edge < count), default=0)
    above = min((edge for edge in EDGE_COUNTS if edge > count), default=0)
    return f"{below + 1}-{above - 1}" if above else f"over {below}"


def page_cell(page_bytes: int) -> str:
    """The cell of a page's size."""
    for low, high in PAGE_CLASSES:
        if low <= page_bytes <= high:
            return str(low) if low == high else f"{low}-{high}"
    return f"over {PAGE_CLASSES[-1][1]}"


def _tensor_cells(gathered: dict[str, set[str]], tensor: Tensor, source_base: int, destination_base: int) -> None:
    def add(axis: str, *cells: str) -> None:
        gathered.setdefault(axis, set()).update(cells)

    add("mapping", *mapping_cells(tensor))
    if not tensor.sources:
        return
    runs = tensor.runs or (Run(0, 0, tensor.page_bytes),)
    add("page bytes", page_cell(tensor.page_bytes))
    add("page of", "a real model" if tensor.page_bytes in REAL_BYTES else "no model")
    add("power of two", *_power_cells(tensor.page_bytes))
    add("size residue", *(str(run.nbytes % 16) for run in runs))
    add("pieces", *_piece_cells(tensor.runs))
    for side, pool, listed, base in (
        ("source", tensor.source, tensor.sources, source_base),
        ("destination", tensor.destination, tensor.destinations, destination_base),
    ):
        ids = np.asarray(listed, dtype=np.int64)
        at = offsets(pool, ids)
        starts = {start for run in runs for start in _starts(run, side)}
        need = max(tensor.page_bytes, *(_end(run, side) for run in runs))
        add(f"{side} residue", *_residues(at + base, starts))
        add(f"{side} rows", _rows_cell(pool, need))
        add(f"{side} offset", *_offset_cells(at, need))
        add(f"{side} ids", *_id_cells(ids, pool))
        if base + int(at.max()) + need > FOUR_GIB:
            first = at + base
            across = ((first < FOUR_GIB) & (first + need > FOUR_GIB)).any()
            add(f"{side} address", "a block across 4 GiB" if across else "beyond 4 GiB")
        else:
            add(f"{side} address", "below 4 GiB")
        add(f"{side} chunk", str(pool.per_chunk))
        if pool.per_chunk > 1:
            sub = ids % pool.per_chunk
            add(f"{side} first in chunk", f"{sub[0]} of {pool.per_chunk}")
            add(f"{side} last in chunk", f"{sub[-1]} of {pool.per_chunk}")
            if len(ids) > 1:
                same = ids[1:] // pool.per_chunk == ids[:-1] // pool.per_chunk
                add(f"{side} holes in a chunk", _yes(bool((same & (np.diff(ids) > 1)).any())))


def _starts(run: Run, side: str) -> Iterable[int]:
    """Where the pieces of a run begin in a block; sixteen show every residue of 16."""
    first, step = getattr(run, side), getattr(run, f"{side}_step")
    return (first + i * step for i in range(min(run.count, 16)))


def _end(run: Run, side: str) -> int:
    end: int = getattr(run, side) + (run.count - 1) * getattr(run, f"{side}_step") + run.nbytes
    return end


def _power_cells(page_bytes: int) -> Cells:
    cells = []
    for step, name in ((1, "-1"), (0, ""), (-1, "+1")):
        power = page_bytes + step
        if power & (power - 1) == 0 and power.bit_length() - 1 in POWERS:
            cells.append(f"2^{power.bit_length() - 1}{name}")
    return tuple(cells) or ("beside none",)


def _piece_cells(runs: tuple[Run, ...]) -> Iterable[str]:
    if not runs:
        yield "whole page"
        return
    if len(runs) > 1:
        yield "several runs"
    pieces = sum(run.count for run in runs)
    yield {1: "one", 2: "two"}.get(pieces, "three to fifteen" if pieces < 16 else "sixteen or more")
    for run in runs:
        if run.count == 1:
            yield "part of a page"
        else:
            strided = [
                name
                for name, step in (("source", run.source_step), ("destination", run.destination_step))
                if step > run.nbytes
            ]
            yield f"strided {' and '.join(strided)}" if strided else "kernel blocks"


def _residues(addresses: Offsets, starts: set[int]) -> Cells:
    rows = np.flatnonzero(np.bincount(addresses & 15, minlength=16)).tolist()
    return tuple(str(residue) for residue in {(row + start) % 16 for row in rows for start in starts})


def _rows_cell(pool: Pool, need: int) -> str:
    chunk = pool.chunk_stride or pool.per_chunk * pool.stride
    steps = [chunk] if pool.per_chunk == 1 else [pool.stride, chunk]
    if steps[0] == need and chunk == pool.per_chunk * need:
        return "equal"
    return "page-aligned" if steps[-1] % PAGE == 0 else "padded"


def _offset_cells(at: Offsets, need: int) -> Cells:
    if int(at.max()) + need <= LINES[0] - NEAR_LINE:
        return ("low",)
    cells = []
    near = max(NEAR_LINE, 2 * need)
    for line in LINES:
        if ((at < line) & (at + need > line)).any():
            cells.append(f"across {LINE_NAMES[line]}")
        if ((at + need <= line) & (at + need > line - near)).any():
            cells.append(f"below {LINE_NAMES[line]}")
        if ((at >= line) & (at < line + near)).any():
            cells.append(f"above {LINE_NAMES[line]}")
    return tuple(cells) or ("high, beside no line",)


def _id_cells(ids: Offsets, pool: Pool) -> Iterable[str]:
    yield "above 2^31" if int(ids.max()) >= MANY_IDS else "below 2^31"
    if pool.blocks > 1:
        touched = {int(ids.min()), int(ids.max())}
        if touched == {0, pool.blocks - 1}:
            yield "both ends of the pool"
    unique = len(np.unique(ids))
    if unique < len(ids):
        yield "repeated"
    if int(ids.max()) - int(ids.min()) + 1 > unique:
        yield "gaps"


def mapping_cells(tensor: Tensor) -> Cells:
    """What the order of a tensor's ids looks like to somebody who merges consecutive blocks."""
    count = len(tensor.sources)
    if count < 2:
        return (("empty", "single")[count],)
    sides = np.asarray(tensor.sources, dtype=np.int64), np.asarray(tensor.destinations, dtype=np.int64)
    steps = [np.diff(ids) for ids in sides]
    up = [bool((step == 1).all()) for step in steps]
    down = [bool((step == -1).all()) for step in steps]
    if all(up):
        return ("identity" if tensor.sources[0] == tensor.destinations[0] else "shifted run",)
    if (up[0] and down[1]) or (down[0] and up[1]):
        return ("reversed",)
    cells = []
    if any(not is_up and ids[-1] - ids[0] == count - 1 for is_up, ids in zip(up, sides, strict=True)):
        cells.append("false run")
    if count >= 5 and all(is_up or _near_run(ids) for is_up, ids in zip(up, sides, strict=True)):
        cells.append("near run")
    if any(up):
        cells.append("source run" if up[0] else "destination run")
    elif 2 * int(((steps[0] == 1) & (steps[1] == 1)).sum()) >= count - 1:
        cells.append("runs")
    elif "near run" not in cells:
        cells.append("same slots, scattered" if tensor.sources == tensor.destinations else "scattered")
    return tuple(cells)


def _near_run(ids: Offsets) -> bool:
    """All ids but one or two are where a run would have them."""
    start = ids - np.arange(len(ids))
    return int((start == np.median(start)).sum()) >= len(ids) - 2


def _blind_spots(case: Case) -> Cells:
    """Coincidences that hid faults from other test suites, and that this case doesn't share."""
    pages = [tensor for tensor in case.tensors if tensor.sources]
    sizes = [tensor.page_bytes for tensor in pages]
    spots = {
        "a page over 8 KiB that is no multiple of it": any(page > CHUNK and page % CHUNK for page in sizes),
        "more than two heads": any(run.count > 2 for t in pages for run in t.runs),
        "one head": any(run.count == 1 for t in pages for run in t.runs),
        "memory of the host": not (case.source_memory.on_device and case.destination_memory.on_device),
        "sixteen descriptors": case.descriptors >= 16,
        "a destination behind the first 64": any(max(t.destinations) >= MANY_PLACES for t in pages),
        "a source that is not block 0": any(max(t.sources) > 0 for t in pages),
        "places unlike sources": any(t.sources != t.destinations for t in pages),
        "a stream of its own": case.submission.stream is not Stream.DEFAULT,
    }
    return tuple(name for name, avoided in spots.items() if avoided)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
