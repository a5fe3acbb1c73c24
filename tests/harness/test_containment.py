"""What takes a process down, hangs or leaves a mess is contained, named and shrunk, and blamed on nobody else.

Every deadly copy runs on a server of its own, with a short deadline; beside it, on the same device, a healthy one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from some_cases import load

from conformance.device.case_runner import Bench
from conformance.device.runner import BackendUnavailable
from conformance.judge.verdict import Kind, Verdict
from conformance.record import failures
from conformance.requirements import copies as req
from conformance.search.search import SHRINK_BREAKS, Failure, Plan, search
from strategies.case import Case
from tests.planted.deadly import TRIGGER
from tests.planted.hunting import bench_at, device_server

DEADLINE = 0.3  # seconds
HEALTHY = "tests.planted.wrong:plain_loop"
HARMLESS, HARMFUL = load(TRIGGER // 2), load(2 * TRIGGER)
DEATHS = {
    "segfault": "signal SIGSEGV",
    "kills_itself": "signal SIGKILL",
    "exits": "exit status 3",
    "aborts": "signal SIGABRT",
    "closes_descriptors": "exit status 70",
    "prints_much_and_dies": "signal SIGSEGV",
}
HANGS = ("loop", "pause", "pause_with_lock", "deadlock")
RAISES = {
    "system_exit": "SystemExit: has had enough",
    "raises_unpicklable": "_Unpicklable: holds what can't be pickled",
    "raises_unprintable": "_Unprintable: (its text can't be printed)",
    "raises_base_exception": "_Base: not an Exception at all",
    "raises_keyboard_interrupt": "KeyboardInterrupt: pressed by nobody",
}


def deadly(name: str) -> str:
    return f"tests.planted.deadly:{name}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose device processes may use 1 GiB."""
    with device_server(tmp_path_factory.mktemp("contained"), memory_bytes=1 << 30) as address:
        yield address


@pytest.fixture
def hasty(address: str, tmp_path: Path) -> Iterator[Bench]:
    """A bench with a short deadline, on which the healthy copy has run."""
    with bench_at(address, tmp_path, DEADLINE) as bench:
        assert bench.verdict(HEALTHY, HARMLESS).kind is Kind.PASSED
        yield bench


def shrunk(bench: Bench, backend: str, between: bool = True) -> Failure:
    """What becomes of a listed example that harms, as a claim would do it; healthy cases run `between` its cases."""

    def run(case: Case) -> Verdict:
        verdict = bench.verdict(backend, case)
        if not between:
            return verdict
        healthy = bench.verdict(HEALTHY, case)
        assert healthy.kind in (Kind.PASSED, Kind.NOT_JUDGED), healthy  # shrinking tries memory that a CPU has not
        return verdict

    assert bench.verdict(backend, HARMLESS).kind is Kind.PASSED
    examples = [("harmless", HARMLESS), ("harmful", HARMFUL)]
    failure = search(st.nothing(), Plan(0, 0, None), run, examples=examples)
    assert failure is not None
    assert failure.name == "harmful"
    return failure


def smallest(failure: Failure) -> None:
    """The case is as small as the trigger allows."""
    tensor = failure.case.tensors[0]
    assert (failure.case.descriptors, tensor.page_bytes) == (1, TRIGGER), failure.case.dumps()


@pytest.mark.parametrize("name", DEATHS)
def test_death_is_a_verdict(name: str, hasty: Bench) -> None:
    """A copy that ends its process fails SURVIVE-FAULT with the signal or status, shrinks, and harms no other case."""
    failure = shrunk(hasty, deadly(name))
    assert failure.verdict.kind is Kind.FAULT
    assert failure.verdict.findings[0].requirement == req.FAULT
    assert failure.verdict.findings[0].sentence == f"the process that ran the case died: {DEATHS[name]}"
    smallest(failure)
    assert hasty.runner.restarts <= SHRINK_BREAKS
    assert hasty.incidents.read() == []


def test_what_it_printed_is_told(hasty: Bench) -> None:
    """The last lines that a dying process printed are in the finding, however many there were before."""
    assert hasty.verdict(deadly("aborts"), HARMFUL).findings[0].details == (
        "printed: double free or corruption (planted)",
    )
    details = hasty.verdict(deadly("prints_much_and_dies"), HARMFUL).findings[0].details
    assert len(details) == 5
    assert details[-1] == "printed: the last words"


@pytest.mark.parametrize("name", HANGS)
def test_hang_is_a_verdict(name: str, hasty: Bench) -> None:
    """A copy that never returns fails SURVIVE-HANG after the deadline, in Python, in C, with or without the lock."""
    begun = time.monotonic()
    failure = shrunk(hasty, deadly(name), between=False)
    assert hasty.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED
    assert failure.verdict.kind is Kind.HANG
    assert failure.verdict.findings[0].requirement == req.HANG
    assert failure.verdict.findings[0].sentence.startswith("the case did not end: no answer within ")
    smallest(failure)
    print(f"{failure.shrinking} runs, {hasty.runner.restarts} restarts, {time.monotonic() - begun:.1f} s")
    assert time.monotonic() - begun < 45
    assert hasty.incidents.read() == []


@pytest.mark.parametrize("name", RAISES)
def test_strange_exception_is_a_verdict(name: str, hasty: Bench) -> None:
    """Whatever a copy raises is told in words, and costs no process."""
    failure = shrunk(hasty, deadly(name))
    assert failure.verdict.kind is Kind.ERROR
    assert failure.verdict.findings[0].requirement == req.DECLARED
    assert failure.verdict.findings[0].sentence.endswith(RAISES[name])
    smallest(failure)
    assert hasty.runner.restarts == 0


def test_memory_is_limited(address: str, tmp_path: Path) -> None:
    """A copy that eats memory is ended at the limit, which the finding names."""
    with bench_at(address, tmp_path, floor_seconds=20.0) as bench:
        verdict = bench.verdict(deadly("exhausts_memory"), HARMFUL)
        assert verdict.kind is Kind.FAULT
        assert "GiB of memory, more than the limit of 1.0 GiB" in verdict.findings[0].sentence
        assert bench.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED


@pytest.mark.parametrize("name", ["prints_much", "leaves_threads", "leaves_a_process"])
def test_mess_without_harm_passes(name: str, hasty: Bench) -> None:
    """Megabytes of output, threads and processes left behind are no failure, and change nobody's result."""
    for _ in range(3):
        assert hasty.verdict(deadly(name), HARMFUL).kind is Kind.PASSED
        assert hasty.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED
    assert hasty.runner.restarts == 0


def test_nothing_outlives_the_server(tmp_path: Path) -> None:
    """A process that a copy has left behind ends with the server."""
    with device_server(tmp_path) as address, bench_at(address, tmp_path) as bench:
        assert bench.verdict(deadly("leaves_a_process"), HARMFUL).kind is Kind.PASSED
        token = address.lstrip("\0")
        assert len(processes_of(token)) >= 3  # the server, its device process, what that left behind
    wait_until(lambda: not processes_of(token), "processes are left")


def test_crash_in_the_next_case_is_blamed_on_its_cause(hasty: Bench) -> None:
    """When a case's damage kills the process in the next one, that one passes and an incident proves the culprit."""
    assert hasty.verdict(deadly("crashes_later"), HARMFUL).kind is Kind.PASSED
    innocent = hasty.verdict(deadly("slow"), load(24))
    assert innocent.kind is Kind.PASSED, innocent.findings
    (incident,) = hasty.incidents.read()
    assert incident.text == "signal SIGSEGV"
    assert (incident.met_by, incident.suspect, incident.proved) == (deadly("slow"), deadly("crashes_later"), True)
    assert Case.from_json(incident.suspect_case or {}) == HARMFUL
    assert incident.sentence() == (
        "signal SIGSEGV, met by a case of tests.planted.deadly:slow that passes alone; caused by the case of "
        "tests.planted.deadly:crashes_later before it, which breaks a clean process too"
    )


def test_crash_between_cases_is_blamed_on_the_case_before(hasty: Bench, address: str) -> None:
    """When a process dies while nobody uses it, the next case passes and an incident proves who ran last."""
    assert hasty.verdict(deadly("crashes_later"), HARMFUL).kind is Kind.PASSED
    time.sleep(0.5)  # more than the damage takes; nothing can be asked meanwhile without ending the idleness
    innocent = hasty.verdict(HEALTHY, load(24))
    assert innocent.kind is Kind.PASSED, innocent.findings
    (incident,) = hasty.incidents.read()
    assert (incident.met_by, incident.suspect, incident.proved) == (HEALTHY, deadly("crashes_later"), True)


def test_other_workers_cases_run_again(address: str, tmp_path: Path, hasty: Bench) -> None:
    """A worker whose device process another worker has ended gets its right result from the next process."""
    with bench_at(address, tmp_path, DEADLINE, worker="another") as other:
        assert other.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED
        assert hasty.verdict(deadly("segfault"), HARMFUL).kind is Kind.FAULT
        assert other.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED
        assert other.runner.restarts == 0
        assert other.incidents.read() == []


def test_import_that_ends_the_process_is_an_unavailable_backend(hasty: Bench) -> None:
    """A module that aborts while it is imported is named with its last words, and the device goes on."""
    with pytest.raises(BackendUnavailable) as caught:
        hasty.verdict("tests.planted.deadly_import:copy", HARMLESS)
    assert "loading it ended the process: signal SIGABRT" in str(caught.value)
    assert "no such luck (planted)" in str(caught.value)
    assert hasty.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED


def test_saved_crash_replays(hasty: Bench, tmp_path: Path) -> None:
    """A crash saved to a file is the same crash when the file is read and run again."""
    backend = deadly("segfault")
    verdict = hasty.verdict(backend, HARMFUL)
    saved = failures.save(tmp_path, backend, HARMFUL, verdict, "a CPU")
    assert failures.backend_of(saved) == backend
    assert hasty.verdict(backend, Case.load(saved), clean=True) == verdict
    assert Verdict.from_json(json.loads(saved.read_text())["verdict"]) == verdict


def test_restart_takes_less_than_half_a_second(hasty: Bench) -> None:
    """After a crash the next case has its result within the half second that a restart may take, at best of five."""
    seconds = []
    for _ in range(5):
        hasty.verdict(deadly("segfault"), HARMFUL)
        begun = time.monotonic()
        assert hasty.verdict(HEALTHY, HARMLESS).kind is Kind.PASSED
        seconds.append(time.monotonic() - begun)
    print(f"restart and one case: {min(seconds):.3f} s at best, {max(seconds):.3f} s at worst")
    assert min(seconds) < 0.5


def processes_of(token: str) -> list[int]:
    """Processes whose command line holds `token`: forked ones keep their server's."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if token in (entry / "cmdline").read_bytes().decode(errors="replace").replace("\\u0000", "\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(holds: Callable[[], bool], otherwise: str, seconds: float = 20.0) -> None:
    """Poll until it holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


def test_a_server_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    """After SIGKILL of the server no device process is left."""
    with device_server(tmp_path) as address, bench_at(address, tmp_path) as bench:
        assert bench.verdict(HEALTHY, HARMFUL).kind is Kind.PASSED
        token = address.lstrip("\0")
        (server,) = [pid for pid in processes_of(token) if _parent(pid) == os.getpid()]
        os.kill(server, 9)
        wait_until(lambda: set(processes_of(token)) <= {server}, "a device process is left")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
