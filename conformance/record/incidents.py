"""Faults that were not the fault of the case that met them: who was running, who is suspected, who was proved guilty.

A case that breaks its process is run again in a clean one. If it passes there, something before it left the damage:
that is an incident. Incidents are kept on disk as they happen, shown in the report, and fail the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Incident:
    """One fault that its case does not reproduce alone."""

    text: str  # how the process or the device broke
    met_by: str  # the backend whose case met it, and passed alone
    suspect: str  # the backend of the case before it, or "" if none is known
    suspect_case: Mapping[str, Any] | None
    proved: bool  # the suspect broke a clean process too
    verdict: Mapping[str, Any] | None = None  # the suspect's, alone

    def sentence(self) -> str:
        """What happened, in one sentence."""
        met = f"{self.text}, met by a case of {self.met_by} that passes alone"
        if self.proved:
            return f"{met}; caused by the case of {self.suspect} before it, which breaks a clean process too"
        if self.suspect:
            return f"{met}; the case of {self.suspect} before it passes alone too, so the cause is not known"
        return f"{met}; nothing is known of what ran before"


@dataclass(frozen=True)
class IncidentLog:
    """The file that a run's incidents are appended to, one JSON object a line, by any number of processes."""

    path: Path

    def record(self, incident: Incident) -> None:
        """Append, whole or not at all."""
        line = (json.dumps(asdict(incident)) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read(self) -> list[Incident]:
        """All incidents so far."""
        if not self.path.exists():
            return []
        return [Incident(**json.loads(line)) for line in self.path.read_text().splitlines()]
