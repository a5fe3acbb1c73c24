"""Drawn cases keep within every scope, reach what matters often enough, and shrink to the simplest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from some_scopes import SCOPES, descriptors

from backends.contract import Direction, Memory, Stream
from strategies.case import Case, Fence, Malformed, Submission
from strategies.cells import values
from strategies.coverage import moved_bytes
from strategies.draw.cases import cases, limits, malformed_cases, refused_cases, round_trips, undefined_cases
from strategies.footprint import DENSE_LIMIT, destination_footprint, source_footprint
from strategies.request import ask
from strategies.scope import Scope, back
from strategies.simplify import simplify

EVERY_SCOPE = pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
QUICK = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def drawn() -> list[Case]:
    """Many cases for a whole accelerator, the same ones each time."""
    found: list[Case] = []

    @settings(QUICK, max_examples=1200, phases=[Phase.generate])
    @given(cases(SCOPES["accelerator"]))
    def draw(case: Case) -> None:
        found.append(case)

    draw()
    return found


def within(scope: Scope, case: Case) -> None:
    """The parts of a case that aren't in its `Ask` keep to the scope."""
    submission = case.submission
    assert {case.source_memory, case.destination_memory} <= scope.memory & scope.support.memory
    assert submission.stream in scope.streams
    for memory, fence, footprint in (
        (case.source_memory, case.source_fence, source_footprint(case)),
        (case.destination_memory, case.destination_fence, destination_footprint(case)),
    ):
        assert fence is Fence.NONE or memory in scope.fenceable
        assert not footprint.sparse or memory in scope.sparse
        assert footprint.sparse or footprint.span <= DENSE_LIMIT
        assert footprint.image_bytes <= scope.budget_bytes + 4 * scope.support.address_multiple
    assert not submission.late_source or case.source_memory in scope.late
    assert not submission.late_destination or case.destination_memory in scope.late
    assert not (submission.late_source and submission.order_any)
    assert not submission.reuse_descriptors or scope.support.reuse_descriptors
    assert case.descriptors <= scope.max_descriptors


@EVERY_SCOPE
def test_cases_are_what_the_backend_must_do(scope: Scope) -> None:
    @QUICK
    @given(cases(scope))
    def check(case: Case) -> None:
        assert scope.support.why_not(ask(case)) is None
        assert not case.round_trip
        assert not case.undefined
        assert case.submission.malformed is None
        within(scope, case)

    check()


@EVERY_SCOPE
def test_round_trips_may_go_both_ways(scope: Scope) -> None:
    @QUICK
    @given(round_trips(scope))
    def check(case: Case) -> None:
        assert case.round_trip
        assert scope.support.why_not(ask(case)) is None
        assert back(case.direction) in scope.support.directions
        assert case.source_memory is not Memory.READ_ONLY
        assert not (case.submission.late_source)
        assert not (case.submission.late_destination)
        within(scope, case)

    if scope.support.directions == {Direction.LOAD}:
        assert round_trips(scope).is_empty
    else:
        check()


@EVERY_SCOPE
def test_undefined_cases_write_a_place_twice(scope: Scope) -> None:
    @QUICK
    @given(undefined_cases(scope))
    def check(case: Case) -> None:
        (tensor,) = case.tensors
        assert case.undefined
        assert len(set(tensor.destinations)) < len(tensor.destinations)
        assert scope.support.why_not(ask(case)) is None
        within(scope, case)

    if scope.most_descriptors < 2:
        assert undefined_cases(scope).is_empty
    else:
        check()


@EVERY_SCOPE
def test_malformed_cases_are_valid_but_for_one_thing(scope: Scope) -> None:
    met: set[Malformed | None] = set()

    @settings(QUICK, max_examples=300)
    @given(malformed_cases(scope))
    def check(case: Case) -> None:
        met.add(case.submission.malformed)
        assert case.descriptors >= 1
        assert scope.support.why_not(ask(case)) is None
        within(scope, case)

    check()
    assert met == set(Malformed)


@EVERY_SCOPE
def test_refused_cases_are_tried_and_must_be_refused(scope: Scope) -> None:
    for limit in limits(scope.support):

        @settings(QUICK, max_examples=30)
        @given(refused_cases(scope, limit))
        def check(case: Case) -> None:
            assert scope.support.not_tried(ask(case)) is None
            assert scope.support.must_refuse(ask(case))

        check()
    assert refused_cases(scope).is_empty == (not limits(scope.support))


def test_no_two_pieces_write_one_byte(drawn: list[Case]) -> None:
    for case in drawn[:300]:
        if case.descriptors < 2000:
            places = sorted((to, to + size) for _, to, size in descriptors(case))
            assert all(end <= start for (_, end), (start, _) in pairwise(places)), case.dumps()


def test_the_rates_are_not_degenerate(drawn: list[Case]) -> None:
    """Wide bounds: they fail when a change makes one kind of case vanish or take over."""
    met: Counter[str] = Counter()
    for case in drawn:
        images = [source_footprint(case), destination_footprint(case)]
        met["empty"] += case.descriptors == 0
        met["one descriptor"] += case.descriptors == 1
        met["sixteen or more"] += case.descriptors >= 16
        met["a thousand or so"] += case.descriptors >= 999
        met["small"] += moved_bytes(case) <= 256 << 10 and max(each.image_bytes for each in images) <= 1 << 20
        met["big"] += max(each.image_bytes for each in images) > 2 << 20
        met["sparse"] += any(each.sparse for each in images)
        met["fenced"] += {case.source_fence, case.destination_fence} != {Fence.NONE}
        met["plainly submitted"] += case.submission == Submission(case.submission.stream)
        met["late"] += case.submission.late_source
        met["late destination"] += case.submission.late_destination
        met["several tensors"] += len(case.tensors) > 1
        met["pieces"] += any(tensor.runs for tensor in case.tensors)
        met["chunks"] += any(max(t.source.per_chunk, t.destination.per_chunk) > 1 for t in case.tensors)
        met["the default stream"] += case.submission.stream is Stream.DEFAULT
        met["loads and stores"] += case.direction in (Direction.LOAD, Direction.STORE)
    bounds = {
        "empty": (0.01, 0.2),
        "one descriptor": (0.03, 0.3),
        "sixteen or more": (0.15, 0.6),
        "a thousand or so": (0.005, 0.08),
        "small": (0.75, 0.99),
        "big": (0.005, 0.15),
        "sparse": (0.02, 0.2),
        "fenced": (0.2, 0.9),
        "plainly submitted": (0.5, 0.9),
        "late": (0.01, 0.15),
        "late destination": (0.01, 0.15),
        "several tensors": (0.05, 0.4),
        "pieces": (0.1, 0.4),
        "chunks": (0.1, 0.5),
        "the default stream": (0.15, 0.5),
        "loads and stores": (0.5, 0.9),
    }
    rates = {name: met[name] / len(drawn) for name in bounds}
    off = {name: rate for name, rate in rates.items() if not bounds[name][0] <= rate <= bounds[name][1]}
    assert not off


@pytest.mark.parametrize(
    ("axis", "cells"),
    [
        ("size residue", 16),
        ("source residue", 16),
        ("destination residue", 16),
        ("mapping", 12),
        ("pieces", 10),
        ("source rows", 3),
        ("destination offset", 6),
        ("source memory", 10),
        ("destination memory", 9),
        ("groups", 5),
        ("zero entries", 4),
    ],
)
def test_draws_alone_reach_most_cells(drawn: list[Case], axis: str, cells: int) -> None:
    met = {cell for case in drawn for cell in values(case).get(axis, ())}
    assert len(met) >= cells, sorted(met)


def shrunk(strategy: st.SearchStrategy[Case], wanted: Callable[[Case], bool]) -> Case:
    """The smallest case with the property."""
    return find(strategy, wanted, settings=settings(max_examples=3000, deadline=None, database=None, derandomize=True))


@pytest.mark.parametrize("name", ["accelerator", "cpu"])
def test_the_simplest_case_is_one_byte_loaded(name: str) -> None:
    host = {"accelerator": "pinned", "cpu": "pageable"}[name]
    assert shrunk(cases(SCOPES[name]), lambda case: True).to_json() == {
        "format": 1,
        "direction": "load",
        "source_memory": host,
        "destination_memory": "device",
        "tensors": [
            {
                "page_bytes": 1,
                "source": {"blocks": 1, "stride": 1},
                "destination": {"blocks": 1, "stride": 1},
                "sources": [0],
                "destinations": [0],
            }
        ],
    }


SIMPLE = {"direction": "load", "source_memory": "pinned", "destination_memory": "device", "format": 1}


def test_a_size_shrinks_to_the_threshold() -> None:
    case = shrunk(cases(SCOPES["accelerator"]), lambda case: any(t.sources and t.page_bytes >= 9 for t in case.tensors))
    (tensor,) = case.tensors
    assert (tensor.page_bytes, tensor.sources, tensor.source.stride, tensor.source.origin) == (9, (0,), 9, 0)
    assert {key: value for key, value in case.to_json().items() if key != "tensors"} == SIMPLE


def test_ids_shrink_to_those_that_matter() -> None:
    def swapped(case: Case) -> bool:
        return any(t.sources[i] > t.sources[i + 1] for t in case.tensors for i in range(len(t.sources) - 1))

    case = simplify(shrunk(cases(SCOPES["accelerator"]), swapped), swapped)  # as a search hands it over
    (tensor,) = case.tensors
    assert len(tensor.sources) == 2
    assert tensor.page_bytes == 1
    assert max(tensor.sources) <= 1


def test_a_residue_shrinks_to_itself() -> None:
    case = shrunk(
        cases(SCOPES["accelerator"]),
        lambda case: any(t.sources and t.destination.origin % 16 == 7 for t in case.tensors),
    )
    (tensor,) = case.tensors
    assert (tensor.destination.origin, tensor.source.origin, tensor.page_bytes, len(tensor.sources)) == (7, 0, 1, 1)


def test_a_submission_shrinks_to_what_matters() -> None:
    case = shrunk(cases(SCOPES["accelerator"]), lambda case: case.submission.late_source)
    assert case.submission == Submission(late_source=True)
    case = shrunk(cases(SCOPES["accelerator"]), lambda case: case.submission.late_destination)
    assert case.submission == Submission(late_destination=True)
    assert len(case.tensors) == 1


@pytest.mark.parametrize("name", ["accelerator", "accelerator-kernel"])
def test_a_scope_without_fences_late_sources_or_sparse_kinds_never_draws_them(name: str) -> None:
    scope = SCOPES[name]
    bare = Scope(scope.memory, scope.streams, scope.support)

    def unwanted(case: Case) -> bool:
        fenced = {case.source_fence, case.destination_fence} != {Fence.NONE}
        sparse = source_footprint(case).sparse or destination_footprint(case).sparse
        return fenced or sparse or case.submission.late_source or case.submission.late_destination

    with pytest.raises(NoSuchExample):
        find(cases(bare), unwanted, settings=settings(QUICK, max_examples=300))
