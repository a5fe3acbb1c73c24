"""The one way from a case to its verdict, both plain data. Everything that runs a case goes through `Bench.verdict`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from conformance.device.runner import Runner
from conformance.evidence import Evidence, Outcome
from conformance.incidents import Incident, IncidentLog
from conformance.oracle import Images, initial
from conformance.verdict import Verdict, judge
from strategies.ask import ask
from strategies.case import Case


@dataclass(frozen=True)
class Bench:
    """A device's runner, and where incidents go."""

    runner: Runner
    incidents: IncidentLog

    def verdict(self, backend: str, case: Case, clean: bool = False) -> Verdict:
        """Run `case` through `backend` and judge it; with `clean`, in a process that has run nothing before.

        Raises DeviceUnavailable and BackendUnavailable where nothing can be run at all."""
        verdict, _ = self.verdict_and_images(backend, case, clean)
        return verdict

    def verdict_and_images(self, backend: str, case: Case, clean: bool = False) -> tuple[Verdict, Images]:
        """The same, with what memory held afterwards."""
        support = self.runner.support(backend)
        before = initial(case)
        after = Images(before.source.copy(), before.destination.copy())
        reason = support.not_tried(ask(case))
        if reason is not None:
            evidence = Evidence(Outcome.REFUSED, reason, tried=False)
        elif clean:
            evidence = self.runner.run_clean(backend, case, after)
        else:
            evidence = self.runner.run(backend, case, after)
            if _broke(evidence) and evidence.serial > 1:
                evidence, after = self._clear_blame(backend, case, before, evidence)
        return judge(case, backend, support, before, after, evidence), after

    def _clear_blame(self, backend: str, case: Case, before: Images, broken: Evidence) -> tuple[Evidence, Images]:
        """Run the case alone. If it passes there, it only met the damage: look at the case before it instead."""
        after = Images(before.source.copy(), before.destination.copy())
        alone = self.runner.run_clean(backend, case, after)
        if not _broke(alone):
            self.incidents.record(self._suspect(backend, broken))
        return alone, after

    def _suspect(self, met_by: str, broken: Evidence) -> Incident:
        text = broken.text or broken.poisoned or broken.outcome.value
        try:
            previous = json.loads(broken.previous)
            backend, case = previous["backend"], Case.from_json(previous["case"])
        except (ValueError, KeyError):
            return Incident(text, met_by, "", None, proved=False)
        verdict = self.verdict(backend, case, clean=True)
        return Incident(
            text, met_by, backend, case.to_json(), proved=verdict.failed, verdict=verdict.to_json()
        )


def _broke(evidence: Evidence) -> bool:
    return evidence.outcome in (Outcome.FAULT, Outcome.HANG) or bool(evidence.poisoned)
