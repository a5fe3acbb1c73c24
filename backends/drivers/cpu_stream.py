"""Streams for the CPU: a FIFO queue of work and one thread that does it.

A stream makes the CPU behave as an accelerator does where ordering matters: work is submitted and returns at once,
runs later, in order, and fails late. It deliberately has no events, no priorities and no ordering between streams;
work on two streams is ordered only by synchronizing one of them.

Threads start with the first work of a stream and belong to the process that started them: a forked child begins with
empty queues and threads of its own. They are daemons, so an exit never waits for a stream.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from backends.contract import DeviceError

Work = Callable[[], object]


class CpuStream:
    """A queue of work that runs in the order of submission, on a thread of its own."""

    def __init__(self, name: str = "side") -> None:
        self.name = name
        self._worker: _Worker | None = None
        self._starting = threading.Lock()

    def __repr__(self) -> str:
        return f"CpuStream({self.name!r})"

    def submit(self, work: Work) -> None:
        """Run `work()` after everything submitted before. What it returns is dropped; what it raises is kept for
        `synchronize`, and later work runs all the same."""
        self._own_worker().queue.put(work)

    def synchronize(self) -> None:
        """Wait for all the work submitted so far.

        Raises DeviceError with the text of the first error since the last call, chained to it; or RuntimeError when
        called by the stream's own work, which would wait for itself."""
        worker = self._worker
        if worker is None or worker.pid != os.getpid():
            return
        if threading.get_ident() == worker.ident:
            raise RuntimeError(f"{self!r} can't be synchronized by work that runs on it: it would wait for itself")
        error = worker.drain()
        if error is not None:
            raise DeviceError(f"{type(error).__name__} on the {self.name} stream: {error}") from error

    def _own_worker(self) -> _Worker:
        pid = os.getpid()
        worker = self._worker
        if worker is not None and worker.pid == pid:
            return worker
        with self._starting:
            if self._worker is None or self._worker.pid != pid:
                self._worker = _Worker(self.name, pid)
                weakref.finalize(self, self._worker.queue.put, None).atexit = False
            return self._worker


class _Worker:
    """The thread of one stream in one process. It knows its queue but not its stream, so that a dropped stream ends."""

    def __init__(self, name: str, pid: int) -> None:
        self.pid = pid
        self.queue: SimpleQueue[Work | None] = SimpleQueue()
        self._error: BaseException | None = None
        thread = threading.Thread(target=self._run, name=f"cpu-stream-{name}", daemon=True)
        thread.start()
        self.ident = thread.ident

    def drain(self) -> BaseException | None:
        """Wait for the queue as it is now; the first error since the last drain, which is thereby forgotten."""
        finished = threading.Event()
        found: list[BaseException | None] = []

        def mark() -> None:
            found.append(self._error)
            self._error = None
            finished.set()

        self.queue.put(mark)
        finished.wait()
        return found[0]

    def _run(self) -> None:
        while (work := self.queue.get()) is not None:
            try:
                work()
            except BaseException as error:
                self._error = self._error or error
            del work  # or an idle stream would keep the last work's memory alive


_default = CpuStream("default")
_local = threading.local()


def default() -> CpuStream:
    """The one stream that all threads share unless they choose another."""
    return _default


def current() -> CpuStream:
    """The stream that this thread submits to: the innermost `use`, else the default one."""
    stream: CpuStream = getattr(_local, "stream", _default)
    return stream


@contextmanager
def use(stream: CpuStream) -> Iterator[CpuStream]:
    """Make `stream` the current one of this thread."""
    before = current()
    _local.stream = stream
    try:
        yield stream
    finally:
        _local.stream = before


def _renew_locks() -> None:
    """In a forked child: another thread of the parent may have held the lock of the shared stream."""
    _default._starting = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)
