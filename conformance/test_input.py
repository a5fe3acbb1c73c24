"""INPUT: malformed descriptors are rejected with a clear error, before anything is written."""

from __future__ import annotations

import pytest

from conformance.claims.claim import Claim
from conformance.requirements.budgets import MALFORMED
from strategies.draw.cases import malformed_cases


@pytest.mark.claim(MALFORMED)
def test_malformed(claim: Claim) -> None:
    """INPUT-REJECTED, INPUT-UNTOUCHED: an error that says what was wrong, and no byte written."""
    claim.holds(malformed_cases)
