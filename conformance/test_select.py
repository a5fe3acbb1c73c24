"""SELECT: the selection rule that the run names, in every situation of the table, over drawn facts, and on the device.

That the choice is a good one is not judged here: `kvconform audit` measures it.
"""

from __future__ import annotations

from functools import cache

import pytest

from conformance.claims.claim import Claim as DeviceClaim
from conformance.claims.execution_path import takes_its_path, takes_the_chosen_path
from conformance.claims.rule import SelectorClaim, first_few, own_table
from conformance.requirements.budgets import CHOSEN, CHOSEN_TAKEN, FACTS, TAKEN
from conformance.requirements.rules import BOUNDARY
from conformance.selection.properties import CLAIMS, MANDATORY, Claim, around, disagreements
from conformance.selection.simulated import KERNEL_LOAD, SEEDS
from conformance.selection.table import Table
from conformance.selection.totality import situations
from conformance.session.plugin import SETTINGS
from conformance.subjects.rules import Selector, selector_named


@pytest.fixture
def selector(request: pytest.FixtureRequest) -> Selector:
    """The rule that is judged."""
    return _selector(request.config.stash[SETTINGS].selector)


@pytest.fixture
def table() -> Table:
    """The suite's own table."""
    return own_table()


@cache
def _selector(name: str) -> Selector:
    return selector_named(name)


@pytest.mark.parametrize("rule", MANDATORY, ids=lambda rule: rule.id)
def test_claim_holds_in_every_situation(rule: Claim, selector: Selector, table: Table) -> None:
    """SELECT-*: in each combination of deciding rows, for its most usual facts."""
    _applies(rule, selector)
    found = [text for situation in situations(table) for text in disagreements(rule, selector, situation.facts, table)]
    assert not found, first_few(found)


def test_boundaries_are_exact(selector: Selector, table: Table) -> None:
    """SELECT-BOUNDARY: around every number of the table, for the plainest copy that the kernel is for."""
    assert len(list(around(KERNEL_LOAD, table))) > 30
    found = disagreements(CLAIMS[BOUNDARY], selector, KERNEL_LOAD, table)
    assert not found, first_few(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", MANDATORY, ids=lambda rule: rule.id)
def test_seed_case(seed: str, rule: Claim, selector: Selector, table: Table) -> None:
    """SELECT-*: cases that went wrong somewhere once."""
    _applies(rule, selector)
    found = disagreements(rule, selector, SEEDS[seed], table)
    assert not found, first_few(found)


@pytest.mark.claim(FACTS)
def test_drawn_facts(claim: DeviceClaim) -> None:
    """SELECT-TABLE, SELECT-BOUNDARY, SELECT-EXPLICIT, SELECT-DIRECTIONS, SELECT-SAFETY, SELECT-STABLE: over facts of
    any platform."""
    SelectorClaim.of(claim).agrees_with_table()


@pytest.mark.claim(CHOSEN)
def test_chosen_backend_copies(claim: DeviceClaim) -> None:
    """SELECT-CHOSEN-COPIES: on this device, for every kind of memory it has, what is chosen copies right."""
    SelectorClaim.of(claim).copies_right()


@pytest.mark.claim(TAKEN)
def test_path_taken(claim: DeviceClaim) -> None:
    """SELECT-PATH-TAKEN: what a backend says it did is what the device's profiler shows."""
    takes_its_path(claim)


@pytest.mark.claim(CHOSEN_TAKEN)
def test_chosen_path_taken(claim: DeviceClaim) -> None:
    """SELECT-PATH-TAKEN: and so is what the rule chose."""
    takes_the_chosen_path(SelectorClaim.of(claim))


def _applies(rule: Claim, selector: Selector) -> None:
    reason = rule.not_for(selector)
    if reason:
        pytest.skip(f"{rule.id} does not apply: {reason}")
