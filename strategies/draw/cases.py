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
from strategies.case import Case, Fence, Malformed, Pool, Submission, Tensor
from strategies.draw.choices import between, pick
from strategies.draw.layouts import Layout, fragments, whole
from strategies.draw.mappings import MOST_FEW, MOST_SEED, chunked, counts, many_counts, mappings
from strategies.draw.pools import Rows, far_pools, origins, round_up, rows
from strategies.draw.submissions import submissions
from strategies.page_sizes import page_bytes, real
from strategies.request import ask, not_tried, return_of
from strategies.scope import Scope, ScopeError

SMALL_IMAGE, SMALL_MOVE = 1 << 20, 256 << 10  # bytes of one side's arena, and of all copied pages, in the common case
MANY_MOVE = 1 << 20
BIG_PAGE = 64 << 10  # a big case has pages larger than this
SCALES = (*["small"] * 28, *["far"] * 3, "big")
ONE_IN_MANY, ONE_IN_FRAGMENTS, ONE_IN_GROUPS = 128, 5, 6
Ids = tuple[int, ...]


@dataclass(frozen=True)
class _Room:
    """What one tensor may take."""

    image: int  # bytes of its part of either arena
    page: int  # bytes of one page
    pieces: int  # descriptors of one page


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
    return st.builds(_malformed, _plain(scope), st.sampled_from(Malformed), between(0, 11))


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
    """A far or big case draws what a small one draws, and more: so a failure shrinks to a small case if it can."""
    direction, source, destination = _route(draw, scope, returning)
    scale = draw(pick(*SCALES))
    source_fence = _fence(draw, scope, source)
    destination_fence = _fence(draw, scope, destination)
    fences = source_fence, destination_fence
    tensors = _tensors(draw, scope, fences, returning, big=scale == "big")
    far = _far_sides(scope, source, destination) if scale == "far" else ()
    if far:
        tensors[0] = _moved_far(draw, scope, tensors[0], draw(pick(*far)), fences)
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
    plain = {"late": False, "zeros": False} if returning else {}
    submission = draw(submissions(scope, source, destination, case.descriptors, **plain))
    return _checked(scope, replace(case, submission=submission, seed=draw(between(0, MOST_SEED))))


@st.composite
def _plain(draw: st.DrawFn, scope: Scope, least: int = 1) -> Case:
    """One tensor of whole small pages, at least `least` blocks, submitted plainly: what the other strategies spoil."""
    direction, source, destination = _route(draw, scope, False)
    count = draw(between(least, max(least, min(4, scope.most_descriptors))))
    layout = _whole_page(draw, scope, min(4096, scope.most_bytes))
    tensor = _tensor(draw, scope, layout, count, SMALL_IMAGE, (Fence.NONE, Fence.NONE), False)
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
    need = last.needs[0 if source else 1]
    return Fence.NONE if fence is Fence.AFTER and need % scope.address_multiple else fence


def _tensors(draw: st.DrawFn, scope: Scope, fences: tuple[Fence, Fence], returning: bool, *, big: bool) -> list[Tensor]:
    groups = 1
    if not scope.support.uniform_dense and draw(between(1, ONE_IN_GROUPS)) == ONE_IN_GROUPS:
        groups = draw(between(2, 3))
    left = scope.most_descriptors
    tensors: list[Tensor] = []
    for index in range(groups):
        count = _count(draw, scope, left, many=groups == 1 and not big)
        image, move = min(SMALL_IMAGE, scope.budget_bytes), SMALL_MOVE
        if big:
            image, move = scope.budget_bytes, scope.budget_bytes // 2
        elif count > MOST_FEW:
            image, move = scope.budget_bytes, MANY_MOVE // 2
        share = max(1, count) * groups
        page = max(scope.page_multiple, min(scope.most_bytes, image // (8 * groups), move // share))
        layout = _layout(draw, scope, _Room(image // groups, page, left // max(1, count)), big)
        own = fences if index == 0 else (Fence.NONE, Fence.NONE)
        tensors.append(_tensor(draw, scope, layout, count, image // groups, own, returning))
        left -= layout.descriptors * len(tensors[-1].sources)
    return tensors


def _count(draw: st.DrawFn, scope: Scope, left: int, *, many: bool) -> int:
    """How many blocks: mostly few, and now and then as many as some implementation's limit."""
    found = many_counts(min(left, scope.most_blocks)) if many else ()
    kind = draw(between(1, ONE_IN_MANY))
    if found and kind == ONE_IN_MANY:
        often = (32 if count < 2000 else 2 if count < 10_000 else 1 for count in found)
        return draw(pick(*(count for count, times in zip(found, often, strict=True) for _ in range(times))))
    return draw(counts(left) if kind % 2 else between(0, min(left, MOST_FEW)))


def _layout(draw: st.DrawFn, scope: Scope, room: _Room, big: bool) -> Layout:
    fragmented = draw(between(1, ONE_IN_FRAGMENTS)) == ONE_IN_FRAGMENTS
    if big and room.page > BIG_PAGE:
        multiple = scope.page_multiple
        sizes = [size // multiple for size in real(room.page, multiple) if size > BIG_PAGE]
        kinds = [between(max(1, BIG_PAGE // multiple), room.page // multiple), *([pick(*sizes)] if sizes else [])]
        return whole(draw(st.one_of(kinds)) * multiple)
    possible = not scope.support.uniform_dense and room.page >= 2 * scope.unit and room.pieces >= 2
    if fragmented and possible:
        return draw(fragments(room.page, scope.unit, room.pieces))
    return _whole_page(draw, scope, room.page)


def _whole_page(draw: st.DrawFn, scope: Scope, most: int) -> Layout:
    """One descriptor a page."""
    return whole(draw(page_bytes(max(most, scope.page_multiple), scope.page_multiple)))


def _tensor(
    draw: st.DrawFn,
    scope: Scope,
    layout: Layout,
    count: int,
    image: int,
    fences: tuple[Fence, Fence],
    returning: bool,
) -> Tensor:
    """`count` blocks of this layout, or as many as fit in `image` bytes on both sides."""
    sides = [_rows(draw, scope, need, image, count) for need in (layout.source, layout.destination)]
    capacities = [side.capacity(image) for side in sides]
    count = min(count, *capacities)
    blocks = [
        min(capacity, round_up(max(1, count + draw(pick(0, 1, 3, 16))), side.per_chunk))
        for side, capacity in zip(sides, capacities, strict=True)
    ]
    if max(side.per_chunk for side in sides) > 1:
        ids = _chunked_ids(draw, count, sides, blocks)
    else:
        ids = draw(mappings(count, blocks[0], blocks[1], returning))
    # Drawn even where a fence leaves no choice: a fence that saved a draw would count as simpler than none.
    drawn = [draw(origins(scope.address_multiple)) for _ in sides]
    source, destination = (
        Pool(
            blocks=number,
            stride=side.stride,
            per_chunk=side.per_chunk,
            chunk_stride=side.chunk_stride,
            origin=0 if fence is Fence.BEFORE else origin,
        )
        for side, number, fence, origin in zip(sides, blocks, fences, drawn, strict=True)
    )
    return Tensor(layout.page_bytes, source, destination, ids[0], ids[1], layout.runs)


def _rows(draw: st.DrawFn, scope: Scope, need: int, image: int, count: int) -> Rows:
    """Rows that let `count` blocks fit, or rows without padding."""
    drawn = draw(rows(need, scope.address_multiple, image, scope.support.uniform_dense))
    return drawn if drawn.capacity(image) >= count else Rows(round_up(need, scope.address_multiple))


def _chunked_ids(draw: st.DrawFn, count: int, sides: list[Rows], blocks: list[int]) -> tuple[Ids, Ids]:
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


def _far_sides(scope: Scope, source: Memory, destination: Memory) -> tuple[tuple[bool, bool], ...]:
    """Which sides may be too large for memory: (source, destination)."""
    able = source in scope.sparse, destination in scope.sparse
    return tuple(
        sides
        for sides in ((True, False), (False, True), (True, True))
        if all(can or not wanted for can, wanted in zip(able, sides, strict=True))
    )


def _moved_far(
    draw: st.DrawFn, scope: Scope, tensor: Tensor, far: tuple[bool, bool], fences: tuple[Fence, Fence]
) -> Tensor:
    """The tensor with its first few blocks, on the far sides in a pool too large for memory."""
    needs = tensor.needs
    pools = [tensor.source, tensor.destination]
    ids = [tensor.sources, tensor.destinations]
    for side, is_far in enumerate(far):
        if is_far:
            fenced = fences[side] is not Fence.NONE
            stride = pools[side].stride
            found = draw(far_pools(needs[side], scope.address_multiple, stride, fenced))
            turn = draw(between(0, len(found.ids) - 1))
            pools[side], ids[side] = found.pool, found.ids[turn:] + found.ids[:turn]
    count = min(len(tensor.sources), *map(len, ids))
    return replace(tensor, source=pools[0], destination=pools[1], sources=ids[0][:count], destinations=ids[1][:count])


def _checked(scope: Scope, case: Case) -> Case:
    """The safety net: what the scope excludes doesn't count as drawn."""
    asked = ask(case)
    if scope.why_not(asked):
        reject()
    if case.round_trip and scope.why_not(return_of(asked)):
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


def _malformed(case: Case, malformed: Malformed, seed: int) -> Case:
    """The seed chooses the argument that is spoiled."""
    return replace(case, submission=replace(case.submission, malformed=malformed), seed=seed)


def _refused(scope: Scope, case: Case) -> bool:
    return not_tried(case, scope.support) is None and scope.support.must_refuse(ask(case)) is not None


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
