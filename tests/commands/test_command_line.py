"""`kvconform` itself: commands are found, wrong ones named, and a reader that leaves early does no harm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from conformance import cli
from conformance.commands import CommandError, spec

Run = Callable[..., Any]


def test_help_names_every_command(kvconform: Run) -> None:
    ended = kvconform("--help")
    assert ended.status == 0
    for command in cli.COMMANDS:
        assert command.NAME in ended.out
        assert command.HELP.split()[0] in ended.out


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.NAME)
def test_each_command_explains_itself(kvconform: Run, command: cli.Command) -> None:
    ended = kvconform(command.NAME, "--help")
    assert ended.status == 0
    assert f"usage: kvconform {command.NAME}" in ended.out


def test_no_command_and_an_unknown_one_are_status_2(kvconform: Run) -> None:
    assert kvconform().status == 2
    assert kvconform("sing").status == 2


def test_an_error_is_one_line(kvconform: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(args: object) -> int:
        raise CommandError("the moon is down")

    monkeypatch.setattr(spec, "run", fail)
    ended = kvconform("spec")
    assert (ended.status, ended.err) == (2, "kvconform spec: the moon is down\n")


def test_ctrl_c_is_status_130(kvconform: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(spec, "run", interrupt)
    ended = kvconform("spec")
    assert (ended.status, ended.err) == (130, "interrupted\n")


def test_a_reader_that_leaves_early_sees_no_traceback() -> None:
    command = f"{sys.executable} -m conformance spec | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "# What must hold\n", "")
