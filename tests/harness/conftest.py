"""What the harness's own tests share: one server of a CPU device process for the whole session, and benches on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.device.case_runner import Bench
from conformance.device.client import DeviceClient
from conformance.record.incidents import IncidentLog
from tests.planted.hunting import device_server


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that server keeps its journals and deaths."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def server_address(server_folder: Path) -> Iterator[str]:
    """The address of a server of device processes."""
    with device_server(server_folder) as address:
        yield address


@pytest.fixture(scope="session")
def client(server_address: str) -> Iterator[DeviceClient]:
    """A worker's access to the device, with a deadline that no test reaches."""
    client = DeviceClient(server_address, 0, "patient", 20.0)
    yield client
    client.close()


@pytest.fixture
def bench(client: DeviceClient, tmp_path: Path) -> Bench:
    """A bench on the device, with a list of incidents of its own."""
    return Bench(client, IncidentLog(tmp_path / "incidents.jsonl"))
