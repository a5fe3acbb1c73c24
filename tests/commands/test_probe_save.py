"""`kvconform probe --save`: a file that can't be written is told before any question is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.commands import probe


def test_nothing_is_asked_before_the_file_can_be_written(
    kvconform: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "machine", lambda *given: pytest.fail("a machine was opened"))
    path = tmp_path / "no" / "such.json"
    ended = kvconform("probe", "--platform", "cpu", "--isolation", "none", "--save", path)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == f"kvconform probe: --save {path}: No such file or directory\n"
