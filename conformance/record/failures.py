"""Failing cases on disk: one JSON file each, named by what failed, readable by `kvconform replay` and `--corpus`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from conformance.judge.verdict import Verdict
from conformance.requirements.copies import CHOSEN
from strategies.case import Case

LOST = "lost-"  # how the files of cases begin that were running when everything died


def save(
    folder: Path,
    backend: str,
    case: Case,
    verdict: Verdict,
    device: str,
    platform: str = "",
    shrunk: bool = True,
) -> Path:
    """Write the case with its verdict; equal failures go to one file, which stays marked once it is a shrunk one.

    Raises OSError."""
    digest = hashlib.blake2b(case.dumps().encode(), digest_size=4).hexdigest()
    path = folder / f"{_stem(backend, verdict)}-{digest}.json"
    where = {"backend": backend, "platform": platform, "device": device}
    data = {**where, "shrunk": shrunk or was_shrunk(path), "case": case.to_json(), "verdict": verdict.to_json()}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def similar(folder: Path, backend: str, verdict: Verdict) -> list[Path]:
    """Failures saved before in which the same backend broke the same requirement, shrunk ones first."""
    return sorted(folder.glob(f"{_stem(backend, verdict)}-*.json"), key=lambda path: (not was_shrunk(path), path))


def first_of_its_kind(work: Path, backend: str, verdict: Verdict) -> bool:
    """Whether nobody in this run has asked so before, of any worker: the one who hears yes makes the failure small.

    `work`: the run's own folder. Raises OSError."""
    try:
        (work / f"shrinking-{_stem(backend, verdict)}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def save_lost(folder: Path, text: str) -> Path | None:
    """Write a case that was running when its process and its worker died, as the journal has it; None for a text that
    is no case, a task's or one that was cut. Raises OSError."""
    try:
        Case.from_json(json.loads(text)["case"])
    except (ValueError, KeyError, TypeError):
        return None
    path = folder / f"{LOST}{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def replay_command(path: Path, backend: str, requirement: str = "") -> str:
    """The command that runs a saved case again; what a selection rule chose is told by probing."""
    command = "probe --case" if requirement == CHOSEN else "replay"
    return f"kvconform {command} {path} --backend {backend}"


def file_name(backend: str) -> str:
    """The backend's name with what a file's can't hold replaced."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", backend)


def _stem(backend: str, verdict: Verdict) -> str:
    return f"{file_name(backend)}-{verdict.findings[0].requirement}"


def backend_of(path: Path) -> str | None:
    """The backend that a saved case failed on, or None for a bare case."""
    return _said(path, "backend")


def platform_of(path: Path) -> str | None:
    """The platform that a saved case failed on, or None for a bare case."""
    return _said(path, "platform")


def was_shrunk(path: Path) -> bool:
    """Whether the file holds the smallest case that a search found."""
    return _read(path).get("shrunk") is True


def verdict_of(path: Path) -> Verdict | None:
    """The verdict saved with a case, or None where there is none that failed, or none that can be read."""
    try:
        verdict = Verdict.from_json(_read(path)["verdict"])
    except (KeyError, TypeError, ValueError):
        return None
    return verdict if verdict.failed else None


def _said(path: Path, key: str) -> str | None:
    found = _read(path).get(key)
    return found if isinstance(found, str) and found else None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
