"""Start and stop the server of device processes, from the process that owns the run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from conformance.device import sockets
from conformance.device.server import Settings
from conformance.record.settings import RunSettings
from conformance.session.settings import SettingsError

STOP_SECONDS = 15.0
MEMORY_SHARE = 0.5  # of the machine's memory, over all device processes


def new_server_address(isolation: str) -> str:
    """A fresh address. Raises SettingsError where device processes can't be had."""
    if isolation == "none":
        return ""
    try:
        return sockets.new_address()
    except sockets.NoLocalSockets as error:
        raise SettingsError(str(error)) from error


@dataclass
class ServerProcess:
    """The running server. It ends when `stop` is called, and also when the starting process dies."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    @classmethod
    def start(cls, settings: RunSettings) -> ServerProcess:
        """Start it; it accepts connections at once and serves them as soon as torch is loaded."""
        return cls.launch(
            Settings(
                platform=settings.platform,
                address=settings.address,
                devices=settings.devices,
                folder=str(settings.work),
                memory_bytes=memory_limit(len(settings.devices)),
            )
        )

    @classmethod
    def launch(cls, settings: Settings) -> ServerProcess:
        """Start a server with its own settings."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        process = subprocess.Popen(
            [sys.executable, "-m", "conformance.device.server", settings.dumps()],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment(),
            start_new_session=True,
        )
        return cls(process, output)

    def stop(self) -> str:
        """End the server and its device processes; what it printed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.seek(0)
        said = self.output.read().decode(errors="replace")
        self.output.close()
        return said


def environment() -> dict[str, str]:
    """The environment of a Python process that imports what this one can import."""
    root = str(Path(__file__).parents[2])
    paths = [root, *sys.path, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def memory_limit(devices: int) -> int:
    """Resident bytes that one device process may use: KVCONFORM_MEMORY_GIB, else an even part of half the memory.

    Raises SettingsError for a value that is no amount of memory."""
    given = os.environ.get("KVCONFORM_MEMORY_GIB")
    if given:
        try:
            limit = int(float(given) * 2**30)
        except (ValueError, OverflowError):
            limit = 0
        if limit <= 0:
            raise SettingsError(f"KVCONFORM_MEMORY_GIB={given!r} is not a number of GiB above 0")
        return limit
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(total * MEMORY_SHARE / devices)
