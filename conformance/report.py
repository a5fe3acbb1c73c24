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

from conformance import tally
from conformance.budgets import KINDS
from conformance.device.journal import Journal
from conformance.incidents import Incident, IncidentLog
from conformance.requirements import REQUIREMENTS
from conformance.settings import RunSettings
from conformance.tally import Count, Key
from strategies.coverage import Coverage

PASS, FAIL, INCOMPLETE = "pass", "fail", "incomplete"
MANDATORY = {requirement.id for requirement in REQUIREMENTS if requirement.mandatory}


@dataclass(frozen=True)
class Ledger:
    """What workers wrote down beside their counts."""

    collected: tuple[str, ...]  # tests of claims
    ended: tuple[str, ...]
    unavailable: dict[str, str]  # backend -> why it can't run here
    devices: dict[str, Any]  # index -> facts
    supports: dict[str, Any]  # backend -> declaration
    coverage: dict[str, Any]  # backend -> coverage
    seconds: dict[str, float]  # backend -> seconds of workers spent on its claims
    cost: dict[str, float]  # phase -> seconds over all cases; "cases" counts them
    span: float  # seconds from the first device's answer to the last test's end

    @property
    def rate(self) -> float:
        """Cases a second over all workers."""
        return self.cost.get("cases", 0.0) / self.span if self.span else 0.0


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
    lost_cases: list[str]  # journal texts of cases that were running when everything died
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
        """Write summary.json, and remove what only the run needed."""
        try:
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
        lines += [f"not run: {name}: {why}" for name, why in sorted(self.ledger.unavailable.items())]
        lines += [f"incident: {incident.sentence()}" for incident in self.incidents]
        if self.deaths:
            lines.append(f"device processes that died: {len(self.deaths)} (see summary.json)")
        lines += [f"was running when its process and its worker died: {text[:400]}" for text in self.lost_cases]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"saved failure: {path}" for path in self.failures]
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
    reasons = [*_count_reasons(counts, lost), *_test_reasons(ledger)]
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
        failures=sorted(map(str, (Path(settings.report) / "failures").glob("*.json"))),
        exit_status=exit_status,
    )
    if report.result == PASS:
        _look_for_gaps(report)
    if reasons and exit_status == 0:
        report.exit_status = 1
    return report


def read_ledger(work: Path) -> Ledger:
    """Merge what every worker wrote."""
    collected: set[str] = set()
    ended: set[str] = set()
    merged: dict[str, dict[str, Any]] = {"unavailable": {}, "devices": {}, "supports": {}}
    coverage: dict[str, Coverage] = {}
    seconds: dict[str, float] = {}
    cost: dict[str, float] = {}
    spans: list[list[float]] = []
    for path in sorted(work.glob("*.worker")):
        data = json.loads(path.read_text())
        collected |= set(data["collected"])
        ended |= set(data["ended"])
        for name, table in merged.items():
            table.update(data[name])
        for backend, found in data["coverage"].items():
            coverage.setdefault(backend, Coverage()).merge(Coverage.from_json(found))
        for into, key in ((seconds, "seconds"), (cost, "cost")):
            for name, amount in data[key].items():
                into[name] = into.get(name, 0.0) + amount
        if data["span"][0]:
            spans.append(data["span"])
    return Ledger(
        tuple(sorted(collected)),
        tuple(sorted(ended)),
        coverage={backend: found.to_json() for backend, found in coverage.items()},
        seconds=seconds,
        cost=cost,
        span=max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0,
        **merged,
    )


def _count_reasons(counts: dict[Key, Count], lost: list[str]) -> list[str]:
    """Failed requirements, and sums that do not add up."""
    reasons = []
    for key, count in sorted(counts.items(), key=lambda item: (item[0].backend, item[0].requirement)):
        where = f"{key.backend}, {key.requirement}"
        if count.failed:
            reasons.append(f"{where}: {count.failed} of {count.drawn} cases failed")
            continue
        if count.open:
            named = f"; {len(lost)} named above" if lost else ""
            reasons.append(f"{where}: {count.open} cases were drawn and never judged: their worker died{named}")
        if count.not_judged:
            reasons.append(f"{where}: {count.not_judged} cases could not be judged")
        if count.drawn - count.open < count.planned and not _any_failed(counts, key.backend):
            reasons.append(f"{where}: {count.drawn} of {count.planned} planned cases ran")
    return reasons


def _any_failed(counts: dict[Key, Count], backend: str) -> bool:
    return any(count.failed for key, count in counts.items() if key.backend == backend)


def _test_reasons(ledger: Ledger) -> list[str]:
    lost = sorted(set(ledger.collected) - set(ledger.ended))
    if not lost:
        return []
    return [f"{len(lost)} tests never ended, e.g. {lost[0]}"]


def _look_for_gaps(report: Report) -> None:
    """A run that held but left a claim out is incomplete, not a pass."""
    present = {key.requirement for key in report.counts}
    expected = {requirement for kind in KINDS for requirement in kind.requirements} & MANDATORY
    tested = {name for name in report.settings.backends if name not in report.ledger.unavailable}
    if len(tested) < 2:
        expected.discard("BYTES-AGREE")
    limited = any(_has_limits(support) for support in report.ledger.supports.values())
    missing = sorted(requirement for requirement in expected - present if requirement != "REFUSE-REASON" or limited)
    if missing:
        report.result = INCOMPLETE
        report.notes.append(f"not every mandatory requirement was run: {', '.join(missing)}")
    untested = sorted(tested - {key.backend for key in report.counts})
    if untested:
        report.result = INCOMPLETE
        report.notes.append(f"backends with no case: {', '.join(untested)}")


def _has_limits(support: dict[str, Any]) -> bool:
    return (
        support["size_multiple"] > 1
        or support["address_multiple"] > 1
        or support["max_descriptors"] is not None
        or support["max_bytes"] is not None
        or not support["zero_sizes"]
        or support["uniform_dense"]
    )


def _running(work: Path) -> list[str]:
    """What the journals name as running, once nothing runs any more."""
    found = []
    for path in sorted(work.glob("*.journal")):
        journal = Journal(path)
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
    columns = [max(len(name), 12) for name in backends]
    lines = [" ".join([" " * width, *(f"{name:>{w}}" for name, w in zip(backends, columns, strict=True))])]
    for requirement in requirements:
        cells = [_cell(counts.get(Key(backend, requirement))) for backend in backends]
        lines.append(
            " ".join([f"{requirement:{width}}", *(f"{cell:>{w}}" for cell, w in zip(cells, columns, strict=True))])
        )
    return lines


def _cell(count: Count | None) -> str:
    if count is None:
        return "-"
    if count.failed:
        return f"{count.failed} FAILED"
    parts = [f"{count.passed} held"]
    if count.refused:
        parts.append(f"{count.refused} refused")
    if count.not_judged or count.open:
        parts.append(f"{count.not_judged + count.open} not judged")
    return ", ".join(parts)
