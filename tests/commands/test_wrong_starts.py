"""A run that can't be started ends with status 4 and one line; a report folder belongs to one run at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.device.client import DeviceClient
from conformance.device.launch import memory_limit
from conformance.record.settings import RunSettings
from conformance.session.settings import SettingsError, decide, make_folders

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from conformance.record.settings import RunSettings
from conformance.session.settings import make_folders
make_folders(RunSettings.loads(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def decided(tmp_path: Path) -> Callable[..., RunSettings]:
    """Settings of a run whose report lies in a folder of this test."""

    def made(**changes: Any) -> RunSettings:
        given: dict[str, Any] = {
            "platform": "cpu",
            "backends": ("torch_copy",),
            "budget": "smoke",
            "report": str(tmp_path / "run"),
            "seed": 1,
            "isolation": "process",
            "floor_seconds": 10.0,
            "address": "\0here",
            "root": tmp_path,
        }
        return decide(**{**given, **changes})

    return made


@pytest.mark.parametrize(
    ("options", "variable", "says"),
    [
        (["--backend=nosuch"], None, "--backend: no backend is called 'nosuch'"),
        (["--deadline=-3"], None, "--deadline -3: a number of seconds above 0"),
        ([], ("KVCONFORM_CPU_DEVICES", "0"), "KVCONFORM_CPU_DEVICES='0' is not a number of devices"),
        ([], ("KVCONFORM_MEMORY_GIB", "abc"), "KVCONFORM_MEMORY_GIB='abc' is not a number of GiB"),
    ],
)
def test_one_line_and_status_4(
    options: list[str],
    variable: tuple[str, str] | None,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    if variable:
        monkeypatch.setenv(*variable)
    report = tmp_path / "run"
    command = [sys.executable, "-m", "pytest", "-q", "--platform=cpu", f"--report={report}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    (line,) = filter(None, (done.stdout + done.stderr).splitlines())
    assert line.startswith(f"ERROR: {says}")
    assert not report.exists()


@pytest.mark.parametrize("seconds", [0.0, -3.0, float("nan"), float("inf")])
def test_deadlines_that_are_none(seconds: float, decided: Callable[..., RunSettings]) -> None:
    with pytest.raises(SettingsError, match=r"--deadline .*: a number of seconds above 0"):
        decided(floor_seconds=seconds)


@pytest.mark.parametrize("text", ["0", "x", "-1"])
def test_numbers_of_devices_that_are_none(
    text: str, decided: Callable[..., RunSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVCONFORM_CPU_DEVICES", text)
    with pytest.raises(SettingsError, match=f"KVCONFORM_CPU_DEVICES='{text}'"):
        decided()


def test_no_visible_device(decided: Callable[..., RunSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCONFORM_CPU_VISIBLE_DEVICES", "")
    with pytest.raises(SettingsError, match="no device is visible; see KVCONFORM_CPU_VISIBLE_DEVICES"):
        decided()


@pytest.mark.parametrize("text", ["abc", "0", "-2", "nan", "inf"])
def test_amounts_of_memory_that_are_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCONFORM_MEMORY_GIB", text)
    with pytest.raises(SettingsError, match=f"KVCONFORM_MEMORY_GIB='{text}' is not a number of GiB above 0"):
        memory_limit(1)


def test_a_report_folder_in_use(decided: Callable[..., RunSettings]) -> None:
    """Of a run that lives nothing is touched; when it is gone, killed or not, the folder is free."""
    settings = decided()
    command = [sys.executable, "-c", HOLD, settings.dumps()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        (settings.work / "theirs").touch()
        with pytest.raises(SettingsError, match="in use by another run"):
            make_folders(settings)
        assert (settings.work / "theirs").exists()
        make_folders(replace(settings, report=f"{settings.report}-mine"))
        other.kill()
    make_folders(settings)
    assert not (settings.work / "theirs").exists()
    make_folders(settings)  # the same process, another run
    assert sorted(path.name for path in Path(settings.report).iterdir()) == ["failures", settings.work.name]


def test_a_client_that_has_done_nothing_can_be_shown() -> None:
    assert "DeviceClient" in repr(DeviceClient("\0nowhere", 0, "gw0", 10.0))
