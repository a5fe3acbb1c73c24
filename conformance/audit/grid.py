"""What an audit times: direction, page size, number of descriptors. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from backends.contract import Device, Direction, Memory
from backends.selection import Facts, facts_on

PAGES = (512, 4096, 16384, 28672, 65536, 262144, 1048576)  # bytes
COUNTS = (16, 64, 256, 1024, 4096)  # descriptors
CPU_PAGES = (512, 4096, 65536)  # an interpreted kernel takes milliseconds a page
CPU_COUNTS = (16, 128)
MOST_BYTES = 256 << 20  # of one copy
DIRECTIONS = (Direction.LOAD, Direction.STORE)
HOST_KINDS = (Memory.PINNED, Memory.REGISTERED, Memory.SHARED, Memory.PAGEABLE)  # the first that a device has


@dataclass(frozen=True, order=True)
class Point:
    """One copy to time: `count` pages of `page` bytes, from random places to random places."""

    direction: str
    page: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.page * self.count

    def __str__(self) -> str:
        return f"{self.direction} of {self.count} x {size_text(self.page)}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Point:
        return cls(str(data["direction"]), int(data["page"]), int(data["count"]))

    def facts(self, device: Device, memory: Memory) -> Facts:
        """What a rule is told of this copy."""
        return facts_on(
            device,
            direction=Direction(self.direction),
            host_memory=memory,
            page_sizes=(self.page,),
            fragment_sizes=(self.page,),
            descriptors=self.count,
            address_multiple=min(4096, self.page & -self.page),
        )


def grid(platform: str) -> tuple[Point, ...]:
    """Every point of a platform."""
    cpu = platform == "cpu"
    return tuple(_points(CPU_PAGES if cpu else PAGES, CPU_COUNTS if cpu else COUNTS))


def _points(pages: tuple[int, ...], counts: tuple[int, ...]) -> Iterator[Point]:
    for direction in DIRECTIONS:
        for page in pages:
            for count in counts:
                point = Point(direction.value, page, count)
                if point.nbytes <= MOST_BYTES:
                    yield point


def host_memory(device: Device) -> Memory:
    """The kind of host memory that a serving engine would use there."""
    return next(kind for kind in HOST_KINDS if kind.value in device.memory)


def size_text(nbytes: int) -> str:
    """Bytes as people say them: 512 B, 28 KiB, 1 MiB."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor and nbytes % factor == 0:
            return f"{nbytes // factor} {unit}"
    return f"{nbytes} B"
