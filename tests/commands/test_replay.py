"""`kvconform replay`: verdicts as a person reads them, and exit statuses that scripts can rely on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.record import failures
from strategies.case import Case

HERE = ("--platform", "cpu", "--isolation", "none")
COPIES = "tests.commands.copies"

Run = Callable[..., Any]
Save = Callable[..., Path]


def test_a_case_that_holds_is_status_0(kvconform: Run, saved: Save) -> None:
    ended = kvconform("replay", saved("torch_copy"), *HERE)
    assert ended.status == 0
    assert "torch_copy holds BYTES-COPIED, BYTES-UNTOUCHED" in ended.out
    assert ended.out.endswith("1 of 1 hold on cpu\n")


def test_a_case_that_fails_is_status_1_with_the_failures_text(kvconform: Run, saved: Save) -> None:
    path = saved(f"{COPIES}:short")
    ended = kvconform("replay", path, *HERE)
    assert ended.status == 1
    pattern = re.compile(
        rf"""{re.escape(str(path))}
{COPIES}:short breaks BYTES-COPIED: 2 bytes wrong in .*
    expected  .*
    found     .*
(?:.*
)*case    load, pageable -> device
        page 9 bytes, blocks 0->1, 1->0; destination: rows of 12 bytes
        side stream, seed 7
path    call of {COPIES}:short

0 of 1 hold on cpu
"""
    )
    assert pattern.fullmatch(ended.out), ended.out


def test_backends_given_replace_the_one_in_the_file(kvconform: Run, saved: Save) -> None:
    ended = kvconform("replay", saved(f"{COPIES}:short"), "--backend", "torch_copy", "--backend", "batch_dma", *HERE)
    assert ended.status == 0
    assert "torch_copy holds" in ended.out
    assert "batch_dma holds" in ended.out
    assert "2 of 2 hold" in ended.out


def test_a_refusal_as_declared_holds_and_says_so(kvconform: Run, saved: Save) -> None:
    ended = kvconform("replay", saved(f"{COPIES}:limited"), *HERE)
    assert ended.status == 0
    assert f"{COPIES}:limited refuses this copy, as it declares: sizes are multiples of eight" in ended.out


def test_repeats_show_what_comes_and_goes(kvconform: Run, saved: Save) -> None:
    ended = kvconform("replay", saved(f"{COPIES}:every_other"), "--repeat", 4, *HERE)
    assert ended.status == 1
    assert "4 times: 2 wrong bytes, 2 passed" in ended.out


def test_a_crash_is_a_verdict_in_a_device_process(kvconform: Run, saved: Save) -> None:
    ended = kvconform("replay", saved(f"{COPIES}:deadly"), saved("torch_copy"), "--platform", "cpu")
    assert ended.status == 1
    assert f"{COPIES}:deadly breaks SURVIVE-FAULT: the process that ran the case died: signal SIGSEGV" in ended.out
    assert "torch_copy holds" in ended.out
    assert "1 of 2 hold" in ended.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "not JSON"),
        ("[]", "a case is a JSON object"),
        ('{"format": 99}', "format: 99"),
        ('{"format": 1, "direction": "sideways"}', "direction: 'sideways', may be load"),
    ],
)
def test_a_file_that_is_no_case_is_status_2(kvconform: Run, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)
    ended = kvconform("replay", path, "--backend", "torch_copy", *HERE)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"kvconform replay: {path}: ")
    assert says in ended.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "bare case that names no backend; give --backend"),
        (("--backend", "nobody"), "no backend is called 'nobody'; built in: torch_copy"),
        (("--backend", f"{COPIES}:elsewhere"), "can't run here: made for other hardware than cpu"),
        (("--backend", "torch_copy", "--device", "3"), "--device 3: cpu has only device 0"),
        (("--backend", "torch_copy", "--deadline", "-3"), "--deadline -3: a number of seconds above 0"),
        (("--backend", "torch_copy", "--repeat", "0"), "--repeat 0: 1 or more"),
        (("--backend", "torch_copy", "--platform", "abacus"), "platform 'abacus' is unknown"),
    ],
)
def test_wrong_options_are_status_2(kvconform: Run, saved: Save, options: tuple[str, ...], says: str) -> None:
    ended = kvconform("replay", saved(), *HERE, *options)
    assert ended.status == 2
    assert says in ended.err


def test_a_file_that_is_not_there_is_status_2(kvconform: Run, tmp_path: Path) -> None:
    ended = kvconform("replay", tmp_path / "none.json")
    assert ended.status == 2
    assert "No such file" in ended.err


def test_a_case_that_this_machine_cannot_build_does_not_hold(kvconform: Run, case: Case, tmp_path: Path) -> None:
    data = case.to_json()
    data["source_memory"] = "registered"
    path = tmp_path / "case.json"
    path.write_text(json.dumps(data))
    ended = kvconform("replay", path, "--backend", "torch_copy", *HERE)
    assert ended.status == 1
    assert "torch_copy was not judged, for this machine can't build the case" in ended.out


def test_the_platform_is_the_one_in_the_file(kvconform: Run, saved: Save) -> None:
    path = saved("torch_copy", platform="cpu")
    assert failures.platform_of(path) == "cpu"
    assert "hold on cpu" in kvconform("replay", path, "--isolation", "none").out


def test_another_platform_than_the_one_in_the_file_is_noted(kvconform: Run, saved: Save) -> None:
    path = saved("torch_copy", platform="abacus")
    ended = kvconform("replay", path, *HERE)
    assert ended.status == 0
    assert ended.out.startswith(f"note: {path} was saved on abacus, and runs on cpu\n")
    assert "note:" not in kvconform("replay", saved("torch_copy", platform="cpu"), *HERE).out
