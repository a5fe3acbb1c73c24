"""The search: exactly the planned cases, cases of its own for each shard, failures that come and go, bounded shrinking.

No device: what becomes of a case is a function of the case.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st
from some_cases import load

from conformance.judge.verdict import Finding, Kind, Verdict
from conformance.requirements import copies as req
from conformance.search import search as searching
from conformance.search.search import Plan, search, shard_seed, size
from strategies.case import Case, Submission
from strategies.simplify import simpler, simplify

PASSED = Verdict(Kind.PASSED, "b", (req.COPIED,))


def failed(requirement: str = req.COPIED, kind: Kind = Kind.WRONG) -> Verdict:
    return Verdict(kind, "b", (requirement,), (Finding(requirement, "it is wrong"),))


def pages(most: int = 100_000) -> st.SearchStrategy[Case]:
    """Loads of three blocks whose page is anything up to `most` bytes."""
    return st.integers(1, most).map(load)


def page(case: Case) -> int:
    return case.tensors[0].page_bytes


class Recorder:
    """Runs cases by a rule and remembers them."""

    def __init__(self, rule: Callable[[Case], Verdict] = lambda case: PASSED) -> None:
        self.rule, self.ran, self.drawn, self.judged = rule, list[Case](), list[Case](), list[Case]()

    def run(self, case: Case) -> Verdict:
        self.ran.append(case)
        return self.rule(case)

    def search(self, strategy: st.SearchStrategy[Case], plan: Plan, **options: object) -> searching.Failure | None:
        return search(
            strategy,
            plan,
            self.run,
            on_drawn=self.drawn.append,
            on_verdict=lambda case, verdict: self.judged.append(case),
            **options,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("cases", [0, 1, 7, 300])
def test_the_planned_number_is_drawn_exactly(cases: int) -> None:
    """A search that finds nothing has drawn and judged its cases, no more and no fewer, beside the examples."""
    recorder = Recorder()
    assert recorder.search(pages(), Plan(cases, 1, None), examples=[("one", load(3))]) is None
    assert len(recorder.ran) == len(recorder.drawn) == len(recorder.judged) == cases + 1
    assert recorder.ran[0] == load(3)


def test_a_space_smaller_than_the_plan_ends() -> None:
    """Where there are fewer cases than planned, the search ends by itself and has seen them all."""
    recorder = Recorder()
    assert recorder.search(pages(5), Plan(200, 1, None)) is None
    assert {page(case) for case in recorder.ran} == {1, 2, 3, 4, 5}
    assert len(recorder.ran) <= 200


def test_seeds_reproduce_and_shards_differ() -> None:
    """The same seed draws the same cases, and each shard of a run draws others."""

    def drawn(shard: str) -> list[Case]:
        recorder = Recorder()
        recorder.search(pages(), Plan(40, shard_seed(5, "copy", "b", shard), None))
        return recorder.ran

    assert drawn("0") == drawn("0")
    in_common = set(map(page, drawn("0"))) & set(map(page, drawn("1")))
    assert len(in_common) < 20
    assert len({shard_seed(run, name, str(shard)) for run in range(3) for name in "ab" for shard in range(16)}) == 96


def test_the_smallest_failure_is_found() -> None:
    """A failure beyond a bound shrinks to the bound, in one block, and says what it took."""
    recorder = Recorder(lambda case: failed() if page(case) >= 777 and case.descriptors else PASSED)
    failure = recorder.search(pages(), Plan(100, 1, None))
    assert failure is not None
    assert (page(failure.case), failure.case.descriptors) == (777, 1)
    assert failure.verdict.failed
    assert failure.drawn == len(recorder.drawn) <= 5
    assert failure.shrinking == len(recorder.ran) - len(recorder.drawn)


def test_a_listed_example_shrinks_too() -> None:
    """A failing example is named, and made simpler although nobody drew it."""
    recorder = Recorder(lambda case: failed() if page(case) >= 100 else PASSED)
    failure = recorder.search(pages(), Plan(100, 1, None), examples=[("fine", load(5)), ("the one", load(1000))])
    assert failure is not None
    assert (failure.name, page(failure.case), failure.drawn) == ("the one", 100, 2)


def test_a_failure_that_comes_and_goes_is_a_failure() -> None:
    """A case that fails once and never again is reported, not an error of the test."""
    times: list[Case] = []

    def once(case: Case) -> Verdict:
        if page(case) >= 50 and not times:
            times.append(case)
            return failed()
        return PASSED

    failure = Recorder(once).search(pages(), Plan(200, 1, None))
    assert failure is not None
    assert failure.case == times[0]


def test_shrinking_stays_with_one_requirement() -> None:
    """A smaller case that breaks something else does not take the place of what was found."""

    def rule(case: Case) -> Verdict:
        return failed(req.COPIED) if page(case) >= 500 else failed(req.SOURCE) if page(case) == 499 else PASSED

    failure = Recorder(rule).search(st.just(load(5000)), Plan(1, 1, None))
    assert failure is not None
    assert failure.verdict.findings[0].requirement == req.COPIED
    assert page(failure.case) == 500


def test_shrinking_costs_a_bounded_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once shrinking has broken its share of processes, no new case is run."""
    recorder = Recorder(lambda case: failed(req.FAULT, Kind.FAULT) if page(case) >= 777 else PASSED)
    monkeypatch.setattr(searching, "SHRINK_BREAKS", 4)
    failure = recorder.search(pages(), Plan(50, 1, None))
    assert failure is not None
    assert sum(recorder.rule(case).failed for case in recorder.ran) == 4


def test_shrinking_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its time is over, shrinking ends at once with what it has."""
    monkeypatch.setattr(searching, "SHRINK_SECONDS", 0.05)

    def slow(case: Case) -> Verdict:
        time.sleep(0.02)
        return failed() if page(case) >= 777 else PASSED

    recorder = Recorder(slow)
    failure = recorder.search(pages(), Plan(50, 1, None))
    assert failure is not None
    assert 1 <= failure.shrinking <= 4


def test_what_is_not_worth_shrinking_is_not_run_again() -> None:
    """A failure like one already shown is reported as found, without another run."""
    recorder = Recorder(lambda case: failed() if page(case) > 60_000 else PASSED)
    failure = recorder.search(pages(), Plan(100, 1, None), worth_shrinking=lambda verdict: False)
    assert failure is not None
    assert not failure.shrunk
    assert failure.case == recorder.ran[-1] == recorder.drawn[-1]
    assert failure.shrinking == 0


def test_shrinking_reaches_allowed_cases_only() -> None:
    """What the backend need not do is no smaller example of what it does wrong."""
    recorder = Recorder(lambda case: failed() if page(case) >= 8 else PASSED)
    listed = [("x", load(4096))]
    failure = recorder.search(st.nothing(), Plan(0, 1, None), examples=listed, allowed=lambda case: page(case) % 8 == 0)
    assert failure is not None
    assert page(failure.case) % 8 == 0


def test_failures_are_kept_for_the_next_run(tmp_path: Path) -> None:
    """With a database the next search begins with what failed."""
    rule = Recorder(lambda case: failed() if page(case) >= 90_000 else PASSED)
    first = rule.search(pages(), Plan(300, 1, tmp_path / "database"))
    assert first is not None
    again = Recorder(rule.rule)
    assert again.search(pages(), Plan(300, 99, tmp_path / "database")) is not None
    assert page(again.ran[0]) >= 90_000


def test_interrupt_is_not_a_failing_case() -> None:
    """Ctrl-C in the middle of a case goes up."""

    def interrupted(case: Case) -> Verdict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorder(interrupted).search(pages(), Plan(10, 1, None))


ODD = replace(
    load(40, source_stride=48, destination_stride=64),
    submission=Submission(calls=4, zero_entries=(0, 2), reuse_descriptors=True),
    seed=77,
)


def test_simpler_variants_are_valid_and_different() -> None:
    """Each variant is a case of its own that can be built, read back from JSON, and is not the one it came from."""
    variants = list(simpler(ODD))
    assert len(variants) > 20
    for variant in variants:
        assert variant != ODD
        assert Case.from_json(variant.to_json()) == variant


def test_simplify_reaches_the_minimum() -> None:
    """Where everything fails, one byte of one plain block is left; where nothing does, the case itself."""
    least = simplify(ODD, lambda case: True)
    assert size(least)[:4] <= (1, 1, 0, 1)
    assert least.submission == Submission()
    assert least.seed == 0
    assert simplify(ODD, lambda case: False) == ODD


def test_simplify_tries_each_variant_once() -> None:
    """No case is run twice, and the steps are few."""
    seen: list[str] = []

    def fails(case: Case) -> bool:
        seen.append(case.dumps())
        return page(case) >= 10 and case.submission.calls > 1

    least = simplify(ODD, fails)
    assert (page(least), least.submission.calls) == (10, 2)
    assert len(seen) == len(set(seen)) < 200


def test_simplifying_a_plain_case_adds_nothing() -> None:
    """A case without oddities has no variant with one."""
    plain = load(1, ((0,), (0,)))
    oddities = size(plain)[2]
    assert all(size(variant)[2] <= oddities for variant in simpler(plain))
    assert all(variant.submission == plain.submission for variant in simpler(plain))
