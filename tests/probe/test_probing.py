"""Probes on the CPU, in this process: each question is answered, and a case runs around a declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.contract import Direction, Memory
from conformance import cli
from conformance.device.direct import DirectRunner
from conformance.device.task import Task
from conformance.judge.verdict import Kind
from conformance.probe.answers import UNKNOWN, YES
from conformance.probe.attempt import attempt, outcome_text
from conformance.probe.questions import probe_case, questions


@pytest.fixture(scope="module")
def runner() -> Iterator[DirectRunner]:
    direct = DirectRunner("cpu", 0)
    yield direct
    direct.close()


def test_ids_and_texts_are_unique(runner: DirectRunner) -> None:
    """So that --only and a saved probe mean one thing."""
    asked = questions(runner.device)
    assert len({question.id for question in asked}) == len({question.text for question in asked}) == len(asked)


@pytest.mark.parametrize(
    ("id", "answer"),
    [
        ("registered-address", YES),
        ("kernel-reads-shared", YES),
        ("batch-dma-writes-pageable", YES),
        ("batch-call", YES),
        ("batch-zero-size", YES),
        ("batch-capture", UNKNOWN),
        ("batch-largest", "1024"),
    ],
)
def test_what_a_cpu_answers(runner: DirectRunner, id: str, answer: str) -> None:
    """The kernel's scatter-gather call takes 1024 ranges; a CPU's kernel may dereference anything."""
    (question,) = [question for question in questions(runner.device) if question.id == id]
    given = question.ask(runner)
    assert given.answer == answer, given.evidence
    assert json.loads(json.dumps(given.to_json()))["id"] == id


def test_a_case_runs_although_the_backend_declares_it_unsupported(runner: DirectRunner) -> None:
    """That is what a probe is for."""
    case = probe_case(Direction.STORE, Memory.PAGEABLE)
    verdict = attempt(runner, f"{__name__}:LoadsOnly", case)
    assert verdict.kind is Kind.PASSED
    assert outcome_text(verdict) == "every byte right (loads only)"


def test_a_refusal_says_what_the_backend_said(runner: DirectRunner) -> None:
    """And not that it should have declared it."""
    verdict = attempt(runner, f"{__name__}:refuses", probe_case(Direction.LOAD, Memory.SHARED))
    assert outcome_text(verdict) == "refused: no copies on Sundays"


def test_wrong_bytes_are_an_answer(runner: DirectRunner) -> None:
    """Not an error of the probe."""
    verdict = attempt(runner, f"{__name__}:does_nothing", probe_case(Direction.LOAD, Memory.SHARED))
    assert verdict.kind is Kind.WRONG


def test_a_task_that_raises_is_a_result(runner: DirectRunner) -> None:
    """Whatever it was."""
    assert runner.perform(Task("conformance.probe.batch_call:ask", {"when": "now"})).error.startswith("TypeError")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints a table, saves JSON, and finds nothing wrong with this project's rule on a CPU."""
    saved = tmp_path / "probe.json"
    status = cli.main(
        ["probe", "--platform", "cpu", "--isolation", "none", "--only", "kernel-reads", "--save", str(saved)]
    )
    assert status == 0
    assert "may a Triton kernel read shared memory?" in capsys.readouterr().out
    data = json.loads(saved.read_text())
    assert {answer["answer"] for answer in data["answers"]} == {YES}
    assert data["findings"] == []


def test_the_command_runs_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Around a declaration, with the text of a replay."""
    path = tmp_path / "case.json"
    path.write_text(probe_case(Direction.LOAD, Memory.SHARED).dumps())
    command = ["probe", "--platform", "cpu", "--isolation", "none", "--case", str(path), "--backend"]
    assert cli.main([*command, "batch_dma"]) == 0
    assert cli.main([*command, f"{__name__}:does_nothing"]) == 1
    assert "bytes wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["--only", "weather"], ["--selector", "nobody"], ["--device", "7"], ["--save", "/no/such/folder/x"]]
)
def test_bad_input_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With exit status 2."""
    only = [] if "--only" in arguments else ["--only", "registered-address"]
    assert cli.main(["probe", "--platform", "cpu", "--isolation", "none", *only, *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


class LoadsOnly:
    """Declares less than it can do."""

    name = "loads-only"

    def support(self, device: object) -> object:
        from backends.contract import Support

        return Support(directions=frozenset({Direction.LOAD}))

    def copy(self, src_ptrs: object, dst_ptrs: object, sizes: object, is_src_access_order_any: bool = False) -> None:
        from backends.copies.torch_copy import TorchCopy

        TorchCopy().copy(src_ptrs, dst_ptrs, sizes)  # type: ignore[arg-type]

    def path(self) -> str:
        return "loads only"


def refuses(src_ptrs: object, dst_ptrs: object, sizes: object, is_src_access_order_any: bool = False) -> None:
    from backends.contract import Refused

    raise Refused("no copies on Sundays")


def does_nothing(src_ptrs: object, dst_ptrs: object, sizes: object, is_src_access_order_any: bool = False) -> None:
    """Says nothing either."""
