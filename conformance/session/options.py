"""The options of a run, as pytest shows them in --help. README.md lists the same; a test compares the two."""

from __future__ import annotations

import pytest

from conformance.requirements.budgets import Budget
from conformance.session.settings import FLOOR_SECONDS


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvconform", "KV block copies under test")
    group.addoption(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help="a built-in backend, one of an installed package, or package.module:attribute; repeatable "
        "(default: every built-in backend that the platform has, and those of installed packages)",
    )
    group.addoption(
        "--platform",
        metavar="NAME",
        help="cpu, cuda, rocm, xpu, or one of an installed package (default: the best present)",
    )
    group.addoption(
        "--selector",
        default="built-in",
        metavar="NAME",
        help="the selection rule under test: built-in, one of an installed package, or package.module:callable "
        "(default: built-in)",
    )
    group.addoption(
        "--budget",
        choices=[budget.value for budget in Budget],
        default=Budget.GATE.value,
        help="how many cases: smoke about 10 s, gate about 1 min, certify about 10 min (default: gate)",
    )
    group.addoption(
        "--report",
        metavar="DIR",
        help="folder for the report; write --report=DIR, since pytest takes a separate word that is an existing folder "
        "for a folder of tests (default: a new one below reports/)",
    )
    group.addoption(
        "--corpus",
        action="append",
        default=[],
        metavar="DIR",
        help="folder of cases that are run first: saved failures and bare cases (*.json), frozen corpora (*.jsonl); "
        "write --corpus=DIR; repeatable",
    )
    group.addoption(
        "--run-seed", type=int, metavar="N", help="seed of all draws (default: a new one, shown in the header)"
    )
    group.addoption(
        "--isolation",
        choices=["process", "none"],
        default="process",
        help="process: cases run in a device process, and a crash is a verdict; none: in the test's own process, "
        "for debuggers, sanitizers and profilers (default: process)",
    )
    group.addoption(
        "--deadline",
        type=float,
        default=FLOOR_SECONDS,
        metavar="SECONDS",
        help="the shortest time after which a case counts as hung (default: %(default)s); large cases get more",
    )
