"""Tests that need a CUDA device. On other machines they are left out, and the summary says so.

Nobody has to remember to run them: `make certify` on a machine with a GPU does the suite itself, and
`pytest -W error tests/on_cuda` these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import platforms
from conformance.device.case_runner import Bench
from conformance.device.client import DeviceClient
from conformance.record.incidents import IncidentLog
from tests.planted.hunting import device_server

MISSING = platforms.load("cuda").missing()
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str:
    return f"tests/on_cuda: {'left out: ' + MISSING if MISSING else 'run on this device'}"


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its journals and deaths."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def client(server_folder: Path) -> Iterator[DeviceClient]:
    """A worker's access to CUDA device 0."""
    with device_server(server_folder, memory_bytes=16 << 30, platform="cuda") as address:
        client = DeviceClient(address, 0, "tests", 1.5)
        yield client
        client.close()


@pytest.fixture
def bench(client: DeviceClient, tmp_path: Path) -> Bench:
    """A bench on the device."""
    return Bench(client, IncidentLog(tmp_path / "incidents.jsonl"))
