"""Listed cases, run before anything is drawn: those of --corpus, those that public bugs left, and the frozen corpus.

Each case decides what its kind is for (`verdict.bundle`): a copy its bytes, malformed descriptors their rejection.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from conformance.claims.claim import Claim
from conformance.claims.session import Run
from conformance.requirements.budgets import FROZEN, FROZEN_PART, GIVEN, PUBLIC, Budget
from strategies.corpus import PUBLIC as PUBLIC_FOLDER
from strategies.corpus import Corpus, CorpusError, Folder, kind_of, on_cpu, path_of, read, read_folder


@pytest.mark.given
def test_given_files(kvconform_run: Run) -> None:
    """Every file in the folders of --corpus can be read. One that can't takes no other case with it."""
    folders = [_folder(Path(folder)) for folder in kvconform_run.settings.corpus]
    empty = [
        f"{path}: holds neither *.json nor *.jsonl"
        for path, folder in zip(kvconform_run.settings.corpus, folders, strict=True)
        if not (folder.cases or folder.problems)
    ]
    problems = [*empty, *(problem for folder in folders for problem in folder.problems)]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.mark.given
@pytest.mark.claim(GIVEN)
def test_given_cases(claim: Claim) -> None:
    """BYTES-*, INPUT-*, REFUSE-*, SURVIVE-*: each case of --corpus holds; all are run, whatever fails."""
    for path in claim.run.settings.corpus:
        folder = _folder(Path(path))
        claim.run.note(f"given corpus {path}: {len(folder.cases)} cases, digest {folder.digest}")
    claim.holds_for([one for path in claim.run.settings.corpus for one in _folder(Path(path)).cases], every=True)


@pytest.mark.claim(PUBLIC)
def test_public_bugs(claim: Claim) -> None:
    """BYTES-*, INPUT-*, REFUSE-*, SURVIVE-*: what went wrong in public, in other implementations, holds here."""
    folder = _folder(PUBLIC_FOLDER)
    if folder.problems or not folder.cases:
        pytest.fail("\n".join(folder.problems) or f"{PUBLIC_FOLDER}: holds no case", pytrace=False)
    cases = folder.cases
    if claim.run.settings.platform == "cpu":
        cases = tuple((name, on_cpu(case)) for name, case in cases)
    claim.holds_for(cases, every=True)


@pytest.mark.claim(FROZEN)
def test_frozen_corpus(claim: Claim) -> None:
    """BYTES-*, INPUT-*, REFUSE-*, SURVIVE-*: the frozen cases of this kind of platform hold: all of them at certify."""
    every = FROZEN_PART[Budget(claim.run.settings.budget)]
    try:
        corpus = _corpus(kind_of(claim.run.settings.platform))
        cases = corpus.named(corpus.entries[::every])
    except CorpusError as error:
        pytest.fail(str(error), pytrace=False)
    taken = "all of them" if every == 1 else f"one in {every} of them"
    claim.run.note(f"frozen corpus {corpus.path.name}: {len(corpus.entries)} cases, {taken}: {corpus.header.digest}")
    claim.holds_for(cases)


@lru_cache
def _folder(path: Path) -> Folder:
    try:
        return read_folder(path)
    except CorpusError as error:
        pytest.fail(str(error), pytrace=False)


@lru_cache
def _corpus(kind: str) -> Corpus:
    return read(path_of(kind))
