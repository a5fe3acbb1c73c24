"""A platform and its devices for a command: through device processes of its own, or in this process."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance.commands import CommandError
from conformance.device.case_runner import Bench
from conformance.device.client import DeviceClient
from conformance.device.direct import DirectRunner
from conformance.device.launch import ServerProcess, memory_limit, new_server_address
from conformance.device.runner import DeviceUnavailable, Runner
from conformance.device.server import Settings
from conformance.record.incidents import IncidentLog
from conformance.session.settings import FLOOR_SECONDS, SettingsError, check_deadline, choose_platform

WORKER = "kvconform"


@dataclass
class Machine:
    """The devices of one platform, each opened when it is asked for."""

    platform: str
    devices: tuple[int, ...]
    folder: Path  # for journals and incidents
    address: str  # of the server of device processes; "" without one
    floor_seconds: float
    _benches: dict[int, Bench] = field(default_factory=dict)

    def require(self, index: int) -> None:
        """Raises CommandError where there is no device `index`."""
        if index not in self.devices:
            known = ", ".join(map(str, self.devices))
            raise CommandError(
                f"--device {index}: {self.platform} has only device{'s'[: len(self.devices) > 1]} {known}"
            )

    def runner(self, index: int) -> Runner:
        """What runs cases on device `index`."""
        return self.bench(index).runner

    def bench(self, index: int) -> Bench:
        """The way from a case to its verdict on device `index`."""
        if index not in self._benches:
            runner: Runner = DirectRunner(self.platform, index)
            if self.address:
                runner = DeviceClient(self.address, index, WORKER, self.floor_seconds)
            self._benches[index] = Bench(runner, self.incidents)
        return self._benches[index]

    @property
    def incidents(self) -> IncidentLog:
        return IncidentLog(self.folder / "incidents.jsonl")

    def close(self) -> None:
        for bench in self._benches.values():
            bench.runner.close()


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """--platform and --isolation, as pytest takes them."""
    parser.add_argument("--platform", metavar="NAME", help="cpu, cuda, rocm, xpu, or one of an installed package")
    parser.add_argument(
        "--isolation",
        choices=("process", "none"),
        default="process",
        help="process: the device is opened in a process of its own; none: in this one, for debuggers, sanitizers and "
        "profilers (default: process)",
    )


@contextlib.contextmanager
def machine(platform: str | None, isolation: str, floor_seconds: float = FLOOR_SECONDS) -> Iterator[Machine]:
    """A platform, the best one present if none is named; its processes and files are gone afterwards.

    Raises CommandError where the platform or one of its devices can't be used."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvconform-")))
        try:
            check_deadline(floor_seconds)
            name, devices = choose_platform(platform)
            address = new_server_address(isolation)
            if address:
                limit = memory_limit(len(devices))
                server = ServerProcess.launch(Settings(name, address, devices, str(folder), limit))
                stack.callback(server.stop)
            found = Machine(name, devices, folder, address, floor_seconds)
            stack.callback(found.close)
            yield found
        except (SettingsError, DeviceUnavailable) as error:
            raise CommandError(str(error)) from error
