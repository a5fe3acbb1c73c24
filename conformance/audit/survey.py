"""Go over the grid in rounds until every point's numbers come again, or the time is out.

Each round visits the points that are not stable yet, in another order; a point is stable when its last two visits,
minutes apart, agree. A backend that breaks the device process at a point is found out by being tried alone, and is left
out there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from conformance.audit.grid import Point
from conformance.audit.measurements import Measurements, Visit, record
from conformance.device.runner import Runner
from conformance.device.task import Result, Task

MOST_ROUNDS = 8
ROUNDS_PLANNED = 3  # that the time is shared out over
LEAST_SECONDS, MOST_SECONDS = 0.02, 2.0  # of timing at one visit
GRACE_SECONDS = 120.0  # for memory, checks and compilation at one visit
OnVisit = Callable[[int, int, Point], None]  # visits done, visits planned at least, the point


@dataclass
class Survey:
    """One audit under way."""

    runner: Runner
    points: Sequence[Point]
    found: Measurements
    folder: Path
    seconds: float  # for all of it
    on_visit: OnVisit = lambda done, planned, point: None

    def run(self) -> bool:
        """Measure; whether it ended by itself rather than for lack of time."""
        give_up = time.monotonic() + self.seconds
        share = self.seconds / max(1, len(self.points) * ROUNDS_PLANNED)
        visit_seconds = min(MOST_SECONDS, max(LEAST_SECONDS, share / 2))
        done = 0
        for number in range(MOST_ROUNDS):
            left = [point for point in self.points if not self.found.stable(point)]
            Random(self.found.setting.seed + number).shuffle(left)
            left.sort(key=lambda point: len(self.found.visits.get(point, [])))
            for point in left:
                if time.monotonic() > give_up:
                    return False
                self._visit(point, visit_seconds)
                done += 1
                self.on_visit(done, max(2 * len(self.points), done + len(left)), point)
        return True

    def _visit(self, point: Point, seconds: float) -> None:
        names = [name for name in self.found.setting.backends if name not in self.found.failed(point)]
        result = self._measure(point, names, seconds)
        if result.trouble:
            broken = self._alone(point, names, seconds)
            names = [name for name in names if name not in broken]
            result = self._measure(point, names, seconds)
            failed = broken if not result.trouble else dict.fromkeys(names, result.trouble) | broken
            visit = Visit({}, 0, failed) if result.trouble else _visit(result, broken)
        else:
            visit = _visit(result, {})
        self.found.add(point, visit)
        record(self.folder, point, visit)

    def _alone(self, point: Point, names: Sequence[str], seconds: float) -> dict[str, str]:
        """The backends that go wrong by themselves, and how."""
        results = {name: self._measure(point, [name], seconds) for name in names}
        return {name: result.trouble for name, result in results.items() if result.trouble}

    def _measure(self, point: Point, names: Sequence[str], seconds: float) -> Result:
        arguments = {
            "point": point.to_json(),
            "backends": list(names),
            "memory": self.found.setting.memory,
            "seconds": seconds,
            "seed": self.found.setting.seed,
        }
        return self.runner.perform(Task("conformance.audit.timing:measure", arguments, GRACE_SECONDS + 10 * seconds))


def _visit(result: Result, broken: dict[str, str]) -> Visit:
    value = result.value
    return Visit(value["times"], value["turns"], {**broken, **value["failed"]})
