"""The files in corpus/: undamaged, as large as they may be, reaching what they are for; each public bug complete."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from conformance.cli import main
from strategies import freezing
from strategies.axes import required
from strategies.case import Case
from strategies.corpus import KINDS, MOST_LINE, PUBLIC, Corpus, path_of, problems, read, why_left_out
from strategies.coverage import Coverage
from strategies.freezing import scope_of

DIGESTS = {
    "cpu": "dc6fbe59caf3c2963b48355999e43e606ea8494c9f70e36a69a121e8cd352fe7",
    "accelerator": "2ed2c99738bcc350eba9e51125cb6c7b7c7f88c87899423ec3f885a7abfacd48",
}
BUGS = sorted(PUBLIC.glob("*.json"))
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def corpora() -> dict[str, Corpus]:
    return {kind: read(path_of(kind)) for kind in KINDS}


@EVERY_KIND
def test_the_digest_moves_only_on_purpose(kind: str, corpora: dict[str, Corpus]) -> None:
    """Reports name it, so a new corpus is a decision: whoever makes one changes this line too."""
    assert corpora[kind].header.digest == DIGESTS[kind]
    assert corpora[kind].header.kind == kind


@EVERY_KIND
def test_every_case_loads_by_its_own_id(kind: str, corpora: dict[str, Corpus]) -> None:
    assert problems(corpora[kind]) == []


@EVERY_KIND
def test_it_is_small(kind: str, corpora: dict[str, Corpus]) -> None:
    assert corpora[kind].path.stat().st_size < 1_500_000
    assert max(len(entry.line) for entry in corpora[kind].entries) <= MOST_LINE
    assert len(corpora[kind].entries) == 1500


@EVERY_KIND
def test_it_reaches_every_required_cell_but_huge_batches(kind: str, corpora: dict[str, Corpus]) -> None:
    """Batches of thousands have lines too long for a corpus; the listed examples have them."""
    coverage = Coverage()
    for _, case in corpora[kind].named():
        coverage.add(case)
    missing = coverage.missing(scope_of(kind))
    assert all(re.fullmatch(r"descriptors: \d{4,}", cell) for cell in missing), missing
    assert len(missing) < 10 < sum(map(len, required(scope_of(kind)).values()))
    assert set(coverage.cells["kind"]) == {"copy", "round trip", "undefined", "malformed"}


@EVERY_KIND
def test_a_gate_run_takes_cases_of_every_kind(kind: str, corpora: dict[str, Corpus]) -> None:
    taken = corpora[kind].named(corpora[kind].entries[::8])
    coverage = Coverage()
    for _, case in taken:
        coverage.add(case)
    assert min(coverage.cells["kind"].values()) >= 5
    assert all(why_left_out(scope_of(kind), case) is None for _, case in taken)


def test_freezing_gives_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "BATCH", 150)
    monkeypatch.setattr(freezing, "MOST_BATCHES", 1)
    cases = freezing.freeze("cpu", 60, 3)
    kinds = Counter(
        "malformed" if case.submission.malformed else "undefined" if case.undefined else "copy" for case in cases
    )
    assert len({case.dumps() for case in cases}) == 60
    assert (kinds["malformed"], kinds["undefined"]) == (1, 1)


def test_the_command_checks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["corpus", "check"]) == 0
    said = capsys.readouterr().out
    assert DIGESTS["cpu"] in said
    assert "395 of 404 required cells" in said
    damaged = tmp_path / "cpu.jsonl"
    damaged.write_text(path_of("cpu").read_text().replace('"seed":', '"seed" :', 1).replace('"load"', '"store"', 1))
    assert main(["corpus", "check", str(damaged)]) == 1
    assert "they were changed" in capsys.readouterr().out


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.stem)
def test_a_public_bug_is_told_and_can_be_run(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    assert set(data) == {"reference", "story", "case"}
    assert data["reference"] is None or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", data["reference"])
    assert 40 < len(data["story"]) < 400
    if data["reference"] is None:
        assert re.search(r"No public report|no public report|no report|habit|no single report", data["story"])
    case = Case.load(path)
    assert why_left_out(scope_of("accelerator"), case) is None


def test_no_two_public_bugs_are_one_case() -> None:
    cases = [Case.load(path).dumps() for path in BUGS]
    assert len(BUGS) > 40
    assert len(set(cases)) == len(cases)
