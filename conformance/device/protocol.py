"""The messages between workers, device processes and their server. Plain data, pickled over a local socket."""

from __future__ import annotations

from dataclasses import dataclass

from backends.contract import Device, Support
from conformance.device.task import Task
from conformance.execution.prepared import Job

LOADING = 0  # the ticket of a Describe; those of cases begin at 1


@dataclass(frozen=True)
class Hello:
    """A worker's first message to a device process; answered with Welcome."""

    worker: str


@dataclass(frozen=True)
class Welcome:
    """Who serves. `failure` says why the device could not be opened."""

    pid: int
    device: Device | None
    bandwidth: float = 0.0  # bytes a second of a write and read back through the platform, measured at the start
    failure: str = ""


@dataclass(frozen=True)
class Describe:
    """Load one backend; answered with Description."""

    backend: str
    text: str  # for the journal


@dataclass(frozen=True)
class Description:
    """What a backend declares here, or why it can't be loaded."""

    backend: str
    support: Support | None
    failure: str = ""


@dataclass(frozen=True)
class Buffer:
    """Announces a shared buffer of `nbytes`; its file descriptor follows. Not answered."""

    nbytes: int


@dataclass(frozen=True)
class Run:
    """Run a job; its images and descriptors lie in the buffer. Answered with Evidence."""

    ticket: int
    backend: str
    job: Job
    text: str  # the case and its backend as JSON, for the journal
    deadline_seconds: float
    settle_seconds: float = 0.0  # wait so long after the case, then look at the device's health once more


@dataclass(frozen=True)
class Do:
    """Do a task. Answered with Result."""

    ticket: int
    task: Task
    text: str  # for the journal


@dataclass(frozen=True)
class AskFate:
    """To the server: how did this device process end? Answered with Death once it has ended."""

    pid: int


@dataclass(frozen=True)
class AskClean:
    """To the server: fork a process for this device that serves one worker. Answered with its address (str)."""

    index: int


@dataclass(frozen=True)
class Death:
    """How a device process ended, and what it was doing."""

    pid: int
    index: int
    how: str  # "signal SIGSEGV", "exit status 3", "no answer within 5.0 s", "used 13.2 GiB of memory"
    hang: bool
    worker: str  # whose request it was running, or ran last
    ticket: int
    running: str  # the journal's text of that request, or ""
    previous: str  # of the case before, or of the last one if none was running
    output: str  # the tail of what it printed
    cases: int  # how many the process had begun
    requests: int  # the same with other requests
