"""The SELECT claims that need no device: every situation of the table, every boundary, the seed cases.

Nothing is drawn here and no copy is run; drawn facts and the chosen backend at work come from elsewhere. Judged are the
rule of this project and those that installed packages offer.
"""

from __future__ import annotations

from functools import cache

import pytest

from conformance.selection.claims import CLAIMS, MANDATORY, Claim, around, disagreements
from conformance.selection.requirements import BOUNDARY
from conformance.selection.simulated import KERNEL_LOAD, SEEDS
from conformance.selection.subjects import BUILT_IN, Selector, installed_selectors
from conformance.selection.table import Table, load_table
from conformance.selection.totality import situations


@pytest.fixture(params=["built-in", *sorted(installed_selectors())])
def selector(request: pytest.FixtureRequest) -> Selector:
    """Each selector that is judged."""
    return BUILT_IN if request.param == "built-in" else installed_selectors()[request.param]


@pytest.fixture
def table() -> Table:
    """The suite's own table."""
    return _table()


@cache
def _table() -> Table:
    return load_table()


@pytest.mark.parametrize("claim", MANDATORY, ids=lambda claim: claim.id)
def test_claim_holds_in_every_situation(claim: Claim, selector: Selector, table: Table) -> None:
    """SELECT-*: in each combination of deciding rows, for its most usual facts."""
    _applies(claim, selector)
    found = [text for situation in situations(table) for text in disagreements(claim, selector, situation.facts, table)]
    assert not found, "\n".join(found)


def test_boundaries_are_exact(selector: Selector, table: Table) -> None:
    """SELECT-BOUNDARY: around every number of the table, for the plainest copy that the kernel is for."""
    assert len(list(around(KERNEL_LOAD, table))) > 30
    found = disagreements(CLAIMS[BOUNDARY], selector, KERNEL_LOAD, table)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("claim", MANDATORY, ids=lambda claim: claim.id)
def test_seed_case(seed: str, claim: Claim, selector: Selector, table: Table) -> None:
    """SELECT-*: cases that went wrong somewhere once."""
    _applies(claim, selector)
    found = disagreements(claim, selector, SEEDS[seed], table)
    assert not found, "\n".join(found)


def _applies(claim: Claim, selector: Selector) -> None:
    reason = claim.not_for(selector)
    if reason:
        pytest.skip(f"{claim.id} does not apply: {reason}")
