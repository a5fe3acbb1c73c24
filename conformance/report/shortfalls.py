"""Why a run is no pass: requirements that failed, sums that do not add up, cells never reached, claims left out."""

from __future__ import annotations

from typing import Any

from backends.contract import Device, Support
from conformance.record.counts import Count, Key
from conformance.record.ledger import Ledger
from conformance.record.settings import RunSettings
from conformance.requirements import copies as req
from conformance.requirements.budgets import COPY, KINDS, Budget
from conformance.requirements.copies import REQUIREMENTS
from strategies.coverage import Coverage
from strategies.scope import Scope

MANDATORY = {requirement.id for requirement in REQUIREMENTS if requirement.mandatory}
SHOWN_CELLS = 5


def count_reasons(counts: dict[Key, Count], lost: list[str]) -> list[str]:
    """Requirements that failed, and sums that do not add up."""
    reasons = []
    for key, count in sorted(counts.items(), key=lambda item: (item[0].backend, item[0].requirement)):
        where = f"{key.backend}, {key.requirement}"
        if count.failed:
            reasons.append(f"{where}: {count.failed} of {count.drawn} cases failed")
            continue
        if count.open:
            named = f"; {len(lost)} named above" if lost else ""
            reasons.append(f"{where}: {count.open} cases were drawn and never judged: their worker died{named}")
        if _any_failed(counts, key.backend):
            continue  # the cases that failed one requirement were not judged for the others, and the rest did not run
        if count.not_judged:
            reasons.append(f"{where}: {count.not_judged} cases could not be judged")
        if count.drawn - count.open < count.planned:
            reasons.append(f"{where}: {count.drawn - count.open} of {count.planned} planned cases were judged")
    return reasons


def test_reasons(ledger: Ledger, incomplete_counts: list[str]) -> list[str]:
    """Tests that were to run and never ended, counts that were lost, declarations that change."""
    lost = sorted(set(ledger.collected) - set(ledger.ended))
    reasons = [f"{len(lost)} tests never ended, e.g. {lost[0]}"] if lost else []
    reasons += [f"the counts of {name} are not whole: one of its two files is missing" for name in incomplete_counts]
    reasons += [f"{name} declares different things to different workers" for name in ledger.conflicts]
    return reasons


def coverage_gaps(settings: RunSettings, counts: dict[Key, Count], ledger: Ledger) -> list[str]:
    """Backends whose copies, all run, left a required cell empty (at gate and above), or compared not one byte.

    A backend that failed has stopped early, and one whose tests were deselected has not tried: neither is judged."""
    reasons = []
    for backend in settings.backends:
        if _any_failed(counts, backend) or not _copied_whole(backend, ledger) or backend in ledger.unavailable:
            continue
        found = ledger.coverage.get(backend)
        coverage = Coverage.from_json(found) if found else Coverage()
        if not coverage.moved_bytes or not coverage.compared_bytes:
            reasons.append(
                f"{backend}, {req.BYTES_COVERED}: {coverage.moved_bytes} bytes moved, "
                f"{coverage.compared_bytes} compared"
            )
        if settings.budget == Budget.SMOKE:
            continue
        empty = coverage.missing(scope_of(backend, ledger))
        if empty:
            shown = ", ".join(empty[:SHOWN_CELLS]) + (", ..." if len(empty) > SHOWN_CELLS else "")
            reasons.append(f"{backend}, {req.CELLS_COVERED}: {len(empty)} required cells were never met: {shown}")
    return reasons


def scope_of(backend: str, ledger: Ledger) -> Scope:
    """What the backend's cases were drawn from."""
    device = Device.from_json(next(iter(ledger.devices.values())))
    return Scope.of(device, Support.from_json(ledger.supports[backend]))


def coverage_line(backend: str, found: dict[str, Any]) -> str:
    """One line on what a backend's cases covered."""
    cells = sum(1 for axis in found["cells"].values() for count in axis.values() if count)
    pairs = sum(len(entry["counts"]) for entry in found["pairs"])
    return (
        f"coverage of {backend}: {cells} cells, {pairs} pairs of cells; "
        f"{found['moved_bytes'] / 2**20:.0f} MiB moved, {found['compared_bytes'] / 2**20:.0f} MiB compared"
    )


def left_out(settings: RunSettings, counts: dict[Key, Count], ledger: Ledger) -> list[str]:
    """Mandatory requirements that some backend was not held to: such a run is incomplete, not a pass."""
    notes = []
    if ledger.deselected:
        notes.append(f"{len(ledger.deselected)} tests were deselected, e.g. {ledger.deselected[0]}")
    held = {requirement: {key.backend for key in counts if key.requirement == requirement} for requirement in MANDATORY}
    nobody = sorted(requirement for requirement in _decided(by_backends=False) if not held[requirement])
    notes += [f"nothing was held to {', '.join(nobody)}"] if nobody else []
    for name in settings.backends:
        missing = sorted(requirement for requirement in _decided(by_backends=True) if name not in held[requirement])
        if missing and name not in ledger.unavailable:
            notes.append(f"{name} was not held to {', '.join(missing)}")
    return notes


def _decided(*, by_backends: bool) -> set[str]:
    """The mandatory requirements that claims about backends decide, or those about anything else."""
    named = {requirement for kind in KINDS if by_backends != bool(kind.subjects) for requirement in kind.requirements}
    return MANDATORY & named


def _any_failed(counts: dict[Key, Count], backend: str) -> bool:
    return any(count.failed for key, count in counts.items() if key.backend == backend)


def _copied_whole(backend: str, ledger: Ledger) -> bool:
    ended = [test for test in ledger.ended if f"::test_copy[{backend}-" in test]
    return len(ended) == COPY.shards
