"""Real runs with --corpus: given cases first, all of them run, bad files named; public bugs and the frozen part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from backends.contract import Direction, Memory
from conformance.session.settings import SettingsError, decide
from strategies.case import Case, Pool, Tensor
from strategies.corpus import PUBLIC

ROOT = Path(__file__).parent.parent.parent


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--platform",
            "cpu",
            "--budget",
            "smoke",
            *options,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def case(page: int, count: int) -> Case:
    pool, ids = Pool(count, page), tuple(range(count))
    return Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (Tensor(page, pool, pool, ids, ids),))


def test_given_cases_come_first_and_none_is_lost(tmp_path: Path) -> None:
    """A copy that never writes the last byte fails on all three cases, although two bad files lie beside them."""
    given, report = tmp_path / "given", tmp_path / "report"
    given.mkdir()
    for count in (1, 2, 3):
        (given / f"of-{count}.json").write_text(json.dumps({"backend": "any", "case": case(64, count).to_json()}))
    (given / "broken.json").write_text("{")
    (given / "strange.json").write_text(json.dumps({**case(64, 1).to_json(), "direction": "up"}))
    copy = tmp_path / "short_copy.py"
    copy.write_text(
        "import ctypes\n\n\n"
        "def copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=False):\n"
        "    for s, d, n in zip(src_ptrs.tolist(), dst_ptrs.tolist(), sizes.tolist()):\n"
        "        ctypes.memmove(d, s, max(0, n - 1))\n"
    )
    options = ["--isolation", "none", "--backend", "short_copy:copy", f"--report={report}", f"--corpus={given}"]
    done = run("-o", f"pythonpath=. {tmp_path}", *options, "-k", "given", "conformance/test_corpus.py")
    assert done.returncode == 1
    assert "broken.json: not JSON" in done.stdout
    assert "strange.json: case.direction: 'up'" in done.stdout
    assert done.stdout.count("short_copy:copy breaks BYTES-COPIED") >= 3
    summary = json.loads((report / "summary.json").read_text())
    copied = next(row for row in summary["counts"] if row["requirement"] == "BYTES-COPIED")
    assert (copied["planned"], copied["drawn"], copied["failed"]) == (3, 3, 3)
    assert summary["settings"]["corpus"] == [str(given)]
    assert any(note.startswith(f"given corpus {given}: 3 cases, digest ") for note in summary["notes"])


def test_public_bugs_and_the_frozen_part_hold(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = run("--isolation", "none", "--backend", "batch_dma", f"--report={report}", "conformance/test_corpus.py")
    summary = json.loads((report / "summary.json").read_text())
    assert "failed" not in done.stdout.splitlines()[-1], done.stdout
    copied = next(row for row in summary["counts"] if row["requirement"] == "BYTES-COPIED")
    assert copied["passed"] == copied["planned"] > len(list(PUBLIC.glob("*.json"))) // 2
    assert any("one in 64 of them: dc6fbe59" in note for note in summary["notes"])


def test_listed_cases_come_first_and_idle_tests_go() -> None:
    done = run("--collect-only", "--backend", "batch_dma", "conformance")
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert collected[0].startswith("conformance/test_corpus.py::test_public_bugs")
    assert not any("given" in line for line in collected)


def test_a_folder_that_is_none_is_said_before_the_run() -> None:
    with pytest.raises(SettingsError, match="--corpus nowhere: no such folder"):
        decide(
            platform="cpu",
            backends=("batch_dma",),
            budget="smoke",
            report=None,
            seed=1,
            isolation="none",
            floor_seconds=1.0,
            address="",
            root=ROOT,
            corpus=("nowhere",),
        )
