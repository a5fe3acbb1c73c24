"""How many cases each claim runs: three budgets, by platform kind, frozen so that two runs do the same work.

The numbers are chosen so that a run takes about 10 s (smoke), 1 min (gate) and 10 min (certify) on the machines of
README.md's table; a backend that declares itself slow (`Support.relative_cost`) runs that many times fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from backends.contract import Support
from conformance.requirements import copies as req
from conformance.requirements import rules as select

SURVIVE = (req.FAULT, req.HANG, req.HEALTHY)


class Budget(str, Enum):
    SMOKE = "smoke"
    GATE = "gate"
    CERTIFY = "certify"


@dataclass(frozen=True)
class ClaimKind:
    """A claim that cases are drawn for: which requirements it decides, and its share of the budget."""

    name: str
    requirements: tuple[str, ...]
    share: float  # of the budget's cases a backend
    least: int  # cases however small the budget
    shards: int  # tests it is split into, so that every worker has some
    subjects: tuple[str, ...] = ()  # what the claim is about, where that is no backend

    def cases(self, platform: str, budget: Budget, support: Support) -> int:
        """Drawn cases over all shards for one backend."""
        table = CASES.get(platform, CASES["cuda"])
        return max(self.least, int(table[budget] * self.share / support.relative_cost))


CASES = {
    "cpu": {Budget.SMOKE: 600, Budget.GATE: 4_000, Budget.CERTIFY: 40_000},
    "cuda": {Budget.SMOKE: 1_500, Budget.GATE: 16_000, Budget.CERTIFY: 160_000},
}

SELECTOR = ("selector",)  # the subject of claims about the selection rule; which rule it is the run's settings say
MANDATORY_OF_RULES = tuple(requirement.id for requirement in select.REQUIREMENTS if requirement.mandatory)

COPY = ClaimKind("copy", (req.COPIED, req.UNTOUCHED, req.SOURCE, req.DECLARED, *SURVIVE), 1.0, 60, 16)
ROUND_TRIP = ClaimKind("round-trip", (req.ROUND_TRIP, req.COPIED, req.UNTOUCHED, req.DECLARED, *SURVIVE), 0.1, 20, 4)
UNDEFINED = ClaimKind("undefined", (req.UNDEFINED, req.UNTOUCHED, req.SOURCE, *SURVIVE), 0.05, 20, 1)
MALFORMED = ClaimKind("malformed", (req.REJECTED, req.INPUT_UNTOUCHED, *SURVIVE), 0.05, 40, 1)
REFUSED = ClaimKind("refused", (req.REASON, *SURVIVE), 0.05, 20, 1)
AGREE = ClaimKind("agree", (req.AGREE,), 0.05, 20, 2)
CHOSEN = ClaimKind("chosen", (req.CHOSEN,), 0.05, 20, 2, SELECTOR)
FACTS = ClaimKind("drawn-facts", MANDATORY_OF_RULES, 0.1, 60, 2, SELECTOR)
TAKEN = ClaimKind("path-taken", (req.TAKEN,), 0.0, 6, 1)
CHOSEN_TAKEN = ClaimKind("chosen-path-taken", (req.TAKEN,), 0.0, 6, 1, SELECTOR)
# Listed cases only, of every kind: each decides what `verdict.bundle` names for it.
GIVEN = ClaimKind("given-cases", (), 0.0, 0, 4)
PUBLIC = ClaimKind("public-bugs", (), 0.0, 0, 2)
FROZEN = ClaimKind("frozen-corpus", (), 0.0, 0, 8)
FROZEN_PART = {Budget.SMOKE: 64, Budget.GATE: 8, Budget.CERTIFY: 1}  # one case in so many

KINDS = (
    COPY,
    ROUND_TRIP,
    UNDEFINED,
    MALFORMED,
    REFUSED,
    AGREE,
    CHOSEN,
    FACTS,
    TAKEN,
    CHOSEN_TAKEN,
    GIVEN,
    PUBLIC,
    FROZEN,
)
