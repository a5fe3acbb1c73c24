"""A worker's side of a device process: send a case, get evidence, whatever becomes of the process.

When the process dies, its server is asked how. If it was running this worker's case, that death is the evidence; if it
was somebody else's, the case is sent again to the process that follows. Imports no torch.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import reduction
from multiprocessing.connection import Connection

import numpy as np

from backends.contract import Device, Support
from conformance.device import sockets
from conformance.device.images import SharedImages
from conformance.device.protocol import (
    LOADING,
    AskClean,
    AskFate,
    Buffer,
    Death,
    Describe,
    Description,
    Do,
    Hello,
    Run,
    Welcome,
)
from conformance.device.runner import BackendUnavailable, DeviceUnavailable, deadline_seconds
from conformance.device.server import device_address
from conformance.device.task import Result, Task
from conformance.execution.prepared import Job, prepare
from conformance.judge.evidence import Evidence, Outcome
from conformance.judge.fill import Images
from strategies.case import Case

CONNECT_SECONDS = 180.0  # for a server that still loads torch
GONE_SECONDS = 2.0  # for a server that has answered before: it listens as long as it lives
SETTLE_SECONDS = 0.3  # in a clean process, for an error that surfaces late
FIRST_CASE_SECONDS = 60.0  # more for a backend's first case in a process: kernels are compiled then
FIRST_CASE_SLACK = 4.0  # once a first case has ended, later ones get so many times what it took


@dataclass(repr=False)  # what is being done is not worth a look, and `_job` may not be there
class DeviceClient:
    """One worker's access to one device. Opens on first use; `close` when done."""

    address: str  # of the server's control socket
    index: int
    worker: str
    floor_seconds: float  # the shortest deadline of a case
    restarts: int = 0  # device processes this worker's cases have cost
    _channel: _Channel | None = None
    _buffer: SharedImages = field(default_factory=SharedImages)
    _supports: dict[str, Support] = field(default_factory=dict)
    _ticket: int = 0
    _patience: float = CONNECT_SECONDS  # for the server
    _answered: int = 0  # the latest ticket that was answered
    _first_case: dict[str, float] = field(default_factory=dict)  # seconds more for a backend's first case
    _job: Job = field(init=False)

    @property
    def device(self) -> Device:
        """The device's facts. Raises DeviceUnavailable."""
        return self._open().device

    def support(self, backend: str) -> Support:
        """What the backend declares on this device. Raises BackendUnavailable and DeviceUnavailable."""
        while backend not in self._supports:
            channel = self._open()
            try:
                self._supports[backend] = channel.describe(backend)
            except (EOFError, OSError):
                self._blame_loading(self._mourn(channel), backend)
        return self._supports[backend]

    def lay_out(self, case: Case) -> Images:
        """Put the case's descriptors into the memory shared with the device process; its images lie there too."""
        self._job, offsets = prepare(case)
        images, room = self._buffer.room(*self._job.sizes)
        np.copyto(room.source, offsets.source)
        np.copyto(room.destination, offsets.destination)
        np.copyto(room.sizes, offsets.sizes)
        return images

    def run(self, backend: str, case: Case) -> Evidence:
        """Run a case in the device's process, and again in the next one if another worker's case ended this one."""
        self.support(backend)
        while True:
            channel = self._open()
            try:
                channel.describe(backend)
                return self._run_on(channel, backend, case, 0.0)
            except (EOFError, OSError):
                death = self._mourn(channel)
                self._blame_loading(death, backend)
                if (death.worker, death.ticket) == (self.worker, self._ticket) and self._ticket != self._answered:
                    self.restarts += 1
                    if death.hang:
                        self._first_case.setdefault(backend, 0.0)
                    return _evidence(death)
                if (death.worker, death.ticket) == (self.worker, self._answered) and _broke_idle(death):
                    self.restarts += 1
                    return replace(_evidence(death), serial=death.cases + 1)

    def run_clean(self, backend: str, case: Case) -> Evidence:
        """The same in a process of its own that has run nothing before, with a look at the device some time later."""
        with self._clean() as channel:
            try:
                channel.describe(backend)
                return self._run_on(channel, backend, case, SETTLE_SECONDS)
            except (EOFError, OSError):
                return _evidence(self._fate(channel.pid))

    def perform(self, task: Task) -> Result:
        """Do a task in the device's process, and again in the next one if another worker's case ended this one."""
        while True:
            channel = self._open()
            try:
                return self._perform_on(channel, task)
            except (EOFError, OSError):
                death = self._mourn(channel)
                if (death.worker, death.ticket) == (self.worker, self._ticket):
                    self.restarts += 1
                    return _result(death)

    def perform_clean(self, task: Task) -> Result:
        """The same in a process of its own that has done nothing before."""
        with self._clean() as channel:
            try:
                return self._perform_on(channel, task)
            except (EOFError, OSError):
                return _result(self._fate(channel.pid))

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _run_on(self, channel: _Channel, backend: str, case: Case, settle: float) -> Evidence:
        self._ticket += 1
        channel.share(self._buffer)
        job, support = self._job, self._supports[backend]
        deadline = deadline_seconds(job, support, channel.bandwidth, self.floor_seconds) + settle
        text = f'{{"backend":{json.dumps(backend)},"case":{case.dumps()}}}'
        first = backend not in channel.warm
        if first:
            channel.warm.add(backend)
            deadline += self._first_case.get(backend, FIRST_CASE_SECONDS)
        evidence = channel.run(Run(self._ticket, backend, job, text, deadline, settle))
        self._answered = self._ticket
        if evidence.first:
            took = FIRST_CASE_SLACK * sum(evidence.seconds.values())
            self._first_case[backend] = max(took, self._first_case.get(backend, 0.0))
        return evidence

    def _perform_on(self, channel: _Channel, task: Task) -> Result:
        self._ticket += 1
        text = json.dumps({"task": task.function, "arguments": dict(task.arguments)})
        result = channel.perform(Do(self._ticket, task, text))
        self._answered = self._ticket
        return result

    def _open(self) -> _Channel:
        """The channel to the process that serves the device now; a process that dies meanwhile is waited out."""
        give_up = time.monotonic() + CONNECT_SECONDS
        while self._channel is None:
            try:
                self._channel = _Channel(device_address(self.address, self.index), self.worker, self._patience)
                self._patience = GONE_SECONDS
            except (EOFError, OSError) as error:
                if time.monotonic() > give_up:
                    raise DeviceUnavailable(f"device {self.index}: its process does not answer ({error})") from error
        return self._channel

    def _blame_loading(self, death: Death, backend: str) -> None:
        """Raise BackendUnavailable if the process died of loading this worker's backend."""
        if death.running and death.worker == self.worker and death.ticket == LOADING:
            raise BackendUnavailable(f"backend {backend}: loading it ended the process: {death.how}\n{death.output}")

    @contextmanager
    def _clean(self) -> Iterator[_Channel]:
        control = _connect(self.address, self._patience)
        try:
            control.send(AskClean(self.index))
            try:
                address = control.recv()
            except (EOFError, OSError) as error:
                said = "the server can't start another device process; see the disk of the report"
                raise DeviceUnavailable(said) from error
            channel = _Channel(address, self.worker, GONE_SECONDS)
            try:
                yield channel
            finally:
                channel.close()
        finally:
            control.close()

    def _mourn(self, channel: _Channel) -> Death:
        """The process behind `channel` hung up: forget it and learn how it ended."""
        self.close()
        return self._fate(channel.pid)

    def _fate(self, pid: int) -> Death:
        control = _connect(self.address, GONE_SECONDS)
        try:
            control.send(AskFate(pid))
            death: Death = control.recv()
            return death
        except (EOFError, OSError) as error:
            raise DeviceUnavailable(f"the server of device processes is gone ({error or 'it hung up'})") from error
        finally:
            control.close()


class _Channel:
    """A connection to one device process."""

    def __init__(self, address: str, worker: str, patience: float) -> None:
        self._connection = _connect(address, patience)
        self._shared = -1
        self._known: dict[str, Support] = {}
        self.warm: set[str] = set()  # backends whose kernels may be compiled already
        self._connection.send(Hello(worker))
        welcome = self._connection.recv()
        assert isinstance(welcome, Welcome)
        self.pid = welcome.pid
        if welcome.device is None:
            self.close()
            raise DeviceUnavailable(welcome.failure)
        self.device = welcome.device
        self.bandwidth = welcome.bandwidth

    def describe(self, backend: str) -> Support:
        """What the backend declares; asked once a process."""
        if backend not in self._known:
            self._known[backend] = self._ask(backend)
        return self._known[backend]

    def _ask(self, backend: str) -> Support:
        self._connection.send(Describe(backend, json.dumps({"loading": backend})))
        answer = self._connection.recv()
        assert isinstance(answer, Description)
        if answer.support is None:
            raise BackendUnavailable(answer.failure)
        return answer.support

    def run(self, run: Run) -> Evidence:
        self._connection.send(run)
        evidence = self._connection.recv()
        assert isinstance(evidence, Evidence)
        return evidence

    def perform(self, do: Do) -> Result:
        self._connection.send(do)
        result = self._connection.recv()
        assert isinstance(result, Result)
        return result

    def share(self, buffer: SharedImages) -> None:
        """Send the buffer's file, unless this process has it already."""
        if self._shared != buffer.descriptor:
            self._connection.send(Buffer(buffer.nbytes))
            reduction.send_handle(self._connection, buffer.descriptor, self.pid)
            self._shared = buffer.descriptor

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()


def _connect(address: str, patience: float) -> Connection:
    give_up = time.monotonic() + patience
    while True:
        try:
            return sockets.connect(address)
        except ConnectionRefusedError as error:
            if time.monotonic() > give_up:
                raise DeviceUnavailable(
                    "the server of device processes does not answer; see its output above"
                ) from error
            time.sleep(0.02)


def _broke_idle(death: Death) -> bool:
    """Whether a process died by itself after its last request, which is then to blame: a process that the device's
    error ended goes with status 0."""
    return not death.running and death.how != "exit status 0"


def _evidence(death: Death) -> Evidence:
    outcome = Outcome.HANG if death.hang else Outcome.FAULT
    return Evidence(
        outcome, text=death.how, output=death.output, pid=death.pid, serial=death.cases, previous=death.previous
    )


def _result(death: Death) -> Result:
    return Result(fault=death.how, hang=death.hang, output=death.output)
