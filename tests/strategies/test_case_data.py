"""A case travels as JSON unchanged, and what can't be a case is refused with a text that says where and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from some_scopes import SCOPES

from backends.contract import Direction, Memory
from strategies.case import Case, CaseError, Fence, Pool, Run, Submission, Tensor
from strategies.draw.cases import cases, malformed_cases, round_trips, undefined_cases
from strategies.must_have import must_have

TENSOR = Tensor(8, Pool(4, 8), Pool(4, 8), (0, 1), (2, 3))
CASE = Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, (TENSOR,))


@settings(max_examples=100, deadline=None)
@given(
    cases(SCOPES["accelerator"])
    | round_trips(SCOPES["accelerator"])
    | undefined_cases(SCOPES["accelerator"])
    | malformed_cases(SCOPES["accelerator"])
)
def test_json_there_and_back_is_the_same_case(case: Case) -> None:
    text = case.dumps()
    assert Case.from_json(json.loads(text)) == case
    assert Case.from_json(json.loads(text)).dumps() == text


def test_equal_cases_give_equal_text_whatever_the_order_of_fields() -> None:
    data = CASE.to_json()
    assert Case.from_json(dict(reversed(data.items()))).dumps() == CASE.dumps()


def test_must_have_cases_travel_too() -> None:
    for name, case in must_have(SCOPES["cpu-interpreter"]):
        assert Case.from_json(json.loads(case.dumps())) == case, name


def test_load_reads_a_case_or_what_holds_one(tmp_path: Path) -> None:
    plain, held = tmp_path / "plain.json", tmp_path / "held.json"
    plain.write_text(CASE.dumps(), encoding="utf-8")
    held.write_text(json.dumps({"why": "found", "case": CASE.to_json()}), encoding="utf-8")
    assert Case.load(plain) == Case.load(held) == CASE


@pytest.mark.parametrize(("text", "says"), [("{", "not JSON"), ("[1]", "a case is a JSON object, not list")])
def test_load_names_the_file(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaseError, match=says) as caught:
        Case.load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(CaseError, match="No such file"):
        Case.load(tmp_path / "none.json")


def _change(**changes: Any) -> Callable[[], Case]:
    return lambda: replace(CASE, **changes)


def _tensor(**changes: Any) -> Callable[[], Case]:
    return lambda: replace(CASE, tensors=(replace(TENSOR, **changes),))


HALVES = (Run(0, 0, 4), Run(4, 2, 4))  # the destinations overlap
SHARED = (Run(0, 0, 4), Run(2, 4, 4))  # the sources overlap


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (_change(tensors=()), "tensors: at least one"),
        (_change(direction=Direction.STORE), "source_memory: pinned does not fit direction store"),
        (
            _change(direction=Direction.HOST_TO_HOST, destination_memory=Memory.READ_ONLY),
            "destination_memory: read-only can't be written",
        ),
        (
            _change(source_memory=Memory.READ_ONLY, round_trip=True),
            "round_trip: a read-only source can't return",
        ),
        (
            _change(source_memory=Memory.READ_ONLY, submission=Submission(late_source=True)),
            "submission.late_source: read-only memory can't be written late",
        ),
        (
            _change(submission=Submission(zero_entries=(1 << 63,))),
            "submission.zero_entries: positions are 0 to 1048576",
        ),
        (_change(seed=-1), "seed: -1, may be 0 or more, below 2^46"),
        (_change(submission=Submission(calls=0)), "submission.calls: 0, may be 1 to 64"),
        (
            _change(submission=Submission(order_any=True, late_source=True)),
            "submission: order_any permits early reads, so the source can't be late",
        ),
        (_change(submission=Submission(zero_entries=(-1,))), "submission.zero_entries: positions are 0 to 1048576"),
        (_tensor(page_bytes=0), "tensors[0].page_bytes: 0, may be 1 or more"),
        (_tensor(sources=(0,)), "tensors[0]: 1 sources, 2 destinations; they go pairwise"),
        (_tensor(sources=(0, 4)), "tensors[0].source: block [4] is outside 0 .. 3"),
        (_tensor(destinations=(0, -1)), "tensors[0].destination: block [-1] is outside 0 .. 3"),
        (_tensor(destinations=(1, 1)), "tensors[0].destinations: an id twice is undefined; set Case.undefined"),
        (_tensor(source=Pool(0, 8)), "tensors[0].source.blocks: 0, may be 1 or more"),
        (_tensor(source=Pool(4, 8, per_chunk=0)), "tensors[0].source.per_chunk: 0, may be 1 or more"),
        (_tensor(source=Pool(4, 8, origin=-1)), "tensors[0].source.origin: -1, may be 0 or more"),
        (_tensor(destination=Pool(4, 7)), "tensors[0].destination.stride: 7, but a block takes 8 bytes"),
        (
            _tensor(destination=Pool(4, 8, 2, 15)),
            "tensors[0].destination.chunk_stride: 15, a chunk takes 16",
        ),
        (_tensor(runs=(Run(0, 0, 0),)), "tensors[0].runs[0]: nbytes and count are 1 or more"),
        (_tensor(runs=(Run(-1, 0, 2),)), "tensors[0].runs[0]: offsets are 0 or more"),
        (
            _tensor(runs=(Run(0, 0, 4, 2, 4, 3),)),
            "tensors[0].runs[0]: steps smaller than nbytes make pieces overlap",
        ),
        (_tensor(runs=(Run(0, 8, 4),)), "tensors[0].destination.stride: 8, but a block takes 12 bytes"),
        (
            _tensor(runs=HALVES),
            "tensors[0].runs: two pieces write the same bytes of a page, which is undefined; set Case.undefined",
        ),
        (
            lambda: replace(CASE, tensors=(replace(TENSOR, runs=SHARED),), round_trip=True),
            "tensors[0].runs: two pieces of one source byte have no way back (round_trip)",
        ),
        (
            lambda: replace(CASE, tensors=(replace(TENSOR, sources=(1, 1)),), round_trip=True),
            "tensors[0].sources: an id twice has no way back (round_trip)",
        ),
        (
            lambda: replace(CASE, tensors=(replace(TENSOR, source=Pool(4, 8, origin=1)),), source_fence=Fence.BEFORE),
            "source_fence: before, so tensors[0].source.origin must be 0, not 1",
        ),
    ],
)
def test_an_impossible_case_says_where_and_why(build: Callable[[], Case], text: str) -> None:
    with pytest.raises(CaseError) as caught:
        build()
    assert str(caught.value) == text


def test_what_is_undefined_may_be_said_to_be() -> None:
    replace(CASE, tensors=(replace(TENSOR, destinations=(1, 1), runs=HALVES),), undefined=True)
    replace(CASE, tensors=(replace(TENSOR, runs=SHARED),))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 9}, "format: 9, this version reads 1"),
        ({"colour": 1}, "case: unknown field 'colour'; known: direction"),
        ({"direction": "up"}, "case.direction: 'up', may be load, store, device-to-device, host-to-host"),
        ({"seed": "0"}, "case.seed: '0' is not int"),
        ({"seed": True}, "case.seed: True is not int"),
        ({"tensors": 3}, "case.tensors: 3 is not a list"),
        ({"tensors": [3]}, "case.tensors[0]: 3 is not an object"),
        ({"tensors": [{}]}, "case.tensors[0]: "),
    ],
)
def test_json_that_is_no_case_names_the_field(change: dict[str, Any], text: str) -> None:
    with pytest.raises(CaseError) as caught:
        Case.from_json({**CASE.to_json(), **change})
    assert str(caught.value).startswith(text)
