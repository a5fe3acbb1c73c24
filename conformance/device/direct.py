"""Cases in the caller's own process (`--isolation none`): for debuggers, compute-sanitizer and profilers.

A crash ends the caller, as it should there, and nothing limits how long a case takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backends import platforms, registry, running
from backends.contract import Backend, Device, Support
from conformance.device.runner import BackendUnavailable, DeviceUnavailable
from conformance.device.task import Result, Task, Tools, perform
from conformance.execution.descriptors import Descriptors
from conformance.execution.executor import Executor
from conformance.execution.prepared import Job, prepare
from conformance.judge.evidence import Evidence
from conformance.judge.fill import Images
from conformance.judge.oracle import Scratch
from strategies.case import Case


@dataclass
class DirectRunner:
    """Runs cases on device `index` of a platform, in this process."""

    platform: str
    index: int
    restarts: int = 0
    _job: Job = field(init=False, repr=False)
    _offsets: Descriptors = field(init=False)
    _images: Images = field(init=False)
    _executor: Executor | None = None
    _scratch: Scratch = field(default_factory=Scratch)
    _backends: dict[str, Backend] = field(default_factory=dict)

    @property
    def device(self) -> Device:
        return self._open().device.facts

    def support(self, backend: str) -> Support:
        return self._backend(backend).support(self.device)

    def lay_out(self, case: Case) -> Images:
        self._job, self._offsets = prepare(case)
        source, destination, _ = self._job.sizes
        self._images = Images(self._scratch.room("source", source), self._scratch.room("destination", destination))
        return self._images

    def run(self, backend: str, case: Case) -> Evidence:
        return self._open().execute(self._backend(backend), self._job, self._images, self._offsets)

    def run_clean(self, backend: str, case: Case) -> Evidence:
        """There is only this process, so this is `run`."""
        return self.run(backend, case)

    def perform(self, task: Task) -> Result:
        return perform(task, Tools(self._open(), self._backend))

    def perform_clean(self, task: Task) -> Result:
        """There is only this process, so this is `perform`."""
        return self.perform(task)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.device.close()
            self._executor = None

    def _open(self) -> Executor:
        if self._executor is None:
            platform = platforms.load(self.platform)
            platform.preload()
            running.use_platform(self.platform)
            try:
                self._executor = Executor(platform.open(self.index), interruptible=True)
            except Exception as error:
                raise DeviceUnavailable(f"{self.platform} device {self.index} can't be opened: {error}") from error
        return self._executor

    def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            try:
                self._backends[name] = registry.load(name)
            except Exception as error:
                raise BackendUnavailable(f"backend {name}: {type(error).__name__}: {error}") from error
        return self._backends[name]
