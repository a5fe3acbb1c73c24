"""The effective options of a run: decided once, by the process that starts it, and handed to every worker."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from backends import platforms, registry
from backends.platforms import PlatformError
from conformance.budgets import Budget
from conformance.selection.subjects import SelectorError, selector_named

FLOOR_SECONDS = 10.0
WORK = "kvconform-work"  # a name of our own: the folder is removed when the run ends
SETTINGS_FILE = "settings.json"


class SettingsError(ValueError):
    """An option that can't be met: the text names it and says what to do."""


@dataclass(frozen=True)
class RunSettings:
    """Plain data, JSON both ways."""

    platform: str
    devices: tuple[int, ...]
    backends: tuple[str, ...]
    chosen_backends: bool  # named by the user, so that one which can't run is a failure
    budget: str
    report: str  # folder
    seed: int
    isolation: str  # "process" or "none"
    address: str  # of the server of device processes; "" with isolation none
    floor_seconds: float  # the shortest deadline of a case
    database: str  # folder of Hypothesis's database, or "" for none
    elsewhere: bool = False  # a worker on another host than the run's
    selector: str = "built-in"  # the selection rule under test, as named by the user
    corpus: tuple[str, ...] = ()  # folders of cases that are run first

    @property
    def work(self) -> Path:
        """Where a run keeps what it needs while it runs: journals, counts, deaths."""
        return Path(self.report) / WORK

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> RunSettings:
        data = json.loads(text)
        lists = {name: tuple(data.get(name, ())) for name in ("devices", "backends", "corpus")}
        return cls(**{**data, **lists})


def decide(
    *,
    platform: str | None,
    backends: tuple[str, ...],
    budget: str,
    report: str | None,
    seed: int | None,
    isolation: str,
    floor_seconds: float,
    address: str,
    root: Path,
    selector: str = "built-in",
    corpus: tuple[str, ...] = (),
) -> RunSettings:
    """Fill in what the user left open. Raises SettingsError; makes no folder and touches no device."""
    name, devices = choose_platform(platform)
    try:
        selector_named(selector)
    except SelectorError as error:
        raise SettingsError(f"--selector: {error}") from error
    missing = [folder for folder in corpus if not Path(folder).is_dir()]
    if missing:
        raise SettingsError(f"--corpus {missing[0]}: no such folder; give one that holds cases (*.json, *.jsonl)")
    return RunSettings(
        platform=name,
        devices=devices,
        backends=backends or registry.names(),
        chosen_backends=bool(backends),
        budget=Budget(budget).value,
        report=str(Path(report).absolute() if report else _new_report(root, name)),
        seed=secrets.randbits(32) if seed is None else seed,
        isolation=isolation,
        address="" if isolation == "none" else address,
        floor_seconds=floor_seconds,
        database=str(root / ".hypothesis" / "kvconform"),
        selector=selector,
        corpus=tuple(str(Path(folder).absolute()) for folder in corpus),
    )


def choose_platform(name: str | None) -> tuple[str, tuple[int, ...]]:
    """The platform (the best one present if none is named) and its visible devices."""
    try:
        found = platforms.load(name or platforms.best())
    except PlatformError as error:
        raise SettingsError(f"--platform: {error}") from error
    missing = found.missing()
    if missing:
        raise SettingsError(f"--platform {found.name} can't run here: {missing}")
    return found.name, tuple(range(found.device_count()))


def make_folders(settings: RunSettings) -> None:
    """Make the report folder and what lies below it; of a run that was there before only its failures stay.

    Raises SettingsError when it can't be written."""
    report = Path(settings.report)
    try:
        if settings.work.exists():
            shutil.rmtree(settings.work)
        settings.work.mkdir(parents=True)
        (report / "failures").mkdir(exist_ok=True)
        (report / "summary.json").unlink(missing_ok=True)
        (settings.work / SETTINGS_FILE).write_text(settings.dumps() + "\n")
    except OSError as error:
        raise SettingsError(
            f"--report {settings.report}: {error.strerror}; give a folder that can be written, on a disk with room"
        ) from error


def _new_report(root: Path, platform: str) -> Path:
    return root / "reports" / f"{time.strftime('%Y%m%d-%H%M%S')}-{platform}-{os.getpid()}"
