"""Run one case on an open device: build, fill, copy, synchronise, read back. Judges nothing.

Runs in the process that owns the device; with isolation none that is the caller's own.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from backends.contract import Backend, DescriptorError, DeviceError, Refused
from backends.platforms.contract import OpenDevice
from conformance.addresses import Descriptors, descriptors
from conformance.arena import Arenas, Impossible, Side
from conformance.evidence import Evidence, Outcome
from conformance.fill import Content, fill
from conformance.malformed import spoil
from conformance.oracle import Images
from strategies.case import Case

LATE_SECONDS = 200e-6  # how long a late source keeps its stream busy before it is written


@dataclass
class Executor:
    """Executes cases on one device, one at a time."""

    device: OpenDevice
    interruptible: bool = False  # a KeyboardInterrupt is the user's, not the backend's

    def __post_init__(self) -> None:
        self._arenas = Arenas(self.device)
        self._serial = 0

    def execute(self, backend: Backend, case: Case, images: Images) -> Evidence:
        """Run `case` through `backend`. `images` hold the initial contents and afterwards what memory holds."""
        self._serial += 1
        clock = _Phases()
        try:
            with self._arenas.both(case) as (source, destination):
                evidence = self._on(backend, case, images, source, destination, clock)
        except Impossible as error:
            evidence = Evidence(Outcome.IMPOSSIBLE, str(error))
        health = self.device.health()
        clock.mark("health")
        return Evidence(
            **{
                **evidence.__dict__,
                "poisoned": health,
                "pid": os.getpid(),
                "serial": self._serial,
                "seconds": clock.seconds,
            }
        )

    def _on(
        self, backend: Backend, case: Case, images: Images, source: Side, destination: Side, clock: _Phases
    ) -> Evidence:
        clock.mark("arena")
        late = case.submission.late_source
        first = _wiped(images.source, case.seed) if late else images.source
        source.upload(first)
        destination.upload(images.destination)
        self.device.protect(source.region, read_only=True)
        clock.mark("fill")
        batch = descriptors(case, source.footprint, destination.footprint, (source.address, destination.address))
        clock.mark("descriptors")
        failure: BaseException | None = None
        try:
            with self.device.stream(case.submission.stream):
                if late:
                    source.upload_late(images.source, LATE_SECONDS)
                kept = self._submit(backend, case, batch)
                clock.mark("copy")
            self.device.synchronize()
            if case.round_trip:
                source.upload(_wiped(images.source, case.seed))
                with self.device.stream(case.submission.stream):
                    kept += self._submit(backend, case, batch.backwards())
                self.device.synchronize()
            clock.mark("synchronize")
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
        except DeviceError as error:
            failure = error if failure is None or isinstance(failure, DeviceError) else failure
        clock.mark("read back")
        return _evidence(failure, _path(backend))

    def _submit(self, backend: Backend, case: Case, batch: Descriptors) -> list[object]:
        """Call the backend; the returned tensors must live until the stream is synchronised."""
        submission = case.submission
        kept: list[object] = []
        for part in batch.split(submission.calls):
            if submission.malformed is not None:
                arguments = spoil(part, submission.malformed, self.device.facts.platform)
            else:
                arguments = tuple(
                    self.device.descriptor_tensor(column) for column in (part.source, part.destination, part.sizes)
                )
            kept += [arguments, part]
            backend.copy(*arguments, is_src_access_order_any=submission.order_any)
            if submission.reuse_descriptors:
                part.sizes[:] = 0
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


def _wiped(like: np.ndarray, seed: int) -> np.ndarray:  # type: ignore[type-arg]
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
