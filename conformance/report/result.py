"""What a run showed: counts by backend and requirement, incidents, losses, one result. Reads evidence on disk only.

Nothing here runs a case or imports torch, so that a run that was killed can be summed up later (`kvconform report`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from conformance.record import counts as tally
from conformance.record import failures
from conformance.record.counts import Count, Key
from conformance.record.incidents import Incident, IncidentLog
from conformance.record.journal import Journal
from conformance.record.ledger import Ledger, read_ledger
from conformance.record.settings import RunSettings
from conformance.report.explain import run_lines
from conformance.report.shortfalls import count_reasons, coverage_gaps, coverage_line, left_out, test_reasons
from conformance.requirements.copies import REQUIREMENTS

PASS, FAIL, INCOMPLETE = "pass", "fail", "incomplete"


@dataclass
class Report:
    """See the module's docstring; `result` is the one word."""

    settings: RunSettings
    result: str
    reasons: list[str]  # why it is not a pass
    counts: dict[Key, Count]
    ledger: Ledger
    incidents: list[Incident]
    deaths: list[dict[str, Any]]
    lost_cases: list[str]  # cases that were running when everything died: their files, or the journals' texts
    failures: list[str]  # files
    exit_status: int
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            "result": self.result,
            "reasons": self.reasons,
            "notes": self.notes,
            "settings": asdict(self.settings),
            "devices": self.ledger.devices,
            "supports": self.ledger.supports,
            "unavailable": self.ledger.unavailable,
            "coverage": self.ledger.coverage,
            "cases_a_second": self.ledger.rate,
            "span_seconds": self.ledger.span,
            "cost_seconds": self.ledger.cost,
            "worker_seconds": self.ledger.seconds,
            "cases_by_device": self.ledger.by_device,
            "counts": [
                {"backend": key.backend, "requirement": key.requirement, **asdict(count), "open": count.open}
                for key, count in sorted(self.counts.items(), key=lambda item: (item[0].backend, item[0].requirement))
            ],
            "incidents": [{"sentence": incident.sentence(), **asdict(incident)} for incident in self.incidents],
            "deaths": self.deaths,
            "lost_cases": self.lost_cases,
            "failures": self.failures,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """A report that `to_json` gave; which tests ended is not kept. Raises KeyError and TypeError for others."""
        columns = {column.name for column in fields(Count)}
        return cls(
            settings=RunSettings.loads(json.dumps(data["settings"])),
            result=data["result"],
            reasons=data["reasons"],
            counts={
                Key(row["backend"], row["requirement"]): Count(**{name: row[name] for name in columns})
                for row in data["counts"]
            },
            ledger=Ledger(
                collected=(),
                ended=(),
                unavailable=data["unavailable"],
                devices=data["devices"],
                supports=data["supports"],
                coverage=data["coverage"],
                seconds=data["worker_seconds"],
                cost=data["cost_seconds"],
                span=data["span_seconds"],
            ),
            incidents=[
                Incident(**{name: value for name, value in row.items() if name != "sentence"})
                for row in data["incidents"]
            ],
            deaths=data["deaths"],
            lost_cases=data["lost_cases"],
            failures=data["failures"],
            exit_status=int(data["result"] != PASS),
            notes=data["notes"],
        )

    def write(self, folder: Path) -> None:
        """Write summary.json and the lost cases, and remove what only the run needed."""
        try:
            self.lost_cases = [str(failures.save_lost(folder / "failures", text) or text) for text in self.lost_cases]
            (folder / "summary.json").write_text(json.dumps(self.to_json(), indent=1) + "\n")
        except OSError as error:
            self.notes.append(f"the summary could not be written to {folder}: {error.strerror}")
            self.exit_status = self.exit_status or 1
            return
        if not self.lost_cases:
            shutil.rmtree(self.settings.work, ignore_errors=True)

    def lines(self) -> list[str]:
        """The summary for a terminal."""
        lines = _table(self.counts)
        cases = int(self.ledger.cost.get("cases", 0))
        lines.append(f"{cases} cases in {self.ledger.span:.1f} s: {self.ledger.rate:.0f} a second")
        lines += [coverage_line(name, found) for name, found in sorted(self.ledger.coverage.items())]
        lines += [f"not run: {name}: {why}" for name, why in sorted(self.ledger.unavailable.items())]
        lines += [f"incident: {incident.sentence()}" for incident in self.incidents]
        if self.deaths:
            lines.append(f"device processes that died: {len(self.deaths)} (see summary.json)")
        for lost in self.lost_cases:
            again = f"kvconform replay {lost}" if lost.endswith(".json") else lost
            lines.append(f"was running when its process and its worker died: {again}")
        lines += [f"note: {note}" for note in self.notes]
        lines += run_lines([Path(path) for path in self.failures])
        lines += [f"because {reason}" for reason in self.reasons]
        lines.append(f"result: {self.result} on {self.settings.platform} (report: {self.settings.report})")
        return lines


def gather(settings: RunSettings, exit_status: int) -> Report:
    """Sum up a run whose processes have ended."""
    work = settings.work
    counts = tally.read(work)
    ledger = read_ledger(work)
    incidents = IncidentLog(work / "incidents.jsonl").read()
    lost = _running(work)
    uncovered = coverage_gaps(settings, counts, ledger)
    reasons = [*count_reasons(counts, lost), *test_reasons(ledger, tally.halves(work)), *uncovered]
    reasons += [incident.sentence() for incident in incidents]
    if exit_status not in (0, 5) and not any(count.failed for count in counts.values()):
        reasons.append(f"pytest ended with status {exit_status}")
    report = Report(
        settings=settings,
        result=FAIL if reasons else PASS,
        reasons=reasons,
        counts=counts,
        ledger=ledger,
        incidents=incidents,
        deaths=_lines(work / "deaths.jsonl"),
        lost_cases=lost,
        failures=sorted(
            str(path)
            for path in (Path(settings.report) / "failures").glob("*.json")
            if not path.name.startswith(failures.LOST)
        ),
        exit_status=exit_status,
        notes=list(ledger.notes),
    )
    if report.result == PASS:
        missing = left_out(settings, counts, ledger)
        report.notes += missing
        report.result = INCOMPLETE if missing else PASS
    if reasons and exit_status == 0:
        report.exit_status = 1
    return report


def _running(work: Path) -> list[str]:
    """What the journals name as running, once nothing runs any more."""
    found = []
    for path in sorted(work.glob("*.journal")):
        try:
            journal = Journal(path)
        except OSError:  # the disk is full, and was when this one could not be made
            continue
        entry = journal.read()
        journal.close()
        if entry.running:
            found.append(entry.text)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _table(counts: dict[Key, Count]) -> list[str]:
    """One line a requirement, one column a backend: how many cases held, or how many failed."""
    backends = sorted({key.backend for key in counts})
    order = [requirement.id for requirement in REQUIREMENTS]
    requirements = sorted({key.requirement for key in counts}, key=lambda r: (order.index(r) if r in order else 99, r))
    width = max(map(len, requirements), default=0)
    rows = [backends, *([_cell(counts.get(Key(name, one))) for name in backends] for one in requirements)]
    columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([f"{name:{width}}", *(f"{cell:>{w}}" for cell, w in zip(row, columns, strict=True))])
        for name, row in zip(["", *requirements], rows, strict=True)
    ]


def _cell(count: Count | None) -> str:
    if count is None:
        return "-"
    if count.failed:
        return f"{count.failed} FAILED, {count.passed} held"
    if not count.planned and not count.drawn:
        return "none planned"
    parts = [f"{count.passed} held"]
    if count.refused:
        parts.append(f"{count.refused} refused")
    if count.not_judged or count.open:
        parts.append(f"{count.not_judged + count.open} not judged")
    return ", ".join(parts)
