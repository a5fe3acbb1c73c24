"""Failing cases on disk: one JSON file each, named by what failed, readable by `kvconform replay` and `--corpus`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from conformance.verdict import Verdict
from strategies.case import Case


def save(folder: Path, backend: str, case: Case, verdict: Verdict, device: str, platform: str = "") -> Path:
    """Write the case with its verdict; equal failures go to one file. Raises OSError."""
    digest = hashlib.blake2b(case.dumps().encode(), digest_size=4).hexdigest()
    path = folder / f"{_stem(backend, verdict)}-{digest}.json"
    where = {"backend": backend, "platform": platform, "device": device}
    data = {**where, "case": case.to_json(), "verdict": verdict.to_json()}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def similar(folder: Path, backend: str, verdict: Verdict) -> list[Path]:
    """Failures saved before in which the same backend broke the same requirement."""
    return sorted(folder.glob(f"{_stem(backend, verdict)}-*.json"))


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


def _said(path: Path, key: str) -> str | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = data.get(key) if isinstance(data, dict) else None
    return found if isinstance(found, str) and found else None
