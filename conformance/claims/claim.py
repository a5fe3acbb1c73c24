"""A claim about one backend: draw cases for it, run them, count what became of them, and fail with the smallest.

The tests in this folder are one line each on top of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from backends.contract import Support
from conformance.claims.session import Run
from conformance.device.case_runner import Bench
from conformance.device.runner import BackendUnavailable, DeviceUnavailable
from conformance.judge.oracle import initial
from conformance.judge.places import compare
from conformance.judge.verdict import BROKEN, Finding, Kind, Verdict, bundle
from conformance.record import failures
from conformance.record.counts import Key
from conformance.report.explain import brief_text, failure_text
from conformance.requirements import copies as req
from conformance.requirements.budgets import KINDS, Budget, ClaimKind
from conformance.search.search import Failure, Plan, search, shard_seed
from conformance.words import counted
from strategies.case import Case
from strategies.corpus import Named, why_left_out
from strategies.request import ask, not_tried, return_of
from strategies.scope import Scope, ScopeError

Strategy = Callable[[Scope], st.SearchStrategy[Case]]
Examples = Callable[[Scope], Sequence[Named]]
SMOKE_LISTED = 8  # a smoke run takes one in so many listed examples
ALONE_RUNS = 2  # in fresh processes, to say whether a failure stands by itself


def no_examples(scope: Scope) -> Sequence[Named]:
    return ()


@dataclass(frozen=True)
class Claim:
    """One shard of one claim about one backend."""

    run: Run
    kind: ClaimKind
    backend: str
    shard: int

    @property
    def bench(self) -> Bench:
        """The device that serves this shard; claims begin at different ones, so that single tests spread too."""
        return self.run.bench(self.shard + KINDS.index(self.kind))

    def holds(self, strategy: Strategy, examples: Examples = no_examples) -> None:
        """Fail the test with the smallest case that breaks the claim, if the planned cases find one.

        A built-in backend that can't run here skips with its reason; one that the user named fails."""
        support = self._support()
        try:
            scope = Scope.of(self.bench.runner.device, support)
            drawn = strategy(scope)
        except ScopeError as error:
            pytest.fail(f"{self.backend} leaves nothing to try: {error}", pytrace=False)
        listed = self._listed(examples(scope))
        planned = 0 if drawn.is_empty else self._planned(support)
        self._plan(planned + len(listed))
        failure = self._search(support, drawn, planned, listed)
        if failure is not None:
            self.fail(failure)

    def holds_for(self, cases: Sequence[Named], *, every: bool = False) -> None:
        """Fail the test with the smallest form of the first of these cases that breaks a requirement it decides.

        With `every`, the cases behind a failing one are run too. What the device can't build is left out and noted;
        what the backend declares unsupported counts as refused."""
        support = self._support()
        scope = Scope.of(self.bench.runner.device, support)
        mine = self._realisable(scope, cases)[self.shard :: self.kind.shards]
        for _, case in mine:
            self._book(case, "planned")
        parts = [[one] for one in mine] if every else [mine]
        found = [self._search(support, st.nothing(), 0, part) for part in parts]
        texts = [self._text(failure) for failure in found if failure is not None]
        if texts:
            pytest.fail("\n\n".join(texts), pytrace=False)

    def agrees(self, strategy: Strategy) -> None:
        """Fail the test with the smallest case on which this backend and the reference leave different bytes."""
        reference = self._reference()
        if reference is None:
            self._plan(0)
            return
        support = self.bench.runner.support(reference)

        def both(scope: Scope) -> st.SearchStrategy[Case]:
            return strategy(scope).filter(lambda case: support.why_not(ask(case)) is None)

        _Agreement(self.run, self.kind, self.backend, self.shard, reference).holds(both)

    def verdict(self, case: Case) -> Verdict:
        """The verdict on one case."""
        return self.bench.verdict(self.backend, case)

    def _support(self) -> Support:
        """What the backend declares; skips or fails the test where it can't run here."""
        try:
            support = self.run.support(self.backend, self.bench)
        except (BackendUnavailable, DeviceUnavailable) as error:
            pytest.fail(str(error), pytrace=False)
        if support.unavailable:
            self._unavailable(support.unavailable)
        return support

    def _search(
        self, support: Support, drawn: st.SearchStrategy[Case], planned: int, listed: Sequence[Named]
    ) -> Failure | None:
        """The smallest failure; one that the backend declares unsupported exactly if the first one was, since another
        would be another failure."""
        first: list[bool] = []

        def declared(case: Case) -> bool:
            return support.why_not(ask(case)) is not None

        def judged(case: Case, verdict: Verdict) -> None:
            self.count(case, verdict)
            if verdict.failed and not first:
                first.append(declared(case))

        return search(
            drawn,
            Plan(planned, self._seed(), self._database),
            lambda case: self._declined(support, case) or self.verdict(case),
            examples=listed,
            allowed=lambda case: declared(case) == first[0],
            worth_shrinking=self._is_first,
            on_drawn=lambda case: self._book(case, "drawn"),
            on_verdict=judged,
        )

    def _is_first(self, verdict: Verdict) -> bool:
        """Whether this shard is to make the failure small, as the first of the run to meet the like."""
        return failures.first_of_its_kind(self.run.settings.work, verdict.backend, verdict)

    def _declined(self, support: Support, case: Case) -> Verdict | None:
        """The verdict on a case, or on its way back, that is refused on the declaration alone.

        Cases drawn within the backend's scope never are; listed ones may be."""
        reason = not_tried(case, support) or (support.not_tried(return_of(ask(case))) if case.round_trip else None)
        return None if reason is None else Verdict(Kind.REFUSED, self.backend, text=reason)

    def _realisable(self, scope: Scope, cases: Sequence[Named]) -> list[Named]:
        """The cases that the device can build; how many it can't goes into the report."""
        reasons = [why_left_out(scope, case) for _, case in cases]
        left = Counter(reason for reason in reasons if reason)
        if left:
            told = ", ".join(f"{reason} ({count})" for reason, count in sorted(left.items()))
            self.run.note(f"{self.kind.name}: {sum(left.values())} of {len(cases)} cases left out, which need {told}")
        return [one for one, reason in zip(cases, reasons, strict=True) if reason is None]

    def _reference(self) -> str | None:
        """The backend that the others are compared with, if it is another one."""
        usable = [name for name in self.run.settings.backends if not self.bench.runner.support(name).unavailable]
        reference = "torch_copy" if "torch_copy" in usable else next(iter(usable), None)
        return None if reference == self.backend else reference

    def count(self, case: Case, verdict: Verdict) -> None:
        """Book a verdict: every requirement of the claim gets exactly one count."""
        failed = {finding.requirement for finding in verdict.findings}
        for requirement in self._decides(case):
            if requirement in failed:
                column = "failed"
            elif requirement in verdict.checked:
                column = "passed"
            elif verdict.kind is Kind.REFUSED:
                column = "refused"
            else:
                column = "not_judged"
            self.run.tally.count(Key(self.backend, requirement), column)
        for requirement in failed - set(self._decides(case)):
            self.run.tally.count(Key(self.backend, requirement), "drawn")
            self.run.tally.count(Key(self.backend, requirement), "failed")
        if verdict.kind in (Kind.PASSED, Kind.WRONG):
            self.run.covered(self.backend, case)

    def fail(self, failure: Failure) -> None:
        """Save the case and fail the test."""
        pytest.fail(self._text(failure), pytrace=False)

    def _text(self, failure: Failure) -> str:
        """Save the case; its whole text, or a brief one if the like is made small elsewhere."""
        known = failures.similar(self._folder, self.backend, failure.verdict)
        device = self.bench.runner.device
        saved = failures.save(
            self._folder,
            self.backend,
            failure.case,
            failure.verdict,
            device.name,
            device.platform,
            failure.shrunk,
        )
        if not failure.shrunk:
            return brief_text(self.backend, failure, saved, known)
        return failure_text(self.backend, failure, saved, self._alone(failure))

    @property
    def _database(self) -> Path | None:
        """A folder for each claim about each backend: what failed for one means something else to another."""
        database = self.run.settings.database
        return Path(database) / self.kind.name / failures.file_name(self.backend) if database else None

    @property
    def _folder(self) -> Path:
        return Path(self.run.settings.report) / "failures"

    def _plan(self, cases: int) -> None:
        """Book how many cases this shard is to run; none is a plan too, where there is nothing to try."""
        for requirement in self.kind.requirements:
            self.run.tally.count(Key(self.backend, requirement), "planned", cases)

    def _decides(self, case: Case) -> tuple[str, ...]:
        """What the case is to decide: the claim's requirements, or the case's own where the claim names none."""
        return self.kind.requirements or bundle(case)

    def _book(self, case: Case, column: str) -> None:
        for requirement in self._decides(case):
            self.run.tally.count(Key(self.backend, requirement), column)

    def _listed(self, examples: Sequence[Named]) -> Sequence[Named]:
        """This shard's part of the listed examples: all of them, or one in eight of a smoke run."""
        every = SMOKE_LISTED if self.run.settings.budget == Budget.SMOKE else 1
        return examples[::every][self.shard :: self.kind.shards]

    def _planned(self, support: Support) -> int:
        """This shard's part of the cases."""
        settings = self.run.settings
        total = self.kind.cases(settings.platform, Budget(settings.budget), support)
        return total // self.kind.shards + (self.shard < total % self.kind.shards)

    def _seed(self) -> int:
        return shard_seed(self.run.settings.seed, self.kind.name, self.backend, str(self.shard))

    def _alone(self, failure: Failure) -> str:
        """What the case does in fresh processes, in words."""
        failed = [self.bench.verdict(self.backend, failure.case, clean=True).failed for _ in range(ALONE_RUNS)]
        if all(failed):
            return "fails in a fresh process too"
        if any(failed):
            return f"fails in {sum(failed)} of {ALONE_RUNS} fresh processes: it comes and goes"
        before = f" (the last of them went through {failure.verdict.after})" if failure.verdict.after else ""
        return f"passes in a fresh process: it depends on the cases before it{before}, or it comes and goes"

    def _unavailable(self, reason: str) -> None:
        if self.run.settings.chosen_backends:
            pytest.fail(f"{self.backend} was asked for, but can't run here: {reason}", pytrace=False)
        pytest.skip(f"{self.backend} can't run here: {reason}")


@dataclass(frozen=True)
class _Agreement(Claim):
    """The claim that two backends leave the same destination."""

    reference: str = ""

    def verdict(self, case: Case) -> Verdict:
        mine, images = self.bench.verdict_and_images(self.backend, case)
        found = images.destination.copy()
        other, wanted = self.bench.verdict_and_images(self.reference, case)
        if Kind.NOT_JUDGED in (mine.kind, other.kind) or other.kind in BROKEN or mine.kind in BROKEN:
            return replace(mine, checked=(), findings=mine.findings if mine.kind in BROKEN else other.findings)
        comparison = compare(case, "destination", wanted.destination, found, initial(case))
        if not comparison.nbytes:
            return Verdict(Kind.PASSED, self.backend, (req.AGREE,), path=mine.path)
        differ = f"{counted(comparison.nbytes, 'byte')} differ{'s' if comparison.nbytes == 1 else ''}"
        sentence = f"{differ} from what {self.reference} leaves: {comparison.differences[0].place}"
        lines = comparison.lines((self.reference, self.backend))
        return Verdict(Kind.WRONG, self.backend, (req.AGREE,), (Finding(req.AGREE, sentence, lines),), mine.path)
