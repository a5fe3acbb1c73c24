"""A worker's part of a run: the benches it runs cases on, what it counts, what its cases cover."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from backends.contract import Support
from conformance.device.case_runner import Bench
from conformance.device.client import DeviceClient
from conformance.device.direct import DirectRunner
from conformance.device.runner import Runner
from conformance.record.counts import Tally
from conformance.record.incidents import IncidentLog
from conformance.record.settings import RunSettings
from strategies.case import Case
from strategies.coverage import Coverage


def _new_ledger() -> dict[str, Any]:
    return {
        "collected": [],
        "deselected": [],
        "ended": [],
        "unavailable": {},
        "devices": {},
        "supports": {},
        "seconds": {},
        "notes": [],
    }


@dataclass
class Run:
    """What one worker holds while it runs tests."""

    settings: RunSettings
    worker: str
    _benches: dict[int, Bench] = field(default_factory=dict)
    _tally: Tally | None = None
    _coverage: dict[str, Coverage] = field(default_factory=dict)  # by backend
    _ledger: dict[str, Any] = field(default_factory=_new_ledger)
    _began: float = 0.0  # when the first device answered; seconds since the epoch

    def bench(self, shard: int) -> Bench:
        """The bench of the device that serves this shard: shards are dealt out evenly, whichever worker has them."""
        index = self.settings.devices[shard % len(self.settings.devices)]
        if index not in self._benches:
            self._benches[index] = Bench(self._runner(index), IncidentLog(self.settings.work / "incidents.jsonl"))
        return self._benches[index]

    @property
    def tally(self) -> Tally:
        """This worker's counts. Raises OSError when their file can't be made."""
        if self._tally is None:
            self._tally = Tally(self.settings.work, self._name)
        return self._tally

    def support(self, backend: str, bench: Bench) -> Support:
        """What the backend declares on the bench's device, noted for the report."""
        support = bench.runner.support(backend)
        self._began = self._began or time.time()
        self._ledger["supports"][backend] = support.to_json()
        self._ledger["devices"][str(bench.runner.device.index)] = bench.runner.device.to_json()
        if support.unavailable:
            self._ledger["unavailable"][backend] = support.unavailable
        return support

    def covered(self, backend: str, case: Case) -> None:
        """Count the cells that a judged case hits."""
        self._coverage.setdefault(backend, Coverage()).add(case)

    def note(self, text: str) -> None:
        """A sentence for the report; said by many shards, it is shown once."""
        if text not in self._ledger["notes"]:
            self._ledger["notes"].append(text)

    def collected(self, tests: list[str], deselected: list[str]) -> None:
        """Note the tests that have to end, and those that the user left out."""
        self._ledger["collected"], self._ledger["deselected"] = tests, deselected
        self.save()

    def ended(self, test: str, backend: str, seconds: float) -> None:
        """Note that a test ended, however it did, and put this worker's notes on disk, so that they outlive it."""
        self._ledger["ended"].append(test)
        self._ledger["seconds"][backend] = self._ledger["seconds"].get(backend, 0.0) + seconds
        self.save()

    def save(self) -> None:
        """Write the notes, whole or not at all. Raises OSError (full disk)."""
        coverage = {name: found.to_json() for name, found in self._coverage.items()}
        path = self.settings.work / f"{self._name}.worker"
        new = path.with_suffix(".new")
        cost: dict[str, float] = defaultdict(float)
        for bench in self._benches.values():
            for phase, amount in bench.cost.items():
                cost[phase] += amount
        by_device = {str(index): bench.cost["cases"] for index, bench in self._benches.items()}
        span = [self._began, time.time()]
        new.write_text(
            json.dumps({**self._ledger, "coverage": coverage, "cost": cost, "span": span, "by_device": by_device})
        )
        new.replace(path)

    def close(self) -> None:
        for bench in self._benches.values():
            bench.runner.close()

    @property
    def _name(self) -> str:
        return f"{self.worker}-{os.getpid()}"

    def _runner(self, index: int) -> Runner:
        if self.settings.isolation == "none":
            return DirectRunner(self.settings.platform, index)
        return DeviceClient(self.settings.address, index, self._name, self.settings.floor_seconds)
