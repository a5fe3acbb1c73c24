"""The words that every floor shares: directions, memory kinds, what a backend is and what it declares.

Plain data and protocols only: nothing here imports torch, so a process that merely draws or judges cases can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


class Direction(str, Enum):
    """Where the bytes go: a load is host to device, a store is device to host."""

    LOAD = "load"
    STORE = "store"
    DEVICE_TO_DEVICE = "device-to-device"
    HOST_TO_HOST = "host-to-host"

    @property
    def source_on_device(self) -> bool:
        return self in (Direction.STORE, Direction.DEVICE_TO_DEVICE)

    @property
    def destination_on_device(self) -> bool:
        return self in (Direction.LOAD, Direction.DEVICE_TO_DEVICE)


class Memory(str, Enum):
    """The kind of memory one side of a copy lies in."""

    DEVICE = "device"
    PINNED = "pinned"  # from the platform's own pinned allocator
    REGISTERED = "registered"  # shared mmap on tmpfs, registered with the driver
    REGISTERED_ANONYMOUS = "registered-anonymous"  # private anonymous mmap, registered
    REGISTERED_PIECES = "registered-pieces"  # shared mmap registered as adjacent pieces: blocks lie across seams
    REGISTERED_PARTLY = "registered-partly"  # shared mmap of which only the first half is registered
    HUGE = "huge-pages"  # anonymous mmap of explicit huge pages, registered where the platform registers
    OTHER_NODE = "other-node"  # anonymous mmap on another NUMA node, registered where the platform registers
    SHARED = "shared"  # shared mmap on tmpfs, not registered
    PAGEABLE = "pageable"  # private anonymous mmap
    READ_ONLY = "read-only"  # private anonymous mmap, write-protected while the copy runs: a source only

    @property
    def on_device(self) -> bool:
        return self is Memory.DEVICE


HOST_MEMORY = frozenset(Memory) - {Memory.DEVICE}
WRITABLE_HOST_MEMORY = HOST_MEMORY - {Memory.READ_ONLY}
REGISTERED_MEMORY = frozenset(
    {Memory.REGISTERED, Memory.REGISTERED_ANONYMOUS, Memory.REGISTERED_PIECES, Memory.HUGE, Memory.OTHER_NODE}
)  # all of it is registered; of REGISTERED_PARTLY a part is


class Stream(str, Enum):
    """The stream that is current while the backend is called."""

    SIDE = "side"  # a stream of its own
    DEFAULT = "default"  # the legacy default stream (handle 0)
    PER_THREAD = "per-thread"  # the per-thread default stream (handle 2)


class Refused(Exception):
    """A backend declines a copy that it declares unsupported, before it has written anything. The text says why."""


class DescriptorError(ValueError):
    """Descriptors that can't be copied as given: wrong dtype, shape, device, length, sign or a null address."""


class DeviceError(RuntimeError):
    """The device or its driver reported an error. The text holds the driver's own name and number for it."""


@dataclass(frozen=True)
class Device:
    """Facts about one device, read or probed on the machine; plain data, JSON both ways."""

    platform: str  # cuda, rocm, xpu, cpu, or a vendor's own name
    index: int
    name: str
    driver: str  # driver version; for cpu the kernel release
    runtime: str  # toolkit version that torch was built for
    torch: str
    triton: str | None  # None: not importable
    memory: tuple[str, ...]  # Memory values that can be realised here
    streams: tuple[str, ...]  # Stream values that exist here
    pageable_access: bool  # a kernel may dereference pageable host memory (HMM, ATS, or a CPU)
    registered_address_is_host_address: bool  # a registered range has one address for host and device
    batch_api: str | None  # the batch copy call found, e.g. "cuMemcpyBatchAsync/8"
    fences: bool = False  # arenas can end at an unmapped page
    extra: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Device:
        return cls(**{**data, "memory": tuple(data["memory"]), "streams": tuple(data["streams"])})


@dataclass(frozen=True)
class Ask:
    """What one case asks of a backend, as facts that can be known without an address."""

    direction: Direction
    source: Memory
    destination: Memory
    stream: Stream
    sizes: tuple[int, ...]  # distinct descriptor sizes in bytes, ascending; may hold 0
    descriptors: int
    address_multiple: int  # largest power of two up to 4096 that divides every source and destination address
    dense: bool = True  # all descriptors have one size, and each side's addresses lie on one grid of that size
    late: bool = False  # the source or the destination is still to be written on the stream when the call is made
    captured: bool = False


@dataclass(frozen=True)
class Support:
    """What a backend declares it can do on one device. What it does not list must work.

    Limits of memory, direction and stream can't be seen from descriptors: such a copy is refused on the declaration
    and never tried. The other limits are visible to the backend, which must raise `Refused` (or any error with a
    reason) before it writes anything.
    """

    directions: frozenset[Direction] = frozenset(Direction)
    memory: frozenset[Memory] = frozenset(Memory)
    streams: frozenset[Stream] = frozenset(Stream)
    size_multiple: int = 1
    address_multiple: int = 1
    max_descriptors: int | None = None
    max_bytes: int | None = None  # of one descriptor
    zero_sizes: bool = True
    uniform_dense: bool = False  # only equal sizes at multiples of that size (the older swap_blocks signature)
    stream_order: bool = True  # reads the source and writes the destination when the stream gets there, not before
    reuse_descriptors: bool = True  # descriptors may be overwritten as soon as the call returns
    relative_cost: int = 1  # how many times fewer cases a budget holds (an interpreter, say)
    unavailable: str | None = None  # why this backend can't run on this device at all

    def __post_init__(self) -> None:
        for name in ("size_multiple", "address_multiple", "relative_cost"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"Support.{name}: {getattr(self, name)!r}, may be a whole number from 1 on")
        for name in ("max_descriptors", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 0):
                raise ValueError(f"Support.{name}: {limit!r}, may be a whole number from 0 on, or None")

    def not_tried(self, ask: Ask) -> str | None:
        """Why a copy is refused on the declaration alone, or None."""
        if self.unavailable:
            return self.unavailable
        if ask.direction not in self.directions:
            return f"direction {ask.direction.value} is declared unsupported"
        for side, kind in (("source", ask.source), ("destination", ask.destination)):
            if kind not in self.memory:
                return f"{kind.value} memory as {side} is declared unsupported"
        if ask.stream not in self.streams:
            return f"the {ask.stream.value} stream is declared unsupported"
        if ask.late and not self.stream_order:
            return "a source or destination still being written on the stream is declared unsupported"
        return None

    def must_refuse(self, ask: Ask) -> str | None:
        """Why the backend itself has to refuse this copy when it is called, or None."""
        largest = max(ask.sizes, default=0)
        off = [size for size in ask.sizes if size % self.size_multiple]
        if off:
            return f"size {off[0]} is not a multiple of {self.size_multiple}"
        if ask.address_multiple % self.address_multiple:
            return f"addresses are multiples of {ask.address_multiple} only, not of {self.address_multiple}"
        if self.max_descriptors is not None and ask.descriptors > self.max_descriptors:
            return f"{ask.descriptors} descriptors, at most {self.max_descriptors}"
        if self.max_bytes is not None and largest > self.max_bytes:
            return f"size {largest}, at most {self.max_bytes}"
        if 0 in ask.sizes and not self.zero_sizes:
            return "a descriptor of size zero"
        if self.uniform_dense and not (ask.dense and len(ask.sizes) <= 1):
            return "sizes differ, or addresses are not multiples of the size apart"
        return None

    def why_not(self, ask: Ask) -> str | None:
        """Why the backend declares this copy unsupported, for whatever reason; None if it must work."""
        return self.not_tried(ask) or self.must_refuse(ask)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        for name in ("directions", "memory", "streams"):
            data[name] = sorted(member.value for member in data[name])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Support:
        return cls(
            **{
                **data,
                "directions": frozenset(map(Direction, data["directions"])),
                "memory": frozenset(map(Memory, data["memory"])),
                "streams": frozenset(map(Stream, data["streams"])),
            }
        )


@runtime_checkable
class Backend(Protocol):
    """One implementation of the descriptor copy."""

    name: str

    def support(self, device: Device) -> Support:
        """What this backend can do on `device`."""
        ...

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """Enqueue the copy of `sizes[i]` bytes from `src_ptrs[i]` to `dst_ptrs[i]` for every i on the current stream.

        Shapes: three 1-D CPU int64 tensors of equal length n; addresses and sizes in bytes. Returns before the copies
        finish. `is_src_access_order_any` permits reading the source before the stream gets there. Raises
        `DescriptorError` for malformed descriptors and `Refused` for what `support` excludes, both before any write.
        """
        ...

    def path(self) -> str:
        """The path that the latest `copy` took, e.g. "cuMemcpyBatchAsync" or "loop of cuMemcpyAsync"."""
        ...
