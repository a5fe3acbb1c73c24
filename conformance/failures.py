"""Failing cases on disk: one JSON file each, named by what failed, readable by `kvconform replay` and `--corpus`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from conformance.verdict import Verdict
from strategies.case import Case


def save(folder: Path, backend: str, case: Case, verdict: Verdict, device: str) -> Path:
    """Write the case with its verdict; equal failures go to one file. Raises OSError."""
    digest = hashlib.blake2b(case.dumps().encode(), digest_size=4).hexdigest()
    path = folder / f"{_stem(backend, verdict)}-{digest}.json"
    data = {"backend": backend, "device": device, "case": case.to_json(), "verdict": verdict.to_json()}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def similar(folder: Path, backend: str, verdict: Verdict) -> list[Path]:
    """Failures saved before in which the same backend broke the same requirement."""
    return sorted(folder.glob(f"{_stem(backend, verdict)}-*.json"))


def _stem(backend: str, verdict: Verdict) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", backend)
    return f"{name}-{verdict.findings[0].requirement}"


def backend_of(path: Path) -> str | None:
    """The backend that a saved case failed on, or None for a bare case."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    name = data.get("backend") if isinstance(data, dict) else None
    return name if isinstance(name, str) else None
