"""Find out what this device can do, and compare it with the selection table and rule: 1 if a choice can't work here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backends.contract import Device
from conformance.commands import CommandError
from conformance.commands.machine import Machine, add_machine_arguments, machine
from conformance.commands.replay import read_trials
from conformance.device.runner import BackendUnavailable
from conformance.probe.answers import Answer
from conformance.probe.attempt import attempt
from conformance.probe.findings import Finding, findings
from conformance.probe.questions import Question, questions
from conformance.report.explain import verdict_text
from conformance.selection.table import load_table
from conformance.subjects.rules import Selector, SelectorError, selector_named

NAME = "probe"
HELP = "find out what this device can do, each question in a process of its own"
FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything as JSON to a file too")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="questions whose id holds TEXT; repeatable"
    )
    parser.add_argument(
        "--selector", default="built-in", metavar="NAME", help="the rule that is compared (default: built-in)"
    )
    parser.add_argument(
        "--case",
        type=Path,
        metavar="CASE.json",
        help="instead of asking: run this case although its backend declares it unsupported, contained",
    )
    parser.add_argument("--backend", metavar="NAME", help="for --case (default: the one that the file names)")
    add_machine_arguments(parser)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which device (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Ask, print and save. The status is 1 if the rule or the table lets through what can't work here."""
    try:
        selector = selector_named(args.selector)
    except SelectorError as error:
        raise CommandError(f"--selector: {error}") from error
    if args.save:
        _writable(args.save)
    with machine(args.platform, args.isolation) as here:
        here.require(args.device)
        if args.case:
            return _try_case(here, args)
        return _ask(here, args, selector)


def _ask(here: Machine, args: argparse.Namespace, selector: Selector) -> int:
    runner = here.runner(args.device)
    device = runner.device
    asked = _chosen(questions(device), args.only)
    answers = []
    if not args.json:
        print(f"{device.platform}: {device.name}, driver {device.driver}, torch {device.torch}\n")
    for question in asked:
        answer = question.ask(runner)
        answers.append(answer)
        if not args.json:
            print(line(answer), flush=True)
    found = findings(answers, device, load_table(), selector)
    if args.json:
        print(json.dumps(data(device, answers, found, selector.name), indent=1))
    else:
        print("\n" + "\n".join(map(str, found)) if found else f"\nnothing contradicts the table or {selector.name}")
    if args.save:
        _save(args.save, data(device, answers, found, selector.name))
    return 1 if any(not finding.harmless for finding in found) else 0


def line(answer: Answer) -> str:
    """One answer as a line of the table: question, answer, evidence."""
    return f"{answer.question + '?':62} {answer.answer:9} {answer.evidence}"


def data(device: Device, answers: Sequence[Answer], found: Sequence[Finding], selector: str) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "format": FORMAT,
        "device": device.to_json(),
        "selector": selector,
        "answers": [answer.to_json() for answer in answers],
        "findings": [finding.to_json() for finding in found],
    }


def _chosen(asked: list[Question], only: list[str]) -> list[Question]:
    chosen = [question for question in asked if not only or any(text in question.id for text in only)]
    if not chosen:
        known = ", ".join(question.id for question in asked)
        raise CommandError(f"--only {' '.join(only)}: no question's id holds that; there are {known}")
    return chosen


def _writable(path: Path) -> None:
    """Raises CommandError, before the questions have cost their time, where the answers could not be saved."""
    try:
        path.open("ab").close()
    except OSError as error:
        raise CommandError(f"--save {path}: {error.strerror}") from error


def _save(path: Path, content: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--save {path}: {error.strerror}") from error


def _try_case(here: Machine, args: argparse.Namespace) -> int:
    """Run one case around its backend's declaration; 1 if it does not copy right."""
    trial = read_trials(args.case, [args.backend] if args.backend else [])[0]
    try:
        verdict = attempt(here.runner(args.device), trial.backend, trial.case)
    except BackendUnavailable as error:
        raise CommandError(str(error)) from error
    print(verdict_text(trial.backend, trial.case, verdict))
    return 1 if verdict.failed else 0
