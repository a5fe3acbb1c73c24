"""What may be drawn: the facts of one device and the declaration of one backend, as limits for the strategies.

A scope never says what must hold; it only keeps the strategies from drawing what this backend on this machine need not
do. Plain data, so a worker process can be given one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from backends.contract import Ask, Device, Direction, Memory, Stream, Support

Route = tuple[Direction, Memory, Memory]

BUDGET_BYTES = 8 << 20  # of one side's arena, guard bands included
MOST_DESCRIPTORS = 65_537
LEAST_DESCRIPTORS = 64  # however slow a backend is, so many are tried
LARGEST_PAGE = 1 << 20
PLAINEST = (
    Memory.DEVICE,
    Memory.PINNED,
    Memory.REGISTERED,
    Memory.PAGEABLE,
    Memory.SHARED,
    Memory.REGISTERED_ANONYMOUS,
    Memory.REGISTERED_PIECES,
    Memory.REGISTERED_PARTLY,
    Memory.HUGE,
    Memory.OTHER_NODE,
    Memory.READ_ONLY,
)  # every kind, in the order in which a failure is simpler to look into
FULLY_REGISTERED = frozenset({Memory.DEVICE, Memory.PINNED, Memory.REGISTERED, Memory.REGISTERED_ANONYMOUS})


class ScopeError(ValueError):
    """Nothing can be drawn: the text says which limit leaves nothing over."""


@dataclass(frozen=True)
class Scope:
    """Limits for the strategies. Two sides of a case each hold at most `budget_bytes`."""

    memory: frozenset[Memory]  # kinds that can be realised on the device
    streams: frozenset[Stream]  # streams that exist on the device
    support: Support = field(default_factory=Support)
    late: frozenset[Memory] = frozenset()  # kinds whose source can receive its bytes on the stream
    fenceable: frozenset[Memory] = frozenset()  # kinds whose arena can end at an unmapped page
    sparse: frozenset[Memory] = frozenset()  # kinds whose arena can have holes without memory
    budget_bytes: int = BUDGET_BYTES
    max_descriptors: int = MOST_DESCRIPTORS

    @classmethod
    def of(
        cls,
        device: Device,
        support: Support,
        *,
        budget_bytes: int = BUDGET_BYTES,
        max_descriptors: int | None = None,
    ) -> Scope:
        """The scope of one backend on one device. Unless given, `max_descriptors` shrinks with the backend's cost."""
        memory = frozenset(map(Memory, device.memory))
        if max_descriptors is None:
            max_descriptors = max(LEAST_DESCRIPTORS, MOST_DESCRIPTORS // support.relative_cost)
        late = memory - {Memory.READ_ONLY} if device.platform == "cpu" else memory & FULLY_REGISTERED
        far = memory - {Memory.PINNED} if device.fences and device.platform != "xpu" else frozenset[Memory]()
        return cls(
            memory=memory,
            streams=frozenset(map(Stream, device.streams)),
            support=support,
            late=late,
            fenceable=far,
            sparse=far,
            budget_bytes=budget_bytes,
            max_descriptors=max_descriptors,
        )

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Every direction with the memory kinds it may go from and to, the plainest first.

        Raises ScopeError if there is none."""
        if self.support.unavailable:
            raise ScopeError(f"the backend can't run here: {self.support.unavailable}")
        kinds = [kind for kind in PLAINEST if kind in self.memory & self.support.memory]
        found = tuple(
            (direction, source, destination)
            for direction in Direction
            if direction in self.support.directions
            for source in kinds
            if source.on_device == direction.source_on_device
            for destination in kinds
            if destination.on_device == direction.destination_on_device and destination is not Memory.READ_ONLY
        )
        if not found:
            raise ScopeError(
                f"no direction is left: the device has {_words(self.memory)}; the backend takes "
                f"{_words(self.support.memory)} and {_words(self.support.directions)}"
            )
        return found

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that have a route."""
        return tuple(dict.fromkeys(direction for direction, _, _ in self.routes))

    @cached_property
    def returning(self) -> tuple[Direction, ...]:
        """The directions whose way back has a route too, from and to writable memory. Empty if there is none."""
        known = set(self.routes)
        return tuple(dict.fromkeys(way for way, a, b in self.routes if (back(way), b, a) in known))

    def sources(self, direction: Direction, writable: bool = False) -> tuple[Memory, ...]:
        """The memory kinds a copy in this direction may read, the plainest first."""
        found = dict.fromkeys(source for way, source, _ in self.routes if way is direction)
        return tuple(kind for kind in found if not (writable and kind is Memory.READ_ONLY))

    def destinations(self, direction: Direction) -> tuple[Memory, ...]:
        """The memory kinds a copy in this direction may write, the plainest first."""
        return tuple(dict.fromkeys(destination for way, _, destination in self.routes if way is direction))

    @cached_property
    def stream_kinds(self) -> tuple[Stream, ...]:
        """The streams to try, the plainest first. Raises ScopeError if there is none."""
        found = tuple(kind for kind in Stream if kind in self.streams & self.support.streams)
        if not found:
            raise ScopeError(
                f"no stream is left: the device has {_words(self.streams)}, "
                f"the backend takes {_words(self.support.streams)}"
            )
        return found

    @property
    def size_multiple(self) -> int:
        return self.support.size_multiple

    @property
    def address_multiple(self) -> int:
        return self.support.address_multiple

    @cached_property
    def unit(self) -> int:
        """Bytes of the smallest piece after which another piece may begin."""
        return math.lcm(self.size_multiple, self.address_multiple)

    @cached_property
    def page_multiple(self) -> int:
        """Every page that is one descriptor is a multiple of it: in a dense pool a block begins where one ends."""
        return self.unit if self.support.uniform_dense else self.size_multiple

    @cached_property
    def smallest_row(self) -> int:
        """Bytes from one block to the next where blocks are as small as can be."""
        return -(-self.page_multiple // self.address_multiple) * self.address_multiple

    @cached_property
    def most_blocks(self) -> int:
        """How many of the smallest blocks fit in half the budget, and in the descriptors."""
        return max(1, min(self.most_descriptors, (self.budget_bytes // 2) // self.smallest_row))

    @cached_property
    def most_descriptors(self) -> int:
        limit = self.support.max_descriptors
        return self.max_descriptors if limit is None else min(limit, self.max_descriptors)

    @cached_property
    def most_bytes(self) -> int:
        """Of one descriptor: within the declaration, and eight blocks fit in the budget.

        Raises ScopeError if not even the smallest size does."""
        limit = self.support.max_bytes
        room = min(LARGEST_PAGE, self.budget_bytes // 8)
        most = room if limit is None else min(limit, room)
        if most < self.page_multiple:
            raise ScopeError(f"no size is left: multiples of {self.page_multiple}, at most {most} bytes")
        return most

    def why_not(self, ask: Ask) -> str | None:
        """Why the backend need not do this, or None."""
        return self.support.why_not(ask)


def back(direction: Direction) -> Direction:
    """The way back."""
    return {Direction.LOAD: Direction.STORE, Direction.STORE: Direction.LOAD}.get(direction, direction)


def _words(members: frozenset[Memory] | frozenset[Stream] | frozenset[Direction]) -> str:
    return ", ".join(sorted(member.value for member in members)) or "nothing"
