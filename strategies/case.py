"""A case: everything that decides what one copy does, as plain data.

Geometry, memory kinds, block mapping, direction, submission and the seed of the fill. It holds block ids and offsets,
never an address, so it can be drawn in one process, run in another, stored, sent, replayed and compared across
machines. JSON both ways; a file that is not a case gets a `CaseError` that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from backends.contract import Direction, Memory, Stream

FORMAT = 1
MOST_DESCRIPTORS = 1 << 20
MOST_MOVED = 1 << 28  # bytes
MOST_OFFSET = 1 << 46  # bytes; user addresses of today's machines have 47 bits


class CaseError(ValueError):
    """A case that can't be: the text names the field, its value, and what it may be."""


class Fence(str, Enum):
    """Which end of an arena lies at an unmapped page, so that one byte beyond is a fault."""

    NONE = "none"  # guard bands on both ends
    AFTER = "after"  # the last block's last byte is the last mapped byte
    BEFORE = "before"  # the first block's first byte is the first mapped byte


class Malformed(str, Enum):
    """One way to spoil descriptors; the backend must raise a clear error before anything is written."""

    LENGTHS_DIFFER = "lengths-differ"  # sizes is one shorter
    WRONG_DTYPE = "wrong-dtype"  # float64 sizes
    NEGATIVE_SIZE = "negative-size"
    NULL_SOURCE = "null-source"
    NULL_DESTINATION = "null-destination"
    TWO_DIMENSIONS = "two-dimensions"  # shape (n, 1)
    ON_DEVICE = "on-device"  # descriptors in device memory; where device is CPU: on torch's meta device
    NOT_A_TENSOR = "not-a-tensor"  # lists of integers


@dataclass(frozen=True)
class Pool:
    """Where the blocks of one tensor lie on one side.

    Block b begins `origin + (b // per_chunk) * chunk_stride + (b % per_chunk) * stride` bytes behind the tensor's
    base, which is a multiple of 4096. Blocks may not overlap.
    """

    blocks: int  # ids 0 .. blocks - 1; ids no mapping touches may have no memory behind them when the pool is huge
    stride: int  # bytes from one block to the next inside a chunk; for per_chunk 1 equal to chunk_stride
    per_chunk: int = 1  # blocks in a chunk
    chunk_stride: int = 0  # bytes from one chunk to the next; 0 means per_chunk * stride
    origin: int = 0  # bytes from the base to block 0: the residue of every address

    def offset(self, block: int) -> int:
        """Bytes from the tensor's base to the block's first byte."""
        chunk, sub = divmod(block, self.per_chunk)
        return self.origin + chunk * (self.chunk_stride or self.per_chunk * self.stride) + sub * self.stride


@dataclass(frozen=True)
class Run:
    """`count` pieces of `nbytes` of a page, each copied by a descriptor of its own.

    Piece i: `source + i * source_step` in the source block to `destination + i * destination_step` in the destination
    block (all in bytes from the block's first byte).
    """

    source: int
    destination: int
    nbytes: int
    count: int = 1
    source_step: int = 0
    destination_step: int = 0


@dataclass(frozen=True)
class Tensor:
    """One tensor of a transfer (a layer, or a cache group): its pages, both pools, and which block goes where."""

    page_bytes: int  # un-padded bytes of a block
    source: Pool
    destination: Pool
    sources: tuple[int, ...]  # block ids, in the order of their descriptors
    destinations: tuple[int, ...]  # no id twice, unless Case.undefined
    runs: tuple[Run, ...] = ()  # empty: each page is one descriptor

    @property
    def needs(self) -> tuple[int, int]:
        """Bytes of a block that may be touched, from its first one on: (source, destination)."""
        source = [run.source + _reach(run.source_step, run) for run in self.runs]
        destination = [run.destination + _reach(run.destination_step, run) for run in self.runs]
        return max([self.page_bytes, *source]), max([self.page_bytes, *destination])


@dataclass(frozen=True)
class Submission:
    """How the batch is handed to the backend."""

    stream: Stream = Stream.SIDE
    calls: int = 1  # the batch is split over so many consecutive calls
    zero_entries: tuple[int, ...] = ()  # a descriptor of size zero is inserted before each of these positions
    order_any: bool = False  # is_src_access_order_any; never together with late_source
    late_source: bool = False  # the source receives its bytes on the same stream, just before the copy is enqueued
    late_destination: bool = False  # the destination receives what it holds before the copy in the same way
    reuse_descriptors: bool = False  # descriptor tensors are overwritten as soon as the call returns
    malformed: Malformed | None = None


@dataclass(frozen=True)
class Case:
    """One copy to try. See the module's docstring."""

    direction: Direction
    source_memory: Memory
    destination_memory: Memory
    tensors: tuple[Tensor, ...]
    submission: Submission = field(default_factory=Submission)
    source_fence: Fence = Fence.NONE
    destination_fence: Fence = Fence.NONE
    round_trip: bool = False  # afterwards the source is wiped and the blocks are copied back
    undefined: bool = False  # duplicate destinations: any of the duplicates' contents is a right answer, or a refusal
    seed: int = 0  # of the fill

    def __post_init__(self) -> None:
        check(self)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts and lists; fields that hold their default are left out."""
        return {"format": FORMAT, **_plain(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        """The inverse of `to_json`. Raises CaseError for unknown fields, wrong types and impossible values."""
        if not isinstance(data, Mapping):
            raise CaseError(f"a case is a JSON object, not {type(data).__name__}")
        if data.get("format") != FORMAT:
            raise CaseError(f"format: {data.get('format')!r}, this version reads {FORMAT}")
        return _case({key: value for key, value in data.items() if key != "format"})

    def dumps(self) -> str:
        """One line of JSON with sorted keys: equal cases give equal text."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def load(cls, path: Path) -> Case:
        """Read a case from a file: the case itself, or an object that holds it under "case"."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise CaseError(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise CaseError(f"{path}: not JSON ({error})") from error
        try:
            return cls.from_json(data["case"] if isinstance(data, dict) and "case" in data else data)
        except CaseError as error:
            raise CaseError(f"{path}: {error}") from error

    @property
    def descriptors(self) -> int:
        """How many descriptors the batch holds, those of size zero included."""
        per_page = [sum(run.count for run in tensor.runs) or 1 for tensor in self.tensors]
        pages = [len(tensor.sources) for tensor in self.tensors]
        return sum(a * b for a, b in zip(per_page, pages, strict=True)) + len(self.submission.zero_entries)


def check(case: Case) -> None:
    """Raise CaseError unless the case can be built: ids in their pools, blocks apart, pieces inside their page."""
    _require(len(case.tensors) >= 1, "tensors: at least one")
    _check_limits(case)
    for side, memory, on_device in (
        ("source_memory", case.source_memory, case.direction.source_on_device),
        ("destination_memory", case.destination_memory, case.direction.destination_on_device),
    ):
        _require(
            memory.on_device == on_device,
            f"{side}: {memory.value} does not fit direction {case.direction.value}",
        )
    _require(case.destination_memory is not Memory.READ_ONLY, "destination_memory: read-only can't be written")
    _require(
        not (case.round_trip and case.source_memory is Memory.READ_ONLY), "round_trip: a read-only source can't return"
    )
    for index, tensor in enumerate(case.tensors):
        _check_tensor(f"tensors[{index}]", tensor, case)
    submission = case.submission
    _require(1 <= submission.calls <= 64, f"submission.calls: {submission.calls}, may be 1 to 64")
    _require(
        not (submission.order_any and submission.late_source),
        "submission: order_any permits early reads, so the source can't be late",
    )
    _require(
        all(0 <= at <= MOST_DESCRIPTORS for at in submission.zero_entries),
        f"submission.zero_entries: positions are 0 to {MOST_DESCRIPTORS}",
    )
    _require(
        not (submission.late_source and case.source_memory is Memory.READ_ONLY),
        "submission.late_source: read-only memory can't be written late",
    )
    _require(
        submission.malformed is None or (case.descriptors > 0 and submission.calls == 1),
        "submission.malformed: one call of one descriptor or more",
    )
    _require(0 <= case.seed < MOST_OFFSET, f"seed: {case.seed}, may be 0 or more, below 2^46")
    _require(
        submission.malformed is None or not submission.zero_entries,
        "submission: a malformed batch has no zero_entries, which would make some spoiled descriptors well-formed",
    )
    for fence, pool, which in (
        (case.source_fence, case.tensors[0].source, "source"),
        (case.destination_fence, case.tensors[0].destination, "destination"),
    ):
        _require(
            fence is not Fence.BEFORE or pool.origin == 0,
            f"{which}_fence: before, so tensors[0].{which}.origin must be 0, not {pool.origin}",
        )


def _check_limits(case: Case) -> None:
    """Before anything is expanded: no case may take more memory or time than a machine has."""
    descriptors = case.descriptors
    _require(descriptors <= MOST_DESCRIPTORS, f"tensors: {descriptors} descriptors in all, at most {MOST_DESCRIPTORS}")
    moved = 0
    for index, tensor in enumerate(case.tensors):
        runs = sum(run.nbytes * run.count for run in tensor.runs)
        moved += len(tensor.sources) * max(tensor.page_bytes, runs)
        numbers = [tensor.page_bytes]
        for pool in (tensor.source, tensor.destination):
            numbers += [pool.blocks, pool.stride, pool.per_chunk, pool.chunk_stride, pool.origin]
            row = max(pool.chunk_stride, pool.per_chunk * pool.stride)
            numbers.append(pool.origin + (pool.blocks // max(pool.per_chunk, 1) + 1) * row)
        for run in tensor.runs:
            numbers += [run.nbytes, run.count, run.source, run.destination, run.source_step, run.destination_step]
            numbers += [run.count * run.source_step, run.count * run.destination_step]
        worst = max(numbers, key=abs)
        _require(abs(worst) < MOST_OFFSET, f"tensors[{index}]: {worst} bytes or blocks, beyond any address")
    _require(moved <= MOST_MOVED, f"tensors: {moved} bytes to copy, at most {MOST_MOVED}")


def _check_tensor(where: str, tensor: Tensor, case: Case) -> None:
    _require(tensor.page_bytes >= 1, f"{where}.page_bytes: {tensor.page_bytes}, may be 1 or more")
    _require(
        len(tensor.sources) == len(tensor.destinations),
        f"{where}: {len(tensor.sources)} sources, {len(tensor.destinations)} destinations; they go pairwise",
    )
    source_need, destination_need = tensor.needs
    for name, pool, ids, need in (
        ("source", tensor.source, tensor.sources, source_need),
        ("destination", tensor.destination, tensor.destinations, destination_need),
    ):
        at = f"{where}.{name}"
        _require(pool.blocks >= 1, f"{at}.blocks: {pool.blocks}, may be 1 or more")
        _require(pool.per_chunk >= 1, f"{at}.per_chunk: {pool.per_chunk}, may be 1 or more")
        _require(pool.origin >= 0, f"{at}.origin: {pool.origin}, may be 0 or more")
        _require(pool.stride >= need, f"{at}.stride: {pool.stride}, but a block takes {need} bytes")
        if pool.chunk_stride:
            least = (pool.per_chunk - 1) * pool.stride + need
            _require(pool.chunk_stride >= least, f"{at}.chunk_stride: {pool.chunk_stride}, a chunk takes {least}")
        outside = [block for block in ids if not 0 <= block < pool.blocks]
        _require(not outside, f"{at}: block {outside[:1]} is outside 0 .. {pool.blocks - 1}")
    twice = len(set(tensor.destinations)) != len(tensor.destinations)
    _require(case.undefined or not twice, f"{where}.destinations: an id twice is undefined; set Case.undefined")
    if case.round_trip:
        once = len(set(tensor.sources)) == len(tensor.sources)
        _require(once, f"{where}.sources: an id twice has no way back (round_trip)")
    for number, run in enumerate(tensor.runs):
        at = f"{where}.runs[{number}]"
        _require(run.nbytes >= 1 and run.count >= 1, f"{at}: nbytes and count are 1 or more")
        _require(min(run.source, run.destination) >= 0, f"{at}: offsets are 0 or more")
        apart = run.count == 1 or min(run.source_step, run.destination_step) >= run.nbytes
        _require(apart, f"{at}: steps smaller than nbytes make pieces overlap")
    _require(
        case.undefined or not _overlap([(run.destination, run.destination_step, run) for run in tensor.runs]),
        f"{where}.runs: two pieces write the same bytes of a page, which is undefined; set Case.undefined",
    )
    _require(
        not case.round_trip or not _overlap([(run.source, run.source_step, run) for run in tensor.runs]),
        f"{where}.runs: two pieces of one source byte have no way back (round_trip)",
    )


def _overlap(runs: list[tuple[int, int, Run]]) -> bool:
    """Whether pieces of runs (start, step, run) share a byte. Inside one run they don't."""
    if len(runs) < 2:
        return False
    pieces = sorted((start + i * step, run.nbytes) for start, step, run in runs for i in range(run.count))
    return any(start + nbytes > after for (start, nbytes), (after, _) in pairwise(pieces))


def _reach(step: int, run: Run) -> int:
    return (run.count - 1) * step + run.nbytes


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise CaseError(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        kept = {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != _default(f)}
        return {name: _plain(item) for name, item in kept.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _default(item: Any) -> Any:
    return item.default_factory() if callable(item.default_factory) else item.default


def _case(data: Mapping[str, Any]) -> Case:
    case: Case = _read(Case, data, "case")
    return case


def _read(kind: Any, value: Any, where: str) -> Any:
    """`value` (parsed JSON) as `kind`, which is one of the types that the dataclasses above use."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise CaseError(f"{where}: {value!r} is not a list")
        item = get_args(kind)[0]
        return tuple(_read(item, each, f"{where}[{i}]") for i, each in enumerate(value))
    if type(None) in get_args(kind):
        return None if value is None else _read(next(k for k in get_args(kind) if k is not type(None)), value, where)
    if is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise CaseError(f"{where}: {value!r}, may be {allowed}") from None
    if type(value) is not kind:
        raise CaseError(f"{where}: {value!r} is not {kind.__name__}")
    return value


def _read_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise CaseError(f"{where}: {value!r} is not an object")
    hints = _hints(kind)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise CaseError(f"{where}: unknown field {unknown[0]!r}; known: {', '.join(hints)}")
    read = {name: _read(hints[name], item, f"{where}.{name}") for name, item in value.items()}
    try:
        return kind(**read)
    except TypeError as error:
        raise CaseError(f"{where}: {error}") from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
