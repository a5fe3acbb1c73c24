"""Time every backend on this device and say what a selection rule loses: who wins where, as text, page and figure."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from backends import registry
from backends.contract import Device, Memory
from conformance.audit import figure, page
from conformance.audit.advice import advised_rows
from conformance.audit.grid import grid, host_memory
from conformance.audit.judgement import changes, judge, other_winners, regret
from conformance.audit.measurements import Measurements, MeasurementsError, Setting, begin, load, resume
from conformance.audit.progress import shown
from conformance.audit.survey import Survey
from conformance.audit.text import advice_lines, change_lines, summary_lines
from conformance.commands import CommandError
from conformance.commands.machine import add_machine_arguments, machine
from conformance.device.runner import BackendUnavailable, Runner
from conformance.selection.table import load_table
from conformance.subjects.rules import Selector, SelectorError, selector_named

NAME = "audit"
HELP = "time every backend on this device, and measure what the selection rule loses"
MINUTES, MOST_MINUTES = 5.0, 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", action="append", default=[], metavar="NAME", help="repeatable (default: all that run here)"
    )
    parser.add_argument(
        "--selector", default="built-in", metavar="NAME", help="the rule that is audited (default: built-in)"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="N", help="at most; up to 60 (default: %(default)g)"
    )
    parser.add_argument("--memory", metavar="KIND", help="kind of host memory (default: pinned, or what there is)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder (default: a new one below reports/)")
    parser.add_argument("--resume", action="store_true", help="go on with the measurements in --output")
    parser.add_argument(
        "--show", type=Path, metavar="DIR", help="measure nothing: judge and draw what DIR holds, on any machine"
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="compare with an earlier audit's folder")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the places of pages (default: 0)")
    add_machine_arguments(parser)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which device (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Measure, then judge and show; 0 however good the rule is, for a measurement is no verdict."""
    if not 0 < args.minutes <= MOST_MINUTES:
        raise CommandError(f"--minutes {args.minutes:g}: more than 0, at most {MOST_MINUTES:g}")
    if args.resume and args.output is None:
        raise CommandError("--resume needs the --output of the audit to go on with")
    try:
        selector = selector_named(args.selector)
    except SelectorError as error:
        raise CommandError(f"--selector: {error}") from error
    earlier = _loaded(args.against, "--against") if args.against else None
    if args.show:
        show(_loaded(args.show, "--show"), args.show, selector, earlier)
        return 0
    with machine(args.platform, args.isolation) as here:
        here.require(args.device)
        runner = here.runner(args.device)
        folder = (
            args.output or Path("reports") / f"audit-{here.platform}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        )
        found = _opened(args, runner, folder)
        points = grid(here.platform)
        seconds = args.minutes * 60
        begun = time.monotonic()
        with shown(seconds) as on_visit:
            finished = Survey(runner, points, found, folder, seconds, on_visit).run()
        visits = sum(map(len, found.visits.values()))
        print(f"{visits} visits to {len(points)} points, {(time.monotonic() - begun) / 60:.1f} minutes this time\n")
    show(found, folder, selector, earlier)
    if not finished:
        print(f"the time was out before every number came again; go on with --resume --output {folder}")
    return 0


def _loaded(folder: Path, option: str) -> Measurements:
    try:
        return load(folder)
    except MeasurementsError as error:
        raise CommandError(f"{option}: {error}") from error


def new_folder(platform: str) -> Path:
    """A name that nobody else takes, below reports/."""
    return Path("reports") / f"audit-{platform}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _opened(args: argparse.Namespace, runner: Runner, folder: Path) -> Measurements:
    """The measurements to add to. Raises CommandError."""
    device = runner.device
    setting = Setting(device, _memory(args.memory, device).value, _backends(args.backend, runner), args.seed)
    try:
        return resume(folder, setting) if args.resume else begin(folder, setting)
    except (MeasurementsError, OSError) as error:
        raise CommandError(str(error)) from error


def _memory(name: str | None, device: Device) -> Memory:
    if name is None:
        return host_memory(device)
    kinds = [kind for kind in device.memory if kind not in (Memory.DEVICE.value, Memory.READ_ONLY.value)]
    if name not in kinds:
        raise CommandError(f"--memory {name}: this device has {', '.join(kinds)}")
    return Memory(name)


def _backends(named: list[str], runner: Runner) -> tuple[str, ...]:
    """Those named, each of which has to run here; else all that do."""
    usable = []
    for name in named or registry.names():
        try:
            reason = runner.support(name).unavailable
        except BackendUnavailable as error:
            reason = str(error)
        if reason and named:
            raise CommandError(f"--backend {name} can't run here: {reason}")
        if not reason:
            usable.append(name)
    return tuple(usable)


def show(found: Measurements, folder: Path, selector: Selector, earlier: Measurements | None) -> None:
    """Print what was found and write rule.json, summary.json, audit.html and audit.png. Raises CommandError."""
    judged = judge(found, found.visits, selector)
    rows = advised_rows(found, judged, load_table())
    lines = [*summary_lines(found, judged, selector.name), *advice_lines(rows)]
    if earlier is not None:
        winners = other_winners(judge(earlier, earlier.visits, selector), judged)
        lines += ["", "against the earlier audit:", *change_lines(changes(earlier, found), winners)]
    print("\n".join(lines))
    try:
        (folder / "rule.json").write_text(json.dumps({"performance": rows}, indent=1) + "\n")
        (folder / "summary.json").write_text(json.dumps(_summary(found, judged, selector.name), indent=1) + "\n")
        drawn = folder / "audit.png"
        missing = figure.draw(found, judged, selector.name, drawn)
        page.write(folder / "audit.html", found, judged, selector.name, rows, None if missing else drawn)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}") from error
    files = ["audit.html", *([] if missing else ["audit.png"]), "rule.json", "summary.json"]
    print("\n".join([*([missing] if missing else []), f"written to {folder}: {', '.join(files)}"]))


def _summary(found: Measurements, judged: list[Any], selector: str) -> dict[str, Any]:
    lost = regret(judged)
    return {
        "setting": found.setting.to_json(),
        "selector": selector,
        "regret": {
            "points": lost.points,
            "mean": lost.mean,
            "worst": lost.worst,
            "where": lost.where and lost.where.to_json(),
            "better": lost.better,
        },
        "points": [
            {
                **each.point.to_json(),
                "times_us": each.times,
                "limit_us": each.limit,
                "best": each.best,
                "equals": list(each.equals),
                "chosen": each.chosen,
                "regret": each.regret,
                "stable": each.stable,
                "visits": len(found.visits[each.point]),
            }
            for each in judged
        ],
    }
