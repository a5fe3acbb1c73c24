"""Show what a run found: a finished run's summary, or the sum of what one that was killed left behind."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from conformance.commands import CommandError
from conformance.record.settings import SETTINGS_FILE, WORK, RunSettings
from conformance.report.result import FAIL, PASS, Report, gather

NAME = "report"
HELP = "show a run's report, also of a run that was killed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the run's report folder")


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 only for a pass. Changes nothing, so a run that still goes on can be looked at."""
    report = read(args.folder)
    print("\n".join(report.lines()))
    return 0 if report.result == PASS else 1


def read(folder: Path) -> Report:
    """The report of a finished run, or one made from what lies in the folder. Raises CommandError."""
    try:
        if (folder / "summary.json").exists():
            return Report.from_json(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
        settings = RunSettings.loads((folder / WORK / SETTINGS_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(
            f"{folder} is no report folder of a run: neither summary.json nor {WORK}/{SETTINGS_FILE} can be read "
            f"({error.strerror})"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{folder}: written by another version, or damaged ({error!r})") from error
    report = gather(replace(settings, report=str(folder.absolute())), exit_status=0)
    report.result = FAIL
    report.reasons.append("the run has not ended: it still goes on, or it was killed")
    return report
