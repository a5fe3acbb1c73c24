"""From evidence to a verdict: which requirements a case checked, and which failed. Plain data, JSON both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import numpy as np

from backends.contract import Support
from conformance.judge.evidence import Evidence, Outcome
from conformance.judge.fill import Bytes, Images
from conformance.judge.oracle import Scratch, expected, pieces
from conformance.judge.places import Comparison, compare
from conformance.requirements import copies as req
from conformance.words import counted
from strategies.case import Case
from strategies.request import ask

SHORTEST_REASON = 8  # characters: an error text below this says nothing


class Kind(str, Enum):
    """How a case ended."""

    PASSED = "passed"
    WRONG = "wrong bytes"
    FAULT = "fault"
    HANG = "hang"
    POISONED = "poisoned"  # the case passed, but the device is in error after it
    REFUSED = "refused"  # as declared
    ERROR = "error"  # an exception, a refusal or an acceptance where the contract has none
    NOT_JUDGED = "not judged"  # this machine can't build the case


BROKEN = (Kind.FAULT, Kind.HANG, Kind.POISONED)


@dataclass(frozen=True)
class Finding:
    """One requirement that failed: a sentence, and lines of detail."""

    requirement: str
    sentence: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of one case on one backend."""

    kind: Kind
    backend: str
    checked: tuple[str, ...] = ()  # requirement ids this execution decided
    findings: tuple[Finding, ...] = ()
    path: str = ""
    text: str = ""  # why it was refused or not judged
    wrong_bytes: int = 0
    after: str = ""  # the backend of the case that the same process ran before

    @property
    def failed(self) -> bool:
        return bool(self.findings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        findings = tuple(Finding(**{**item, "details": tuple(item["details"])}) for item in data["findings"])
        return cls(**{**data, "kind": Kind(data["kind"]), "checked": tuple(data["checked"]), "findings": findings})


def judge(
    case: Case,
    backend: str,
    support: Support,
    before: Images,
    after: Images,
    evidence: Evidence,
    scratch: Scratch | None = None,
) -> Verdict:
    """The verdict on one execution; `after` is what memory held when it ended (meaningless after a fault or hang)."""
    ended = _how_it_ended(evidence)
    if ended is not None:
        kind, requirement, sentence = ended
        finding = Finding(requirement, sentence + _wanted_error(case), _output(evidence))
        return _verdict(kind, backend, evidence, (requirement,), (finding,))
    if evidence.outcome is Outcome.IMPOSSIBLE:
        return _verdict(Kind.NOT_JUDGED, backend, evidence)
    if case.submission.malformed is not None:
        return _judge_malformed(case, backend, before, after, evidence)
    reason = support.why_not(ask(case))
    if evidence.outcome in (Outcome.REFUSED, Outcome.RAISED, Outcome.DEVICE_ERROR):
        return _judge_refusal(case, backend, before, after, evidence, reason)
    if reason is not None and not case.undefined:
        text = f"accepted a copy that it declares unsupported ({reason})"
        return _verdict(Kind.ERROR, backend, evidence, (req.REASON,), (Finding(req.REASON, text),))
    return _judge_bytes(case, backend, before, after, evidence, scratch)


def bundle(case: Case) -> tuple[str, ...]:
    """The requirements that running this case is meant to decide."""
    survive = (req.FAULT, req.HANG, req.HEALTHY)
    if case.submission.malformed is not None:
        return (req.REJECTED, req.INPUT_UNTOUCHED, *survive)
    if case.undefined:
        return (req.UNDEFINED, req.UNTOUCHED, req.SOURCE, *survive)
    if case.round_trip:
        return (req.ROUND_TRIP, req.COPIED, req.UNTOUCHED, req.DECLARED, *survive)
    return (req.COPIED, req.UNTOUCHED, req.SOURCE, req.DECLARED, *survive)


def _verdict(
    kind: Kind,
    backend: str,
    evidence: Evidence,
    checked: tuple[str, ...] = (),
    findings: tuple[Finding, ...] = (),
    wrong_bytes: int = 0,
) -> Verdict:
    return Verdict(kind, backend, checked, findings, evidence.path, evidence.text, wrong_bytes, evidence.after)


def _how_it_ended(evidence: Evidence) -> tuple[Kind, str, str] | None:
    """(kind, requirement, sentence) where the device process or the device itself broke."""
    if evidence.outcome is Outcome.FAULT:
        return Kind.FAULT, req.FAULT, f"the process that ran the case died: {evidence.text}"
    if evidence.outcome is Outcome.HANG:
        return Kind.HANG, req.HANG, f"the case did not end: {evidence.text}"
    if evidence.outcome is not Outcome.COMPLETED and evidence.poisoned:
        text, device = evidence.text, evidence.poisoned
        said = f"{text} (the device says: {device})" if text and device not in text else text or device
        return Kind.FAULT, req.FAULT, f"the device is in error: {said}"
    if evidence.poisoned:
        return Kind.POISONED, req.HEALTHY, f"the copy ended, but the device is in error after it: {evidence.poisoned}"
    return None


def _wanted_error(case: Case) -> str:
    how = case.submission.malformed
    return f"; the contract wants an error here: malformed ({how.value})" if how is not None else ""


def _output(evidence: Evidence) -> tuple[str, ...]:
    lines = evidence.output.strip().splitlines()[-5:]
    return tuple(f"printed: {line[:200]}" for line in lines)


def _judge_malformed(case: Case, backend: str, before: Images, after: Images, evidence: Evidence) -> Verdict:
    assert case.submission.malformed is not None
    how = case.submission.malformed.value
    findings: list[Finding] = []
    if evidence.outcome is Outcome.COMPLETED:
        findings.append(Finding(req.REJECTED, f"accepted malformed descriptors ({how}) without an error"))
    elif len(evidence.text.strip()) < SHORTEST_REASON:
        findings.append(
            Finding(req.REJECTED, f"rejected malformed descriptors ({how}) with no reason: {_error(evidence)}")
        )
    findings += _written(case, before, after, req.INPUT_UNTOUCHED, f"although the descriptors were malformed ({how})")
    kind = Kind.ERROR if findings else Kind.PASSED
    return _verdict(kind, backend, evidence, bundle(case), tuple(findings))


def _judge_refusal(
    case: Case, backend: str, before: Images, after: Images, evidence: Evidence, reason: str | None
) -> Verdict:
    findings: list[Finding] = []
    if reason is None and not case.undefined:
        verb = "refused" if evidence.outcome is Outcome.REFUSED else "failed on"
        findings.append(
            Finding(req.DECLARED, f"{verb} a copy that it does not declare unsupported: {_error(evidence)}")
        )
        return _verdict(Kind.ERROR, backend, evidence, (req.DECLARED,), tuple(findings))
    if len(evidence.text.strip()) < SHORTEST_REASON:
        findings.append(Finding(req.REASON, f"refused without a reason: {_error(evidence)}"))
    findings += _written(case, before, after, req.REASON, f"before it refused ({evidence.text})")
    kind = Kind.ERROR if findings else Kind.REFUSED
    return _verdict(kind, backend, evidence, (req.REASON,), tuple(findings))


def _error(evidence: Evidence) -> str:
    return f"{evidence.error}: {evidence.text}" if evidence.error else evidence.text


def _written(case: Case, before: Images, after: Images, requirement: str, why: str) -> list[Finding]:
    """A finding for each side whose bytes changed although nothing may have been written."""
    found = []
    for side, old, new in (
        ("source", before.source, after.source),
        ("destination", before.destination, after.destination),
    ):
        if not np.array_equal(old, new):
            comparison = compare(case, side, old, new, before)
            verb = "was" if comparison.nbytes == 1 else "were"
            sentence = f"{counted(comparison.nbytes, 'byte')} of the {side} {verb} written {why}"
            found.append(Finding(requirement, sentence, comparison.lines()))
    return found


def _judge_bytes(
    case: Case, backend: str, before: Images, after: Images, evidence: Evidence, scratch: Scratch | None
) -> Verdict:
    wanted = expected(case, before, scratch)
    destination = wanted.destination
    if case.undefined:
        destination = _settle_undefined(case, before, destination, after.destination)
    same_destination = np.array_equal(destination, after.destination)
    same_source = np.array_equal(wanted.source, after.source)
    if same_destination and same_source:
        return _verdict(Kind.PASSED, backend, evidence, bundle(case))
    findings: list[Finding] = []
    wrong = 0
    if not same_destination:
        there = compare(case, "destination", destination, after.destination, before)
        wrong += there.nbytes
        copied = req.UNDEFINED if case.undefined else req.COPIED
        findings += _findings(there, True, copied, "wrong in")
        findings += _findings(there, False, req.UNTOUCHED, "changed in")
    if not same_source:
        back = compare(case, "source", wanted.source, after.source, before)
        wrong += back.nbytes
        if case.round_trip:
            findings += _findings(back, True, req.ROUND_TRIP, "not restored in")
            findings += _findings(back, False, req.UNTOUCHED, "of the source side changed in")
        else:
            findings += _findings(back, None, req.SOURCE, "of the source changed in")
    return _verdict(Kind.WRONG, backend, evidence, bundle(case), tuple(findings), wrong)


def _findings(comparison: Comparison, copied: bool | None, requirement: str, words: str) -> list[Finding]:
    mine = tuple(d for d in comparison.differences if copied is None or d.copied is copied)
    if not mine:
        return []
    count = sum(d.nbytes for d in mine)
    places = ", ".join(d.place for d in mine[:3]) + (
        f" and {counted(len(mine) - 3, 'more place')}" if len(mine) > 3 else ""
    )
    return [Finding(requirement, f"{counted(count, 'byte')} {words} {places}", Comparison(count, mine).lines())]


def _settle_undefined(case: Case, before: Images, wanted: Bytes, found: Bytes) -> Bytes:
    """The expected destination where each byte may be that of any block copied onto it, since their order is open."""
    settled: Bytes = wanted.copy()
    for piece in pieces(case):
        there = slice(piece.destination, piece.destination + piece.nbytes)
        content = before.source[piece.source : piece.source + piece.nbytes]
        settled[there] = np.where(found[there] == content, content, settled[there])
    return settled
