"""Mappings: ids in their pools, no place twice, and each pattern what its name says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.case import Pool, Tensor
from strategies.cells import mapping_cells
from strategies.draw import mappings
from strategies.draw.pools import PER_CHUNK

PATTERNS = pytest.mark.parametrize("pattern", mappings.PATTERNS, ids=lambda pattern: pattern.__name__)


@PATTERNS
@given(count=st.integers(0, 40), spare=st.tuples(st.integers(0, 40), st.integers(0, 40)), seed=st.integers(0, 255))
def test_ids_lie_in_their_pools_and_no_place_comes_twice(
    pattern: mappings.Pattern, count: int, spare: tuple[int, int], seed: int
) -> None:
    sources, destinations = max(1, count + spare[0]), max(1, count + spare[1])
    left, right = pattern(count, sources, destinations, Random(seed))
    assert len(left) == len(right) == len(set(right)) == count
    assert all(0 <= block < sources for block in left)
    assert all(0 <= block < destinations for block in right)
    if pattern in mappings.UNIQUE:
        assert len(set(left)) == count
    assert (left, right) == pattern(count, sources, destinations, Random(seed))


@pytest.mark.parametrize(
    ("pattern", "cell"),
    [
        (mappings.identity, "identity"),
        (mappings.backwards, "reversed"),
        (mappings.permutation, "scattered"),
        (mappings.runs, "runs"),
        (mappings.near_run, "near run"),
        (mappings.false_run, "false run"),
        (mappings.source_run, "source run"),
        (mappings.destination_run, "destination run"),
        (mappings.same_slots, "same slots, scattered"),
        (mappings.holes, "same slots, scattered"),
    ],
)
def test_a_pattern_is_what_its_name_says(pattern: mappings.Pattern, cell: str) -> None:
    for seed in range(20):
        left, right = pattern(20, 60, 60, Random(seed))
        tensor = Tensor(1, Pool(60, 1), Pool(60, 1), tuple(left), tuple(right))
        assert cell in mapping_cells(tensor), (left, right)


def test_pool_ends_touch_the_first_and_the_last_block() -> None:
    left, right = mappings.pool_ends(4, 9, 6, Random(0))
    assert (left, right) == ([8, 0, 7, 1], [1, 4, 0, 5])


@given(
    per_chunk=st.sampled_from(PER_CHUNK),
    chunks=st.integers(1, 5),
    fill=st.integers(0, 80),
    skip=st.integers(0, 15),
    gaps=st.integers(0, 20),
    seed=st.integers(0, 255),
)
def test_a_chunked_range_begins_after_its_skip_and_fills_whole_chunks(
    per_chunk: int, chunks: int, fill: int, skip: int, gaps: int, seed: int
) -> None:
    blocks = per_chunk * chunks
    count, skip = min(fill, blocks), skip % per_chunk
    ids = mappings.chunked(count, blocks, per_chunk, skip, gaps, Random(seed))
    assert len(set(ids)) == len(ids) == count
    assert all(0 <= block < blocks for block in ids)
    if ids and skip + count + gaps <= blocks:
        assert ids[0] % per_chunk == skip
        if not gaps or count == 1:
            logical = [skip + k for k in range(count)]
            assert [block % per_chunk for block in ids] == [at % per_chunk for at in logical]
            assert len({block // per_chunk for block in ids}) == len({at // per_chunk for at in logical})


def test_counts_lie_around_every_threshold() -> None:
    assert mappings.many_counts(1025) == (999, 1000, 1001, 1023, 1024, 1025)
    assert {4095, 4097, 8191, 8193, 65535, 65536, 65537} <= set(mappings.many_counts(65537))
    assert mappings.many_counts(500) == ()


@given(st.data())
def test_drawn_mappings_keep_their_promise(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8), label="count")
    sources = data.draw(st.integers(max(1, count), 12), label="sources")
    destinations = data.draw(st.integers(max(1, count), 12), label="destinations")
    unique = data.draw(st.booleans(), label="unique sources")
    left, right = data.draw(mappings.mappings(count, sources, destinations, unique), label="mapping")
    assert len(left) == len(right) == len(set(right)) == count
    assert all(0 <= block < sources for block in left)
    assert all(0 <= block < destinations for block in right)
    assert not unique or len(set(left)) == count
