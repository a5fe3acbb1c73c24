"""Claims about the selection rule that a run names with --selector: on the device, and over drawn facts.

On the device: the facts of a drawn case are derived, the rule chooses, and the chosen backend has to copy the case
right. That the rule is the table's, over facts that no device has to realise, is checked here too, and both are counted
under the name "selector:NAME". What the rule does in every situation of the table is test_select's; nothing here
measures how good a choice is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backends.contract import Device, Direction, Memory, Support
from backends.selection import ACROSS_RANGES, BACKENDS, TRITON_COPY, Facts, facts_on, zero_copy_on
from conformance.claims.claim import Claim
from conformance.device.runner import BackendUnavailable
from conformance.judge.verdict import Finding, Kind, Verdict
from conformance.probe.attempt import attempt, outcome_text
from conformance.record import failures
from conformance.record.counts import Key
from conformance.report.explain import brief_text, failure_text
from conformance.requirements import copies as req
from conformance.requirements import rules as select
from conformance.search.search import Failure, Plan, search
from conformance.selection.drawn import first_disagreement
from conformance.selection.properties import CLAIMS
from conformance.selection.table import Table, load_table
from conformance.selection.words import describe
from conformance.subjects.rules import BUILT_IN, Selector, selector_named
from strategies.case import Case, Pool, Submission, Tensor
from strategies.draw.cases import cases
from strategies.request import ask
from strategies.scope import Scope, ScopeError

KERNEL_PAGE, DMA_PAGE = 512, 32768  # bytes: on either side of the published threshold
KERNEL_PAGES, DMA_PAGES = 64, 16
SHOWN = 3  # sentences of one disagreement


@cache
def own_table() -> Table:
    """The suite's own table."""
    return load_table()


def facts_of(case: Case, device: Device, kernel_runs: bool | None = None) -> Facts:
    """What a caller of the rule would know about this case on this device. `kernel_runs`: whether a Triton kernel was
    found to run there; None for not tried."""
    asked = ask(case)
    known = facts_on(
        device,
        direction=case.direction,
        host_memory=host_memory(case, device),
        page_sizes=tuple(tensor.page_bytes for tensor in case.tensors),
        fragment_sizes=tuple(size for size in asked.sizes if size),
        descriptors=asked.descriptors,
        address_multiple=asked.address_multiple,
        stream=asked.stream,
    )
    return replace(known, triton_usable=kernel_runs)


def host_memory(case: Case, device: Device) -> Memory:
    """The kind of host memory to choose by; of a host-to-host copy the side that less can be done with.

    Where one side can't be dereferenced by a kernel and the other lies across ends of registrations, that is what
    partly registered memory is: not all within a kernel's reach, and no single range for the driver."""
    if case.direction is Direction.LOAD:
        return case.source_memory
    if case.direction is not Direction.HOST_TO_HOST:
        return case.destination_memory
    sides = (case.source_memory, case.destination_memory)
    reachable = {side: zero_copy_on(device, side) for side in sides}
    across = [side for side in sides if side in ACROSS_RANGES]
    if across and not all(reachable.values()):
        return Memory.REGISTERED_PARTLY
    return across[0] if across else min(sides, key=lambda side: (bool(reachable[side]), side.value))


@dataclass(frozen=True)
class SelectorClaim(Claim):
    """One shard of a claim about the run's selection rule."""

    selector: Selector = BUILT_IN
    supports: dict[str, Support] = field(default_factory=dict)  # of the backends it chooses from

    @classmethod
    def of(cls, claim: Claim) -> SelectorClaim:
        """The claim that the plugin opened, about the rule that the run names."""
        name = claim.run.settings.selector
        return cls(claim.run, claim.kind, f"selector:{name}", claim.shard, selector_named(name))

    def copies_right(self) -> None:
        """SELECT-CHOSEN-COPIES: fail the test with the smallest case that the chosen backend does not copy right."""
        self.load_supports()
        declared = union([support for support in self.supports.values() if not support.unavailable])
        try:
            scope = Scope.of(self.bench.runner.device, declared)
            drawn = cases(scope).filter(self._concerned)
        except ScopeError as error:
            pytest.fail(f"no backend leaves anything to choose for: {error}", pytrace=False)
        self._skip_where_not_meant(scope)
        listed = [named for named in each_route(scope) if self._concerned(named[1])][self.shard :: self.kind.shards]
        planned = self._planned(declared)
        key, database = Key(self.backend, req.CHOSEN), self.run.settings.database
        self.run.tally.count(key, "planned", planned + len(listed))
        failure = search(
            drawn,
            Plan(planned, self._seed(), Path(database) if database else None),
            self.verdict,
            examples=listed,
            allowed=lambda case: self._concerned(case) and declared.why_not(ask(case)) is None,
            worth_shrinking=self._is_first,
            on_drawn=lambda case: self.run.tally.count(key, "drawn"),
            on_verdict=self.count,
        )
        if failure is not None:
            self.fail(failure)

    def agrees_with_table(self) -> None:
        """SELECT-TABLE and the others: fail the test with the simplest drawn facts on which the rule is not right."""
        claims = [CLAIMS[id] for id in self.kind.requirements if CLAIMS[id].not_for(self.selector) is None]
        claims.sort(key=lambda claim: claim.id == select.BOUNDARY)  # last: it finds what the others find too, at length
        draws = self._planned(Support())
        for claim in claims:
            self.run.tally.count(Key(self.backend, claim.id), "planned", draws)

        def count(claim: Any, holds: bool) -> None:
            for column in ("drawn", "passed" if holds else "failed"):
                self.run.tally.count(Key(self.backend, claim.id), column)

        found = first_disagreement(self.selector, own_table(), claims, draws, self._seed(), count)
        if found is not None:
            lines = [first_few(found.sentences), f"facts: {json.dumps(found.facts.to_json())}"]
            pytest.fail("\n".join(lines), pytrace=False)

    def facts(self, case: Case) -> Facts:
        """What the rule is told about a case."""
        kernel = self.supports.get(TRITON_COPY, Support())
        return facts_of(case, self.bench.runner.device, False if kernel.unavailable else None)

    def verdict(self, case: Case) -> Verdict:
        """Choose for the case and run it: passed if the chosen backend copies it right, or if nobody can."""
        facts = self.selector.view(self.facts(case))
        outcome = self.selector.ask(facts)
        what = describe(facts)
        if outcome.broke is not None:
            return self._wrong(Kind.ERROR, self.backend, f"the rule failed for {what}: {outcome.broke}")
        if outcome.backend is None:
            answer = own_table().answer(facts)
            if answer.backend is None:
                return Verdict(Kind.REFUSED, self.backend, text=outcome.reason)
            wanted = f"which {answer.backend} can make; {answer.why}"
            return self._wrong(Kind.ERROR, self.backend, f"the rule refused {what} ({outcome.reason}), {wanted}")
        chosen = outcome.backend
        chose = f"the rule chose {chosen} for {what}"
        reason = self.supports[chosen].unavailable
        if reason:
            return self._wrong(Kind.ERROR, chosen, f"{chose}, which can't run here: {reason}")
        return about_choice(self.bench.verdict(chosen, case), chose)

    def fail(self, failure: Failure) -> None:
        """Save the case under the chosen backend's name and fail the test."""
        chosen = failure.verdict.backend
        known = failures.similar(self._folder, chosen, failure.verdict)
        device = self.bench.runner.device
        where = (device.name, device.platform)
        saved = failures.save(self._folder, chosen, failure.case, failure.verdict, *where, failure.shrunk)
        again = failures.replay_command(saved, chosen, req.CHOSEN)
        if not failure.shrunk:
            pytest.fail(brief_text(self.backend, failure, saved, known, again), pytrace=False)
        alone = f"tried all the same in a process of its own: {self._tried(chosen, failure.case)}"
        pytest.fail(failure_text(self.backend, failure, saved, alone, again), pytrace=False)

    def _tried(self, chosen: str, case: Case) -> str:
        """What the chosen backend does with the case when its declaration does not protect it."""
        if chosen not in self.supports or self.supports[chosen].unavailable:
            return "nothing could be tried"
        return outcome_text(attempt(self.bench.runner, chosen, case))

    def _wrong(self, kind: Kind, backend: str, sentence: str) -> Verdict:
        return Verdict(kind, backend, (req.CHOSEN,), (Finding(req.CHOSEN, sentence),))

    def _skip_where_not_meant(self, scope: Scope) -> None:
        """Nothing is planned for a rule that is judged on no copy that this device can make."""
        outside = [self.selector.outside(self.facts(plain_case(*route, KERNEL_PAGE, 1))) for route in scope.routes]
        if all(outside):
            self.run.tally.count(Key(self.backend, req.CHOSEN), "planned", 0)
            pytest.skip(f"{req.CHOSEN} does not apply here: {outside[0]}")

    def _concerned(self, case: Case) -> bool:
        return self.selector.outside(self.facts(case)) is None

    def load_supports(self) -> None:
        """Ask what the backends that the rule chooses from declare here."""
        for name in BACKENDS:
            noted = name in self.run.settings.backends  # others are no subject of the run's report
            try:
                self.supports[name] = self.run.support(name, self.bench) if noted else self.bench.runner.support(name)
            except BackendUnavailable as error:
                self.supports[name] = Support(unavailable=str(error))


def about_choice(verdict: Verdict, chose: str) -> Verdict:
    """The verdict on a copy as one on the choice that led to it; `chose` says what was chosen for what."""
    if verdict.kind is Kind.PASSED:
        return replace(verdict, checked=(req.CHOSEN,))
    if verdict.kind is Kind.NOT_JUDGED:
        return replace(verdict, checked=())
    if verdict.findings:
        first = verdict.findings[0]
        finding = Finding(req.CHOSEN, f"{chose}: {first.sentence} ({first.requirement})", first.details)
    else:
        finding = Finding(req.CHOSEN, f"{chose}, which refuses it: {verdict.text}")
    kind = Kind.ERROR if verdict.kind is Kind.REFUSED else verdict.kind
    return replace(verdict, kind=kind, checked=(req.CHOSEN,), findings=(finding,))


def first_few(sentences: Sequence[str]) -> str:
    """The first few, a line each, and how many more there are."""
    more = len(sentences) - SHOWN
    return "\n".join([*sentences[:SHOWN], *([f"and {more} more like these"] if more > 0 else [])])


def union(supports: list[Support]) -> Support:
    """What some backend declares, limit by limit; memory kinds are left open, since the rule knows of those."""
    if not supports:
        return Support(unavailable="none of them can run here")
    counts = [support.max_descriptors for support in supports]
    nbytes = [support.max_bytes for support in supports]
    return Support(
        directions=frozenset().union(*(support.directions for support in supports)),
        streams=frozenset().union(*(support.streams for support in supports)),
        size_multiple=min(support.size_multiple for support in supports),
        address_multiple=min(support.address_multiple for support in supports),
        max_descriptors=None if None in counts else max(filter(None, counts)),
        max_bytes=None if None in nbytes else max(filter(None, nbytes)),
        zero_sizes=any(support.zero_sizes for support in supports),
        uniform_dense=all(support.uniform_dense for support in supports),
        stream_order=any(support.stream_order for support in supports),
        reuse_descriptors=any(support.reuse_descriptors for support in supports),
    )


def each_route(scope: Scope) -> Iterator[tuple[str, Case]]:
    """A copy that a kernel is for and one that the copy engine is for, by every load and store there is."""
    for direction, source, destination in scope.routes:
        if direction in (Direction.LOAD, Direction.STORE):
            for page, count in ((KERNEL_PAGE, KERNEL_PAGES), (DMA_PAGE, DMA_PAGES)):
                name = f"{direction.value}-{source.value}-{destination.value}-{page}"
                yield name, plain_case(direction, source, destination, page, count, scope)


def plain_case(
    direction: Direction, source: Memory, destination: Memory, page: int, count: int, scope: Scope | None = None
) -> Case:
    """`count` whole pages in reverse order, in pools without padding; on the plainest stream of the scope."""
    pool = Pool(blocks=count, stride=page)
    ids = tuple(range(count))
    submission = Submission(scope.stream_kinds[0]) if scope else Submission()
    tensor = Tensor(page, pool, pool, ids, ids[::-1])
    return Case(direction, source, destination, (tensor,), submission)
