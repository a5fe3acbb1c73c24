"""The cases that every run tries, whatever is drawn: each value of each axis on purpose, by a name to speak of.

A list of plain loops: no Hypothesis, and no chance beyond fixed seeds. What a scope excludes is left out. Among them
are the coincidences that kept other suites blind: a chunk as large as the block, exactly two heads, both sides on the
device, fewer than 16 descriptors, only the first 64 places looked at, block 0 to place 0, only the default stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import NamedTuple

from backends.contract import Direction, Memory
from strategies.case import Case, Fence, Pool, Submission, Tensor
from strategies.draw import layouts, mappings
from strategies.draw.layouts import Layout, whole
from strategies.draw.pools import (
    LINES,
    MANY_IDS,
    MOST_SPAN,
    PER_CHUNK,
    Far,
    across_address,
    aligned,
    around_id,
    round_up,
)
from strategies.page_sizes import CHUNK, SELECTION_EDGE, edges, real
from strategies.request import ask
from strategies.scope import Route, Scope

Named = tuple[str, Case]
Ids = tuple[int, ...]

SOME = 5  # blocks of a case whose subject is something else
SHUFFLED: tuple[Ids, Ids] = ((3, 1, 6, 2, 4), (5, 0, 3, 6, 1))
PLACES = ("first-byte-below", "half-below", "all-but-one-below", "ends-at", "begins-at")  # of `across_address`
LINE_NAMES = dict(zip(LINES, ("2-gib", "4-gib", "1-tib"), strict=True))


class _Side(NamedTuple):
    """How the rows of one side lie, in multiples of what the scope needs."""

    padding: int = 0  # multiples of the address multiple behind each block
    page_aligned: bool = False
    origin: int = 0  # multiples of the address multiple before block 0
    per_chunk: int = 1
    chunk_padding: int = 0


PLAIN = _Side()


def must_have(scope: Scope) -> list[Named]:
    """(id, case) pairs in a fixed order; ids are unique. Raises ScopeError where nothing may be copied at all."""
    return list(_must_have(scope))


@lru_cache(maxsize=16)
def _must_have(scope: Scope) -> tuple[Named, ...]:
    sections = (
        _routes,
        _streams,
        _counts,
        _mappings,
        _page_sizes,
        _residues,
        _rows,
        _groups,
        _chunks,
        _fragments,
        _fences,
        _far,
        _submissions,
        _totals,
    )
    named = (each for section in sections for each in section(scope))
    return tuple((name, case) for name, case in named if scope.why_not(ask(case)) is None)


def _page(scope: Scope, about: int) -> int:
    """The allowed size next to `about` bytes, from below where there is one."""
    multiple = scope.page_multiple
    return max(multiple, min(about, scope.most_bytes) // multiple * multiple)


def _pool(scope: Scope, need: int, blocks: int, side: _Side) -> Pool:
    multiple = scope.address_multiple
    stride = aligned(need) if side.page_aligned else round_up(need, multiple) + side.padding * multiple
    chunk = side.per_chunk * stride + side.chunk_padding * multiple if side.per_chunk > 1 else 0
    return Pool(round_up(blocks, side.per_chunk), stride, side.per_chunk, chunk, side.origin * multiple)


def _tensor(
    scope: Scope,
    layout: Layout,
    ids: tuple[Ids, Ids] = SHUFFLED,
    source: _Side = PLAIN,
    destination: _Side = PLAIN,
    spare: int = 1,
) -> Tensor:
    blocks = [max(each, default=0) + 1 + spare for each in ids]
    return Tensor(
        layout.page_bytes,
        _pool(scope, layout.source, blocks[0], source),
        _pool(scope, layout.destination, blocks[1], destination),
        ids[0],
        ids[1],
        layout.runs,
    )


def _case(scope: Scope, *tensors: Tensor, route: Route | None = None, submission: Submission | None = None) -> Case:
    """A case on the plainest route and stream unless told otherwise."""
    direction, source, destination = route or scope.routes[0]
    return Case(direction, source, destination, tensors, submission or Submission(scope.stream_kinds[0]))


def _few(scope: Scope) -> tuple[Ids, Ids]:
    """Five shuffled blocks, or as many as may be."""
    most = min(SOME, scope.most_descriptors)
    return SHUFFLED[0][:most], SHUFFLED[1][:most]


def _usual(scope: Scope, about: int = 200) -> Tensor:
    return _tensor(scope, whole(_page(scope, about)), _few(scope))


def _ways(scope: Scope) -> list[Route]:
    """The plainest route of each direction."""
    return [next(route for route in scope.routes if route[0] is way) for way in scope.directions]


def _loads_and_stores(scope: Scope) -> list[Route]:
    ways = [route for route in _ways(scope) if route[0] in (Direction.LOAD, Direction.STORE)]
    return ways or _ways(scope)[:1]


def _routes(scope: Scope) -> Iterator[Named]:
    for route in scope.routes:
        yield f"route-{route[0].value}-{route[1].value}-to-{route[2].value}", _case(scope, _usual(scope), route=route)


def _streams(scope: Scope) -> Iterator[Named]:
    for stream in scope.stream_kinds:
        for route in _ways(scope):
            case = _case(scope, _usual(scope), route=route, submission=Submission(stream))
            yield f"stream-{stream.value}-{route[0].value}", case


def _fences(scope: Scope) -> Iterator[Named]:
    """An over-read of one byte is a fault: each kind that can end at an unmapped page, on each side and end."""
    tensor = _tensor(scope, whole(_page(scope, 13 * scope.unit)), _few(scope), spare=0)
    seen: set[tuple[str, Memory]] = set()
    for route in scope.routes:
        for side, memory in (("source", route[1]), ("destination", route[2])):
            if memory not in scope.fenceable or (side, memory) in seen:
                continue
            seen.add((side, memory))
            for fence in (Fence.AFTER, Fence.BEFORE):
                case = _case(scope, tensor, route=route)
                at_source, at_destination = (fence, Fence.NONE) if side == "source" else (Fence.NONE, fence)
                case = replace(case, source_fence=at_source, destination_fence=at_destination)
                yield f"fence-{fence.value}-{side}-{memory.value}", case


def _submissions(scope: Scope) -> Iterator[Named]:
    usual = _usual(scope)
    last = len(usual.sources)
    plain = Submission(scope.stream_kinds[0])
    for route in _loads_and_stores(scope):
        way = route[0].value
        ways = {
            "calls-2": replace(plain, calls=2),
            "calls-3": replace(plain, calls=3),
            "order-any": replace(plain, order_any=True),
        }
        if scope.support.zero_sizes:
            ways["zero-first"] = replace(plain, zero_entries=(0,))
            ways["zero-middle"] = replace(plain, zero_entries=(last // 2,))
            ways["zero-last"] = replace(plain, zero_entries=(last,))
            ways["zeros-everywhere"] = replace(plain, zero_entries=tuple(range(last + 1)))
            ways["zeros-in-3-calls"] = replace(plain, zero_entries=(0, last), calls=3)
        if scope.support.reuse_descriptors:
            ways["reuse-descriptors"] = replace(plain, reuse_descriptors=True)
            ways["reuse-descriptors-in-3-calls"] = replace(plain, reuse_descriptors=True, calls=3)
        for name, submission in ways.items():
            yield f"submit-{name}-{way}", _case(scope, usual, route=route, submission=submission)
    if scope.support.zero_sizes:
        nothing = _tensor(scope, whole(_page(scope, 200)), ((), ()))
        yield "submit-only-zeros", _case(scope, nothing, submission=replace(plain, zero_entries=(0, 0)))
    if scope.support.stream_order:
        yield from _late(scope, usual, plain)


def _late(scope: Scope, usual: Tensor, plain: Submission) -> Iterator[Named]:
    """Every kind of memory that can be written late, as the source and as the destination of every direction."""
    seen: set[tuple[Direction, Memory, bool]] = set()
    for route in scope.routes:
        direction, source, destination = route
        if source in scope.late and (direction, source, True) not in seen:
            seen.add((direction, source, True))
            for calls in (1, 2):
                late = replace(plain, late_source=True, calls=calls)
                case = _case(scope, usual, route=route, submission=late)
                yield f"submit-late-{direction.value}-{source.value}-calls-{calls}", case
        if destination in scope.late and (direction, destination, False) not in seen:
            seen.add((direction, destination, False))
            for name, order_any in (("", False), ("-order-any", True)):
                late = replace(plain, late_destination=True, order_any=order_any)
                case = _case(scope, usual, route=route, submission=late)
                yield f"submit-late-destination-{direction.value}-{destination.value}{name}", case


def _counts(scope: Scope) -> Iterator[Named]:
    """Around every threshold, as a permutation of small blocks, with a pool a little larger than the mapping."""
    for near in mappings.NEAR_COUNTS:
        for count in (near - 1, near, near + 1):
            if count > scope.most_blocks:
                continue
            about = 64 if count <= 1025 else 8 if count <= 8193 else 1
            ids = mappings.permutation(count, count + 3, count + 3, Random(count))
            tensor = _tensor(scope, whole(_page(scope, about)), (tuple(ids[0]), tuple(ids[1])), spare=0)
            ways = _loads_and_stores(scope) if count <= 1025 else [scope.routes[0]]
            for route in ways:
                yield f"count-{count}-{route[0].value}", _case(scope, tensor, route=route)


def _mappings(scope: Scope) -> Iterator[Named]:
    named: dict[str, tuple[Ids, Ids]] = {
        "identity": ((0, 1, 2), (0, 1, 2)),
        "shifted-run": ((0, 1, 2), (2, 3, 4)),
        "reversed": ((0, 1, 2), (2, 1, 0)),
        "source-run": ((1, 2, 3), (3, 0, 5)),
        "destination-run": ((3, 0, 5), (1, 2, 3)),
        "false-run-source": ((0, 2, 1, 3), (0, 1, 2, 3)),
        "false-run-destination": ((0, 1, 2, 3), (4, 6, 5, 7)),
        "near-run-source": ((0, 1, 2, 7, 4, 5), (0, 1, 2, 3, 4, 5)),
        "near-run-destination": ((0, 1, 2, 3, 4, 5), (1, 2, 3, 0, 5, 6)),
        "same-slots": ((3, 0, 5, 1), (3, 0, 5, 1)),
        "chain": ((0, 1, 2, 3), (1, 2, 3, 4)),
        "swap": ((0, 1), (1, 0)),
        "repeated-source": ((2, 2, 2), (0, 1, 2)),
        "holes": ((0, 2, 4, 6), (1, 3, 5, 7)),
        "scattered": ((4, 0, 7, 2), (1, 6, 3, 5)),
        "runs": ((4, 5, 6, 7, 0, 1, 2, 3), (0, 1, 2, 3, 8, 9, 10, 11)),
        "last-to-first": ((6,), (0,)),
        "first-to-last": ((0,), (6,)),
    }
    for name, ids in named.items():
        for route in _loads_and_stores(scope):
            tensor = _tensor(scope, whole(_page(scope, 200)), ids, spare=0)
            yield f"mapping-{name}-{route[0].value}", _case(scope, tensor, route=route)
    for count in (17, 100):
        for pattern in mappings.PATTERNS:
            left, right = pattern(count, 2 * count, 2 * count, Random(count))
            tensor = _tensor(scope, whole(_page(scope, 64)), (tuple(left), tuple(right)), spare=0)
            yield f"mapping-{pattern.__name__.replace('_', '-')}-of-{count}", _case(scope, tensor)


def _page_sizes(scope: Scope) -> Iterator[Named]:
    """Every edge and every real size, loads and stores: three blocks, or two where they are large."""
    sizes = dict.fromkeys(edges(scope.most_bytes, scope.page_multiple), "edge")
    sizes.update(dict.fromkeys(real(scope.most_bytes, scope.page_multiple), "real"))
    for size in (40, 4000, 5000, 12_000, 20_000, 27_000, 30_000, 40_000, 100_000, 300_000):
        sizes.setdefault(_page(scope, size), "between")
    for size, why in sorted(sizes.items()):
        ids: tuple[Ids, Ids] = ((0, 2, 1), (3, 1, 0)) if size <= SELECTION_EDGE + CHUNK else ((1, 0), (0, 1))
        most = scope.most_descriptors
        tensor = _tensor(scope, whole(size), (ids[0][:most], ids[1][:most]), spare=0)
        for route in _loads_and_stores(scope):
            yield f"page-{size}-{why}-{route[0].value}", _case(scope, tensor, route=route)


def _totals(scope: Scope) -> Iterator[Named]:
    """More bytes in one batch than drawn cases and corpora have: a few large pages, and many smaller ones."""
    for about, total in ((1 << 20, 6 << 20), (24 << 10, 5 << 20)):
        page = _page(scope, about)
        count = total // page
        if total > scope.budget_bytes * 3 // 4 or page < about // 2 or count > scope.most_blocks:
            continue
        ids = tuple(range(count))
        tensor = _tensor(scope, whole(page), (ids[::-1], ids), spare=0)
        for route in _loads_and_stores(scope):
            yield f"total-{total >> 20}-mib-{route[0].value}", _case(scope, tensor, route=route)


def _residues(scope: Scope) -> Iterator[Named]:
    """All residues of 16: of the size, of the source, of the destination, alone and together."""
    ids = _few(scope)
    aligned_page = whole(_page(scope, 16 * scope.unit))
    for k in range(1, 16):
        sides = {"source": (_Side(origin=k), PLAIN), "destination": (PLAIN, _Side(origin=k))}
        sides["both"] = (_Side(origin=k), _Side(origin=k))
        for name, (source, destination) in sides.items():
            yield f"address-{k}-{name}", _case(scope, _tensor(scope, aligned_page, ids, source, destination))
    sizes = [(16 + k) * scope.page_multiple for k in range(16)]
    if sizes[-1] > scope.most_bytes:
        sizes = [k * scope.page_multiple for k in range(1, min(16, scope.most_bytes // scope.page_multiple) + 1)]
    for k, size in enumerate(sizes):
        at, to = 5 * k % 16, 11 * k % 16
        page = whole(size)
        yield f"size-{size}-alone", _case(scope, _tensor(scope, page, (ids[0][:1], ids[1][:1])))
        mixed = _tensor(scope, page, ids, _Side(origin=at), _Side(origin=to))
        yield f"size-{size}-at-{at}-to-{to}", _case(scope, mixed)


def _rows(scope: Scope) -> Iterator[Named]:
    """Rows equal, padded and page-aligned, on either side; real models' padding among them."""
    kinds = {"equal": PLAIN, "padded": _Side(padding=3), "page-aligned": _Side(page_aligned=True)}
    for page in dict.fromkeys(_page(scope, min(about * scope.unit, SELECTION_EDGE)) for about in (25, 512)):
        for source_name, source in kinds.items():
            for destination_name, destination in kinds.items():
                tensor = _tensor(scope, whole(page), _few(scope), source, destination)
                yield f"rows-{page}-{source_name}-to-{destination_name}", _case(scope, tensor)
    for page, row in ((37_376, 37_440), (1_168, 1_728), (264, 576), (38_912, 40_960)):
        if page % scope.page_multiple or row % scope.address_multiple or page > scope.most_bytes:
            continue
        padded = _Side(padding=(row - round_up(page, scope.address_multiple)) // scope.address_multiple)
        yield f"rows-{page}-in-{row}", _case(scope, _tensor(scope, whole(page), _few(scope), padded, padded))


def _groups(scope: Scope) -> Iterator[Named]:
    small, large = whole(_page(scope, 200)), whole(_page(scope, 1000))
    least, next_to_least = whole(scope.page_multiple), whole(_page(scope, 2 * scope.page_multiple))
    pair: tuple[Ids, Ids] = ((1, 0), (0, 2))
    one: tuple[Ids, Ids] = ((1,), (0,))
    none: tuple[Ids, Ids] = ((), ())
    shapes: dict[str, list[tuple[Layout, tuple[Ids, Ids]]]] = {
        "layers": [(small, pair), (small, pair)],
        "unequal-pages": [(small, pair), (large, pair)],
        "three": [(large, pair), (small, one), (whole(_page(scope, 1)), pair)],
        "first-empty": [(small, none), (large, one)],
        "middle-empty": [(small, pair), (large, none), (small, one)],
        "last-empty": [(large, one), (small, none)],
        "last-two-empty": [(large, one), (small, none), (small, none)],
        "all-empty": [(large, none), (small, none)],
        "sixteen-layers": [(small, one)] * 16,
        "unequal-by-the-least": [(least, one), (next_to_least, one)],
    }
    for name, shape in shapes.items():
        for route in _loads_and_stores(scope):
            tensors = [_tensor(scope, layout, ids) for layout, ids in shape]
            yield f"groups-{name}-{route[0].value}", _case(scope, *tensors, route=route)


def _chunks(scope: Scope) -> Iterator[Named]:
    """The first chunk begun at every place and the last one left at every place; chunks in a shuffled order."""
    layout = whole(_page(scope, 56))
    for side in ("source", "destination"):
        for per_chunk in PER_CHUNK[1:]:
            for skip in range(per_chunk):
                last = per_chunk - 1 - skip
                count = per_chunk + 1 + (last - skip) % per_chunk
                yield _chunk_case(scope, layout, side, per_chunk, skip, count, 0)
            yield _chunk_case(scope, layout, side, per_chunk, per_chunk - 1, 2, 0)
            yield _chunk_case(scope, layout, side, per_chunk, 0, per_chunk, 1)
            yield _chunk_case(scope, layout, side, per_chunk, 0, per_chunk + 2, per_chunk)


def _chunk_case(scope: Scope, layout: Layout, side: str, per_chunk: int, skip: int, count: int, gaps: int) -> Named:
    blocks = 5 * per_chunk
    ids = tuple(mappings.chunked(count, blocks, per_chunk, skip, gaps, Random(count)))
    chunks = _Side(per_chunk=per_chunk, chunk_padding=skip % 4)
    other = tuple(range(count))
    both = (ids, other) if side == "source" else (other, ids)
    sides = (chunks, PLAIN) if side == "source" else (PLAIN, chunks)
    name = f"chunk-{side}-of-{per_chunk}-skip-{skip}-count-{count}" + (f"-holes-{gaps}" if gaps else "")
    return name, _case(scope, _tensor(scope, layout, both, *sides))


def _fragments(scope: Scope) -> Iterator[Named]:
    """Pages in pieces: one, two, three, many heads; strides on either side; unequal pieces; parts."""
    unit = scope.unit
    if unit > scope.most_bytes:
        return
    piece = min(3, scope.most_bytes // unit) * unit
    shapes: dict[str, Layout] = {}
    for count in (1, 2, 3, 4, 8, 16):
        shapes[f"kernel-blocks-{count}"] = layouts.kernel_blocks(piece, count)
        shapes[f"padded-kernel-blocks-{count}"] = layouts.kernel_blocks(piece, count, unit)
        shapes[f"canonical-{count}-rank-0-of-2"] = layouts.canonical(piece, count, 2, 0)
        shapes[f"canonical-{count}-rank-2-of-3"] = layouts.canonical(piece, count, 3, 2)
        shapes[f"resharded-{count}"] = layouts.resharded(piece, count, 3, 1)
        shapes[f"planes-of-{count}-heads"] = layouts.planes(piece, count, 2, 1)
    shapes["data-and-scales"] = layouts.unequal(piece, unit)
    shapes["first-part"] = layouts.writers_part(3 * unit, 0, unit)
    shapes["middle-part"] = layouts.writers_part(3 * unit, unit, unit)
    shapes["last-part"] = layouts.writers_part(3 * unit, 2 * unit, unit)
    real_heads = _page(scope, 4096) // unit * unit
    shapes["heads-of-4-kib"] = layouts.canonical(max(unit, real_heads), 8, 4, 3)
    for name, layout in shapes.items():
        fitting = max(1, min(3, scope.most_descriptors // layout.descriptors))
        ids: tuple[Ids, Ids] = ((2, 0, 1)[:fitting], (0, 3, 1)[:fitting])
        yield f"pieces-{name}", _case(scope, _tensor(scope, layout, ids))
        yield f"pieces-{name}-mirrored", _case(scope, _tensor(scope, layout.mirrored, ids))


def _far(scope: Scope) -> Iterator[Named]:
    """Offsets, block ids and addresses beside the places where 32 bits end; the memory between doesn't exist."""
    page = 3 * scope.unit
    if page > scope.most_bytes:
        return
    stride = round_up(page, scope.address_multiple)
    pools: dict[str, Far] = {}
    for line in LINES:
        pools[f"offset-{LINE_NAMES[line]}"] = around_id(line // stride, stride)
        if line >= 1 << 32:
            for place, name in enumerate(PLACES):
                far = across_address(line, page, scope.address_multiple, stride, place)
                pools[f"address-{LINE_NAMES[line]}-{name}"] = far
    for name, far in pools.items():
        yield from _far_cases(scope, name, page, stride, far)
    if scope.smallest_row * (MANY_IDS + 4) <= MOST_SPAN:
        far = around_id(MANY_IDS, scope.smallest_row)
        yield from _far_cases(scope, "block-2147483648", scope.page_multiple, scope.smallest_row, far)


def _far_cases(scope: Scope, name: str, page: int, stride: int, far: Far) -> Iterator[Named]:
    """The far pool as source, as destination, and as both, in each direction on its plainest route that can."""
    ids = far.ids[: min(4, scope.most_descriptors)]
    near = Pool(len(ids) + 1, stride), tuple(range(len(ids), 0, -1))
    shapes = {
        "source": (True, False),
        "destination": (False, True),
        "both": (True, True),
    }
    for which, (at_source, at_destination) in shapes.items():
        source, sources = (far.pool, ids) if at_source else near
        destination, destinations = (far.pool, ids[::-1]) if at_destination else near
        tensor = Tensor(page, source, destination, sources, destinations)
        able = [
            route
            for route in scope.routes
            if (not at_source or route[1] in scope.sparse) and (not at_destination or route[2] in scope.sparse)
        ]
        for direction in dict.fromkeys(way for way, _, _ in able):
            route = next(route for route in able if route[0] is direction)
            yield f"far-{name}-{which}-{direction.value}", _case(scope, tensor, route=route)
