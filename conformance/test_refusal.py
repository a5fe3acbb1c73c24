"""REFUSE: what a backend declares unsupported it refuses with a reason; what it does not, it copies (test_bytes)."""

from __future__ import annotations

import pytest

from conformance.claims.claim import Claim
from conformance.requirements.budgets import REFUSED
from strategies.draw.cases import refused_cases


@pytest.mark.claim(REFUSED)
def test_declared_limits(claim: Claim) -> None:
    """REFUSE-REASON: every declared limit is refused with a reason, before anything is written."""
    claim.holds(refused_cases)
