"""However a run ends, it says so, and leaves no process, no shared memory and no temporary file behind.

Real runs of pytest in processes of their own. A variable in their environment marks every process of a run, whatever
its command line. Nothing here sleeps for a fixed time: everything is waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backends.contract import Direction, Memory
from backends.platforms.memory import hostmap
from conformance.device.case_runner import Bench
from conformance.device.direct import DirectRunner
from conformance.judge.verdict import Kind
from conformance.record.incidents import IncidentLog
from conformance.record.journal import Journal
from conformance.record.settings import SETTINGS_FILE, WORK, RunSettings
from conformance.report.result import FAIL, gather
from strategies.case import Case, Pool, Tensor

ROOT = Path(__file__).parents[2]
MARK = "KVCONFORM_TEST_RUN"
QUICK, SLOW = "tests.planted.wrong:plain_loop", "tests.planted.deadly:brief"
FEW = "undefined or malformed"  # two short tests
MANY = "round_trip"  # four tests of 15 cases; about six seconds with the slow copy


@dataclass
class Started:
    """A run of pytest under way, with a folder for its report and one for temporary files."""

    folder: Path
    options: tuple[str, ...]
    before: Callable[[], None] | None = None
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        self.report, self.temporary, self.log = (self.folder / name for name in ("report", "tmp", "log"))
        self.temporary.mkdir(parents=True)
        given = [option for option in self.options if option.startswith(("--report", "--platform"))]
        options = [f"--report={self.report}"] if not any("report" in option for option in given) else []
        options += ["--platform=cpu"] if not any("platform" in option for option in given) else []
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "--budget=smoke", "--run-seed=1", *options, *self.options],
                cwd=ROOT,
                env={**environment, MARK: self.mark, "TMPDIR": str(self.temporary)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self.before,
            )

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    @property
    def summary(self) -> dict[str, object]:
        """The report's summary."""
        return json.loads((self.report / "summary.json").read_text())  # type: ignore[no-any-return]

    def ended(self, seconds: float = 90.0) -> int:
        """Wait for its end; the exit status, and then nothing of it is left."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"did not end within {seconds} s:\n{self.text}") from None
        self.gone()
        return status

    def gone(self) -> None:
        """No process, no shared memory and no temporary file is left, but the folder that pytest makes for itself."""
        wait_until(lambda: not self.processes(), lambda: f"processes are left: {self.processes()}")
        left = [path.name for path in self.temporary.iterdir() if not path.name.startswith("pytest-of-")]
        assert left == []
        assert [path.name for path in Path("/dev/shm").iterdir() if "kvconform" in path.name] == []

    def processes(self) -> list[int]:
        """Every process that the run has started, itself included, zombies not."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._mine(pid)]

    def _mine(self, pid: int) -> bool:
        wanted = f"{MARK}={self.mark}".encode()
        try:
            return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def running_worker(self) -> int:
        """Wait until a case runs; the process id of the worker whose it is."""
        found: list[int] = []

        def running() -> bool:
            for path in self.report.glob(f"{WORK}/device-0.journal"):
                with contextlib.suppress(OSError, ValueError):
                    journal = Journal(path)
                    entry = journal.read()
                    journal.close()
                    if entry.running and entry.ticket > 0:
                        found.append(int(entry.worker.rpartition("-")[2]))
            return bool(found)

        wait_until(running, lambda: f"no case ever ran:\n{self.text}", 60.0)
        return found[0]

    def server(self) -> int:
        """The process id of the server of device processes."""
        mine = [pid for pid in self.processes() if _parent(pid) == self.process.pid]
        (found,) = [pid for pid in mine if "conformance.device.server" in _command(pid)]
        return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def wait_until(holds: Callable[[], bool], otherwise: Callable[[], str], seconds: float = 20.0) -> None:
    """Poll until it holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start runs; whatever is left of them after a failed test is ended."""
    runs: list[Started] = []

    def begin(*options: str, before: Callable[[], None] | None = None) -> Started:
        runs.append(Started(tmp_path / f"run-{len(runs)}", options, before))
        return runs[-1]

    yield begin
    for run in runs:
        for pid in run.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.wait()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_normal_end(workers: str, start: Callable[..., Started]) -> None:
    """A run that holds ends with status 0, its report, and nothing else."""
    run = start(f"--backend={QUICK}", "-k", FEW, "-n", workers)
    assert run.ended() == 0, run.text
    assert "2 passed" in run.text
    assert sorted(path.name for path in run.report.iterdir() if not path.name.startswith("cert")) == [
        "failures",
        "junit.xml",
        "summary.json",
    ]


def test_main_process_killed(start: Callable[..., Started]) -> None:
    """After SIGKILL of the main process everything ends, and a report made later names the case that was running."""
    run = start("--backend=tests.planted.deadly:slow", "-k", MANY, "-n", "2")
    run.running_worker()
    assert len(run.processes()) >= 5  # pytest, two workers, the server, the device process
    os.kill(run.process.pid, signal.SIGKILL)
    assert run.ended() == -signal.SIGKILL
    settings = RunSettings.loads((run.report / WORK / SETTINGS_FILE).read_text())
    report = gather(settings, exit_status=1)
    assert report.result == FAIL
    (lost,) = report.lost_cases
    assert '"backend":"tests.planted.deadly:slow"' in lost
    assert Case.from_json(json.loads(lost)["case"]).round_trip
    assert min(count.open for count in report.counts.values()) >= 1


def test_worker_killed(start: Callable[..., Started]) -> None:
    """After SIGKILL of a worker the run goes on, fails, and counts its case as drawn and never judged."""
    run = start(f"--backend={SLOW}", "-k", MANY, "-n", "2")
    os.kill(run.running_worker(), signal.SIGKILL)
    assert run.ended() == 1, run.text
    assert "1 cases were drawn and never judged: their worker died" in run.text
    counts = run.summary["counts"]
    assert isinstance(counts, list)
    assert counts
    for row in counts:
        judged = row["passed"] + row["failed"] + row["refused"] + row["not_judged"]
        assert row["drawn"] == judged + row["open"], row
        assert row["open"] == 1, row


def test_server_killed(start: Callable[..., Started]) -> None:
    """After SIGKILL of the server the tests fail soon, and say that it is gone."""
    run = start(f"--backend={SLOW}", "-k", MANY, "-n", "0")
    run.running_worker()
    os.kill(run.server(), signal.SIGKILL)
    assert run.ended(60) == 1, run.text
    assert "the server of device processes" in run.text


def _interrupt_pending(pid: int) -> bool:
    """Whether a SIGINT waits to be taken: a second one would be merged with it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & 1 << signal.SIGINT - 1)


@pytest.mark.parametrize("times", [1, 2])
def test_interrupted(times: int, start: Callable[..., Started]) -> None:
    """Ctrl-C, once or twice, ends the run at once."""
    run = start(f"--backend={SLOW}", "-k", MANY, "-n", "2")
    run.running_worker()
    for _ in range(times):
        os.killpg(run.process.pid, signal.SIGINT)
        wait_until(lambda: not _interrupt_pending(run.process.pid), lambda: "the interrupt was not taken")
    assert run.ended(30) != 0
    assert "KeyboardInterrupt" in run.text or "no tests ran" in run.text, run.text


def test_two_runs_at_once(start: Callable[..., Started]) -> None:
    """Two runs on one machine don't meet."""
    runs = [start(f"--backend={QUICK}", "-k", FEW, "-n", "0") for _ in range(2)]
    for run in runs:
        assert run.ended() == 0, run.text


def test_report_folder_that_can_not_be_made(start: Callable[..., Started]) -> None:
    """A report folder that can't be written is a usage error that names it."""
    run = start(f"--backend={QUICK}", "-k", FEW, "-n", "0", "--report=/proc/nowhere")
    assert run.ended() == pytest.ExitCode.USAGE_ERROR
    assert "--report /proc/nowhere: " in run.text
    assert "give a folder that can be written" in run.text
    assert "Traceback" not in run.text


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=False, capture_output=True)
        if made.returncode == 0:
            subprocess.run(["umount", folder], check=True)
    return made.returncode == 0


@pytest.mark.parametrize("by", ["small-tmpfs" if os.geteuid() == 0 and _can_mount() else "file-size-limit"])
def test_full_disk(by: str, start: Callable[..., Started], tmp_path: Path) -> None:
    """A report folder without room fails the run soon, by name, and the device processes end."""
    with contextlib.ExitStack() as stack:
        options, before = [], None
        if by == "small-tmpfs":
            disk = stack.enter_context(small_disk(tmp_path / "disk"))
            options = [f"--report={disk / 'report'}"]
        else:
            before = _limit_files
        run = start(f"--backend={QUICK}", "-k", FEW, "-n", "0", *options, before=before)
        assert run.ended(60) == 1, run.text
        assert "device-0.journal can't be made" in run.text
        assert "result: fail" in run.text


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_shared_memory_too_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where /dev/shm has no room, a case of shared memory is not judged, and says how much was missing."""
    honest = os.statvfs

    def full(path: str | Path) -> object:
        return type("Full", (), {"f_bavail": 1, "f_frsize": 4096}) if Path(path) == hostmap.SHM else honest(path)

    monkeypatch.setattr(os, "statvfs", full)
    tensor = Tensor(16, Pool(1, 16), Pool(1, 16), (0,), (0,))
    case = Case(Direction.LOAD, Memory.SHARED, Memory.DEVICE, (tensor,))
    verdict = Bench(DirectRunner("cpu", 0), IncidentLog(tmp_path / "incidents")).verdict(QUICK, case)
    assert verdict.kind is Kind.NOT_JUDGED
    assert "/dev/shm is too small: " in verdict.text
    assert "4096 free" in verdict.text


def test_unknown_backend(start: Callable[..., Started]) -> None:
    """A backend that nobody knows is a usage error, with the names that are known."""
    run = start("--backend=nobody", "-k", FEW, "-n", "0")
    assert run.ended() == pytest.ExitCode.USAGE_ERROR, run.text
    assert "no backend is called 'nobody'; built in: torch_copy, triton_copy, batch_dma" in run.text


def test_unknown_platform(start: Callable[..., Started]) -> None:
    """A platform that nobody knows is a usage error, with the names that are known."""
    run = start("--platform=abacus", "-k", FEW, "-n", "0")
    assert run.ended() == pytest.ExitCode.USAGE_ERROR
    assert "platform 'abacus' is unknown; known: cuda, rocm, xpu, cpu" in run.text


def test_backend_whose_import_crashes(start: Callable[..., Started]) -> None:
    """A backend that ends the process that imports it fails the run, with the signal and its last words."""
    run = start("--backend=tests.planted.deadly_import:copy", "-k", FEW, "-n", "0")
    assert run.ended() == 1, run.text
    assert "loading it ended the process: signal SIGABRT" in run.text
    assert "no such luck (planted)" in run.text
