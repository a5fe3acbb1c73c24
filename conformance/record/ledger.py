"""What workers write down beside their counts, merged: tests that ended, declarations, coverage, what cases cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strategies.coverage import Coverage


@dataclass(frozen=True)
class Ledger:
    """What workers wrote down beside their counts."""

    collected: tuple[str, ...]  # tests of claims that were to run
    ended: tuple[str, ...]
    unavailable: dict[str, str]  # backend -> why it can't run here
    devices: dict[str, Any]  # index -> facts
    supports: dict[str, Any]  # backend -> declaration
    coverage: dict[str, Any]  # backend -> coverage
    seconds: dict[str, float]  # backend -> seconds of workers spent on its claims
    cost: dict[str, float]  # phase -> seconds over all cases; "cases" counts them
    span: float  # seconds from the first device's answer to the last test's end
    notes: tuple[str, ...] = ()  # sentences for the report
    deselected: tuple[str, ...] = ()  # tests of claims that the user left out
    by_device: dict[str, float] = field(default_factory=dict)  # index -> cases
    conflicts: tuple[str, ...] = ()  # backends that declared different things to different workers

    @property
    def rate(self) -> float:
        """Cases a second over all workers."""
        return self.cost.get("cases", 0.0) / self.span if self.span else 0.0


def read_ledger(work: Path) -> Ledger:
    """Merge what every worker wrote."""
    collected: set[str] = set()
    ended: set[str] = set()
    merged: dict[str, dict[str, Any]] = {"unavailable": {}, "devices": {}, "supports": {}}
    coverage: dict[str, Coverage] = {}
    seconds: dict[str, float] = {}
    cost: dict[str, float] = {}
    by_device: dict[str, float] = {}
    spans: list[list[float]] = []
    notes: set[str] = set()
    deselected: set[str] = set()
    conflicts: set[str] = set()
    for path in sorted(work.glob("*.worker")):
        data = json.loads(path.read_text())
        collected |= set(data["collected"])
        ended |= set(data["ended"])
        notes |= set(data["notes"])
        deselected |= set(data["deselected"])
        known = merged["supports"]
        conflicts |= {name for name, said in data["supports"].items() if known.get(name, said) != said}
        for name, table in merged.items():
            table.update(data[name])
        for backend, found in data["coverage"].items():
            coverage.setdefault(backend, Coverage()).merge(Coverage.from_json(found))
        for into, key in ((seconds, "seconds"), (cost, "cost"), (by_device, "by_device")):
            for name, amount in data.get(key, {}).items():
                into[name] = into.get(name, 0.0) + amount
        if data["span"][0]:
            spans.append(data["span"])
    return Ledger(
        tuple(sorted(collected)),
        tuple(sorted(ended)),
        coverage={backend: found.to_json() for backend, found in coverage.items()},
        seconds=seconds,
        cost=cost,
        by_device=by_device,
        notes=tuple(sorted(notes)),
        deselected=tuple(sorted(deselected)),
        conflicts=tuple(sorted(conflicts)),
        span=max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0,
        **merged,
    )
