"""`ask` says of a case what its descriptors, written out one by one, say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from some_scopes import SCOPES, descriptors

from backends.contract import Direction, Memory, Stream, Support
from strategies.case import Case, Fence, Pool, Run, Submission, Tensor
from strategies.draw.cases import cases
from strategies.request import ask, is_dense, not_tried


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_facts_are_those_of_the_written_out_descriptors(case: Case) -> None:
    listed = list(descriptors(case))
    asked = ask(case)
    zeros = len(case.submission.zero_entries)
    assert asked.descriptors == len(listed) + zeros
    assert asked.sizes == tuple(sorted({size for _, _, size in listed} | ({0} if zeros else set())))
    multiple = 4096
    while any(source % multiple or destination % multiple for source, destination, _ in listed):
        multiple //= 2
    assert asked.address_multiple == multiple
    assert (asked.direction, asked.source, asked.destination) == (
        case.direction,
        case.source_memory,
        case.destination_memory,
    )
    assert asked.stream == case.submission.stream
    assert asked.late == (case.submission.late_source or case.submission.late_destination)


@pytest.mark.parametrize(("origin", "start", "multiple"), [(4, 4, 8), (4, 0, 4), (0, 4, 4), (0, 0, 4096), (2, 6, 8)])
def test_offsets_that_are_odd_apart_may_add_up_to_an_aligned_address(origin: int, start: int, multiple: int) -> None:
    source = Pool(1, 4096, origin=origin)
    tensor = Tensor(4096, source, Pool(1, 4096), (0,), (0,), (Run(start, 0, 8),))
    case = Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,))
    assert ask(case).address_multiple == multiple


def test_a_fence_behind_the_last_block_sets_the_address() -> None:
    tensor = Tensor(24, Pool(1, 24), Pool(1, 24), (0,), (0,))
    case = Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,), source_fence=Fence.AFTER)
    assert ask(case).address_multiple == 8


def test_nothing_to_copy_asks_for_nothing() -> None:
    tensor = Tensor(3, Pool(1, 3), Pool(1, 3), (), ())
    asked = ask(Case(Direction.STORE, Memory.DEVICE, Memory.PINNED, (tensor,), Submission(Stream.DEFAULT)))
    assert (asked.sizes, asked.descriptors, asked.address_multiple) == ((), 0, 4096)


@pytest.mark.parametrize(
    ("source", "runs", "dense"),
    [
        (Pool(2, 8), (), True),
        (Pool(2, 8, origin=3), (), True),
        (Pool(2, 8, per_chunk=2), (), True),
        (Pool(2, 8, per_chunk=2, chunk_stride=16), (), True),
        (Pool(2, 9), (), False),
        (Pool(2, 8, per_chunk=1, chunk_stride=17), (), False),
        (Pool(2, 16), (), True),
        (Pool(2, 8), (Run(0, 0, 8),), True),
        (Pool(2, 8), (Run(0, 0, 2, 2, 4, 4),), True),
        (Pool(2, 8), (Run(0, 0, 2, 2, 4, 3),), False),
        (Pool(2, 8), (Run(0, 0, 4), Run(4, 4, 2)), False),
    ],
)
def test_dense_means_one_size_on_one_grid(source: Pool, runs: tuple[Run, ...], dense: bool) -> None:
    tensor = Tensor(8, source, Pool(2, 8), (0, 1), (1, 0), runs)
    assert is_dense(Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,))) is dense


@pytest.mark.parametrize(("page", "dense"), [(8, True), (6, False)])
def test_tensors_are_dense_where_their_distance_fits_the_grid(page: int, dense: bool) -> None:
    tensor = Tensor(page, Pool(1, page), Pool(1, page), (0,), (0,))
    assert is_dense(Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor, tensor))) is dense


def test_padding_that_no_descriptor_shows_is_dense() -> None:
    one = Tensor(8, Pool(1, 9), Pool(2, 8), (0,), (1,))
    none = Tensor(8, Pool(2, 9), Pool(2, 8), (), ())
    for tensor in (one, none):
        assert is_dense(Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,)))


def test_limits_of_one_call_are_not_tried_on_several() -> None:
    """Whether each call is within the limit can't be seen from the whole, so nothing is claimed."""
    limited = Support(max_descriptors=2)
    pool = Pool(4, 16)
    tensor = Tensor(16, pool, pool, (2, 0, 1), (1, 3, 0))
    once = Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,))
    twice = replace(once, submission=replace(once.submission, calls=2))
    assert once.descriptors == 3
    assert not_tried(once, limited) is None
    assert not_tried(twice, limited) == "3 descriptors, at most 2"
    assert not_tried(twice, Support()) is None
    assert not_tried(once, Support(memory=frozenset())) == not_tried(twice, Support(memory=frozenset()))
