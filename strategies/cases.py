"""The strategies that draw whole cases within a scope: valid ones, and those that must be refused.

What a scope excludes is not drawn in the first place; the filter at the end is a safety net. Most cases are small, so
that thousands run in seconds; a few are big, have very many blocks, or lie beside an offset where 32 bits end. Each
draw lands in a named field of the case, so that a printed case says what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from hypothesis import reject
from hypothesis import strategies as st

from backends.contract import Direction, Memory, Support
from strategies.ask import ask
from strategies.case import Case, Fence, Malformed, Pool, Submission, Tensor
from strategies.choices import between, pick
from strategies.layouts import Layout, fragments, whole
from strategies.mappings import MOST_SEED, chunked, counts, many_counts, mappings
from strategies.page_sizes import page_bytes, real
from strategies.pools import Rows, far_pools, origins, round_up, rows
from strategies.scope import Scope, ScopeError, back
from strategies.submissions import submissions

SMALL_IMAGE, SMALL_MOVE = 1 << 20, 256 << 10  # bytes of one side's arena, and of all copied pages, in the common case
MANY_MOVE = 1 << 20
FAR_PAGE = 64 << 10
SMALL, MANY, BIG, FAR = "small", "many", "big", "far"
SCALES = (*[SMALL] * 26, FAR, FAR, MANY, BIG, BIG, FAR)
ONE_IN_FRAGMENTS, ONE_IN_GROUPS = 5, 6
Ids = tuple[int, ...]


@dataclass(frozen=True)
class _Room:
    """What one tensor may take."""

    image: int  # bytes of its part of either arena
    move: int  # bytes of its copied pages
    descriptors: int


def cases(scope: Scope) -> st.SearchStrategy[Case]:
    """Cases that the backend has to copy right. Raises ScopeError where the scope leaves nothing to draw."""
    _validate(scope)
    return _cases(scope)


def round_trips(scope: Scope) -> st.SearchStrategy[Case]:
    """Cases that copy there and back. Nothing (`is_empty`) where no direction has a way back."""
    _validate(scope)
    return _cases(scope, returning=True) if scope.returning else st.nothing()


def undefined_cases(scope: Scope) -> st.SearchStrategy[Case]:
    """Small cases in which two blocks go to one place. Nothing where only one descriptor is allowed."""
    _validate(scope)
    if scope.most_descriptors < 2:
        return st.nothing()
    return _undefined(scope)


def malformed_cases(scope: Scope) -> st.SearchStrategy[Case]:
    """Small cases whose descriptors are spoilt in one way."""
    _validate(scope)
    return st.builds(_malformed, _plain(scope), st.sampled_from(Malformed))


def limits(support: Support) -> tuple[str, ...]:
    """The limits by which a backend has to refuse some copies itself; names of `Support` fields, in their order."""
    found = {
        "size_multiple": support.size_multiple > 1,
        "address_multiple": support.address_multiple > 1,
        "max_descriptors": support.max_descriptors is not None,
        "max_bytes": support.max_bytes is not None,
        "zero_sizes": not support.zero_sizes,
        "uniform_dense": support.uniform_dense,
    }
    return tuple(name for name, limited in found.items() if limited)


def refused_cases(scope: Scope, limit: str | None = None) -> st.SearchStrategy[Case]:
    """Small cases that break one declared limit (the one named, or any), so that the backend has to raise.

    Nothing where there is no such limit, or it can't be broken within the scope's budget."""
    _validate(scope)
    kinds = [_BREAK[name](scope) for name in limits(scope.support) if limit in (None, name)]
    kinds = [kind for kind in kinds if not kind.is_empty]
    return st.one_of(kinds).filter(lambda case: _refused(scope, case)) if kinds else st.nothing()


def _validate(scope: Scope) -> None:
    """Raise ScopeError now rather than in the middle of a test."""
    for needed in (scope.routes, scope.stream_kinds, scope.most_bytes):
        assert needed
    if scope.most_descriptors < 1:
        raise ScopeError("no descriptor may be copied: max_descriptors is 0")


@st.composite
def _cases(draw: st.DrawFn, scope: Scope, returning: bool = False) -> Case:
    direction, source, destination = _route(draw, scope, returning)
    scale = draw(pick(*SCALES))
    far = _far_sides(scope, source, destination) if scale is FAR else ()
    source_fence = _fence(draw, scope, source)
    destination_fence = _fence(draw, scope, destination)
    fences = source_fence, destination_fence
    if far:
        tensors = [_far_tensor(draw, scope, draw(pick(*far)), fences)]
    elif scale is MANY and many_counts(scope.most_blocks):
        tensors = [_many_tensor(draw, scope, fences, returning)]
    else:
        tensors = _tensors(draw, scope, fences, returning, big=scale is BIG)
    last = tensors[-1]
    case = Case(
        direction,
        source,
        destination,
        tuple(tensors),
        source_fence=_possible(source_fence, last, scope, True),
        destination_fence=_possible(destination_fence, last, scope, False),
        round_trip=returning,
    )
    submission = draw(submissions(scope, source, case.descriptors, late=not returning, zeros=not returning))
    return _checked(scope, replace(case, submission=submission, seed=draw(between(0, MOST_SEED))))


@st.composite
def _plain(draw: st.DrawFn, scope: Scope, least: int = 1) -> Case:
    """One tensor of whole small pages, at least `least` blocks, submitted plainly: what the other strategies spoil."""
    direction, source, destination = _route(draw, scope, False)
    count = draw(between(least, max(least, min(4, scope.most_descriptors))))
    room = _Room(SMALL_IMAGE, SMALL_MOVE, scope.most_descriptors)
    layout = _whole_page(draw, scope, min(4096, scope.most_bytes))
    tensor = _tensor(draw, scope, layout, room, (Fence.NONE, Fence.NONE), False, count=count)
    submission = Submission(draw(pick(*scope.stream_kinds)))
    return _checked(scope, Case(direction, source, destination, (tensor,), submission))


def _route(draw: st.DrawFn, scope: Scope, returning: bool) -> tuple[Direction, Memory, Memory]:
    """Loads and stores twice as often as the rest."""
    directions = scope.returning if returning else scope.directions
    often = [way for way in directions if way in (Direction.LOAD, Direction.STORE)]
    direction = draw(pick(*directions, *often))
    source = draw(pick(*scope.sources(direction, writable=returning)))
    return direction, source, draw(pick(*scope.destinations(direction)))


def _fence(draw: st.DrawFn, scope: Scope, memory: Memory) -> Fence:
    if memory not in scope.fenceable:
        return Fence.NONE
    return draw(pick(Fence.NONE, Fence.NONE, Fence.AFTER, Fence.BEFORE))


def _possible(fence: Fence, last: Tensor, scope: Scope, source: bool) -> Fence:
    """A fence behind the last block sets its address, which must stay a multiple of what the backend asks for."""
    ends = [
        run.source + (run.count - 1) * run.source_step + run.nbytes
        if source
        else run.destination + (run.count - 1) * run.destination_step + run.nbytes
        for run in last.runs
    ]
    need = max(last.page_bytes, *ends, 0)
    return Fence.NONE if fence is Fence.AFTER and need % scope.address_multiple else fence


def _tensors(
    draw: st.DrawFn, scope: Scope, fences: tuple[Fence, Fence], returning: bool, *, big: bool
) -> list[Tensor]:
    image = scope.budget_bytes if big else min(SMALL_IMAGE, scope.budget_bytes)
    move = image // 2 if big else SMALL_MOVE
    groups = 1
    if not scope.support.uniform_dense and draw(between(1, ONE_IN_GROUPS)) == ONE_IN_GROUPS:
        groups = draw(between(2, 3))
    left = scope.most_descriptors
    tensors: list[Tensor] = []
    for index in range(groups):
        room = _Room(image // groups, move // groups, left)
        layout = _layout(draw, scope, room, big)
        own = fences if index == 0 else (Fence.NONE, Fence.NONE)
        tensors.append(_tensor(draw, scope, layout, room, own, returning))
        left -= layout.descriptors * len(tensors[-1].sources)
    return tensors


def _layout(draw: st.DrawFn, scope: Scope, room: _Room, big: bool) -> Layout:
    most = min(scope.most_bytes, room.image // 8, room.move)
    dense = scope.support.uniform_dense
    if big and not dense and most >= 2 * FAR_PAGE:
        multiple = scope.size_multiple
        sizes = [size // multiple for size in real(most, multiple) if size > FAR_PAGE]
        units = most // multiple
        kinds = [between(max(1, FAR_PAGE // multiple), units)]
        if sizes:
            kinds.append(pick(*sizes))
        return whole(draw(st.one_of(kinds)) * multiple)
    if dense or most < 2 * scope.unit or room.descriptors < 2 or draw(between(1, ONE_IN_FRAGMENTS)) < ONE_IN_FRAGMENTS:
        return _whole_page(draw, scope, most)
    return draw(fragments(most, scope.unit, room.descriptors))


def _whole_page(draw: st.DrawFn, scope: Scope, most: int) -> Layout:
    """One descriptor a page."""
    return whole(draw(page_bytes(max(most, scope.page_multiple), scope.page_multiple)))


def _tensor(
    draw: st.DrawFn,
    scope: Scope,
    layout: Layout,
    room: _Room,
    fences: tuple[Fence, Fence],
    returning: bool,
    count: int | None = None,
) -> Tensor:
    dense = scope.support.uniform_dense
    multiple = scope.address_multiple
    source = draw(rows(layout.source, multiple, room.image, dense))
    destination = draw(rows(layout.destination, multiple, room.image, dense))
    if count is not None:
        source = _roomy(source, room, count, layout.source, multiple)
        destination = _roomy(destination, room, count, layout.destination, multiple)
    capacities = source.capacity(room.image), destination.capacity(room.image)
    if count is None:
        most = min(*capacities, room.descriptors // layout.descriptors, max(1, room.move // layout.page_bytes))
        count = draw(counts(max(0, most)))
    count = min(count, *capacities)
    blocks = [
        min(capacity, round_up(max(1, count + draw(pick(0, 1, 3, 16))), side.per_chunk))
        for side, capacity in zip((source, destination), capacities, strict=True)
    ]
    if source.per_chunk > 1 or destination.per_chunk > 1:
        sources, destinations = _chunked_ids(draw, count, (source, destination), blocks)
    else:
        sources, destinations = draw(mappings(count, blocks[0], blocks[1], returning))
    pools = [
        Pool(
            blocks=number,
            stride=side.stride,
            per_chunk=side.per_chunk,
            chunk_stride=side.chunk_stride,
            origin=0 if fence is Fence.BEFORE else draw(origins(multiple)),
        )
        for side, number, fence in zip((source, destination), blocks, fences, strict=True)
    ]
    return Tensor(layout.page_bytes, pools[0], pools[1], sources, destinations, layout.runs)


def _roomy(side: Rows, room: _Room, count: int, need: int, multiple: int) -> Rows:
    """These rows if `count` blocks fit, or rows without padding."""
    return side if side.capacity(room.image) >= count else Rows(round_up(need, multiple))


def _chunked_ids(draw: st.DrawFn, count: int, sides: tuple[Rows, Rows], blocks: list[int]) -> tuple[Ids, Ids]:
    """A logical range over chunks on the sides that have them, a run or any blocks on the other side."""
    random = Random(draw(between(0, MOST_SEED)))
    gaps = draw(pick(0, 0, 1, 3))
    ids: list[Ids] = []
    for side, number in zip(sides, blocks, strict=True):
        if side.per_chunk > 1:
            skip = draw(between(0, side.per_chunk - 1))
            ids.append(tuple(chunked(count, number, side.per_chunk, skip, gaps, random)))
        elif draw(between(0, 1)):
            ids.append(tuple(random.sample(range(number), count)))
        else:
            ids.append(tuple(range(count)))
    return ids[0], ids[1]


def _many_tensor(draw: st.DrawFn, scope: Scope, fences: tuple[Fence, Fence], returning: bool) -> Tensor:
    found = many_counts(scope.most_blocks)
    often = [count for count in found for _ in range(8 if count < 2000 else 3 if count < 10_000 else 1)]
    count = draw(pick(*often))
    room = _Room(scope.budget_bytes, MANY_MOVE, scope.most_descriptors)
    layout = _whole_page(draw, scope, min(scope.most_bytes, MANY_MOVE // (2 * count)))
    return _tensor(draw, scope, layout, room, fences, returning, count=count)


def _far_sides(scope: Scope, source: Memory, destination: Memory) -> tuple[tuple[bool, bool], ...]:
    """Which sides may be too large for memory: (source, destination)."""
    able = source in scope.sparse, destination in scope.sparse
    return tuple(
        sides
        for sides in ((True, False), (False, True), (True, True))
        if all(can or not wanted for can, wanted in zip(able, sides, strict=True))
    )


def _far_tensor(draw: st.DrawFn, scope: Scope, far: tuple[bool, bool], fences: tuple[Fence, Fence]) -> Tensor:
    room = _Room(SMALL_IMAGE, SMALL_MOVE, scope.most_descriptors)
    layout = _layout(draw, scope, room, False)
    count = draw(between(1, max(1, min(4, room.descriptors // layout.descriptors))))
    pools: list[Pool] = []
    ids: list[Ids] = []
    for is_far, need, fence in zip(far, (layout.source, layout.destination), fences, strict=True):
        stride = draw(rows(need, scope.address_multiple, room.image, scope.support.uniform_dense)).stride
        if is_far:
            found = draw(far_pools(need, scope.address_multiple, stride, fence is not Fence.NONE))
            turn = draw(between(0, len(found.ids) - 1))
            pools.append(found.pool)
            ids.append((found.ids[turn:] + found.ids[:turn])[:count])
        else:
            pools.append(Pool(blocks=count, stride=stride))
            ids.append(tuple(range(count)))
    return Tensor(layout.page_bytes, pools[0], pools[1], ids[0], ids[1], layout.runs)


def _checked(scope: Scope, case: Case) -> Case:
    """The safety net: what the scope excludes doesn't count as drawn."""
    asked = ask(case)
    if scope.why_not(asked):
        reject()
    if case.round_trip:
        returning = replace(
            asked, direction=back(asked.direction), source=asked.destination, destination=asked.source
        )
        if scope.why_not(returning):
            reject()
    return case


@st.composite
def _undefined(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope, least=2))
    tensor = case.tensors[0]
    count = len(tensor.destinations)
    kept = draw(between(0, count - 1))
    spoilt = (kept + draw(between(1, count - 1))) % count
    destinations = list(tensor.destinations)
    destinations[spoilt] = destinations[kept]
    return replace(case, tensors=(replace(tensor, destinations=tuple(destinations)),), undefined=True)


def _malformed(case: Case, malformed: Malformed) -> Case:
    return replace(case, submission=replace(case.submission, malformed=malformed))


def _refused(scope: Scope, case: Case) -> bool:
    asked = ask(case)
    return scope.support.not_tried(asked) is None and scope.support.must_refuse(asked) is not None


def _with(case: Case, **changes: object) -> Case:
    """The case with some fields of its only tensor changed."""
    return replace(case, tensors=(replace(case.tensors[0], **changes),))  # type: ignore[arg-type]


@st.composite
def _odd_size(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    return _with(case, page_bytes=case.tensors[0].page_bytes - draw(between(1, scope.size_multiple - 1)))


@st.composite
def _odd_address(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    off = draw(between(1, scope.address_multiple - 1))
    sides = draw(pick(("source",), ("destination",), ("source", "destination")))
    pools = {side: getattr(case.tensors[0], side) for side in sides}
    return _with(case, **{side: replace(pool, origin=pool.origin + off) for side, pool in pools.items()})


@st.composite
def _too_many(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    count = scope.most_descriptors + draw(between(1, 3))
    size = round_up(scope.size_multiple, scope.address_multiple)
    pool = Pool(blocks=count, stride=size)
    ids = tuple(range(count))
    return _with(case, page_bytes=size, source=pool, destination=pool, sources=ids, destinations=ids)


@st.composite
def _too_long(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    limit = scope.support.max_bytes or 0
    size = round_up(limit + 1, scope.unit) + scope.unit * draw(between(0, 2))
    pool = Pool(blocks=1, stride=size)
    return _with(case, page_bytes=size, source=pool, destination=pool, sources=(0,), destinations=(0,))


@st.composite
def _zero_size(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    positions = (draw(between(0, case.descriptors)),)
    return replace(case, submission=replace(case.submission, zero_entries=positions))


@st.composite
def _not_dense(draw: st.DrawFn, scope: Scope) -> Case:
    case = draw(_plain(scope))
    kind = draw(between(0, 2))
    tensor = case.tensors[0]
    if kind == 2:
        return replace(case, tensors=(tensor, tensor))
    side = ("source", "destination")[kind]
    pool = getattr(tensor, side)
    return _with(case, **{side: replace(pool, stride=pool.stride + scope.unit, chunk_stride=0)})


_BREAK: dict[str, Callable[[Scope], st.SearchStrategy[Case]]] = {
    "size_multiple": _odd_size,
    "address_multiple": _odd_address,
    "max_descriptors": lambda scope: (
        _too_many(scope) if scope.support.max_descriptors == scope.most_descriptors else st.nothing()
    ),
    "max_bytes": lambda scope: (
        _too_long(scope) if (scope.support.max_bytes or 0) * 2 < scope.budget_bytes else st.nothing()
    ),
    "zero_sizes": _zero_size,
    "uniform_dense": _not_dense,
}
