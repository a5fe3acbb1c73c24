"""One forked device process, as its server sees it: fork, watch, end, and the word on how it died."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path

from backends.platforms.contract import Platform
from conformance.device.process import DeviceProcess, run_forever
from conformance.device.protocol import Death
from conformance.record.journal import Journal

OUTPUT_TAIL = 4096  # bytes kept of what a device process printed
OUTPUT_MOST = 4 << 20  # bytes of it that take memory; what came before is given back
_PUNCH_HOLE = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
PR_SET_PDEATHSIG = 1
CRASHED = 70  # exit status of a device process whose own loop raised


@dataclass
class Child:
    """A running device process."""

    pid: int
    index: int
    journal: Journal
    output: int  # descriptor of the anonymous file it prints into
    single: bool
    killed: str = ""  # why the server ended it
    overdue: bool = False  # at the latest look
    hang: bool = False
    given_back: int = 0  # bytes at the beginning of its output that take no memory any more

    def kill(self, why: str, hang: bool = False) -> None:
        """End it and whatever it started."""
        self.killed, self.hang = self.killed or why, self.hang or hang
        for end, number in ((os.killpg, self.pid), (os.kill, self.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(number, signal.SIGKILL)

    def watch(self, memory_bytes: int) -> None:
        """End it when its request is overdue or it uses too much memory."""
        if self.killed:
            return
        before, self.overdue = self.overdue, self.journal.overdue()
        if before and self.overdue:
            entry = self.journal.read()
            self.kill(f"no answer within {entry.deadline - entry.begun:.1f} s", hang=True)
        elif (used := _resident(self.pid)) > memory_bytes:
            self.kill(f"used {used / 2**30:.1f} GiB of memory, more than the limit of {memory_bytes / 2**30:.1f} GiB")
        size = os.fstat(self.output).st_size
        if size - self.given_back > OUTPUT_MOST:
            self.given_back = size - OUTPUT_TAIL
            _give_back(self.output, self.given_back)

    def _tail(self) -> bytes:
        """The end of what it printed."""
        size = os.fstat(self.output).st_size
        return os.pread(self.output, OUTPUT_TAIL, max(0, size - OUTPUT_TAIL))

    def ended(self) -> Death | None:
        """How it died, once it has; afterwards its processes, journal and output are gone."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        entry = self.journal.read()
        output = self._tail().decode(errors="replace")
        os.close(self.output)
        self.journal.close()
        if self.single:
            self.journal.path.unlink(missing_ok=True)
        return Death(
            pid=self.pid,
            index=self.index,
            how=self.killed or _how(status),
            hang=self.hang,
            worker=entry.worker,
            ticket=entry.ticket,
            running=entry.text if entry.running else "",
            previous=entry.previous if entry.running else entry.text,
            output=output,
            cases=entry.cases,
            requests=entry.cases + entry.others,
        )


def _give_back(descriptor: int, nbytes: int) -> None:
    """Free the memory of the file's first bytes. The file keeps its length, so that what is appended meanwhile stays;
    cutting it would take the last words of a process that dies just then."""
    fallocate = ctypes.CDLL(None).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    fallocate(descriptor, _PUNCH_HOLE, 0, nbytes)


def fork(platform: Platform, index: int, listener: socket.socket, journal_path: Path, single: bool) -> Child:
    """Fork a device process that serves `listener`. Raises OSError when its journal can't be made."""
    journal = Journal(journal_path)
    journal.clear()
    output = os.memfd_create("kvconform-output", os.MFD_CLOEXEC)
    fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)
    server = os.getpid()
    pid = os.fork()
    if pid:
        return Child(pid, index, journal, output, single)
    try:
        _become_device_process(server, output)
        run_forever(DeviceProcess(platform, index, listener, journal, single))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(CRASHED)


def _become_device_process(server: int, output: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(number).name}"
        return f"signal {number}"
    return f"exit status {os.WEXITSTATUS(status)}"


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
