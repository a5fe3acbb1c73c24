"""Claims about a selector over drawn facts: exactly so many draws, and the simplest facts on which it disagrees.

Draws with Hypothesis from the run's seed. Counting is the caller's, through `on_drawn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from backends.contract import Direction, Memory
from backends.selection import Facts
from conformance.search.explore import explore
from conformance.selection.properties import Claim, disagreements
from conformance.selection.table import Table
from conformance.subjects.rules import Selector
from strategies.draw.facts import DIRECTIONS, HOST_KINDS, PLATFORMS, facts

TOP_UPS = 20  # further searches where Hypothesis ended early (a small domain)
OnDrawn = Callable[[Claim, bool], None]


@dataclass(frozen=True)
class Disagreement:
    """The simplest facts found, and what is wrong there."""

    claim: Claim
    facts: Facts
    sentences: tuple[str, ...]


class _Disagrees(Exception):
    """Tells Hypothesis that a claim does not hold."""


@dataclass
class _Hunt:
    selector: Selector
    table: Table
    claims: Sequence[Claim]
    on_drawn: OnDrawn
    drawn: int = 0
    found: list[Disagreement] = field(default_factory=list)

    def attempt(self, known: Facts) -> None:
        """Check the claims; once one has failed, only that one, for shrinking."""
        if self.found:
            self._check(self.found[0].claim, known)
            return
        self.drawn += 1
        for claim in self.claims:
            holds = not disagreements(claim, self.selector, known, self.table)
            self.on_drawn(claim, holds)
            if not holds:
                self._check(claim, known)

    def _check(self, claim: Claim, known: Facts) -> None:
        sentences = disagreements(claim, self.selector, known, self.table)
        if sentences:
            self.found.append(Disagreement(claim, known, tuple(sentences)))
            raise _Disagrees


def domain(selector: Selector) -> st.SearchStrategy[Facts]:
    """Facts of the kind that the selector is meant for."""
    platforms = PLATFORMS if selector.platforms is None else [p for p in PLATFORMS if p in selector.platforms]
    directions: list[Direction] = [kind for kind in DIRECTIONS if kind in selector.directions]
    memory: list[Memory] = [kind for kind in HOST_KINDS if kind in selector.memory]
    return facts(platforms, directions, memory)


def first_disagreement(
    selector: Selector, table: Table, claims: Sequence[Claim], draws: int, number: int, on_drawn: OnDrawn
) -> Disagreement | None:
    """Draw `draws` facts from seed `number` and check all `claims` on each; the simplest disagreement, or None.

    `on_drawn(claim, holds)` is called once for each claim and drawn facts, shrinking excluded."""
    hunt = _Hunt(selector, table, claims, on_drawn)
    for turn in range(TOP_UPS):
        before = hunt.drawn
        if explore(domain(selector), hunt.attempt, examples=draws - before, number=number + turn, failed=_Disagrees):
            return hunt.found[-1]
        if hunt.drawn in (before, draws):
            break
    return None
