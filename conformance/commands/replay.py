"""Run saved cases again and print each verdict: 0 if all hold, 1 if one fails or can't be judged, 2 for bad input."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from backends import platforms
from conformance.commands import CommandError
from conformance.commands.machine import Machine, add_machine_arguments, machine
from conformance.device.runner import BackendUnavailable
from conformance.judge.verdict import Kind, Verdict
from conformance.record import failures
from conformance.report.explain import verdict_text
from conformance.session.settings import FLOOR_SECONDS
from strategies.case import Case, CaseError

NAME = "replay"
HELP = "run saved cases again and print the verdicts"


@dataclass(frozen=True)
class Trial:
    """One case for one backend."""

    path: Path
    case: Case
    backend: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", nargs="+", type=Path, metavar="CASE.json", help="a saved failure, or a bare case")
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help="a backend or package.module:attribute; repeatable (default: the one that each file names)",
    )
    add_machine_arguments(parser)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which device (default: 0)")
    parser.add_argument(
        "--deadline",
        type=float,
        default=FLOOR_SECONDS,
        metavar="SECONDS",
        help="the shortest time after which a case counts as hung (default: %(default)s); none with --isolation none",
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each case N times (default: 1)")


def run(args: argparse.Namespace) -> int:
    """Run every case on every backend that is asked for. A refusal that the backend declares holds."""
    if args.repeat < 1:
        raise CommandError(f"--repeat {args.repeat}: 1 or more")
    trials = [trial for path in args.cases for trial in read_trials(path, args.backend)]
    platform = args.platform or common_platform(args.cases)
    bad = 0
    with machine(platform, args.isolation, args.deadline) as here:
        here.require(args.device)
        for note in elsewhere(args.cases, here.platform):
            print(note)
        for trial in trials:
            bad += not holds(here, args.device, trial, args.repeat)
        for incident in here.incidents.read():
            print(f"incident: {incident.sentence()}")
    print(f"{len(trials) - bad} of {len(trials)} hold on {here.platform}")
    return 1 if bad else 0


def read_trials(path: Path, backends: list[str]) -> list[Trial]:
    """The case in a file, once a backend. Raises CommandError for what is no case, or names no backend."""
    try:
        case = Case.load(path)
    except CaseError as error:
        raise CommandError(str(error)) from error
    named = failures.backend_of(path)
    if not backends and named is None:
        raise CommandError(f"{path} is a bare case that names no backend; give --backend NAME")
    return [Trial(path, case, name) for name in backends or [str(named)]]


def common_platform(paths: list[Path]) -> str | None:
    """The platform that all the files name, if it can be used here; None leaves the choice to the machine."""
    named = {failures.platform_of(path) for path in paths}
    if len(named) != 1:
        return None
    name = named.pop()
    return name if name in platforms.names() and platforms.load(name).missing() is None else None


def elsewhere(paths: list[Path], platform: str) -> list[str]:
    """A note on each file that was saved on another platform than the one that runs it now."""
    named = {path: failures.platform_of(path) for path in paths}
    return [
        f"note: {path} was saved on {name}, and runs on {platform}"
        for path, name in named.items()
        if name not in (None, platform)
    ]


def holds(here: Machine, index: int, trial: Trial, repeat: int) -> bool:
    """Run one trial and print what became of it; with repeats, the first verdict of each kind."""
    bench = here.bench(index)
    try:
        support = bench.runner.support(trial.backend)
    except BackendUnavailable as error:
        raise CommandError(str(error)) from error
    if support.unavailable:
        raise CommandError(f"{trial.backend} can't run here: {support.unavailable}")
    seen: dict[Kind, int] = {}
    good = True
    for _ in range(repeat):
        verdict = bench.verdict(trial.backend, trial.case)
        if verdict.kind not in seen:
            print(f"{trial.path}\n{verdict_text(trial.backend, trial.case, verdict)}\n")
        seen[verdict.kind] = seen.get(verdict.kind, 0) + 1
        good &= _good(verdict)
    if repeat > 1:
        print(f"{repeat} times: {', '.join(f'{count} {kind.value}' for kind, count in seen.items())}\n")
    return good


def _good(verdict: Verdict) -> bool:
    return verdict.kind in (Kind.PASSED, Kind.REFUSED)
