"""Run one case through a backend whatever it declares, contained: what a wrong choice would do in production.

A backend's declaration keeps the suite from trying what can't work. Here that is the point: the case runs in a process
of its own that has done nothing before, so an illegal access or a crash costs nothing but that process.
"""

from __future__ import annotations

import numpy as np

from backends.contract import Support
from conformance.device.runner import Runner
from conformance.judge.oracle import initial
from conformance.judge.verdict import Kind, Verdict, judge
from strategies.case import Case

EVERYTHING = Support()  # as if the backend had declared no limit


def attempt(runner: Runner, backend: str, case: Case) -> Verdict:
    """The verdict on `case` as if `backend` had declared that it can do everything.

    Raises DeviceUnavailable, and BackendUnavailable where the backend can't be loaded."""
    runner.support(backend)
    before = initial(case)
    after = runner.lay_out(case)
    np.copyto(after.source, before.source)
    np.copyto(after.destination, before.destination)
    evidence = runner.run_clean(backend, case)
    return judge(case, backend, EVERYTHING, before, after, evidence)


def outcome_text(verdict: Verdict) -> str:
    """What happened, in one sentence."""
    if verdict.kind is Kind.ERROR:
        return f"refused: {verdict.text}"
    if verdict.findings:
        return verdict.findings[0].sentence
    return f"every byte right ({verdict.path})" if verdict.path else verdict.text or "every byte right"
