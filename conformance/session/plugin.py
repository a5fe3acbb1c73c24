"""What `conftest.py` hands on: options, the run's start and end, and which tests there are. Holds no claim."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.claims.claim import Claim
from conformance.claims.session import Run
from conformance.commands.check_backend import wrong_name
from conformance.device.launch import ServerProcess, memory_limit, new_server_address
from conformance.record.settings import RunSettings
from conformance.report.result import Report, gather
from conformance.requirements.budgets import ClaimKind
from conformance.session import xdist_warnings
from conformance.session.header import header_lines
from conformance.session.remote_workers import move_in, pack, unpack
from conformance.session.settings import SettingsError, decide, make_folders

SETTINGS = pytest.StashKey[RunSettings]()
SERVER = pytest.StashKey[ServerProcess]()
OFFERED = pytest.StashKey[list[str]]()  # tests of claims, before any was deselected
INPUT = "kvconform"


def configure(config: pytest.Config) -> None:
    """Decide the run's settings where the run is started; take them over where it is a worker's."""
    config.addinivalue_line(
        "markers", "claim(kind): a claim that cases are drawn for; see conformance/requirements/budgets.py"
    )
    config.addinivalue_line("markers", "given: about the cases of --corpus; left out where there are none")
    given = getattr(config, "workerinput", {}).get(INPUT)
    if given:
        settings = RunSettings.loads(given)
        if settings.elsewhere:
            with usage_errors():
                settings = move_in(settings, new_server_address(settings.isolation))
        config.stash[SETTINGS] = settings
        return
    if not concerns_conformance(config):
        return
    settings = decide_settings(config)
    config.stash[SETTINGS] = settings
    if config.option.collectonly:
        return
    with usage_errors():
        check(settings)
        make_folders(settings)
    _pin_root(config)
    if not config.option.xmlpath:
        config.option.xmlpath = str(Path(settings.report) / "junit.xml")


def decide_settings(config: pytest.Config) -> RunSettings:
    option = config.option
    with usage_errors():
        return decide(
            platform=option.platform,
            backends=tuple(option.backend),
            budget=option.budget,
            report=option.report,
            seed=option.run_seed,
            isolation=option.isolation,
            floor_seconds=option.deadline,
            address=new_server_address(option.isolation),
            root=config.rootpath,
            selector=option.selector,
            corpus=tuple(option.corpus),
        )


def check(settings: RunSettings) -> None:
    """What would fail every test is told before the first. Raises SettingsError."""
    if settings.isolation == "process":
        memory_limit(len(settings.devices))
    if settings.chosen_backends and (wrong := wrong_name(settings.platform, settings.backends)):
        raise SettingsError(f"--backend: {wrong}")


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Errors in options, as pytest shows them: one line, no traceback."""
    try:
        yield
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None


def concerns_conformance(config: pytest.Config) -> bool:
    """Whether the tests asked for lie in conformance/, so that the suite's own tests start no server."""
    here = Path(__file__).parents[1]
    for argument in config.args:
        path = Path(config.invocation_params.dir, str(argument).split("::")[0]).resolve()
        if path == here or here in path.parents or path in here.parents:
            return True
    return False


def _pin_root(config: pytest.Config) -> None:
    """Tell workers which folder is the root: pytest takes a folder given to --report for one of the tests' folders."""
    pinned = f"--rootdir={config.rootpath}" + (f" -c {config.inipath}" if config.inipath else "")
    os.environ["PYTEST_ADDOPTS"] = f"{os.environ.get('PYTEST_ADDOPTS', '')} {pinned}".strip()


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def start(session: pytest.Session) -> None:
    """Start the server of device processes, once a run."""
    config = session.config
    settings = config.stash.get(SETTINGS, None)
    if settings is None or config.option.collectonly or settings.isolation == "none":
        return
    if is_worker(config) and not settings.elsewhere:
        return
    config.stash[SERVER] = ServerProcess.start(settings)


def finish(session: pytest.Session) -> int | None:
    """End the device processes, write the report; the exit status if the report says more than pytest's own."""
    config = session.config
    settings = config.stash.get(SETTINGS, None)
    if settings is None or config.option.collectonly:
        return None
    server = config.stash.get(SERVER, None)
    if server is not None:
        server.stop()
    if is_worker(config):
        if settings.elsewhere:
            worker: Any = config  # pytest-xdist gives a worker's config this attribute
            worker.workeroutput[INPUT] = pack(settings)
        return None
    report = gather(settings, exit_status=int(session.exitstatus))
    config.stash[REPORT] = report
    report.write(Path(settings.report))
    return report.exit_status


REPORT = pytest.StashKey[Report]()


def worker_input(config: pytest.Config, on_this_host: bool) -> dict[str, Any]:
    """What a worker needs to know."""
    settings = config.stash.get(SETTINGS, None)
    return {INPUT: replace(settings, elsewhere=not on_this_host).dumps()} if settings else {}


def take_back(config: pytest.Config, output: Mapping[str, Any], worker: str) -> None:
    """Take over what a worker on another host wrote down."""
    if INPUT in output:
        unpack(output[INPUT], config.stash[SETTINGS], worker)


def header(config: pytest.Config) -> list[str]:
    settings = config.stash.get(SETTINGS, None)
    return [*header_lines(settings), *xdist_warnings.warnings(config)] if settings else []


def summarise(terminal: pytest.TerminalReporter) -> None:
    report = terminal.config.stash.get(REPORT, None)
    if report is not None:
        terminal.section("kvconform")
        for line in [*xdist_warnings.warnings(terminal.config), *report.lines()]:
            terminal.write_line(line)


def make_claims(metafunc: pytest.Metafunc) -> None:
    """One test a backend and shard for every function marked with a claim."""
    marker = metafunc.definition.get_closest_marker("claim")
    if marker is None:
        return
    kind: ClaimKind = marker.args[0]
    settings = metafunc.config.stash[SETTINGS]
    names = kind.subjects or settings.backends
    shards = [(kind, name, shard) for shard in range(kind.shards) for name in names]
    ids = [f"{name}-{shard}" if kind.shards > 1 else name for _, name, shard in shards]
    metafunc.parametrize("claim", shards, ids=ids, indirect=True)


def arrange(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Listed cases come first: what failed before is known soonest. Tests of --corpus go where none is given."""
    settings = config.stash.get(SETTINGS, None)
    config.stash[OFFERED] = [item.nodeid for item in items if _to_count(item)]
    idle = [item for item in items if item.get_closest_marker("given") and not (settings and settings.corpus)]
    if idle:
        config.hook.pytest_deselected(items=idle)
    items[:] = [item for item in items if item not in idle]
    items.sort(key=lambda item: item.path.name != "test_corpus.py")


def _to_count(item: pytest.Item) -> bool:
    return item.get_closest_marker("claim") is not None and item.get_closest_marker("given") is None


def open_run(config: pytest.Config, items: list[pytest.Item]) -> Iterator[Run]:
    """The run, for as long as this process runs tests."""
    tests = [item.nodeid for item in items if item.get_closest_marker("claim")]
    run = Run(config.stash[SETTINGS], os.environ.get("PYTEST_XDIST_WORKER", "main"))
    offered = config.stash[OFFERED]
    run.collected(tests, sorted(set(offered) - set(tests)))
    yield run
    run.close()


def open_claim(run: Run, test: str, param: tuple[ClaimKind, str, int]) -> Iterator[Claim]:
    """The claim of one test; that it ended is noted, however it ends."""
    kind, backend, shard = param
    begun = time.monotonic()
    yield Claim(run, kind, backend, shard)
    run.ended(test, backend, time.monotonic() - begun)


def workers(config: pytest.Config) -> int | None:
    """How many workers `-n auto` starts: one a usable core, and half as many again where copies run on an accelerator,
    since a worker waits for its device for a third of the time."""
    settings = config.stash.get(SETTINGS, None)
    if settings is None:
        return None
    cores = len(os.sched_getaffinity(0))
    return cores if settings.platform == "cpu" else cores + cores // 2
