"""`kvconform report`: a finished run is shown as it was, a killed one is summed up and never a pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.record.counts import Key, Tally
from conformance.record.journal import Journal
from conformance.record.settings import RunSettings
from conformance.report.result import Report, gather
from conformance.session.settings import decide, make_folders

Run = Callable[..., Any]


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    """Of a run whose folders are made."""
    made = decide(
        platform="cpu",
        backends=("torch_copy",),
        budget="smoke",
        report=str(tmp_path / "run"),
        seed=1,
        isolation="none",
        floor_seconds=10.0,
        address="",
        root=tmp_path,
    )
    make_folders(made)
    return made


def count(settings: RunSettings, **columns: int) -> None:
    """What one worker counted."""
    tally = Tally(settings.work, "gw0-1")
    for column, amount in columns.items():
        tally.count(Key("torch_copy", "BYTES-COPIED"), column, amount)


def test_a_finished_run_reads_as_it_was_shown(settings: RunSettings, kvconform: Run) -> None:
    count(settings, planned=3, drawn=3, passed=2, failed=1)
    report = gather(settings, exit_status=1)
    report.write(Path(settings.report))
    ended = kvconform("report", settings.report)
    assert ended.status == 1
    assert ended.out.splitlines() == report.lines()
    assert "torch_copy, BYTES-COPIED: 1 of 3 cases failed" in ended.out


def test_a_summary_keeps_all_that_it_says(settings: RunSettings) -> None:
    count(settings, planned=2, drawn=2, passed=2)
    report = gather(settings, exit_status=0)
    data = json.loads(json.dumps(report.to_json()))
    assert json.loads(json.dumps(Report.from_json(data).to_json())) == data


def test_a_killed_run_names_the_case_that_was_running(settings: RunSettings, kvconform: Run) -> None:
    count(settings, planned=5, drawn=3, passed=2)
    Journal(settings.work / "device-0.journal").begin("gw0", 1, '{"backend":"torch_copy","case":"this one"}', 60.0)
    ended = kvconform("report", settings.report)
    assert ended.status == 1
    assert "this one" in ended.out
    assert "torch_copy, BYTES-COPIED: 1 cases were drawn and never judged" in ended.out
    assert "the run has not ended: it still goes on, or it was killed" in ended.out
    assert "result: fail" in ended.out


def test_looking_changes_nothing(settings: RunSettings, kvconform: Run) -> None:
    count(settings, planned=5, drawn=3, passed=3)
    before = sorted(Path(settings.report).rglob("*"))
    kvconform("report", settings.report)
    assert sorted(Path(settings.report).rglob("*")) == before


def test_a_folder_that_was_moved(settings: RunSettings, kvconform: Run, tmp_path: Path) -> None:
    count(settings, planned=5, drawn=3, passed=3)
    moved = Path(settings.report).rename(tmp_path / "elsewhere")
    ended = kvconform("report", moved)
    assert "3 held" in ended.out


def test_another_folder_is_status_2(kvconform: Run, tmp_path: Path) -> None:
    ended = kvconform("report", tmp_path)
    assert ended.status == 2
    assert f"{tmp_path} is no report folder of a run" in ended.err


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_damaged_summary_is_status_2(kvconform: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "summary.json").write_text(text)
    ended = kvconform("report", tmp_path)
    assert ended.status == 2
    assert "written by another version, or damaged" in ended.err
