"""The effective options of a run: decided once, by the process that starts it, and handed to every worker."""

from __future__ import annotations

import fcntl
import math
import os
import secrets
import shutil
import time
from pathlib import Path

from backends import platforms, registry
from backends.contract import DeviceError
from backends.platforms import PlatformError
from conformance.record.settings import SETTINGS_FILE, RunSettings
from conformance.requirements.budgets import Budget
from conformance.subjects.rules import SelectorError, selector_named

FLOOR_SECONDS = 10.0


class SettingsError(ValueError):
    """An option that can't be met: the text names it and says what to do."""


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
    check_deadline(floor_seconds)
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
    try:
        count = found.device_count()
    except DeviceError as error:
        raise SettingsError(str(error)) from error
    if count == 0:
        raise SettingsError(f"--platform {found.name}: no device is visible; see {found.visible_env()}")
    return found.name, tuple(range(count))


def check_deadline(seconds: float) -> None:
    """Raises SettingsError for what no case could keep, and for what never ends."""
    if not 0 < seconds < math.inf:
        raise SettingsError(f"--deadline {seconds:g}: a number of seconds above 0")


def make_folders(settings: RunSettings) -> None:
    """Make the report folder and what lies below it; of a run that was there before only its failures stay.

    The folder is this process's from now on, as long as it lives. Raises SettingsError when it can't be written, and
    when it is another process's."""
    report = Path(settings.report)
    try:
        report.mkdir(parents=True, exist_ok=True)
        _take(report)
        if settings.work.exists():
            shutil.rmtree(settings.work)
        settings.work.mkdir()
        (report / "failures").mkdir(exist_ok=True)
        (report / "summary.json").unlink(missing_ok=True)
        (settings.work / SETTINGS_FILE).write_text(settings.dumps() + "\n")
    except OSError as error:
        raise SettingsError(
            f"--report {settings.report}: {error.strerror}; give a folder that can be written, on a disk with room"
        ) from error


def _take(folder: Path) -> None:
    """Lock the folder itself, so that no file tells of it and the kernel lets it go however the process ends."""
    if folder in _taken:
        os.close(_taken.pop(folder))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise SettingsError(
            f"--report {folder}: in use by another run; give another folder, or wait for that run to end"
        ) from error
    except OSError:  # a file system without locks, or with locks of files only: nobody can be warned there
        os.close(descriptor)
        return
    _taken[folder] = descriptor


_taken: dict[Path, int] = {}  # report folders of this process, with the descriptor that holds the lock


def _new_report(root: Path, platform: str) -> Path:
    return root / "reports" / f"{time.strftime('%Y%m%d-%H%M%S')}-{platform}-{os.getpid()}"
