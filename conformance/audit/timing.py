"""Inside the device process: check every contestant's copy of one point, then time them in turns.

Time is from the call to the end of the device's work, by the host's clock, as a caller who waits sees it. One
contiguous copy of the same bytes runs in the same turns: it is the limit that ratios refer to. Every turn has an order
of its own, so that none always finds the caches as the same other one leaves them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np

from backends.contract import Backend, Direction, Memory, Stream
from backends.platforms.contract import OpenDevice, Region
from conformance.audit.grid import Point
from conformance.device.task import Tools
from conformance.judge.fill import Content, fill

LIMIT = "one contiguous copy"
LIMIT_BACKENDS = {"cpu": "batch_dma"}  # torch_copy elsewhere; on a CPU torch starts threads, and waits for them
MOST_TURNS, LEAST_TURNS = 200, 3
Copy = Callable[[], None]


def measure(
    tools: Tools, point: Mapping[str, Any], backends: Sequence[str], memory: str, seconds: float, seed: int
) -> dict[str, Any]:
    """Time a point for about so many seconds: {"times": median microseconds by name, "turns": how many,
    "failed": what is wrong by name}. A backend that fails is not timed."""
    spot, device = Point.from_json(point), tools.device
    with _memory(device, spot, Memory(memory)) as (source, destination):
        trial = _Trial(device, spot, source, destination, seed)
        copies: dict[str, Copy] = {}
        failed: dict[str, str] = {}
        for name in backends:
            try:
                copies[name] = trial.copy_by(tools.backend(name))
                reason = trial.wrong(copies[name])
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            if reason:
                failed[name] = reason
                copies.pop(name, None)
        copies[LIMIT] = trial.contiguous_by(tools.backend(LIMIT_BACKENDS.get(device.facts.platform, "torch_copy")))
        times = _in_turns(device, copies, seconds, Random(seed))
    medians = {name: float(np.median(each)) * 1e6 for name, each in times.items()}
    return {"times": medians, "turns": len(times[LIMIT]), "failed": failed}


def _in_turns(device: OpenDevice, copies: Mapping[str, Copy], seconds: float, random: Random) -> dict[str, list[float]]:
    """Seconds of every call of every contestant."""
    times: dict[str, list[float]] = {name: [] for name in copies}
    names = list(copies)
    give_up = time.perf_counter() + seconds
    with device.stream(Stream.SIDE):
        for copy in copies.values():
            copy()
        device.synchronize()
        for turn in range(MOST_TURNS):
            if turn >= LEAST_TURNS and time.perf_counter() > give_up:
                break
            random.shuffle(names)
            for name in names:
                begun = time.perf_counter()
                copies[name]()
                device.synchronize()
                times[name].append(time.perf_counter() - begun)
    return times


class _Trial:
    """One point's pages in memory: random places on both sides, from the seed."""

    def __init__(self, device: OpenDevice, point: Point, source: Region, destination: Region, seed: int) -> None:
        self._device, self._point = device, point
        self._source, self._destination = source, destination
        random = np.random.default_rng(seed)
        self._from, self._to = (random.permutation(point.count) for _ in range(2))
        self._content = np.empty(point.nbytes, np.uint8)
        fill(self._content, seed, Content.SOURCE)
        device.write(source.memory, source.address, self._content)

    def copy_by(self, backend: Backend) -> Copy:
        """One call of the backend on the current stream."""
        page = self._point.page
        sources = self._source.address + self._from * page
        destinations = self._destination.address + self._to * page
        return self._call(backend, sources, destinations, np.full(self._point.count, page))

    def contiguous_by(self, backend: Backend) -> Copy:
        """The same bytes from end to end, as a single descriptor."""
        ends = [np.array([each]) for each in (self._source.address, self._destination.address, self._point.nbytes)]
        return self._call(backend, *ends)

    def _call(self, backend: Backend, *columns: np.ndarray[Any, Any]) -> Copy:
        tensors = [self._device.descriptor_tensor(np.ascontiguousarray(column, np.int64)) for column in columns]
        return lambda: backend.copy(*tensors)

    def wrong(self, copy: Copy) -> str:
        """Make the copy once and compare every byte; what is wrong, or nothing."""
        device, destination = self._device, self._destination
        found = np.empty(self._point.nbytes, np.uint8)
        fill(found, 1, Content.DESTINATION)
        device.write(destination.memory, destination.address, found)
        with device.stream(Stream.SIDE):
            copy()
            device.synchronize()
        device.read(destination.memory, destination.address, found)
        pages = (self._point.count, self._point.page)
        same = np.array_equal(found.reshape(pages)[self._to], self._content.reshape(pages)[self._from])
        return "" if same else "it leaves wrong bytes, so it is not timed"


@contextmanager
def _memory(device: OpenDevice, point: Point, host: Memory) -> Iterator[tuple[Region, Region]]:
    """Memory for both sides: (source, destination)."""
    kinds = [host, Memory.DEVICE] if point.direction == Direction.LOAD.value else [Memory.DEVICE, host]
    regions = [device.map(kind, point.nbytes) for kind in kinds]
    try:
        yield regions[0], regions[1]
    finally:
        for region in regions:
            device.unmap(region)
