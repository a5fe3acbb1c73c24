"""BYTES: what a copy leaves in memory, on both sides, every byte."""

from __future__ import annotations

import pytest

from conformance.claims.claim import Claim
from conformance.requirements.budgets import AGREE, COPY, ROUND_TRIP, UNDEFINED
from strategies.draw.cases import cases, round_trips, undefined_cases
from strategies.must_have import must_have


@pytest.mark.claim(COPY)
def test_copy(claim: Claim) -> None:
    """BYTES-COPIED, BYTES-UNTOUCHED, BYTES-SOURCE, REFUSE-DECLARED, SURVIVE-*: a copy writes its blocks, nothing else,
    and ends."""
    claim.holds(cases, must_have)


@pytest.mark.claim(ROUND_TRIP)
def test_round_trip(claim: Claim) -> None:
    """BYTES-ROUND-TRIP: what was stored comes back."""
    claim.holds(round_trips)


@pytest.mark.claim(UNDEFINED)
def test_undefined_order(claim: Claim) -> None:
    """BYTES-UNDEFINED: duplicate destinations are refused, or hold one of their sources."""
    claim.holds(undefined_cases)


@pytest.mark.claim(AGREE)
def test_backends_agree(claim: Claim) -> None:
    """BYTES-AGREE: the destination is what the reference backend (torch_copy where it runs) leaves."""
    claim.agrees(cases)
