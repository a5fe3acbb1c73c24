"""The axes of coverage, and which cells of each a run on a scope may not leave empty.

What is required is worked out from the scope alone, independently of the strategies and of the list of must-have cases,
so that a cell which nobody draws is noticed. Which cells a case lies in is told by `cells`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backends.contract import Direction, Memory, Stream
from strategies.case import Fence
from strategies.cells import EDGE_COUNTS, LINE_NAMES, MANY_PLACES, PAGE_CLASSES, POWERS, Cells, page_cell
from strategies.draw.pools import LINES, MANY_IDS, MOST_SPAN, PER_CHUNK
from strategies.footprint import PAGE
from strategies.page_sizes import CHUNK, real
from strategies.scope import Scope


@dataclass(frozen=True)
class Axis:
    """One question about a case. `required` lists the cells that a run on a scope may not leave empty."""

    name: str
    required: Callable[[Scope], Cells]


def _chunks(scope: Scope) -> bool:
    return not scope.support.uniform_dense and scope.most_descriptors >= 2 * max(PER_CHUNK)


def _pieces(scope: Scope) -> bool:
    return not scope.support.uniform_dense and scope.most_descriptors >= 2 and scope.unit <= scope.most_bytes


def _fences(scope: Scope, kinds: set[Memory]) -> Cells:
    if not kinds & scope.fenceable:
        return ("none",)
    behind = scope.unit <= scope.most_bytes  # a fence behind a block sets the block's address by its size
    return tuple(fence.value for fence in Fence if behind or fence is not Fence.AFTER)


def _source_kinds(scope: Scope) -> set[Memory]:
    return {source for _, source, _ in scope.routes}


def _destination_kinds(scope: Scope) -> set[Memory]:
    return {destination for _, _, destination in scope.routes}


def _page_cells(scope: Scope) -> Cells:
    multiple, most = scope.page_multiple, scope.most_bytes
    found = [(low, high) for low, high in PAGE_CLASSES if min(high, most) // multiple * multiple >= low]
    return tuple(page_cell(low) for low, _ in found)


def _powers(scope: Scope) -> Cells:
    return tuple(
        f"2^{power}{name}"
        for power in POWERS
        for step, name in ((-1, "-1"), (0, ""), (1, "+1"))
        if (1 << power) + step <= scope.most_bytes and ((1 << power) + step) % scope.page_multiple == 0
    )


def _reachable_residues(multiple: int, most: int) -> Cells:
    return tuple(str(r) for r in sorted({k * multiple % 16 for k in range(1, min(16, most // multiple) + 1)}))


def _rows(scope: Scope) -> Cells:
    if scope.support.uniform_dense:
        return ("equal",)
    equal = ("equal",) if scope.unit <= scope.most_bytes else ()
    return (*equal, *(() if scope.address_multiple >= PAGE else ("padded",)), "page-aligned")


def _mapping_cells(scope: Scope) -> Cells:
    least = {
        "empty": 0,
        "single": 1,
        "identity": 2,
        "reversed": 2,
        "source run": 3,
        "destination run": 3,
        "false run": 4,
        "scattered": 4,
        "same slots, scattered": 4,
        "near run": 6,
        "runs": 8,
    }
    return tuple(name for name, count in least.items() if count <= scope.most_descriptors)


def _far(scope: Scope, kinds: set[Memory]) -> bool:
    return bool(kinds & scope.sparse) and 3 * scope.unit <= scope.most_bytes


def _offsets(scope: Scope, kinds: set[Memory]) -> Cells:
    beside = [f"{where} {LINE_NAMES[line]}" for line in LINES for where in ("below", "across", "above")]
    return ("low", *(beside if _far(scope, kinds) and scope.most_descriptors >= 3 else ()))


def _addresses(scope: Scope, kinds: set[Memory]) -> Cells:
    far = ("a block across 4 GiB", "beyond 4 GiB") if _far(scope, kinds) else ()
    return ("below 4 GiB", *far)


def _ids(scope: Scope, kinds: set[Memory], repeated: bool) -> Cells:
    cells = ["below 2^31"]
    if scope.most_descriptors >= 3:
        cells += ["both ends of the pool", "gaps"]
        cells += ["repeated"] if repeated else []
    if _far(scope, kinds) and scope.unit * (MANY_IDS + 4) <= MOST_SPAN:
        cells.append("above 2^31")
    return tuple(cells)


def _in_chunk(scope: Scope) -> Cells:
    if not _chunks(scope):
        return ()
    return tuple(f"{sub} of {per_chunk}" for per_chunk in PER_CHUNK[1:] for sub in range(per_chunk))


def _piece_names(scope: Scope) -> Cells:
    if not _pieces(scope):
        return ("whole page",)
    many = ("three to fifteen", "sixteen or more") if scope.most_descriptors >= 16 else ()
    strided = ("kernel blocks", "strided source", "strided destination", "strided source and destination")
    parts = ("part of a page", "one", "two") if 2 * scope.unit <= scope.most_bytes else ()
    return ("whole page", "several runs", *strided, *parts, *many)


def _group_cells(scope: Scope) -> Cells:
    if scope.support.uniform_dense:
        return ("one",)
    unequal = ("unequal pages",) if 2 * scope.size_multiple <= scope.most_bytes else ()
    return ("one", "two", "three or more", "an empty group", *unequal)


def _counts(scope: Scope) -> Cells:
    return tuple(str(count) for count in EDGE_COUNTS if count <= scope.most_blocks)


def _zero_cells(scope: Scope) -> Cells:
    support = scope.support
    some = support.zero_sizes and not support.uniform_dense and scope.most_descriptors >= 3
    return ("none", *(("first", "middle", "last") if some else ()))


def _late(scope: Scope, kinds: set[Memory]) -> Cells:
    some = scope.support.stream_order and kinds & scope.late
    return ("no", "yes") if some else ("no",)


def _spots(scope: Scope) -> Cells:
    host = any(Memory.DEVICE not in (source, destination) for _, source, destination in scope.routes) or any(
        way is not Direction.DEVICE_TO_DEVICE for way in scope.directions
    )
    multiple = scope.page_multiple
    odd_page = multiple % CHUNK != 0 and CHUNK // multiple * multiple + multiple <= scope.most_bytes
    spots = {
        "a page over 8 KiB that is no multiple of it": odd_page,
        "more than two heads": _pieces(scope) and scope.most_descriptors >= 3,
        "one head": _pieces(scope) and 2 * scope.unit <= scope.most_bytes,
        "memory of the host": host,
        "sixteen descriptors": scope.most_blocks >= 16,
        "a destination behind the first 64": scope.most_blocks > MANY_PLACES,
        "a source that is not block 0": scope.most_blocks >= 2,
        "places unlike sources": scope.most_blocks >= 2,
        "a stream of its own": scope.stream_kinds != (Stream.DEFAULT,),
    }
    return tuple(name for name, reachable in spots.items() if reachable)


AXES: tuple[Axis, ...] = (
    Axis("kind", lambda scope: ("copy",)),
    Axis("direction", lambda scope: tuple(way.value for way in scope.directions)),
    Axis("source memory", lambda scope: tuple(kind.value for kind in Memory if kind in _source_kinds(scope))),
    Axis("destination memory", lambda scope: tuple(kind.value for kind in Memory if kind in _destination_kinds(scope))),
    Axis("stream", lambda scope: tuple(kind.value for kind in scope.stream_kinds)),
    Axis("source fence", lambda scope: _fences(scope, _source_kinds(scope))),
    Axis("destination fence", lambda scope: _fences(scope, _destination_kinds(scope))),
    Axis("page bytes", _page_cells),
    Axis("page of", lambda scope: ("a real model",) if real(scope.most_bytes, scope.page_multiple) else ()),
    Axis("power of two", _powers),
    Axis("size residue", lambda scope: _reachable_residues(scope.page_multiple, scope.most_bytes)),
    Axis("source residue", lambda scope: _reachable_residues(scope.address_multiple, PAGE * 16)),
    Axis("destination residue", lambda scope: _reachable_residues(scope.address_multiple, PAGE * 16)),
    Axis("source rows", _rows),
    Axis("destination rows", _rows),
    Axis("groups", _group_cells),
    Axis("mapping", _mapping_cells),
    Axis("descriptors", _counts),
    Axis("source ids", lambda scope: _ids(scope, _source_kinds(scope), repeated=True)),
    Axis("destination ids", lambda scope: _ids(scope, _destination_kinds(scope), repeated=False)),
    Axis("source offset", lambda scope: _offsets(scope, _source_kinds(scope))),
    Axis("destination offset", lambda scope: _offsets(scope, _destination_kinds(scope))),
    Axis("source address", lambda scope: _addresses(scope, _source_kinds(scope))),
    Axis("destination address", lambda scope: _addresses(scope, _destination_kinds(scope))),
    Axis("source chunk", lambda scope: tuple(map(str, PER_CHUNK)) if _chunks(scope) else ("1",)),
    Axis("destination chunk", lambda scope: tuple(map(str, PER_CHUNK)) if _chunks(scope) else ("1",)),
    Axis("source first in chunk", _in_chunk),
    Axis("source last in chunk", _in_chunk),
    Axis("destination first in chunk", _in_chunk),
    Axis("destination last in chunk", _in_chunk),
    Axis("source holes in a chunk", lambda scope: ("no", "yes") if _chunks(scope) else ()),
    Axis("destination holes in a chunk", lambda scope: ("no", "yes") if _chunks(scope) else ()),
    Axis("pieces", _piece_names),
    Axis("calls", lambda scope: ("1", "2", "3")),
    Axis("zero entries", _zero_cells),
    Axis("order any", lambda scope: ("no", "yes")),
    Axis("late source", lambda scope: _late(scope, _source_kinds(scope))),
    Axis("late destination", lambda scope: _late(scope, _destination_kinds(scope))),
    Axis("reuse descriptors", lambda scope: ("no", "yes") if scope.support.reuse_descriptors else ("no",)),
    Axis("blind spot", _spots),
)
PAIRS: tuple[tuple[str, str], ...] = (
    ("source memory", "destination memory"),
    ("direction", "stream"),
    ("direction", "page bytes"),
    ("direction", "mapping"),
    ("mapping", "descriptors"),
    ("mapping", "source rows"),
    ("source rows", "destination rows"),
    ("source residue", "destination residue"),
    ("size residue", "destination residue"),
    ("source fence", "page bytes"),
    ("destination fence", "page bytes"),
    ("late source", "source memory"),
    ("late destination", "destination memory"),
    ("late destination", "order any"),
    ("calls", "zero entries"),
)


def required(scope: Scope) -> dict[str, Cells]:
    """The cells that a run on this scope may not leave empty, by axis."""
    return {axis.name: axis.required(scope) for axis in AXES}
