"""The one way from a case to its verdict, both plain data. Everything that runs a case goes through `Bench.verdict`."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from conformance.device.runner import Runner
from conformance.judge.evidence import Evidence, Outcome
from conformance.judge.fill import Images
from conformance.judge.oracle import Scratch, initial
from conformance.judge.verdict import Verdict, judge
from conformance.record.incidents import Incident, IncidentLog
from strategies.case import Case
from strategies.request import not_tried


@dataclass(frozen=True)
class Bench:
    """A device's runner, where incidents go, and what cases cost."""

    runner: Runner
    incidents: IncidentLog
    cost: dict[str, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # seconds by phase, over all cases; "cases" counts them

    _scratch: Scratch = field(default_factory=Scratch)

    def verdict(self, backend: str, case: Case, clean: bool = False) -> Verdict:
        """Run `case` through `backend` and judge it; with `clean`, in a process that has run nothing before.

        Raises DeviceUnavailable and BackendUnavailable where nothing can be run at all."""
        verdict, _ = self.verdict_and_images(backend, case, clean)
        return verdict

    def verdict_and_images(self, backend: str, case: Case, clean: bool = False) -> tuple[Verdict, Images]:
        """The same, with what memory held afterwards: valid until the next case."""
        support = self.runner.support(backend)
        begun = time.perf_counter()
        before = initial(case, self._scratch)
        after = self.runner.lay_out(case)
        np.copyto(after.source, before.source)
        np.copyto(after.destination, before.destination)
        reason = not_tried(case, support)
        if reason is not None:
            evidence = Evidence(Outcome.REFUSED, reason, tried=False)
        elif clean:
            evidence = self.runner.run_clean(backend, case)
        else:
            sent = time.perf_counter()
            evidence = self.runner.run(backend, case)
            self._note(evidence, sent - begun, time.perf_counter() - sent)
            if _broke(evidence) and evidence.serial > 1:
                evidence = self._clear_blame(backend, case, before, after, evidence)
        answered = time.perf_counter()
        verdict = judge(case, backend, support, before, after, evidence, self._scratch)
        self.cost["judge"] += time.perf_counter() - answered
        return verdict, after

    def _note(self, evidence: Evidence, imagining: float, waiting: float) -> None:
        """Book what one case cost: its phases in the device process, and the rest of the wait for it."""
        for phase, seconds in evidence.seconds.items():
            self.cost[f"device: {phase}"] += seconds
        self.cost["send and queue"] += waiting - sum(evidence.seconds.values())
        self.cost["images"] += imagining
        self.cost["cases"] += 1

    def _clear_blame(self, backend: str, case: Case, before: Images, after: Images, broken: Evidence) -> Evidence:
        """Run the case alone. If it passes there, it only met the damage: look at the case before it instead."""
        np.copyto(after.source, before.source)
        np.copyto(after.destination, before.destination)
        alone = self.runner.run_clean(backend, case)
        if not _broke(alone):
            kept = Images(after.source.copy(), after.destination.copy())
            self.incidents.record(self._suspect(backend, broken))
            np.copyto(after.source, kept.source)  # the suspect's images took their place
            np.copyto(after.destination, kept.destination)
        return alone

    def _suspect(self, met_by: str, broken: Evidence) -> Incident:
        text = broken.text or broken.poisoned or broken.outcome.value
        try:
            previous = json.loads(broken.previous)
            backend, case = previous["backend"], Case.from_json(previous["case"])
        except (ValueError, KeyError):
            return Incident(text, met_by, "", None, proved=False)
        verdict = Bench(self.runner, self.incidents).verdict(backend, case, clean=True)
        return Incident(text, met_by, backend, case.to_json(), proved=verdict.failed, verdict=verdict.to_json())


def _broke(evidence: Evidence) -> bool:
    return evidence.outcome in (Outcome.FAULT, Outcome.HANG) or bool(evidence.poisoned)
