"""Several devices of one machine: each has a process of its own and an even share of the cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_even_share_for_each_device(devices: int, workers: int, tmp_path: Path) -> None:
    """The shards of a claim are dealt out over the devices, however many workers there are."""
    report = tmp_path / "report"
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--platform=cpu", "--budget=smoke"),
            *("--backend=batch_dma", f"--report={report}", "--run-seed=7", "conformance/test_bytes.py"),
            *("-k", "test_copy"),
        ],
        cwd=ROOT,
        env={**os.environ, "KVCONFORM_CPU_DEVICES": str(devices), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    summary = json.loads((report / "summary.json").read_text())
    cases = summary["cases_by_device"]
    assert sorted(cases) == [str(index) for index in range(devices)]
    assert max(cases.values()) <= 1.2 * min(cases.values()), cases
    assert len(summary["devices"]) == devices
