"""The one word on a run: pass only if everything that had to run ran and held, and a reason for anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from some_cases import load

from backends.contract import Device, Support
from conformance.record import failures
from conformance.record.counts import Key, Tally
from conformance.record.incidents import Incident, IncidentLog
from conformance.record.journal import Journal
from conformance.record.settings import RunSettings
from conformance.report.result import FAIL, INCOMPLETE, PASS, Report, gather
from conformance.requirements.budgets import KINDS, Budget
from conformance.session.settings import SettingsError, decide, make_folders
from strategies.case import Case

BACKENDS = ("one", "two")
DEVICE = Device("cpu", 0, "a CPU", "6", "none", "2", None, ("device", "pageable"), ("side",), True, True, None)


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    """A run of two backends whose folders are made."""
    made = decide(
        platform="cpu",
        backends=BACKENDS,
        budget="smoke",
        report=str(tmp_path / "report"),
        seed=1,
        isolation="process",
        floor_seconds=10.0,
        address="\0here",
        root=tmp_path,
    )
    make_folders(made)
    return made


@pytest.fixture
def held(settings: RunSettings) -> Tally:
    """Every requirement of every claim held for both backends, and every test ended."""
    tally = Tally(settings.work, "gw0-1")
    for kind in KINDS:
        for name in kind.subjects or BACKENDS:
            for requirement in kind.requirements:
                for column in ("planned", "drawn", "passed"):
                    tally.count(Key(name, requirement), column, 5)
    worker(settings)
    return tally


def worker(settings: RunSettings, **changes: object) -> None:
    """What a worker writes beside its counts."""
    notes = {
        "collected": ["t1", "t2"],
        "deselected": [],
        "ended": ["t1", "t2"],
        "unavailable": {},
        "devices": {"0": DEVICE.to_json()},
        "supports": {name: Support().to_json() for name in BACKENDS},
        "seconds": {},
        "coverage": {},
        "cost": {"cases": 10.0},
        "span": [1.0, 3.0],
        "notes": [],
    }
    (settings.work / "gw0-1.worker").write_text(json.dumps({**notes, **changes}))


def test_everything_held_is_a_pass(settings: RunSettings, held: Tally) -> None:
    """All planned cases ran and held: pass, no reason, status 0."""
    report = gather(settings, exit_status=0)
    assert (report.result, report.reasons, report.exit_status) == (PASS, [], 0), report.notes
    assert report.lines()[-1] == f"result: pass on cpu (report: {settings.report})"
    assert report.ledger.rate == 5.0


def failed(settings: RunSettings, tally: Tally) -> None:
    tally.count(Key("one", "BYTES-COPIED"), "failed")
    tally.count(Key("one", "BYTES-COPIED"), "drawn")


def died(settings: RunSettings, tally: Tally) -> None:
    tally.count(Key("one", "BYTES-COPIED"), "drawn")


def not_judged(settings: RunSettings, tally: Tally) -> None:
    tally.count(Key("one", "BYTES-COPIED"), "drawn")
    tally.count(Key("one", "BYTES-COPIED"), "not_judged")


def too_few(settings: RunSettings, tally: Tally) -> None:
    tally.count(Key("one", "BYTES-COPIED"), "planned", 3)


def unfinished(settings: RunSettings, tally: Tally) -> None:
    worker(settings, ended=["t2"])


def incident(settings: RunSettings, tally: Tally) -> None:
    log = IncidentLog(settings.work / "incidents.jsonl")
    log.record(Incident("signal SIGSEGV", "one", "two", None, proved=False))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (failed, "one, BYTES-COPIED: 1 of 11 cases failed"),
        (died, "one, BYTES-COPIED: 1 cases were drawn and never judged: their worker died"),
        (not_judged, "one, BYTES-COPIED: 1 cases could not be judged"),
        (too_few, "one, BYTES-COPIED: 10 of 13 planned cases were judged"),
        (unfinished, "1 tests never ended, e.g. t1"),
        (
            incident,
            "signal SIGSEGV, met by a case of one that passes alone; the case of two before it passes alone too, so "
            "the cause is not known",
        ),
    ],
    ids=["failed", "died", "not judged", "too few", "test lost", "incident"],
)
def test_each_reason_fails_the_run(
    spoil: Callable[[RunSettings, Tally], None], reason: str, settings: RunSettings, held: Tally
) -> None:
    """One thing amiss is a failed run with status 1, even where pytest itself was content, and it says what."""
    spoil(settings, held)
    report = gather(settings, exit_status=0)
    assert (report.result, report.exit_status) == (FAIL, 1)
    assert reason in report.reasons
    assert f"because {reason}" in report.lines()


def test_pytests_own_failure_fails_the_run(settings: RunSettings, held: Tally) -> None:
    """An error that no count shows, a broken fixture say, is a reason too."""
    report = gather(settings, exit_status=1)
    assert report.result == FAIL
    assert report.reasons == ["pytest ended with status 1"]


def test_a_requirement_left_out_is_incomplete(settings: RunSettings) -> None:
    """What held but was not held to everything is neither a pass nor a failure."""
    tally = Tally(settings.work, "gw0-1")
    for column in ("planned", "drawn", "passed"):
        tally.count(Key("one", "BYTES-COPIED"), column, 5)
    worker(settings)
    report = gather(settings, exit_status=0)
    assert (report.result, report.exit_status) == (INCOMPLETE, 0)
    assert any(note.startswith("two was not held to ") and "BYTES-COPIED" in note for note in report.notes)


def test_an_unavailable_backend_is_not_missed(settings: RunSettings, held: Tally) -> None:
    """A backend that can't run here is named as not run, and the rest can pass."""
    worker(settings, unavailable={"three": "no such driver"})
    report = gather(replace(settings, backends=(*BACKENDS, "three")), exit_status=0)
    assert report.result == PASS
    assert "not run: three: no such driver" in report.lines()


def test_a_case_that_was_running_is_named(settings: RunSettings, held: Tally) -> None:
    """What the journal of a dead device process says was running goes whole to a file that can be replayed, and the
    run's folder is kept."""
    died(settings, held)
    text = json.dumps({"backend": "one", "case": load(16).to_json()})
    Journal(settings.work / "device-0.journal").begin("gw0", 1, text, 60.0)
    report = gather(settings, exit_status=1)
    assert report.lost_cases == [text]
    report.write(Path(settings.report))
    (path,) = Path(settings.report, "failures").iterdir()
    assert f"was running when its process and its worker died: kvconform replay {path}" in report.lines()
    assert (failures.backend_of(path), Case.load(path)) == ("one", load(16))
    assert settings.work.exists()
    assert gather(settings, exit_status=1).failures == []


def test_written_report_leaves_only_what_lasts(settings: RunSettings, held: Tally) -> None:
    """The summary holds counts that add up, and what only the run needed is gone."""
    report = gather(settings, exit_status=0)
    report.write(Path(settings.report))
    assert not settings.work.exists()
    data = json.loads((Path(settings.report) / "summary.json").read_text())
    for row in data["counts"]:
        assert row["drawn"] == row["passed"] + row["failed"] + row["refused"] + row["not_judged"] + row["open"]
    assert isinstance(Report.from_json(data), Report)


def test_settings_go_there_and_back(settings: RunSettings) -> None:
    """Workers get the very settings that were decided."""
    assert RunSettings.loads(settings.dumps()) == settings


def test_what_is_left_open_is_filled_in(tmp_path: Path) -> None:
    """Without options: every built-in backend, a new seed, a new folder below reports/, and no server in process."""

    def left_open() -> RunSettings:
        return decide(
            platform="cpu",
            backends=(),
            budget="gate",
            report=None,
            seed=None,
            isolation="none",
            floor_seconds=10.0,
            address="\0unused",
            root=tmp_path,
        )

    made = left_open()
    assert set(made.backends) >= {"torch_copy", "triton_copy", "batch_dma"}
    assert not made.chosen_backends
    assert Path(made.report).parent == tmp_path / "reports"
    assert made.seed != left_open().seed
    assert (made.address, made.budget) == ("", Budget.GATE.value)


def test_options_that_can_not_be_met(settings: RunSettings, tmp_path: Path) -> None:
    """An unknown platform and a folder that can't be made are errors that name the option."""
    with pytest.raises(SettingsError, match="--platform: platform 'abacus' is unknown"):
        decide(
            platform="abacus",
            backends=(),
            budget="gate",
            report=None,
            seed=1,
            isolation="none",
            floor_seconds=10.0,
            address="",
            root=tmp_path,
        )
    with pytest.raises(SettingsError, match=r"--report /proc/nowhere: .*; give a folder that can be written"):
        make_folders(replace(settings, report="/proc/nowhere"))
