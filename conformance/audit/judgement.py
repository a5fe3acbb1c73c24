"""Who wins where, and what a selection rule loses: arithmetic on measurements, no device.

Two times within the dead band are equal: then whoever the rule chose is as good as the winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from backends.contract import Memory
from conformance.audit.grid import Point
from conformance.audit.measurements import DEAD_BAND, Measurements
from conformance.subjects.rules import Selector


@dataclass(frozen=True)
class Judged:
    """One point."""

    point: Point
    best: str  # the fastest backend
    equals: tuple[str, ...]  # those within the dead band of it, the best first
    times: dict[str, float]  # microseconds by backend
    limit: float  # microseconds of one contiguous copy
    chosen: str | None  # by the rule; None: it refused, or chose what was not timed
    stable: bool

    @property
    def ratio(self) -> float:
        """The best time over one contiguous copy: 1 is the limit."""
        return self.times[self.best] / self.limit

    @property
    def regret(self) -> float | None:
        """The chosen backend's time over the best: 1 is no regret, also within the dead band. None if not known."""
        if self.chosen is None:
            return None
        return 1.0 if self.chosen in self.equals else self.times[self.chosen] / self.times[self.best]


def judge(found: Measurements, points: Iterable[Point], selector: Selector) -> list[Judged]:
    """Every point at which some backend was timed, in order."""
    judged = []
    for point in sorted(points):
        times = found.contestants(point)
        if times:
            judged.append(_judged(found, point, times, chosen_by(selector, found, point)))
    return judged


def chosen_by(selector: Selector, found: Measurements, point: Point) -> str | None:
    """The backend that the rule chooses there, if it chooses one."""
    facts = point.facts(found.setting.device, Memory(found.setting.memory))
    seen = selector.view(facts)
    return None if selector.outside(seen) else selector.ask(seen).backend


def _judged(found: Measurements, point: Point, times: dict[str, float], chosen: str | None) -> Judged:
    ranked = sorted(times, key=lambda name: times[name])
    within = tuple(name for name in ranked if times[name] <= times[ranked[0]] * (1 + DEAD_BAND))
    known = chosen if chosen in times else None
    return Judged(point, ranked[0], within, times, found.limit(point), known, found.stable(point))


@dataclass(frozen=True)
class Regret:
    """A rule's regret over some points."""

    points: int  # with a known regret
    mean: float  # geometric
    worst: float
    where: Point | None  # the worst is
    better: int  # points at which another backend is faster by more than the dead band


def regret(judged: Sequence[Judged]) -> Regret:
    """Over all points given; nothing known is no regret."""
    known = [(each.regret, each.point) for each in judged if each.regret is not None]
    if not known:
        return Regret(0, 1.0, 1.0, None, 0)
    worst, where = max(known, key=lambda pair: pair[0] or 0.0)
    values = [value for value, _ in known if value is not None]
    mean = exp(sum(map(log, values)) / len(values))
    return Regret(len(values), mean, worst or 1.0, where, sum(value > 1 for value in values))


@dataclass(frozen=True)
class Change:
    """How one backend's times differ between two audits."""

    name: str
    mean: float  # geometric mean of new over old
    least: float
    most: float
    points: int


def changes(old: Measurements, new: Measurements) -> list[Change]:
    """By contestant, the limit included, over the points that both have."""
    ratios: dict[str, list[float]] = {}
    for point in sorted(set(old.visits) & set(new.visits)):
        before, after = old.times(point), new.times(point)
        for name in before.keys() & after.keys():
            ratios.setdefault(name, []).append(after[name] / before[name])
    return [
        Change(name, exp(sum(map(log, values)) / len(values)), min(values), max(values), len(values))
        for name, values in sorted(ratios.items())
    ]


def other_winners(old: Sequence[Judged], new: Sequence[Judged]) -> list[Point]:
    """Points whose winners, the equal ones included, have none in common."""
    before = {each.point: each for each in old}
    return [
        each.point for each in new if each.point in before and not set(each.equals) & set(before[each.point].equals)
    ]
