"""CPU streams: in order, late, with errors that surface once, and alive after a fork."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from backends.contract import DeviceError
from backends.drivers import cpu_stream
from backends.drivers.cpu_stream import CpuStream


def test_work_runs_in_the_order_of_submission() -> None:
    """A slow first piece of work still comes before a fast second one."""
    stream, seen = CpuStream(), []
    stream.submit(lambda: time.sleep(0.02))
    stream.submit(lambda: seen.append(1))
    stream.submit(lambda: seen.append(2))
    stream.synchronize()
    assert seen == [1, 2]


def test_submission_returns_before_the_work_is_done() -> None:
    """Submitting is asynchronous: the work may wait for something that the submitter does later."""
    stream, gate, seen = CpuStream(), threading.Event(), []
    stream.submit(gate.wait)
    stream.submit(lambda: seen.append(1))
    assert seen == []
    gate.set()
    stream.synchronize()
    assert seen == [1]


def test_streams_do_not_wait_for_each_other() -> None:
    """Work on one stream goes on while another stream is stuck."""
    stuck, free, gate = CpuStream(), CpuStream(), threading.Event()
    stuck.submit(gate.wait)
    free.submit(lambda: None)
    free.synchronize()
    gate.set()
    stuck.synchronize()


def test_an_error_surfaces_once_and_later_work_still_runs() -> None:
    """The first error comes out of synchronize as a DeviceError chained to it; the next synchronize is clean."""
    stream, seen = CpuStream(), []

    def fail() -> None:
        raise ValueError("bad address 0x10")

    stream.submit(fail)
    stream.submit(lambda: seen.append(1))
    with pytest.raises(DeviceError, match="ValueError on the side stream: bad address 0x10") as raised:
        stream.synchronize()
    assert isinstance(raised.value.__cause__, ValueError)
    assert seen == [1]
    stream.synchronize()


def test_work_that_waits_for_its_own_stream_is_told_so() -> None:
    """Synchronizing a stream from its own work raises where it would hang."""
    stream = CpuStream()
    stream.submit(stream.synchronize)
    with pytest.raises(DeviceError, match="wait for itself"):
        stream.synchronize()


def test_use_nests_and_belongs_to_its_thread() -> None:
    """The innermost `use` wins, its end restores the one before, and other threads see the default stream."""
    outer, inner, elsewhere = CpuStream(), CpuStream(), []
    with cpu_stream.use(outer):
        with cpu_stream.use(inner):
            assert cpu_stream.current() is inner
            thread = threading.Thread(target=lambda: elsewhere.append(cpu_stream.current()))
            thread.start()
            thread.join()
        assert cpu_stream.current() is outer
    assert cpu_stream.current() is cpu_stream.default()
    assert elsewhere == [cpu_stream.default()]


def test_a_dropped_stream_ends_its_thread() -> None:
    """Streams can be made and dropped by the thousand without leaving threads."""
    stream = CpuStream("dropped")
    stream.submit(lambda: None)
    stream.synchronize()
    thread = next(t for t in threading.enumerate() if t.name == "cpu-stream-dropped")
    del stream
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


FORK = """
import os, sys, threading
from backends.drivers import cpu_stream
gate = threading.Event()
cpu_stream.default().submit(gate.wait)
pid = os.fork()
if pid == 0:
    seen = []
    cpu_stream.default().synchronize()
    cpu_stream.default().submit(lambda: seen.append(os.getpid()))
    cpu_stream.default().synchronize()
    os._exit(0 if seen == [os.getpid()] else 1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
gate.set()
cpu_stream.default().synchronize()
sys.exit(code)
"""

EXIT = "import time; from backends.drivers import cpu_stream; cpu_stream.default().submit(lambda: time.sleep(600))"


@pytest.mark.parametrize("program", [FORK, EXIT], ids=["a forked child has its own thread", "exit does not wait"])
def test_in_a_process_of_its_own(program: str) -> None:
    """Forked children work although the parent's stream is busy, and a busy stream never holds up an exit."""
    done = subprocess.run([sys.executable, "-c", program], timeout=30, cwd=Path.cwd())
    assert done.returncode == 0
