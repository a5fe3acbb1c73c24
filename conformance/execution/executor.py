"""Run one job on an open device: build, fill, copy, synchronise, read back. Judges nothing.

Only the stream that the copy was enqueued on is waited for before the arenas are read back: a copy that runs on
another one, which nobody joined, has not been made.

Runs in the process that owns the device; with isolation none that is the caller's own.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

import numpy as np

from backends.contract import Backend, DescriptorError, DeviceError, Refused
from backends.platforms.contract import OpenDevice
from conformance.execution.arena import Arenas, Impossible, Side
from conformance.execution.descriptors import Descriptors
from conformance.execution.malformed import spoil
from conformance.execution.prepared import Job
from conformance.judge.evidence import Evidence, Outcome
from conformance.judge.fill import Bytes, Content, Images, fill

LATE_SECONDS = 200e-6  # how long the stream is kept busy before a side is written late


@dataclass
class Executor:
    """Executes jobs on one device, one at a time."""

    device: OpenDevice
    interruptible: bool = False  # a KeyboardInterrupt is the user's, not the backend's

    def __post_init__(self) -> None:
        self._arenas = Arenas(self.device)
        self._serial = 0

    def execute(self, backend: Backend, job: Job, images: Images, offsets: Descriptors) -> Evidence:
        """Run `job` through `backend`. `images` hold the initial contents and afterwards what memory holds; `offsets`
        are the descriptors, counted from each arena's beginning, and stay as they are."""
        self._serial += 1
        clock = _Phases()
        try:
            with self._arenas.both(job) as (source, destination):
                clock.mark("arena")
                batch = offsets.at(source.address, destination.address)
                evidence = self._on(backend, job, images, batch, source, destination, clock)
        except Impossible as error:
            evidence = Evidence(Outcome.IMPOSSIBLE, str(error))
        health = self.device.health()
        clock.mark("health")
        return replace(evidence, poisoned=health, pid=os.getpid(), serial=self._serial, seconds=clock.seconds)

    def _on(
        self,
        backend: Backend,
        job: Job,
        images: Images,
        batch: Descriptors,
        source: Side,
        destination: Side,
        clock: _Phases,
    ) -> Evidence:
        sides = (
            (source, images.source, job.submission.late_source),
            (destination, images.destination, job.submission.late_destination),
        )
        for side, image, late in sides:
            side.upload(_wiped(image, job.seed) if late else image)
        self.device.protect(source.region, read_only=True)
        clock.mark("fill")
        back = batch.backwards() if job.round_trip else None
        failure: BaseException | None = None
        try:
            with self.device.stream(job.submission.stream):
                for side, image, late in sides:
                    if late:
                        self._upload_late(side, image)
                kept = self._submit(backend, job, batch)
                clock.mark("copy")
                self.device.synchronize_stream()
            if back is not None:
                source.upload(_wiped(images.source, job.seed))
                with self.device.stream(job.submission.stream):
                    kept += self._submit(backend, job, back)
                    self.device.synchronize_stream()
            clock.mark("synchronize")
        except Impossible:
            self.device.protect(source.region, read_only=False)
            raise
        except BaseException as error:  # whatever a backend raises is evidence, SystemExit included
            failure = error
        self.device.protect(source.region, read_only=False)
        if self.interruptible and isinstance(failure, KeyboardInterrupt):
            raise failure
        try:
            if failure is not None:
                self.device.synchronize()
            source.download(images.source)
            destination.download(images.destination)
            self.device.synchronize()  # whatever a backend left on other streams ends with its case
        except DeviceError as error:
            failure = error if failure is None or isinstance(failure, DeviceError) else failure
        clock.mark("read back")
        return _evidence(failure, _path(backend))

    def _upload_late(self, side: Side, image: Bytes) -> None:
        """Raises Impossible where the platform can't: that is none of the backend's failures."""
        try:
            side.upload_late(image, LATE_SECONDS)
        except DeviceError as error:
            raise Impossible(str(error)) from error

    def _submit(self, backend: Backend, job: Job, batch: Descriptors) -> list[object]:
        """Call the backend; the returned tensors must live until the stream is synchronised."""
        submission = job.submission
        kept: list[object] = []
        if submission.malformed is not None:
            arguments = spoil(batch, submission.malformed, self.device.facts.platform, job.seed)
            kept.append(arguments)
            backend.copy(*arguments, is_src_access_order_any=submission.order_any)
            return kept
        columns = [self.device.descriptor_tensor(column) for column in (batch.source, batch.destination, batch.sizes)]
        kept += [columns, batch]
        for part in batch.parts(submission.calls):
            sources, destinations, sizes = (column[part] for column in columns)
            backend.copy(sources, destinations, sizes, is_src_access_order_any=submission.order_any)
            if submission.reuse_descriptors:
                batch.sizes[part] = 0
        return kept


class _Phases:
    """Seconds by phase of one case."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


def _wiped(like: Bytes, seed: int) -> Bytes:
    image = np.empty_like(like)
    fill(image, seed, Content.WIPED)
    return image


def _path(backend: Backend) -> str:
    try:
        return str(backend.path())
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _evidence(failure: BaseException | None, path: str) -> Evidence:
    if failure is None:
        return Evidence(Outcome.COMPLETED, path=path)
    try:
        text = str(failure)
    except Exception:
        text = "(its text can't be printed)"
    outcome = Outcome.RAISED
    if isinstance(failure, Refused):
        outcome = Outcome.REFUSED
    elif isinstance(failure, DeviceError) and not isinstance(failure, DescriptorError):
        outcome = Outcome.DEVICE_ERROR
    return Evidence(outcome, text=text, error=type(failure).__name__, path=path)
