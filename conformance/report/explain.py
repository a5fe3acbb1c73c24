"""A failure as a person reads it: one sentence, the bytes, the case in a few lines, its file, how to replay it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.judge.verdict import Kind, Verdict
from conformance.record import failures
from conformance.search.search import Failure
from conformance.words import counted
from strategies.case import Case, CaseError, Fence, Pool, Tensor

SHOWN_PAIRS = 6
SHOWN_TENSORS = 3
BRIEF_LINES = 2


def failure_text(backend: str, failure: Failure, saved: Path, alone: str, replay: str = "") -> str:
    """The whole text; `alone` says what the case does in a fresh process, `replay` how to run it again (if not by the
    usual command)."""
    lines = [verdict_text(backend, failure.case, failure.verdict)]
    lines += [_labelled("found", [_found(failure), alone])]
    lines += [_labelled("saved", [str(saved)])]
    lines += [_labelled("replay", [replay or failures.replay_command(saved, backend)])]
    return "\n".join(lines)


def verdict_text(backend: str, case: Case, verdict: Verdict) -> str:
    """What became of a case: how it ended, the bytes where some are wrong, the case, the path that the copy took."""
    lines = _findings(backend, verdict) if verdict.failed else [_ending(backend, verdict)]
    lines += [_labelled("case", describe(case))]
    if verdict.path:
        lines += [_labelled("path", [verdict.path])]
    return "\n".join(lines)


def brief_text(backend: str, failure: Failure, saved: Path, known: Sequence[Path], replay: str = "") -> str:
    """The text of a failure that was not shrunk, since another test does that with one of the same backend and
    requirement; `known` are the files of such failures so far, a shrunk one first."""
    finding = failure.verdict.findings[0]
    if not (known and failures.was_shrunk(known[0])):
        same = "not shrunk: another test makes the like of it small"
    elif saved == known[0]:
        same = "the same case as another test's"
    else:
        same = f"like {known[0]}, so not shrunk again"
    lines = [f"{backend} breaks {finding.requirement}: {finding.sentence}", same]
    lines += [_labelled("case", describe(failure.case)[:BRIEF_LINES])]
    return "\n".join([*lines, _labelled("replay", [replay or failures.replay_command(saved, backend)])])


def run_lines(files: Sequence[Path]) -> list[str]:
    """A run's saved failures: for each backend and requirement the shrunk one, how to replay it, how many are alike."""
    alike: dict[tuple[str, str], list[Path]] = {}
    lines: list[str] = []
    for path in sorted(files, key=lambda path: (not failures.was_shrunk(path), path)):
        verdict = failures.verdict_of(path)
        if verdict is None:
            lines.append(f"saved failure: {path}")
        else:
            key = (failures.backend_of(path) or verdict.backend, verdict.findings[0].requirement)
            alike.setdefault(key, []).append(path)
    for (backend, requirement), (first, *others) in sorted(alike.items()):
        lines += ["", *_saved_text(backend, first).splitlines()]
        lines += [_labelled("saved", [str(first)])]
        lines += [_labelled("replay", [failures.replay_command(first, backend, requirement)])]
        lines += [f"{len(others)} more like it in {first.parent}"] if others else []
    return [*lines, ""] if alike else lines


def _saved_text(backend: str, path: Path) -> str:
    verdict = failures.verdict_of(path)
    assert verdict is not None
    try:
        return verdict_text(backend, Case.load(path), verdict)
    except CaseError:
        return "\n".join(_findings(backend, verdict))


def describe(case: Case) -> list[str]:
    """The case in a few lines."""
    lines = [f"{case.direction.value}, {case.source_memory.value} -> {case.destination_memory.value}{_fences(case)}"]
    for index, tensor in enumerate(case.tensors[:SHOWN_TENSORS]):
        name = f"tensor {index}: " if len(case.tensors) > 1 else ""
        lines.append(name + _tensor(tensor))
    if len(case.tensors) > SHOWN_TENSORS:
        lines.append(f"and {counted(len(case.tensors) - SHOWN_TENSORS, 'more tensor')}")
    lines.append(_submission(case))
    return lines


def _findings(backend: str, verdict: Verdict) -> list[str]:
    first, *others = verdict.findings
    lines = [f"{backend} breaks {first.requirement}: {first.sentence}"]
    lines += [f"    {detail}" for detail in first.details]
    for finding in others:
        lines += [f"also {finding.requirement}: {finding.sentence}", *(f"    {detail}" for detail in finding.details)]
    return lines


def _ending(backend: str, verdict: Verdict) -> str:
    """A verdict without findings, in one sentence."""
    if verdict.kind is Kind.REFUSED:
        return f"{backend} refuses this copy, as it declares: {verdict.text}"
    if verdict.kind is Kind.NOT_JUDGED:
        return f"{backend} was not judged, for this machine can't build the case: {verdict.text}"
    return f"{backend} holds {', '.join(verdict.checked)}"


def _found(failure: Failure) -> str:
    where = f"in the listed example {failure.name!r}" if failure.name else f"as case {failure.drawn} of this test"
    return f"{where}; {counted(failure.shrinking, 'more run')} in {failure.seconds:.1f} s to make it small"


def _labelled(label: str, lines: Sequence[str]) -> str:
    first, *others = lines
    return "\n".join([f"{label:8}{first}", *(" " * 8 + line for line in others)])


def _fences(case: Case) -> str:
    parts = [
        f"{side} arena {'ends' if fence is Fence.AFTER else 'begins'} at an unmapped page"
        for side, fence in (("source", case.source_fence), ("destination", case.destination_fence))
        if fence is not Fence.NONE
    ]
    return "".join(f", {part}" for part in parts)


def _tensor(tensor: Tensor) -> str:
    count = len(tensor.sources)
    pairs = [f"{s}->{d}" for s, d in zip(tensor.sources, tensor.destinations, strict=True)]
    shown = ", ".join(pairs[:SHOWN_PAIRS]) + (f", ... ({count} in all)" if count > SHOWN_PAIRS else "")
    text = f"page {counted(tensor.page_bytes, 'byte')}, blocks {shown or 'none'}"
    if tensor.runs:
        pieces = ", ".join(
            f"{run.count} x {run.nbytes} bytes at {run.source} (+{run.source_step}) -> "
            f"{run.destination} (+{run.destination_step})"
            for run in tensor.runs[:2]
        )
        text += f"; in pieces: {pieces}" + (", ..." if len(tensor.runs) > 2 else "")
    for side, pool in (("source", tensor.source), ("destination", tensor.destination)):
        text += _pool(side, pool, tensor.page_bytes)
    return text


def _pool(side: str, pool: Pool, page_bytes: int) -> str:
    parts = []
    if pool.per_chunk > 1:
        parts.append(
            f"chunks of {pool.per_chunk} blocks every {pool.chunk_stride or pool.per_chunk * pool.stride} bytes"
        )
    if pool.stride != page_bytes:
        parts.append(f"rows of {pool.stride} bytes")
    if pool.origin:
        parts.append(f"block 0 at byte {pool.origin}")
    return f"; {side}: {', '.join(parts)}" if parts else ""


def _submission(case: Case) -> str:
    submission = case.submission
    parts = [f"{submission.stream.value} stream"]
    if submission.malformed:
        parts.append(f"descriptors malformed: {submission.malformed.value}")
    if submission.calls > 1:
        parts.append(f"{submission.calls} calls")
    if submission.zero_entries:
        parts.append(f"descriptors of size zero at {list(submission.zero_entries[:SHOWN_PAIRS])}")
    if submission.order_any:
        parts.append("source access order any")
    if submission.late_source:
        parts.append("source written late on the stream")
    if submission.late_destination:
        parts.append("destination in use on the stream until the copy")
    if submission.reuse_descriptors:
        parts.append("descriptors zeroed on return")
    if case.round_trip:
        parts.append("and back")
    if case.undefined:
        parts.append("duplicate destinations")
    parts.append(f"seed {case.seed}")
    return ", ".join(parts)
