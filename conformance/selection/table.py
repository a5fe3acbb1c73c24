"""The oracle of selection: a table in data, read, checked row by row, and asked.

Safety rows rule a backend out. Of the policy rows the first one that matches wins; where its choice is ruled out, the
first of the fallbacks that is not is the answer, and where all are, refusing is. Performance rows say where something
else was measured to be faster: advice, never the answer. Whether the table as a whole always has an answer is
`totality`'s question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from backends.selection import BACKENDS, TRITON_COPY, Facts
from conformance.selection.conditions import Condition, TableError, read_condition
from conformance.selection.words import describe

TABLE = Path(__file__).with_name("table.json")
SAFETY, POLICY, PERFORMANCE = "safety", "policy", "performance"
CHUNK = re.compile(r"next power of two of the largest page, at most (\d+)")
REFERENCE = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@dataclass(frozen=True)
class Row:
    """One rule. `backend` is what a safety row rules out, and what the other kinds choose."""

    id: str
    kind: str
    backend: str
    when: tuple[Condition, ...]
    reason: str
    reference: str | None = None  # owner/repository#number
    device: str | None = None  # of a performance row: where it was measured
    times_faster: float | None = None  # of a performance row: than what the policy chooses

    def matches(self, facts: Facts) -> bool:
        """Whether every condition holds."""
        return all(condition.holds(facts) for condition in self.when)

    def names(self, name: str) -> bool:
        """Whether the row asks for this property."""
        return any(condition.name == name for condition in self.when)

    def __str__(self) -> str:
        return f"row {self.id} ({self.kind}): {self.reason}" + (f" [{self.reference}]" if self.reference else "")


@dataclass(frozen=True)
class Answer:
    """What the table says about facts. No backend: the copy, or the explicit choice, has to be refused."""

    backend: str | None
    bytes_per_chunk: int | None
    why: str  # a sentence, with the row's id and reason where a row decided
    row: Row | None  # the row that decided; None for an explicit choice that is met, or that no row is about
    ruled_out: Mapping[str, Row]  # by backend


@dataclass(frozen=True)
class Table:
    """The rows by kind, each in order."""

    safety: tuple[Row, ...]
    policy: tuple[Row, ...]
    performance: tuple[Row, ...]
    fallbacks: tuple[str, ...]  # all backends
    most_chunk: int

    @property
    def rows(self) -> tuple[Row, ...]:
        return (*self.safety, *self.policy, *self.performance)

    def numbers(self, axis: str) -> tuple[int, ...]:
        """The numbers at which some row changes its mind about this axis, ascending."""
        found = {n for row in self.rows for condition in row.when if condition.axis == axis for n in condition.numbers}
        return tuple(sorted(found | ({self.most_chunk} if axis == "page_sizes" else set())))

    def ruled_out(self, facts: Facts) -> dict[str, Row]:
        """The first safety row that rules each backend out, of those that are."""
        found: dict[str, Row] = {}
        for row in self.safety:
            if row.backend not in found and row.matches(facts):
                found[row.backend] = row
        return found

    def answer(self, facts: Facts) -> Answer:
        """The one right choice. Raises TableError if no row answers: `totality` excludes that for a checked table."""
        ruled_out = self.ruled_out(facts)
        if facts.explicit is not None:
            return self._explicit(facts, facts.explicit, ruled_out)
        row = next((row for row in self.policy if row.matches(facts)), None)
        if row is None:
            raise TableError(f"no policy row answers {describe(facts)}")
        passed_over = list(takewhile(ruled_out.__contains__, self.in_turn(row)))
        why = "; ".join([str(row), *(f"{name} is ruled out by {ruled_out[name]}" for name in passed_over)])
        backend = self.chosen(row, ruled_out)
        return Answer(backend, self.chunk(backend, facts), why, row, ruled_out)

    def chosen(self, row: Row, ruled_out: Mapping[str, Row]) -> str | None:
        """The backend where this policy row wins; None if all are ruled out."""
        return next((name for name in self.in_turn(row) if name not in ruled_out), None)

    def in_turn(self, row: Row) -> tuple[str, ...]:
        """All backends in the order in which they are considered where this policy row wins."""
        return tuple(dict.fromkeys((row.backend, *self.fallbacks)))

    def advice(self, facts: Facts) -> list[Row]:
        """The performance rows that would rather choose something else, and may."""
        answer = self.answer(facts)
        wanted = [row for row in self.performance if row.matches(facts)]
        return [row for row in wanted if row.backend != answer.backend and row.backend not in answer.ruled_out]

    def chunk(self, backend: str | None, facts: Facts) -> int | None:
        """Bytes a program of the kernel copies at a time; None for the other backends."""
        if backend != TRITON_COPY:
            return None
        chunk = 1
        while chunk < max(facts.page_sizes) and chunk < self.most_chunk:
            chunk *= 2
        return chunk

    def _explicit(self, facts: Facts, asked: str, ruled_out: Mapping[str, Row]) -> Answer:
        if asked not in BACKENDS:
            why = f"{asked} is not a backend, and nothing may be taken in its place"
            return Answer(None, None, why, None, ruled_out)
        if asked in ruled_out:
            return Answer(None, None, str(ruled_out[asked]), ruled_out[asked], ruled_out)
        why = "an explicit choice that no safety row rules out is met"
        return Answer(asked, self.chunk(asked, facts), why, None, ruled_out)


def load_table(path: Path = TABLE) -> Table:
    """Read and check a table. Raises TableError that names the file, the row and what is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise TableError(f"{path}: not JSON ({error})") from error
    try:
        return read_table(data)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error


def read_table(data: Any) -> Table:
    """A table from parsed JSON. Raises TableError for anything that is not as described in docs/selection.md."""
    _only(data, ("chunk", "fallbacks", SAFETY, POLICY, PERFORMANCE), "the table")
    chunk = CHUNK.fullmatch(str(data["chunk"]))
    if chunk is None or (most := int(chunk[1])) < 1 or most & (most - 1):
        raise TableError(
            f"chunk: {data['chunk']!r}; it is 'next power of two of the largest page, at most N', N a power of two"
        )
    if not isinstance(data["fallbacks"], list) or sorted(map(str, data["fallbacks"])) != sorted(BACKENDS):
        raise TableError(f"fallbacks: {data['fallbacks']!r}; it lists each of {', '.join(BACKENDS)} once")
    rows = {kind: _read_rows(data[kind], kind) for kind in (SAFETY, POLICY, PERFORMANCE)}
    seen: set[str] = set()
    for row in (row for kind in rows.values() for row in kind):
        if row.id in seen:
            raise TableError(f"row {row.id}: the id is taken twice")
        seen.add(row.id)
    return Table(rows[SAFETY], rows[POLICY], rows[PERFORMANCE], tuple(data["fallbacks"]), most)


BACKEND_FIELD = {SAFETY: "rules_out", POLICY: "choice", PERFORMANCE: "choice"}


def _read_rows(listed: Any, kind: str) -> tuple[Row, ...]:
    if not isinstance(listed, list):
        raise TableError(f"{kind}: a list of rows, not {type(listed).__name__}")
    rows = []
    for position, item in enumerate(listed):
        named = isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]
        where = f"row {item['id']} ({kind})" if named else f"row {position + 1} of {kind}, which has no id,"
        rows.append(_read_row(item, kind, where))
    return tuple(rows)


def _read_row(item: Any, kind: str, where: str) -> Row:
    backend_field = BACKEND_FIELD[kind]
    measured = ("device", "times_faster") if kind == PERFORMANCE else ()
    _only(item, ("id", backend_field, "when", "reason", *measured), where, optional=("reference",))
    if item[backend_field] not in BACKENDS:
        raise TableError(f"{where} {backend_field}: {item[backend_field]!r}; it may be {', '.join(BACKENDS)}")
    for name in ("reason", *measured[:1]):
        if not (isinstance(item[name], str) and item[name].strip()):
            raise TableError(f"{where} {name}: empty; say in a sentence why, or where it was measured")
    reference = item.get("reference")
    if reference is not None and not (isinstance(reference, str) and REFERENCE.fullmatch(reference)):
        raise TableError(f"{where} reference: {reference!r}; it is owner/repository#number, or left out")
    if measured and not (isinstance(item["times_faster"], (int, float)) and item["times_faster"] > 1):
        raise TableError(f"{where} times_faster: {item['times_faster']!r}; advice is about more than 1")
    if not isinstance(item["when"], dict):
        raise TableError(f"{where} when: an object of conditions, not {type(item['when']).__name__}")
    try:
        when = tuple(read_condition(name, terms) for name, terms in item["when"].items())
    except TableError as error:
        raise TableError(f"{where} when: {error}") from None
    return Row(
        id=item["id"],
        kind=kind,
        backend=item[backend_field],
        when=when,
        reason=item["reason"],
        reference=reference,
        device=item.get("device"),
        times_faster=item.get("times_faster"),
    )


def _only(item: Any, fields: Sequence[str], where: str, optional: Sequence[str] = ()) -> None:
    """Raise TableError unless `item` is an object with exactly these fields."""
    if not isinstance(item, dict):
        raise TableError(f"{where} is not an object but {type(item).__name__}")
    for name in item:
        if name not in fields and name not in optional:
            raise TableError(f"{where} has an unknown field {name!r}; known: {', '.join((*fields, *optional))}")
    for name in fields:
        if name not in item:
            raise TableError(f"{where} lacks the field {name!r}")
