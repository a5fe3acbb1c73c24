"""What a case asks of a backend, as the facts a `Support` is judged by.

Pure arithmetic on a case: no address, no device. A descriptor of size zero counts as a descriptor and as a size; where
it points is the runner's choice and no part of `address_multiple`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from backends.contract import Ask, Support
from strategies.case import Case, Pool, Run, Tensor
from strategies.footprint import PAGE, destination_footprint, source_footprint
from strategies.scope import back

Offsets = np.ndarray[Any, np.dtype[np.int64]]

FEW = 64  # up to so many ids a plain loop is faster than numpy


def ask(case: Case) -> Ask:
    """The facts of `case` that a backend's declaration speaks about."""
    sizes = {0} if case.submission.zero_entries else set()
    bits = PAGE  # every bit that is set in some address; the lowest one is the multiple
    bases = zip(case.tensors, source_footprint(case).bases, destination_footprint(case).bases, strict=True)
    for tensor, source_base, destination_base in bases:
        if not tensor.sources:
            continue
        runs = tensor.runs or (Run(0, 0, tensor.page_bytes),)
        sizes.update(run.nbytes for run in runs)
        sources = [(run.source, run.source_step if run.count > 1 else 0) for run in runs]
        destinations = [(run.destination, run.destination_step if run.count > 1 else 0) for run in runs]
        for part in (
            *_parts(tensor.source, tensor.sources, source_base, sources),
            *_parts(tensor.destination, tensor.destinations, destination_base, destinations),
        ):
            bits |= part
    return Ask(
        direction=case.direction,
        source=case.source_memory,
        destination=case.destination_memory,
        stream=case.submission.stream,
        sizes=tuple(sorted(sizes)),
        descriptors=case.descriptors,
        address_multiple=bits & -bits,
        dense=is_dense(case),
        late=case.submission.late_source or case.submission.late_destination,
    )


def not_tried(case: Case, support: Support) -> str | None:
    """Why the case is refused on the declaration alone, or None.

    A limit that the backend has to refuse itself is a limit of one call. A case of several calls that is beyond one as
    a whole may be within it call by call, or in some of them, so it is not tried."""
    asked = ask(case)
    return support.not_tried(asked) or (support.must_refuse(asked) if case.submission.calls > 1 else None)


def return_of(asked: Ask) -> Ask:
    """What the way back of a round trip asks, where `asked` is what the way there does."""
    return replace(asked, direction=back(asked.direction), source=asked.destination, destination=asked.source)


def is_dense(case: Case) -> bool:
    """Whether all descriptors have one size and the addresses of each side lie on one grid of that size.

    That is what can be seen from descriptors: padding that fits the grid, or before a single block, can't."""
    tensors = [tensor for tensor in case.tensors if tensor.sources]
    found = {run.nbytes for tensor in tensors for run in tensor.runs or (Run(0, 0, tensor.page_bytes),)}
    if len(found) != 1:
        return not found
    size = found.pop()
    for side, footprint in (("source", source_footprint), ("destination", destination_footprint)):
        starts = []
        for tensor, base in zip(case.tensors, footprint(case).bases, strict=True):
            if tensor.sources:
                blocks = offsets(getattr(tensor, side), getattr(tensor, f"{side}s"))
                starts.append(base + blocks[:, None] + np.array(_pieces(tensor, side)))
        if any(((start - starts[0][0, 0]) % size).any() for start in starts):
            return False
    return True


def _pieces(tensor: Tensor, side: str) -> list[int]:
    """Where the descriptors of a block begin in it, on one side."""
    return [getattr(run, side) + i * getattr(run, f"{side}_step") for run in tensor.runs for i in range(run.count)] or [
        0
    ]


def offsets(pool: Pool, ids: Sequence[int] | Offsets) -> Offsets:
    """`pool.offset` of every id at once: int64, shape (len(ids),), bytes."""
    chunk, sub = np.divmod(np.asarray(ids, dtype=np.int64), pool.per_chunk)
    found: Offsets = pool.origin + chunk * (pool.chunk_stride or pool.per_chunk * pool.stride) + sub * pool.stride
    return found


def _parts(pool: Pool, ids: Sequence[int], base: int, starts: list[tuple[int, int]]) -> Iterator[int]:
    """The first address, and how far the others are from it: a power of two divides all addresses if it divides these.

    `starts`: per run its first offset in a block and its step."""
    first = pool.offset(ids[0])
    yield base + first + starts[0][0]
    for start, step in starts:
        yield start - starts[0][0]
        yield step
    if len(ids) <= FEW:
        for block in ids:
            yield pool.offset(block) - first
    else:
        yield int(np.bitwise_or.reduce(offsets(pool, ids) - first))
