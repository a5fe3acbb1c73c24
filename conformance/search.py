"""Find a case that fails, and shrink it: Hypothesis, with what it does not do by itself.

It runs the listed examples first, then exactly the planned number of drawn cases; every shard draws cases of its own
from the run's seed; a case that breaks the device process is shrunk across restarts, within bounds of count and time;
and a failure that comes and goes is a failure, not an error of the test.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import FlakyFailure

from conformance.verdict import Kind, Verdict
from strategies.case import Case

SHRINK_SECONDS = 60.0  # of shrinking a failure
SHRINK_BREAKS = 60  # device processes that shrinking one failure may cost
TOP_UPS = 20  # further searches when Hypothesis ended early (duplicates, a small space)

_BROKEN = (Kind.FAULT, Kind.HANG, Kind.POISONED)


@dataclass(frozen=True)
class Plan:
    """What one search does."""

    cases: int  # drawn ones, beside the examples
    seed: int
    database: Path | None  # where Hypothesis keeps failures for the next run


@dataclass(frozen=True)
class Failure:
    """The smallest failing case found."""

    case: Case
    verdict: Verdict
    name: str = ""  # of the listed example, if it was one
    sometimes: bool = False  # the same case also passed
    drawn: int = 0  # cases tried until the first failure
    shrinking: int = 0  # executions spent on shrinking
    seconds: float = 0.0


@dataclass
class _Hunt:
    """The state of one search."""

    run: Callable[[Case], Verdict]
    on_drawn: Callable[[Case], None]
    on_verdict: Callable[[Case, Verdict], None]
    drawn: int = 0
    shrinking: int = 0
    breaks: int = 0
    first_failure: float = 0.0
    found: dict[str, tuple[Case, Verdict]] = field(default_factory=dict)
    passed_too: bool = False

    def judge(self, case: Case) -> Verdict:
        """Count and run a case of the search proper."""
        self.drawn += 1
        self.on_drawn(case)
        verdict = self.run(case)
        self.on_verdict(case, verdict)
        return verdict

    def attempt(self, case: Case) -> None:
        """What Hypothesis calls: raises if the case fails."""
        if not self.found:
            verdict = self.judge(case)
        else:
            known = self.found.get(case.dumps())
            if known is None and self._spent():
                return
            self.shrinking += 1
            verdict = known[1] if known else self.run(case)
        if verdict.failed:
            self._remember(case, verdict)
            raise _failing(verdict)

    def _remember(self, case: Case, verdict: Verdict) -> None:
        if not self.found:
            self.first_failure = time.monotonic()
        if verdict.kind in _BROKEN and case.dumps() not in self.found:
            self.breaks += 1
        self.found[case.dumps()] = (case, verdict)

    def _spent(self) -> bool:
        """Whether shrinking has had its share: from then on only failures already known fail."""
        return self.breaks >= SHRINK_BREAKS or time.monotonic() - self.first_failure > SHRINK_SECONDS


def search(
    strategy: st.SearchStrategy[Case],
    plan: Plan,
    run: Callable[[Case], Verdict],
    *,
    examples: Sequence[tuple[str, Case]] = (),
    on_drawn: Callable[[Case], None] = lambda case: None,
    on_verdict: Callable[[Case, Verdict], None] = lambda case, verdict: None,
) -> Failure | None:
    """Run `examples`, then `plan.cases` cases of `strategy`; the smallest failing case, or None if none failed.

    `on_drawn` and `on_verdict` see every case of the search proper, shrinking excluded. An example that fails is
    shrunk too, by searching among the cases that the strategy draws for one that fails the same requirement.
    """
    hunt = _Hunt(run, on_drawn, on_verdict)
    for name, case in examples:
        verdict = hunt.judge(case)
        if verdict.failed:
            return Failure(case, verdict, name, drawn=hunt.drawn)
    target = hunt.drawn + plan.cases
    for turn in range(TOP_UPS):
        left = target - hunt.drawn
        if left <= 0:
            break
        before = hunt.drawn
        if _explore(strategy, hunt, left, plan.seed + turn, plan.database):
            return _smallest(hunt)
        if hunt.drawn == before:
            break
    return None


def _explore(
    strategy: st.SearchStrategy[Case], hunt: _Hunt, cases: int, number: int, database: Path | None
) -> bool:
    """One Hypothesis run; whether it found a failure."""

    @seed(number)
    @settings(
        max_examples=cases,
        database=DirectoryBasedExampleDatabase(database) if database else None,
        deadline=None,
        derandomize=False,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        backend="hypothesis",
    )
    @given(strategy)
    def attempt(case: Case) -> None:
        hunt.attempt(case)

    try:
        attempt()
    except (_CaseFailed, FlakyFailure):
        return True
    return False


class _CaseFailed(Exception):
    """Tells Hypothesis that a case failed; one subclass a requirement, so that shrinking stays with one failure."""


_FAILED: dict[str, type[_CaseFailed]] = {}


def _failing(verdict: Verdict) -> _CaseFailed:
    requirement = verdict.findings[0].requirement
    kind = _FAILED.setdefault(requirement, type(f"CaseFailed{len(_FAILED)}", (_CaseFailed,), {}))
    return kind(verdict.findings[0].sentence)


def _smallest(hunt: _Hunt) -> Failure:
    """The smallest failure found, by a measure of its own, since Hypothesis keeps silent about one that comes and
    goes; of the requirement that failed first."""
    first = next(iter(hunt.found.values()))[1].findings[0].requirement
    same = [(case, verdict) for case, verdict in hunt.found.values() if verdict.findings[0].requirement == first]
    case, verdict = min(same, key=lambda pair: size(pair[0]))
    return Failure(
        case,
        verdict,
        drawn=hunt.drawn,
        shrinking=hunt.shrinking,
        seconds=time.monotonic() - hunt.first_failure,
    )


def size(case: Case) -> tuple[int, ...]:
    """How much a person has to hold in mind: descriptors, bytes, oddities; smaller is simpler."""
    submission = case.submission
    oddities = sum(
        [
            submission.calls > 1,
            submission.order_any,
            submission.late_source,
            submission.reuse_descriptors,
            case.source_fence.value != "none",
            case.destination_fence.value != "none",
            *(pool.per_chunk > 1 for tensor in case.tensors for pool in (tensor.source, tensor.destination)),
            *(bool(tensor.runs) for tensor in case.tensors),
        ]
    )
    page = sum(tensor.page_bytes for tensor in case.tensors)
    return (len(case.tensors), case.descriptors, oddities, page, len(case.dumps()))


def shard_seed(run_seed: int, *names: str) -> int:
    """A seed of its own for each shard of each claim: shards under one seed would draw the same cases."""
    digest = hashlib.blake2b("\0".join([str(run_seed), *names]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
