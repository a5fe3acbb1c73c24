"""Where the bytes of a side lie: blocks apart and guarded, fences at the ends, windows around what is touched."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_scopes import SCOPES

from strategies.case import Case, Fence, Pool, Run
from strategies.draw.cases import cases
from strategies.footprint import (
    LEAST_GUARD,
    PAGE,
    Footprint,
    destination_footprint,
    guard_bytes,
    source_footprint,
)

Side = tuple[Footprint, list[tuple[int, Pool, tuple[int, ...], int]]]


def sides(case: Case) -> list[Side]:
    """Both footprints, each with (base, pool, ids, bytes of a block) of its tensors."""
    found: list[Side] = []
    for side, footprint in (("source", source_footprint(case)), ("destination", destination_footprint(case))):
        rows = []
        for tensor, base in zip(case.tensors, footprint.bases, strict=True):
            runs = tensor.runs or (Run(0, 0, tensor.page_bytes),)
            need = max(
                tensor.page_bytes,
                *(getattr(r, side) + (r.count - 1) * getattr(r, f"{side}_step") + r.nbytes for r in runs),
            )
            rows.append((base, getattr(tensor, side), getattr(tensor, f"{side}s"), need))
        found.append((footprint, rows))
    return found


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_no_two_blocks_overlap_and_every_block_lies_in_the_arena(case: Case) -> None:
    for footprint, rows in sides(case):
        spans = []
        for base, pool, ids, need in rows:
            shown = range(pool.blocks) if pool.blocks <= 2000 else sorted({*ids, 0, pool.blocks - 1})
            spans += [(base + pool.offset(block), need) for block in shown]
        spans.sort()
        assert all(start + need <= after for (start, need), (after, _) in pairwise(spans))
        assert spans[0][0] >= 0
        assert spans[-1][0] + spans[-1][1] <= footprint.span


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]), st.data())
def test_image_and_arena_offsets_are_inverse(case: Case, data: st.DataObject) -> None:
    for footprint, _ in sides(case):
        at = data.draw(st.integers(0, footprint.image_bytes - 1), label="image offset")
        assert footprint.image_offset(footprint.arena_offset(at)) == at
        with pytest.raises(ValueError, match="behind the image"):
            footprint.arena_offset(footprint.image_bytes)
        with pytest.raises(ValueError, match="in no extent"):
            footprint.image_offset(footprint.span)


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_every_touched_block_exists_whole(case: Case) -> None:
    for footprint, rows in sides(case):
        assert list(footprint.extents) == sorted(footprint.extents)
        for base, pool, ids, need in rows:
            for block in ids[:50]:
                first = base + pool.offset(block)
                assert footprint.image_offset(first + need - 1) - footprint.image_offset(first) == need - 1


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_a_fence_lies_at_the_first_or_behind_the_last_byte(case: Case) -> None:
    for footprint, rows in sides(case):
        base, pool, _, _ = rows[0]
        if footprint.fence is Fence.BEFORE:
            assert base + pool.offset(0) == 0
        if footprint.fence is Fence.AFTER:
            base, pool, _, need = rows[-1]
            assert base + pool.offset(pool.blocks - 1) + need == footprint.span
            assert footprint.span % PAGE == 0


@settings(max_examples=150, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_guard_bands_lie_before_between_and_behind_tensors(case: Case) -> None:
    for footprint, rows in sides(case):
        end = 0
        for index, (base, pool, _, need) in enumerate(rows):
            if index or footprint.fence is not Fence.BEFORE:
                assert base - end >= LEAST_GUARD
                assert base - end >= min(pool.stride, guard_bytes(pool))
            end = base + pool.offset(pool.blocks - 1) + need
        if footprint.fence is not Fence.AFTER:
            assert footprint.span - end >= LEAST_GUARD
