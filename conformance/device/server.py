"""The server of device processes: loads torch once, forks one process a device, ends them, and says how they died.

Started by the run (`python -m conformance.device.server`), and gone with it: its standard input is a pipe that only
the run holds, so the run's end, a SIGKILL included, ends the server and every process below it. It opens no device
itself, since a process forked after that could use none.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from backends import platforms
from backends.platforms.contract import Platform
from conformance.device import sockets
from conformance.device.child import Child, fork
from conformance.device.protocol import AskClean, AskFate, Death, Hello, Welcome

TICK_SECONDS = 0.02
STARTS_IN_A_ROW = 3  # deaths before the first request, after which a device is given up
PATIENCE_SECONDS = 2.0  # for a process whose worker says that it hung up, to end by itself


@dataclass(frozen=True)
class Settings:
    """What the run tells its server; JSON on the command line."""

    platform: str
    address: str  # of the control socket; device i listens at `device_address`
    devices: tuple[int, ...]
    folder: str  # for journals and deaths.jsonl
    memory_bytes: int  # resident memory at which a device process is ended

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Settings:
        data = json.loads(text)
        return cls(**{**data, "devices": tuple(data["devices"])})


def device_address(address: str, index: int) -> str:
    """Where the process of device `index` listens."""
    return f"{address}/{index}"


@dataclass
class Server:
    """See the module's docstring."""

    settings: Settings
    platform: Platform
    _children: dict[int, Child] = field(default_factory=dict)
    _deaths: dict[int, Death] = field(default_factory=dict)
    _listeners: dict[int, socket.socket] = field(default_factory=dict)
    _early_deaths: dict[int, int] = field(default_factory=dict)
    _failures: dict[socket.socket, str] = field(default_factory=dict)  # of given-up devices, by listener
    _asked: list[tuple[Connection, int, float]] = field(default_factory=list)  # AskFate not answered yet
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _clean: int = 0

    def run(self, parent: int) -> None:
        """Serve until the pipe `parent` closes."""
        control = sockets.listen(self.settings.address)
        self._selector.register(control, selectors.EVENT_READ, "control")
        self._selector.register(parent, selectors.EVENT_READ, "parent")
        for index in self.settings.devices:
            self._listeners[index] = sockets.listen(device_address(self.settings.address, index))
        woken = _wake_on_child_exit()
        self._selector.register(woken, selectors.EVENT_READ, "woken")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        failure = self._preload()
        for index in self._listeners:
            if failure:
                self._give_up(index, failure)
            else:
                self._start(index)
        try:
            while self._turn():
                self._reap()
                self._watch()
        finally:
            for child in self._children.values():
                child.kill("the run ended")

    def _preload(self) -> str:
        try:
            self.platform.preload()
        except Exception as error:
            return f"platform {self.platform.name} can't be loaded: {type(error).__name__}: {error}"
        return ""

    def _turn(self) -> bool:
        """Answer whoever is ready; False when the run has ended."""
        for key, _ in self._selector.select(TICK_SECONDS):
            ready: Any = key.fileobj
            if key.data == "parent":
                if not os.read(ready, 4096):
                    return False
            elif key.data == "woken":
                with contextlib.suppress(BlockingIOError):
                    ready.recv(4096)
            elif key.data in ("control", "given up"):
                connection = sockets.accept(ready)
                if connection is not None:
                    self._selector.register(connection, selectors.EVENT_READ, self._failures.get(ready, "answer"))
            else:
                self._answer_or_close(ready, key.data)
        return True

    def _answer_or_close(self, connection: Connection, failure: str) -> None:
        try:
            message = connection.recv()
            if isinstance(message, AskFate):
                self._asked.append((connection, message.pid, time.monotonic()))
            elif isinstance(message, AskClean):
                connection.send(self._start_clean(message.index))
            elif isinstance(message, Hello):
                connection.send(Welcome(os.getpid(), None, failure=failure))
        except (EOFError, OSError):
            self._selector.unregister(connection)
            self._asked = [entry for entry in self._asked if entry[0] is not connection]
            connection.close()

    def _start(self, index: int) -> None:
        journal = Path(self.settings.folder) / f"device-{index}.journal"
        try:
            child = fork(self.platform, index, self._listeners[index], journal, single=False)
        except OSError as error:
            self._give_up(index, f"device {index}: no process, for {journal} can't be made: {error.strerror}")
        else:
            self._children[child.pid] = child

    def _start_clean(self, index: int) -> str:
        self._clean += 1
        address = f"{self.settings.address}/clean-{self._clean}"
        listener = sockets.listen(address)
        journal = Path(self.settings.folder) / f"device-{index}-clean-{self._clean}.journal"
        child = fork(self.platform, index, listener, journal, single=True)
        listener.close()
        self._children[child.pid] = child
        return address

    def _give_up(self, index: int, failure: str) -> None:
        listener = self._listeners[index]
        self._failures[listener] = failure
        self._selector.register(listener, selectors.EVENT_READ, "given up")

    def _reap(self) -> None:
        for child in list(self._children.values()):
            death = child.ended()
            if death is None:
                continue
            del self._children[child.pid]
            self._deaths[child.pid] = death
            if death.running or death.requests == 0:
                self._note(death)
            if not child.single:
                self._restart(child.index, death)
        for entry in list(self._asked):
            connection, pid, since = entry
            if pid in self._deaths:
                self._asked.remove(entry)
                with contextlib.suppress(OSError):
                    connection.send(self._deaths[pid])
            elif pid in self._children and time.monotonic() - since > PATIENCE_SECONDS:
                self._children[pid].kill("hung up on its worker and went on")

    def _restart(self, index: int, death: Death) -> None:
        early = self._early_deaths.get(index, 0) + 1 if death.requests == 0 else 0
        self._early_deaths[index] = early
        if early >= STARTS_IN_A_ROW:
            said = f": {death.output.strip().splitlines()[-1]}" if death.output.strip() else ""
            self._give_up(index, f"device {index} died {early} times at its start ({death.how}){said}")
        else:
            self._start(index)

    def _note(self, death: Death) -> None:
        with contextlib.suppress(OSError), (Path(self.settings.folder) / "deaths.jsonl").open("a") as file:
            file.write(json.dumps(asdict(death)) + "\n")

    def _watch(self) -> None:
        for child in self._children.values():
            child.watch(self.settings.memory_bytes)


def _wake_on_child_exit() -> socket.socket:
    """A socket that turns readable whenever a child ends."""
    wake, woken = socket.socketpair()
    wake.setblocking(False)
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)
    return woken


def main() -> None:
    """Entry point of the server process: settings as JSON in the only argument."""
    settings = Settings.loads(sys.argv[1])
    try:
        Server(settings, platforms.load(settings.platform)).run(sys.stdin.fileno())
    except Exception:
        traceback.print_exc()
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
