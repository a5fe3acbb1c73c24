"""Proof that a table always has exactly one answer, and that every row of it is needed.

All combinations of representative facts are gone through: for each number in a condition the value itself and its
neighbours, for each word every word, and "not known" where there is such a thing. A condition reads one axis only, so
combinations need not be listed one by one: they are folded axis by axis, and those that left the same rows standing
are carried on as one, with their number. Nothing is sampled; it says nothing about whether the answers are wise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backends.contract import Direction, Memory, Stream
from backends.selection import Facts
from conformance.selection.conditions import PLATFORMS, Condition
from conformance.selection.table import Row, Table
from conformance.selection.words import describe

USUAL = Facts(
    platform="cuda",
    direction=Direction.LOAD,
    host_memory=Memory.PINNED,
    page_sizes=(8,),
    triton_present=True,
    batch_api="cuMemcpyBatchAsync/8",
)
Change = dict[str, Any]


@dataclass(frozen=True)
class Situation:
    """All combinations in which the same rows decide."""

    facts: Facts  # one of them, the most usual
    combinations: int
    winner: Row | None  # the first policy row that matches
    ruled_out: Mapping[str, Row]  # for each backend that is ruled out, the first safety row that does so
    backend: str | None  # the answer; None: refuse


def situations(table: Table, given: Iterable[Condition] = ()) -> list[Situation]:
    """Every situation there can be, out of all combinations of representative facts in which `given` holds."""
    rows = (*table.safety, *table.policy)
    conditions = list(given)
    axes = _axes(table)
    later = [{name for name, _ in axes[position + 1 :]} for position in range(len(axes))]
    states: dict[int, tuple[Change, int]] = {(1 << len(rows)) - 1: ({}, 1)}
    for (axis, changes), rest in zip(axes, later, strict=True):
        masks = [(change, _standing(rows, axis, change)) for change in _allowed(axis, changes, conditions)]
        open_rows = sum(1 << at for at, row in enumerate(rows) if any(c.axis in rest for c in row.when))
        settle = _settler(table, open_rows)
        folded: dict[int, tuple[Change, int]] = {}
        for standing, (so_far, count) in states.items():
            for change, mask in masks:
                state = settle(standing & mask)
                example, known = folded.get(state, ({**so_far, **change}, 0))
                folded[state] = (example, known + count)
        states = folded
    return [_situation(table, rows, state, *found) for state, found in states.items()]


def problems(table: Table) -> list[str]:
    """What is wrong with the table as a whole, as sentences: holes, rows that are never needed, useless advice."""
    found = []
    all_situations = situations(table)
    holes = [situation for situation in all_situations if situation.winner is None]
    if holes:
        missing, total = (sum(s.combinations for s in some) for some in (holes, all_situations))
        found.append(
            f"a hole: no row answers {describe(holes[0].facts)}, nor {missing - 1:,} other of {total:,} combinations; "
            "end the policy rows with one that always matches"
        )
    needed = {s.winner.id for s in all_situations if s.winner and s.winner.backend == s.backend}
    needed |= {row.id for s in all_situations for row in s.ruled_out.values()}
    for row in (*table.safety, *table.policy):
        if row.id not in needed:
            found.append(_shadowed(table, row))
    for row in table.performance:
        found.extend(_useless(table, row))
    return found


def combinations(table: Table) -> int:
    """How many combinations of representative facts there are."""
    product = 1
    for _, changes in _axes(table):
        product *= len(changes)
    return product


def _axes(table: Table) -> list[tuple[str, Sequence[Change]]]:
    """Each axis with its representatives, the most usual first. Axes that many rows read together come first."""

    def one(name: str, *values: object) -> tuple[str, Sequence[Change]]:
        return name, [{name: value} for value in values]

    def around(axis: str) -> list[int]:
        near = {number + step for number in table.numbers(axis) for step in (-8, -1, 0, 1, 8)}
        return sorted(number for number in near if number >= 1)

    pages = [8, *around("page_sizes")]
    fragments = [8, *around("fragment_sizes")]
    return [
        one("platform", *PLATFORMS, "a-new-vendor"),
        ("side", _sides()),
        one("zero_copy", None, True, False),
        one("triton_present", True, False),
        one("triton_usable", None, True, False),
        one("batch_api", "cuMemcpyBatchAsync/8", "hipMemcpyBatchAsync/8", None),
        one("stream", *Stream),
        one("captured", False, True),
        one("kernel_any_size", False, True),
        one("fragment_sizes", (), *((size,) for size in fragments), (8, 12)),
        one("page_sizes", *((size,) for size in pages), *((8, size) for size in pages), (8, 12), ()),
        one("address_multiple", None, *(1 << bit for bit in range(13))),
        one("descriptors", None, 0, *around("descriptors")),
    ]


def _sides() -> list[Change]:
    host = [memory for memory in (Memory.PINNED, *Memory) if not memory.on_device]
    pairs = [
        (direction, memory)
        for direction in (Direction.LOAD, Direction.STORE, Direction.HOST_TO_HOST)
        for memory in dict.fromkeys(host)
        if (direction, memory) != (Direction.STORE, Memory.READ_ONLY)
    ]
    pairs.append((Direction.DEVICE_TO_DEVICE, Memory.DEVICE))
    return [{"direction": direction, "host_memory": memory} for direction, memory in pairs]


def _allowed(axis: str, changes: Sequence[Change], given: Sequence[Condition]) -> list[Change]:
    asked = [condition for condition in given if condition.axis == axis]
    return [change for change in changes if all(condition.holds(replace(USUAL, **change)) for condition in asked)]


def _standing(rows: Sequence[Row], axis: str, change: Change) -> int:
    """A bit for each row that does not fail on this axis."""
    facts = replace(USUAL, **change)
    return sum(
        1 << at
        for at, row in enumerate(rows)
        if all(condition.holds(facts) for condition in row.when if condition.axis == axis)
    )


def _settler(table: Table, open_rows: int) -> Callable[[int], int]:
    """Drop rows that can no longer decide, because one before them matches for certain: same answers, fewer states."""
    first_policy = len(table.safety)
    by_backend: dict[str, list[int]] = {}
    for at, row in enumerate(table.safety):
        by_backend.setdefault(row.backend, []).append(at)

    groups = [*by_backend.values(), list(range(first_policy, first_policy + len(table.policy)))]

    def settle(state: int) -> int:
        certain = state & ~open_rows
        for places in groups:
            winner = next((at for at in places if certain >> at & 1), None)
            if winner is not None:
                state &= ~sum(1 << at for at in places if at > winner)
        return state

    return settle


def _situation(table: Table, rows: Sequence[Row], state: int, change: Change, count: int) -> Situation:
    standing = [row for at, row in enumerate(rows) if state >> at & 1]
    ruled_out: dict[str, Row] = {}
    for row in standing:
        if row in table.safety:
            ruled_out.setdefault(row.backend, row)
    winner = next((row for row in standing if row in table.policy), None)
    backend = table.chosen(winner, ruled_out) if winner else None
    return Situation(replace(USUAL, **change), count, winner, ruled_out, backend)


def _shadowed(table: Table, row: Row) -> str:
    where = situations(table, given=row.when)
    if not where:
        return f"{row}\n  can never match: its conditions do not hold together"
    if row in table.safety:
        return f"{row}\n  is never needed: wherever it matches, {_first(where, row)} rules {row.backend} out before it"
    winners = {s.winner.id for s in where if s.winner}
    if row.id in winners:
        return f"{row}\n  is never followed: wherever it wins, {_first(where, row)} rules {row.backend} out"
    return f"{row}\n  is shadowed: wherever it matches, {_names(winners)} comes before it"


def _useless(table: Table, row: Row) -> list[str]:
    where = situations(table, given=row.when)
    if not where:
        return [f"{row}\n  can never match: its conditions do not hold together"]
    safe = [s for s in where if row.backend not in s.ruled_out]
    if not safe:
        return [f"{row}\n  advises what is never safe: where it matches, {_first(where, row)} rules {row.backend} out"]
    if all(s.backend == row.backend for s in safe):
        return [f"{row}\n  advises nothing new: wherever it may, the policy rows choose {row.backend} already"]
    return []


def _first(where: Sequence[Situation], row: Row) -> str:
    """The safety rows that rule the row's backend out."""
    return _names({s.ruled_out[row.backend].id for s in where if row.backend in s.ruled_out})


def _names(ids: Iterable[str]) -> str:
    return " or ".join(f"row {name}" for name in sorted(ids))
