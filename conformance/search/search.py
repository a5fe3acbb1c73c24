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

from hypothesis import strategies as st

from conformance.judge.verdict import BROKEN, Verdict
from conformance.search.explore import Enough, explore
from strategies.case import Case
from strategies.simplify import simplify

SHRINK_SECONDS = 60.0  # of shrinking a failure
SHRINK_BREAKS = 60  # device processes that shrinking one failure may cost
TOP_UPS = 20  # further searches when Hypothesis ended early (duplicates, a small space)


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
    shrunk: bool = True
    drawn: int = 0  # cases tried until the first failure
    shrinking: int = 0  # executions spent on shrinking
    seconds: float = 0.0


@dataclass
class _Hunt:
    """The state of one search."""

    run: Callable[[Case], Verdict]
    on_drawn: Callable[[Case], None]
    on_verdict: Callable[[Case, Verdict], None]
    worth_shrinking: Callable[[Verdict], bool]
    drawn: int = 0
    shrinking: int = 0
    breaks: int = 0
    first_failure: float = 0.0
    worth_it: bool = True
    found: dict[str, tuple[Case, Verdict]] = field(default_factory=dict)

    def judge(self, case: Case) -> Verdict:
        """Count and run a case of the search proper."""
        self.drawn += 1
        self.on_drawn(case)
        verdict = self.run(case)
        self.on_verdict(case, verdict)
        return verdict

    def attempt(self, case: Case) -> None:
        """What Hypothesis calls: raises if the case fails."""
        if self.found and self._spent():
            raise Enough
        if self.fails(case):
            raise _failing(self.found[case.dumps()][1])

    def fails(self, case: Case) -> bool:
        """Run a case; one known to fail is not run again, and once shrinking has had its share no new one is."""
        if self.found:
            if case.dumps() in self.found:
                return True
            if self._spent():
                return False
            self.shrinking += 1
            verdict = self.run(case)
        else:
            verdict = self.judge(case)
        if verdict.failed:
            self._remember(case, verdict)
        return verdict.failed

    def _remember(self, case: Case, verdict: Verdict) -> None:
        if not self.found:
            self.first_failure = time.monotonic()
            self.worth_it = self.worth_shrinking(verdict)
        if verdict.kind in BROKEN:
            self.breaks += 1
        self.found[case.dumps()] = (case, verdict)

    def _spent(self) -> bool:
        """Whether shrinking has had its share: from then on only failures already known fail."""
        return (
            not self.worth_it or self.breaks >= SHRINK_BREAKS or time.monotonic() - self.first_failure > SHRINK_SECONDS
        )


def search(
    strategy: st.SearchStrategy[Case],
    plan: Plan,
    run: Callable[[Case], Verdict],
    *,
    examples: Sequence[tuple[str, Case]] = (),
    allowed: Callable[[Case], bool] = lambda case: True,
    worth_shrinking: Callable[[Verdict], bool] = lambda verdict: True,
    on_drawn: Callable[[Case], None] = lambda case: None,
    on_verdict: Callable[[Case, Verdict], None] = lambda case, verdict: None,
) -> Failure | None:
    """Run `examples`, then `plan.cases` cases of `strategy`; the smallest failing case, or None if none failed.

    `on_drawn` and `on_verdict` see every case of the search proper, shrinking excluded. `allowed` says which cases
    shrinking may reach; `worth_shrinking` is asked once, about the first failure.
    """
    hunt = _Hunt(run, on_drawn, on_verdict, worth_shrinking)
    for name, case in examples:
        if hunt.fails(case):
            return _smallest(hunt, allowed, name)
    target = hunt.drawn + plan.cases
    for turn in range(TOP_UPS):
        before = hunt.drawn
        if before < target and explore(
            strategy,
            hunt.attempt,
            examples=target - before,
            number=plan.seed + turn,
            failed=_CaseFailed,
            database=plan.database,
        ):
            return _smallest(hunt, allowed)
        if hunt.drawn == before:
            break
    return None


class _CaseFailed(Exception):
    """Tells Hypothesis that a case failed; one subclass a requirement, so that shrinking stays with one failure."""


_FAILED: dict[str, type[_CaseFailed]] = {}


def _failing(verdict: Verdict) -> _CaseFailed:
    requirement = verdict.findings[0].requirement
    kind = _FAILED.setdefault(requirement, type(f"CaseFailed{len(_FAILED)}", (_CaseFailed,), {}))
    return kind(verdict.findings[0].sentence)


def _smallest(hunt: _Hunt, allowed: Callable[[Case], bool], name: str = "") -> Failure:
    """The smallest failure of the requirement that failed first, by a measure of its own (Hypothesis keeps silent
    about a failure that comes and goes), made simpler field by field."""
    requirement = next(iter(hunt.found.values()))[1].findings[0].requirement

    def fails_alike(case: Case) -> bool:
        return allowed(case) and hunt.fails(case) and _requirement(hunt, case) == requirement

    same = [case for case, _ in hunt.found.values() if _requirement(hunt, case) == requirement]
    case = simplify(min(same, key=size), fails_alike)
    return Failure(
        case,
        hunt.found[case.dumps()][1],
        name,
        hunt.worth_it,
        drawn=hunt.drawn,
        shrinking=hunt.shrinking,
        seconds=time.monotonic() - hunt.first_failure,
    )


def _requirement(hunt: _Hunt, case: Case) -> str:
    return hunt.found[case.dumps()][1].findings[0].requirement


def size(case: Case) -> tuple[int, ...]:
    """How much a person has to hold in mind: descriptors, bytes, oddities; smaller is simpler."""
    submission = case.submission
    oddities = sum(
        [
            submission.calls > 1,
            submission.order_any,
            submission.late_source,
            submission.late_destination,
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
