"""Every planted fault is found within the gate budget, by its requirement, and shrinks; what is right is left alone.

Each fault is hunted as a run would, by listed examples and drawn cases, and by drawn cases alone. Run with `-rP` for
the table, or as `python -m tests.planted`.
"""

from __future__ import annotations

import pytest

from conformance.device.case_runner import Bench
from conformance.judge.verdict import Verdict
from conformance.requirements.budgets import COPY, MALFORMED, REFUSED, ROUND_TRIP, UNDEFINED, Budget
from tests.planted.faults import FAULTS, MODULE, RIGHT, Fault
from tests.planted.hunting import Catch, hunt

SEED = 1


def named(fault: Fault) -> str:
    return fault.attribute


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_a_run_finds_it_and_makes_it_small(fault: Fault, bench: Bench) -> None:
    """With the gate budget a run fails by the right requirement, with a case no larger than it has to be."""
    catch = hunt(bench, fault.backend, fault.kind, seed=SEED)
    fault.settle()
    verdict = _verdict(catch)
    print(f"{fault.attribute}: {verdict.findings[0].requirement} in case {catch.cases}; {catch.case.dumps()}")
    assert verdict.findings[0].requirement in fault.requirements, verdict.findings[0].sentence
    assert not fault.too_large(catch.case), catch.case.dumps()
    if not fault.alone:
        return
    again = bench.verdict(fault.backend, catch.case, clean=True)
    assert again.failed, "the shrunk case passes in a clean process"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.seeds], ids=named)
def test_drawn_cases_alone_find_it(fault: Fault, bench: Bench) -> None:
    """Without the listed examples, each of several run seeds draws a case that fails by the right requirement."""
    for seed in range(1, fault.seeds + 1):
        catch = hunt(bench, fault.backend, fault.kind, seed=seed, listed=False, shrink=False)
        fault.settle()
        verdict = _verdict(catch)
        print(f"{fault.attribute}, seed {seed}: {verdict.findings[0].requirement} in drawn case {catch.cases}")
        assert {finding.requirement for finding in verdict.findings} & set(fault.requirements)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_reported(name: str, bench: Bench) -> None:
    """A correct copy, however it is made, passes every claim's smoke budget without an incident."""
    for kind in (COPY, ROUND_TRIP, UNDEFINED, MALFORMED, REFUSED):
        catch = hunt(bench, f"{MODULE}:{name}", kind, seed=SEED, budget=Budget.SMOKE)
        assert catch.failure is None, catch.failure
    assert bench.incidents.read() == []


def _verdict(catch: Catch) -> Verdict:
    assert catch.failure is not None, f"not found in {catch.cases} cases"
    return catch.failure.verdict
