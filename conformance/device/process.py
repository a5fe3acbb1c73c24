"""Inside a device process: open the device, load backends, run one request after another.

Forked from the server, so torch is loaded already. A backend may do anything here: what it raises is evidence, and
when it takes the process down the server says so.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import socket
import time
from dataclasses import dataclass, field, replace
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import NoReturn

import numpy as np

from backends import registry, running
from backends.contract import Backend, Device, Memory, Support
from backends.platforms.contract import OpenDevice, Platform
from conformance.device import images, sockets
from conformance.device.protocol import LOADING, Buffer, Describe, Description, Do, Hello, Run, Welcome
from conformance.device.task import Result, Tools, perform
from conformance.execution.executor import Executor
from conformance.judge.evidence import Evidence
from conformance.record.journal import Journal

DESCRIBE_SECONDS = 120.0  # to import a backend
BANDWIDTH_BYTES = 8 << 20


@dataclass
class _Worker:
    name: str = ""
    buffer: mmap.mmap | None = None


@dataclass
class DeviceProcess:
    """Serves every worker that connects to `listener`, one request at a time; returns when it must be replaced.

    With `single`, it serves one connection and returns when that closes.
    """

    platform: Platform
    index: int
    listener: socket.socket
    journal: Journal
    single: bool = False
    _workers: dict[Connection, _Worker] = field(default_factory=dict)
    _backends: dict[str, Backend] = field(default_factory=dict)
    _latest: str = ""  # the backend of the case before
    _ran: set[str] = field(default_factory=set)  # backends that have run a case

    def serve(self) -> str:
        """Run until the device is in error (returns its text) or, with `single`, until the connection closes."""
        device, failure = _open(self.platform, self.index)
        executor = Executor(device) if device is not None else None
        welcome = (
            Welcome(os.getpid(), None, failure=failure)
            if device is None
            else Welcome(os.getpid(), device.facts, _bandwidth(device))
        )
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is self.listener:
                    connection = sockets.accept(self.listener)
                    if connection is not None:
                        self._workers[connection] = _Worker()
                        selector.register(connection, selectors.EVENT_READ)
                        if self.single:
                            selector.unregister(self.listener)
                    continue
                connection = key.fileobj  # type: ignore[assignment]
                assert isinstance(connection, Connection)
                try:
                    poisoned = self._answer(connection, welcome, executor)
                except (EOFError, OSError):
                    selector.unregister(connection)
                    connection.close()
                    del self._workers[connection]
                    if self.single:
                        return ""
                    continue
                if poisoned:
                    return poisoned

    def _answer(self, connection: Connection, welcome: Welcome, executor: Executor | None) -> str | None:
        """Answer one message; the text of the device's error if this process is of no more use."""
        worker = self._workers[connection]
        message = connection.recv()
        if isinstance(message, Hello):
            worker.name = message.worker
            connection.send(welcome)
        elif isinstance(message, Buffer):
            descriptor = reduction.recv_handle(connection)
            worker.buffer = mmap.mmap(descriptor, message.nbytes)
            os.close(descriptor)
        elif isinstance(message, Describe):
            self.journal.begin(worker.name, LOADING, message.text, DESCRIBE_SECONDS, case=False)
            connection.send(self._describe(message.backend, welcome.device))
            self.journal.end()
        elif isinstance(message, Run):
            assert executor is not None
            evidence = self._run(worker, message, executor)
            connection.send(evidence)
            return evidence.poisoned
        elif isinstance(message, Do):
            assert executor is not None
            result = self._do(worker, message, executor)
            connection.send(result)
            return result.fault
        return None

    def _describe(self, name: str, device: Device | None) -> Description:
        assert device is not None
        backend, failure = (self._backends.get(name), "")
        if backend is None:
            backend, failure = _load(name)
        if backend is None:
            return Description(name, None, failure)
        support, failure = _declared(backend, device)
        if support is not None:
            self._backends[name] = backend
        return Description(name, support, failure)

    def _run(self, worker: _Worker, run: Run, executor: Executor) -> Evidence:
        assert worker.buffer is not None
        self.journal.begin(worker.name, run.ticket, run.text, run.deadline_seconds)
        contents, offsets = images.views(worker.buffer, *run.job.sizes)
        evidence = executor.execute(self._backends[run.backend], run.job, contents, offsets)
        evidence = replace(evidence, after=self._latest, first=run.backend not in self._ran)
        self._latest = run.backend
        self._ran.add(run.backend)
        if run.settle_seconds and not evidence.poisoned:
            time.sleep(run.settle_seconds)
            evidence = replace(evidence, poisoned=_late_error(executor.device))
        if evidence.poisoned:
            evidence = replace(evidence, previous=self.journal.read().previous)
        self.journal.end()
        return evidence

    def _do(self, worker: _Worker, message: Do, executor: Executor) -> Result:
        self.journal.begin(worker.name, message.ticket, message.text, message.task.seconds, case=False)
        result = perform(message.task, Tools(executor, self._loaded))
        self.journal.end()
        return result

    def _loaded(self, name: str) -> Backend:
        if name not in self._backends:
            self._backends[name] = registry.load(name)
        return self._backends[name]


def run_forever(process: DeviceProcess) -> NoReturn:
    """Serve, then end this process at once: whatever threads a backend left behind don't keep it."""
    process.serve()
    os._exit(0)


def _open(platform: Platform, index: int) -> tuple[OpenDevice | None, str]:
    running.use_platform(platform.name)
    try:
        return platform.open(index), ""
    except Exception as error:
        return None, f"{platform.name} device {index} can't be opened: {type(error).__name__}: {error}"


def _bandwidth(device: OpenDevice) -> float:
    """Bytes a second of a write and a read back of device memory."""
    region = device.map(Memory.DEVICE, BANDWIDTH_BYTES)
    data = np.ones(BANDWIDTH_BYTES, np.uint8)
    begun = time.perf_counter()
    device.write(Memory.DEVICE, region.address, data)
    device.read(Memory.DEVICE, region.address, data)
    seconds = time.perf_counter() - begun
    device.unmap(region)
    return 2 * BANDWIDTH_BYTES / seconds


def _load(name: str) -> tuple[Backend | None, str]:
    try:
        return registry.load(name), ""
    except BaseException as error:  # an import may raise anything, SystemExit included
        return None, f"backend {name}: {type(error).__name__}: {error}"


def _declared(backend: Backend, device: Device) -> tuple[Support | None, str]:
    """The declaration as plain data, so that nothing of the backend's own decides in a worker."""
    try:
        support = backend.support(device)
        if type(support) is not Support:
            given = type(support).__name__
            return None, f"backend {backend.name}: support() gave {given}, not a backends.contract.Support"
        return Support.from_json(json.loads(json.dumps(support.to_json()))), ""
    except BaseException as error:
        return None, f"backend {backend.name}: support() can't be used: {type(error).__name__}: {error}"


def _late_error(device: OpenDevice) -> str | None:
    try:
        device.synchronize()
    except Exception as error:
        return str(error)
    return device.health()
