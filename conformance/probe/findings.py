"""Probes held against the selection table and a selection rule: which rows don't hold here, which choices can't work.

Reads answers only, so that a saved probe can be looked at later; nothing here touches a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from backends.contract import Device
from backends.selection import Facts
from conformance.probe.answers import KERNEL_RUNS, NO, USUAL_COUNT, USUAL_PAGE, YES, About, Answer
from conformance.selection.table import Table
from conformance.selection.words import describe
from conformance.subjects.rules import Selector

PAGES = (8, 512, 4096, 16384, 28664, 28672, 65536)  # bytes: both sides of the published threshold
COUNTS = (1, 15, 16, 1024)
OUTDATED, MISSING, REFUTED = "row out of date here", "row missing", "refuted choice"


@dataclass(frozen=True)
class Finding:
    """One contradiction. Only an outdated row is harmless: it rules out what would work."""

    kind: str
    subject: str  # a row's id, or the selector's name
    sentence: str

    @property
    def harmless(self) -> bool:
        return self.kind == OUTDATED

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.subject}: {self.kind}: {self.sentence}"


def findings(answers: Sequence[Answer], device: Device, table: Table, selector: Selector) -> list[Finding]:
    """Everything that the answers contradict, the table's rows first."""
    probed = Probed(answers, device)
    found = [*outdated_rows(probed, table), *missing_rows(probed, table)]
    return [*found, *refuted_choices(probed, selector)]


@dataclass(frozen=True)
class Probed:
    """A device and the answers it gave."""

    answers: Sequence[Answer]
    device: Device

    def that(self, wanted: str) -> Iterator[tuple[Answer, About]]:
        """The answers of one kind that speak about copies."""
        return ((each, each.about) for each in self.answers if each.answer == wanted and each.about is not None)

    def facts(self, about: About, page: int = USUAL_PAGE, count: int = USUAL_COUNT) -> Facts:
        """Such a copy here; that kernels don't run is a fact too, once it was seen."""
        runs = {each.answer for each in self.answers if each.id == KERNEL_RUNS}
        return replace(about.facts(self.device, page, count), triton_usable=False if runs == {NO} else None)


def outdated_rows(probed: Probed, table: Table) -> Iterator[Finding]:
    """Safety rows that rule out what a probe saw working, with and without what the device's facts say of access."""
    seen: set[str] = set()
    for answer, about in probed.that(YES):
        known = probed.facts(about)
        for facts in (known, replace(known, zero_copy=None)):
            row = table.ruled_out(facts).get(about.backend)
            if row is not None and row.id not in seen:
                seen.add(row.id)
                text = f"it rules {about.backend} out for {describe(facts)}, but {answer.id} worked: {answer.evidence}"
                yield Finding(OUTDATED, row.id, text)


def missing_rows(probed: Probed, table: Table) -> Iterator[Finding]:
    """What a probe refuted and no safety row rules out."""
    for answer, about in probed.that(NO):
        facts = probed.facts(about)
        if about.backend not in table.ruled_out(facts):
            text = f"no row rules {about.backend} out for {describe(facts)}, but {answer.id} failed: {answer.evidence}"
            yield Finding(MISSING, answer.id, text)


def refuted_choices(probed: Probed, selector: Selector) -> Iterator[Finding]:
    """Choices of what a probe refuted: the first for each answer, over small and large copies."""
    for answer, about in probed.that(NO):
        for page, count in product(PAGES, COUNTS):
            seen = selector.view(probed.facts(about, page, count))
            if selector.outside(seen) is None and selector.ask(seen).backend == about.backend:
                text = f"it chooses {about.backend} for {describe(seen)}, but {answer.id} failed: {answer.evidence}"
                yield Finding(REFUTED, selector.name, text)
                break
