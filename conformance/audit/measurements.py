"""Measurements on disk: a JSON Lines file, its first line says where and what, each later one is a visit to a point.

Appended as measured, so an audit that is ended loses nothing; a last line that was cut off is left out when read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from backends.contract import Device
from conformance.audit.grid import Point
from conformance.audit.timing import LIMIT

FORMAT = 1
FILE = "measurements.jsonl"
DEAD_BAND = 0.05  # part of a time within which two times count as equal


class MeasurementsError(ValueError):
    """A file that holds no measurements, or those of another audit. The text says what to do."""


@dataclass(frozen=True)
class Setting:
    """Where and what was measured: visits may be put together only if this is the same."""

    device: Device
    memory: str
    backends: tuple[str, ...]
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self), "device": self.device.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Setting:
        return cls(Device.from_json(data["device"]), data["memory"], tuple(data["backends"]), data["seed"])

    def differs(self, other: Setting) -> str | None:
        """What makes this another audit, or None. Another index of a like device is the same."""
        for name in ("platform", "name", "driver", "torch", "triton"):
            if getattr(self.device, name) != getattr(other.device, name):
                return f"{name} {getattr(self.device, name)}, not {getattr(other.device, name)}"
        for name in ("memory", "backends", "seed"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {getattr(self, name)}, not {getattr(other, name)}"
        return None


@dataclass(frozen=True)
class Visit:
    """One look at a point: median microseconds by contestant, over so many turns."""

    times: Mapping[str, float]
    turns: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Measurements:
    """All visits by point."""

    setting: Setting
    visits: dict[Point, list[Visit]] = field(default_factory=dict)

    def times(self, point: Point) -> dict[str, float]:
        """Microseconds by contestant: the median over visits. Contestants that failed once are left out."""
        found: dict[str, list[float]] = {}
        for visit in self.visits.get(point, []):
            for name, time in visit.times.items():
                found.setdefault(name, []).append(time)
        failed = self.failed(point)
        return {name: median(times) for name, times in found.items() if name not in failed}

    def limit(self, point: Point) -> float:
        """Microseconds of one contiguous copy of the same bytes."""
        return self.times(point)[LIMIT]

    def contestants(self, point: Point) -> dict[str, float]:
        """The times without the limit."""
        return {name: time for name, time in self.times(point).items() if name != LIMIT}

    def failed(self, point: Point) -> dict[str, str]:
        """What went wrong, by contestant."""
        return {name: text for visit in self.visits.get(point, []) for name, text in visit.failed.items()}

    def stable(self, point: Point) -> bool:
        """Whether the last two visits agree on every contestant within the dead band."""
        last = self.visits.get(point, [])[-2:]
        if len(last) < 2:
            return False
        names = set(last[0].times) & set(last[1].times)
        pairs = [sorted((last[0].times[name], last[1].times[name])) for name in names]
        return bool(pairs) and all(high <= low * (1 + DEAD_BAND) for low, high in pairs)

    def add(self, point: Point, visit: Visit) -> None:
        self.visits.setdefault(point, []).append(visit)


def begin(folder: Path, setting: Setting) -> Measurements:
    """A new file. Raises MeasurementsError if there is one, OSError if it can't be made."""
    path = folder / FILE
    if path.exists():
        raise MeasurementsError(f"{path} exists; go on with it (--resume), or give another --output")
    folder.mkdir(parents=True, exist_ok=True)
    _append(path, setting.to_json())
    return Measurements(setting)


def resume(folder: Path, setting: Setting) -> Measurements:
    """The measurements so far, without a last line that was cut off. Raises MeasurementsError if they are of something
    else, OSError if the file can't be written."""
    found = load(folder)
    difference = found.setting.differs(setting)
    if difference:
        raise MeasurementsError(f"{folder / FILE} is of another audit ({difference}); give another --output")
    path = folder / FILE
    whole = path.read_bytes().rpartition(b"\n")
    if whole[2]:
        path.write_bytes(whole[0] + whole[1])
    return found


def load(folder: Path) -> Measurements:
    """Read a file. Raises MeasurementsError."""
    path = folder / FILE
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise MeasurementsError(f"{path}: {error.strerror}") from error
    try:
        head, *rest = (json.loads(line) for line in lines[:-1])  # the last one is empty, or was cut off
        if head["format"] != FORMAT:
            raise MeasurementsError(f"{path}: format {head['format']!r}, this version reads {FORMAT}")
        found = Measurements(Setting.from_json(head))
        for data in rest:
            found.add(Point.from_json(data["point"]), Visit(data["times"], data["turns"], data["failed"]))
    except MeasurementsError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise MeasurementsError(f"{path} holds no measurements ({type(error).__name__}: {error})") from error
    return found


def record(folder: Path, point: Point, visit: Visit) -> None:
    """Append a visit."""
    _append(folder / FILE, {"point": point.to_json(), **asdict(visit)})


def _append(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(data) + "\n")


def unstable(found: Measurements, points: Sequence[Point]) -> list[Point]:
    """Those whose numbers do not come again."""
    return [point for point in points if not found.stable(point)]
