"""What must hold of a selector, each claim a function of selector, facts and table that returns its disagreements.

A disagreement is a sentence: the facts in words, what was expected, what came, the row and its reason. No claim runs a
copy; that the chosen backend really copies right is checked on the device, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from backends.contract import Direction, Memory
from backends.selection import BACKENDS, Facts
from conformance.requirements import rules as ids
from conformance.selection.table import Answer, Table
from conformance.selection.words import describe
from conformance.subjects.rules import Outcome, Selector

NO_BACKEND = "no_such_backend"
CHUNK_EDGES = (8, 9, 16, 24, 32)  # small pages around powers of two, where a chunk is rounded


def equals_table(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-TABLE: the choice, and for the kernel its chunk, are what the table says. One sentence at most."""
    seen = selector.view(replace(facts, explicit=None))
    outcome, answer = selector.ask(seen), table.answer(seen)
    return [] if _same(outcome, answer) else [_differs(selector, seen, outcome, answer)]


def exact_at_boundaries(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-BOUNDARY: around every number of the table, with all other facts as given, the choice is the table's."""
    found: list[str] = []
    for near in around(facts, table):
        found += equals_table(selector, near, table)
    return found


def explicit_or_raise(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-EXPLICIT: a backend asked for by name is the answer, or the call raises ChoiceError with a reason."""
    found: list[str] = []
    for name in (*BACKENDS, NO_BACKEND):
        seen = selector.view(replace(facts, explicit=name))
        outcome, answer = selector.ask(seen), table.answer(seen)
        if not _same(outcome, answer):
            found.append(_differs(selector, seen, outcome, answer))
        elif outcome.backend is None and not outcome.reason.strip():
            found.append(f"{selector.name} refused {describe(seen)}, which is right, but gave no reason; {answer.why}")
    return found


def directions_agree(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-DIRECTIONS: load and store of the same pages take one path, or the two that a row of the table says."""
    pair = (Direction.LOAD, Direction.STORE)
    if facts.direction not in pair or facts.host_memory is Memory.READ_ONLY:
        return []
    load, store = (selector.view(replace(facts, direction=direction, explicit=None)) for direction in pair)
    loads, stores = selector.ask(load), selector.ask(store)
    load_answer, store_answer = table.answer(load), table.answer(store)
    if loads.backend == stores.backend:
        return []
    what = f"{selector.name}: {describe(load)} goes to {loads}, the store of the same pages to {stores}"
    if load_answer.backend == store_answer.backend:
        return [f"{what}; expected {load_answer.backend or 'a refusal'} for both; {load_answer.why}"]
    if (loads.backend, stores.backend) == (load_answer.backend, store_answer.backend):
        told_apart = _for_direction(load_answer) or _for_direction(store_answer)
        return [] if told_apart else [f"{what}, as in the table, of which no row says why"]
    return [f"{what}; expected {load_answer.backend} and {store_answer.backend}; {store_answer.why}"]


def never_refuted(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-SAFETY: no choice that the facts rule out. Facts the selector doesn't see are those of its platform."""
    return _refuted(selector, selector.view(replace(facts, explicit=None)), table)


def no_blind_spot(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-BLIND-SPOT: nor any that facts rule out which the selector does not even look at."""
    return _refuted(selector, replace(facts, explicit=None), table)


def same_for_same_facts(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-STABLE: asked twice, or with the sizes in another order or listed twice, the answer is the same."""
    seen = selector.view(facts)
    first = selector.ask(seen)
    backwards = replace(seen, page_sizes=seen.page_sizes[::-1], fragment_sizes=seen.fragment_sizes[::-1])
    twice = replace(seen, page_sizes=seen.page_sizes * 2, fragment_sizes=seen.fragment_sizes * 2)
    found: list[str] = []
    again_as = {"asked again": seen, "with the sizes backwards": backwards, "with the sizes twice": twice}
    for what, again in again_as.items():
        outcome = selector.ask(again)
        if (outcome.backend, outcome.bytes_per_chunk) != (first.backend, first.bytes_per_chunk):
            found.append(f"{selector.name}: {describe(seen)}: first {first}, {what} {outcome}; expected the same")
    return found


def takes_advice(selector: Selector, facts: Facts, table: Table) -> list[str]:
    """SELECT-PERFORMANCE, advisory: where a measurement found something faster, it is chosen."""
    seen = selector.view(replace(facts, explicit=None))
    outcome = selector.ask(seen)
    return [
        f"{selector.name}: {describe(seen)}: got {outcome}, but {row.backend} was {row.times_faster} times as fast on "
        f"{row.device}; {row}"
        for row in table.advice(seen)
        if outcome.backend is not None and outcome.backend != row.backend
    ]


@dataclass(frozen=True)
class Claim:
    """A claim as data: which requirement it checks, and what a selector must look at for it to apply."""

    id: str
    check: Callable[[Selector, Facts, Table], list[str]]
    needs: frozenset[str] = frozenset()

    def not_for(self, selector: Selector) -> str | None:
        """Why the claim does not apply to this selector; None if it does."""
        missing = sorted(self.needs - selector.sees)
        return f"{selector.name} does not look at {missing[0]}" if missing else None


CLAIMS: Mapping[str, Claim] = {
    claim.id: claim
    for claim in (
        Claim(ids.TABLE, equals_table),
        Claim(ids.BOUNDARY, exact_at_boundaries),
        Claim(ids.EXPLICIT, explicit_or_raise, frozenset({"explicit"})),
        Claim(ids.DIRECTIONS, directions_agree),
        Claim(ids.SAFETY, never_refuted),
        Claim(ids.STABLE, same_for_same_facts),
        Claim(ids.BLIND_SPOT, no_blind_spot),
        Claim(ids.PERFORMANCE, takes_advice),
    )
}
MANDATORY = tuple(CLAIMS[requirement.id] for requirement in ids.REQUIREMENTS if requirement.mandatory)


def disagreements(claim: Claim, selector: Selector, facts: Facts, table: Table) -> list[str]:
    """What `claim` finds, its id before each sentence; nothing for facts outside of what the selector is meant for."""
    if claim.not_for(selector) or selector.outside(facts):
        return []
    return [f"{claim.id}: {sentence}" for sentence in claim.check(selector, facts, table)]


def around(facts: Facts, table: Table) -> Iterator[Facts]:
    """The facts with page sizes and descriptors moved to each number of the table, one below and one above."""
    pages = table.numbers("page_sizes")
    for size in sorted({*CHUNK_EDGES, *(number + step for number in pages for step in (-8, -1, 0, 1, 8))}):
        if size >= 1:
            yield replace(facts, page_sizes=(size,))
            yield replace(facts, page_sizes=(8, size))
    for number in table.numbers("descriptors"):
        for descriptors in (number - 1, number, number + 1):
            yield replace(facts, descriptors=max(0, descriptors))


def _same(outcome: Outcome, answer: Answer) -> bool:
    if outcome.broke is not None or outcome.backend != answer.backend:
        return False
    return not outcome.chunk_known or outcome.bytes_per_chunk == answer.bytes_per_chunk


def _differs(selector: Selector, facts: Facts, outcome: Outcome, answer: Answer) -> str:
    chunk = f" with chunks of {answer.bytes_per_chunk} bytes" if answer.bytes_per_chunk else ""
    expected = f"{answer.backend}{chunk}" if answer.backend else "a refusal (ChoiceError)"
    return f"{selector.name}: {describe(facts)}: expected {expected}, got {outcome}; {answer.why}"


def _refuted(selector: Selector, facts: Facts, table: Table) -> list[str]:
    outcome = selector.ask(facts)
    row = table.ruled_out(facts).get(outcome.backend or "")
    if row is None:
        return []
    expected = f"expected anything but {outcome.backend}, got {outcome}, which is unsafe"
    return [f"{selector.name}: {describe(facts)}: {expected}; {row}"]


def _for_direction(answer: Answer) -> bool:
    rows = [answer.row, *answer.ruled_out.values()]
    return any(row is not None and row.names("direction") for row in rows)
