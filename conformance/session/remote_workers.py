"""Workers on other hosts (`--tx ssh=...`, `--tx socket=...`): they reach neither the run's server nor its folders.

Such a worker has a server, device processes and a folder of its own; what it wrote down travels back through xdist
when it ends, and the report counts it like everybody's. A worker that dies takes its notes along: its tests then show
as never ended, and the run fails.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from conformance.record.settings import RunSettings
from conformance.session.settings import choose_platform, make_folders

APPENDED = ("incidents.jsonl", "deaths.jsonl")
FAILURES = "failures"


def move_in(settings: RunSettings, address: str) -> RunSettings:
    """The settings of a worker on this host: its own address, devices and folder. Raises SettingsError."""
    _, devices = choose_platform(settings.platform)
    folder = tempfile.mkdtemp(prefix="kvconform-")
    here = replace(settings, address=address, devices=devices, report=folder, database="", elsewhere=True)
    make_folders(here)
    return here


def pack(settings: RunSettings) -> dict[str, str]:
    """The files that this worker wrote, by their path below the report folder; then the folder is removed."""
    root = Path(settings.report)
    files = [path for path in settings.work.iterdir() if path.suffix in (".counts", ".rows", ".worker", ".jsonl")]
    files += (root / FAILURES).glob("*.json")
    packed = {str(path.relative_to(root)): base64.b64encode(path.read_bytes()).decode() for path in files}
    shutil.rmtree(root, ignore_errors=True)
    return packed


def unpack(packed: Mapping[str, str], settings: RunSettings, worker: str) -> None:
    """Put a worker's files beside those of the workers on this host."""
    root = Path(settings.report)
    for name, text in packed.items():
        data = base64.b64decode(text)
        source = Path(name)
        if source.name in APPENDED:
            with (settings.work / source.name).open("ab") as file:
                file.write(data)
        elif source.parent.name == FAILURES:
            (root / FAILURES / source.name).write_bytes(data)
        else:
            (settings.work / f"{worker}-{source.name}").write_bytes(data)
