"""Options and fixtures of the suite. What they do is in conformance/session/plugin.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conformance.claims.claim import Claim
from conformance.claims.session import Run
from conformance.session import plugin
from conformance.session.options import add_options


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    plugin.configure(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    plugin.start(session)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput.update(plugin.worker_input(node.config, on_this_host=node.gateway.spec.popen))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    plugin.take_back(node.config, getattr(node, "workeroutput", {}), node.gateway.id)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    return plugin.workers(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return plugin.header(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    plugin.make_claims(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    plugin.arrange(config, items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    status = plugin.finish(session)
    if status is not None:
        session.exitstatus = status


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    plugin.summarise(terminalreporter)


@pytest.fixture(scope="session")
def kvconform_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """This worker's part of the run."""
    yield from plugin.open_run(request.config, request.session.items)


@pytest.fixture
def claim(request: pytest.FixtureRequest, kvconform_run: Run) -> Iterator[Claim]:
    """One shard of a claim about one backend."""
    yield from plugin.open_claim(kvconform_run, request.node.nodeid, request.param)
