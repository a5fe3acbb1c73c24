"""Coverage counts cells, pairs and bytes, adds up over processes, and names what was never met."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from some_scopes import SCOPES

from backends.contract import Direction, Memory, Stream
from strategies.axes import AXES, PAIRS, required
from strategies.case import Case, Fence, Pool, Run, Submission, Tensor
from strategies.cells import count_cell, page_cell, values
from strategies.coverage import Coverage, moved_bytes
from strategies.draw.cases import cases
from strategies.must_have import must_have


def case_of(*tensors: Tensor, submission: Submission | None = None) -> Case:
    return Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, tensors, submission or Submission())


def test_cells_of_one_case_in_full() -> None:
    source = Pool(6, 100, per_chunk=2, chunk_stride=4096, origin=3)
    tensor = Tensor(100, source, Pool(4, 128, origin=9), (1, 4, 5), (0, 3, 1))
    assert values(case_of(tensor, submission=Submission(Stream.DEFAULT, zero_entries=(0, 3)))) == {
        "kind": ("copy",),
        "direction": ("load",),
        "source memory": ("pinned",),
        "destination memory": ("device",),
        "stream": ("default",),
        "source fence": ("none",),
        "destination fence": ("none",),
        "descriptors": ("3-14",),
        "groups": ("one",),
        "calls": ("1",),
        "zero entries": ("first", "last"),
        "order any": ("no",),
        "late source": ("no",),
        "late destination": ("no",),
        "reuse descriptors": ("no",),
        "mapping": ("scattered",),
        "page bytes": ("16-511",),
        "page of": ("no model",),
        "power of two": ("beside none",),
        "size residue": ("4",),
        "pieces": ("whole page",),
        "source residue": ("3", "7"),
        "source rows": ("page-aligned",),
        "source offset": ("low",),
        "source ids": ("below 2^31", "gaps"),
        "source address": ("below 4 GiB",),
        "source chunk": ("2",),
        "source first in chunk": ("1 of 2",),
        "source last in chunk": ("1 of 2",),
        "source holes in a chunk": ("no",),
        "destination residue": ("9",),
        "destination rows": ("padded",),
        "destination offset": ("low",),
        "destination ids": ("below 2^31", "both ends of the pool", "gaps"),
        "destination address": ("below 4 GiB",),
        "destination chunk": ("1",),
        "blind spot": ("memory of the host", "a source that is not block 0", "places unlike sources"),
    }


@settings(max_examples=100, deadline=None)
@given(cases(SCOPES["accelerator"]))
def test_only_known_axes_have_cells(case: Case) -> None:
    found = values(case)
    assert set(found) <= {axis.name for axis in AXES}
    assert all(len(set(cells)) == len(cells) for cells in found.values())
    assert all(cells for axis, cells in found.items() if axis != "blind spot")


@pytest.mark.parametrize(
    ("count", "cell"),
    [(0, "0"), (1, "1"), (2, "2"), (3, "3-14"), (15, "15"), (18, "18-998"), (65_537, "65537"), (70_000, "over 65537")],
)
def test_counts_stand_alone_at_the_edges(count: int, cell: str) -> None:
    assert count_cell(count) == cell


@pytest.mark.parametrize(
    ("size", "cell"), [(1, "1"), (7, "2-7"), (28_672, "28672"), (28_674, "28674-65535"), (2 << 20, "over 1048576")]
)
def test_pages_stand_alone_at_the_edges(size: int, cell: str) -> None:
    assert page_cell(size) == cell


def test_a_block_across_a_line_is_seen() -> None:
    line = 1 << 32
    tensor = Tensor(48, Pool(line // 48 + 2, 48), Pool(1, 48), (line // 48,), (0,))
    assert values(case_of(tensor))["source offset"] == ("across 2^32",)
    beside = Tensor(48, Pool(3, 48, origin=line - 4096 - 8), Pool(1, 48), (0,), (0,))
    assert values(case_of(beside))["source address"] == ("a block across 4 GiB",)


def test_moved_bytes_count_pieces_and_ways() -> None:
    tensor = Tensor(8, Pool(3, 8), Pool(3, 8), (0, 1, 2), (2, 1, 0), (Run(0, 0, 2, 2, 4, 4),))
    assert moved_bytes(case_of(tensor)) == 12
    there_and_back = Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, (tensor,), round_trip=True)
    assert moved_bytes(there_and_back) == 24


def test_parts_add_up_to_the_whole() -> None:
    listed = [case for _, case in must_have(SCOPES["cpu-interpreter"])]
    whole, first, second = Coverage(), Coverage(), Coverage()
    for index, case in enumerate(listed):
        whole.add(case)
        (first if index % 2 else second).add(case)
    merged = Coverage.from_json(json.loads(json.dumps(first.to_json())))
    merged.merge(Coverage.from_json(json.loads(json.dumps(second.to_json()))))
    assert merged.to_json() == whole.to_json()
    assert merged.cases == len(listed)
    assert 0 < merged.moved_bytes < merged.compared_bytes
    assert merged.pairs["direction", "stream"]["load", "side"] > 10


def test_what_was_never_met_is_named() -> None:
    scope = SCOPES["cpu"]
    coverage = Coverage()
    missing = coverage.missing(scope)
    assert len(missing) == sum(map(len, required(scope).values()))
    coverage.add(case_of(Tensor(1, Pool(1, 1), Pool(1, 1), (0,), (0,))))
    left = coverage.missing(scope)
    assert "page bytes: 1" in missing
    assert "page bytes: 1" not in left
    assert "source fence: after" in left


def test_pairs_are_of_known_axes() -> None:
    assert {name for pair in PAIRS for name in pair} <= {axis.name for axis in AXES}


def test_a_fence_has_its_cell() -> None:
    tensor = Tensor(1, Pool(1, 1), Pool(1, 1), (0,), (0,))
    case = Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,), source_fence=Fence.AFTER)
    assert values(case)["source fence"] == ("after",)
