"""What runs cases, whichever process they run in; and how long one may take."""

from __future__ import annotations

from typing import Protocol

from backends.contract import Device, Support
from conformance.device.task import Result, Task
from conformance.execution.prepared import Job
from conformance.judge.evidence import Evidence
from conformance.judge.fill import Images
from strategies.case import Case

SLACK = 100.0  # times the time that the bytes and descriptors should take
SECONDS_A_DESCRIPTOR = 20e-6  # several times what the slowest path measured took (a loop of async copies)


class DeviceUnavailable(RuntimeError):
    """The device can't be used, or its server is gone; the text says why."""


class BackendUnavailable(RuntimeError):
    """The backend can't be loaded or can't run on this device; the text says why."""


class Runner(Protocol):
    """Runs cases on one device."""

    restarts: int

    @property
    def device(self) -> Device: ...

    def support(self, backend: str) -> Support: ...

    def lay_out(self, case: Case) -> Images:
        """Make a case ready; the room for its images, contents arbitrary, valid until the next call."""
        ...

    def run(self, backend: str, case: Case) -> Evidence:
        """Run the case laid out last, whose initial contents lie in its images; they are overwritten with what
        memory holds afterwards."""
        ...

    def run_clean(self, backend: str, case: Case) -> Evidence:
        """The same in a process that has run nothing before, with a second look at the device a little later."""
        ...

    def perform(self, task: Task) -> Result:
        """Do something else than a case in the device's process."""
        ...

    def perform_clean(self, task: Task) -> Result:
        """The same in a process that has done nothing before."""
        ...

    def close(self) -> None: ...


def deadline_seconds(job: Job, support: Support, bandwidth: float, floor_seconds: float) -> float:
    """How long a job may take, from its bytes, the bandwidth measured on the device (bytes a second) and the number
    of descriptors; never below the floor."""
    nbytes = job.source.image_bytes + job.destination.image_bytes
    seconds = nbytes / max(bandwidth, 1.0) + job.descriptors * SECONDS_A_DESCRIPTOR
    return max(floor_seconds, SLACK * support.relative_cost * seconds)
