"""From block ids to descriptors, vectorised: offsets in each arena and sizes; and from those to addresses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strategies.case import Case, Pool, Tensor
from strategies.footprint import Footprint

Int64s = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Descriptors:
    """Three int64 arrays of length n: source addresses, destination addresses, sizes in bytes."""

    source: Int64s
    destination: Int64s
    sizes: Int64s

    def at(self, source: int, destination: int) -> Descriptors:
        """The descriptors of arenas that begin at these addresses; sizes are copied too."""
        return Descriptors(self.source + source, self.destination + destination, self.sizes.copy())

    def parts(self, calls: int) -> list[slice]:
        """The entries of each of `calls` consecutive batches, as even as can be."""
        edges = [self.sizes.size * call // calls for call in range(calls + 1)]
        return [slice(*pair) for pair in pairwise(edges)]

    def backwards(self) -> Descriptors:
        """The inverse copy, with arrays of its own."""
        return Descriptors(self.destination.copy(), self.source.copy(), self.sizes.copy())


def offsets(case: Case, source: Footprint, destination: Footprint) -> Descriptors:
    """The descriptors of a case, their addresses counted from the beginning of each arena."""
    columns = [_of_tensor(tensor, source.bases[i], destination.bases[i]) for i, tensor in enumerate(case.tensors)]
    sources, destinations, sizes = columns[0] if len(columns) == 1 else map(np.concatenate, zip(*columns, strict=True))
    if case.submission.zero_entries:
        at = np.minimum(np.array(case.submission.zero_entries, np.int64), sizes.size)
        sources = np.insert(sources, at, source.bases[0])
        destinations = np.insert(destinations, at, destination.bases[0])
        sizes = np.insert(sizes, at, 0)
    return Descriptors(sources, destinations, sizes)


def _of_tensor(tensor: Tensor, source_base: int, destination_base: int) -> tuple[Int64s, Int64s, Int64s]:
    source = _blocks(tensor.source, tensor.sources, source_base)
    destination = _blocks(tensor.destination, tensor.destinations, destination_base)
    if not tensor.runs:
        return source, destination, np.full(source.size, tensor.page_bytes, np.int64)
    runs = tensor.runs
    source_in_page = np.concatenate([run.source + np.arange(run.count) * run.source_step for run in runs])
    destination_in_page = np.concatenate(
        [run.destination + np.arange(run.count) * run.destination_step for run in runs]
    )
    sizes = np.repeat([run.nbytes for run in runs], [run.count for run in runs])
    return (
        (source[:, None] + source_in_page).ravel(),
        (destination[:, None] + destination_in_page).ravel(),
        np.tile(sizes, source.size).astype(np.int64),
    )


def _blocks(pool: Pool, ids: tuple[int, ...], base: int) -> Int64s:
    blocks = np.array(ids, np.int64)
    if pool.per_chunk == 1:
        return base + pool.origin + blocks * (pool.chunk_stride or pool.stride)
    chunk_stride = pool.chunk_stride or pool.per_chunk * pool.stride
    return base + pool.origin + blocks // pool.per_chunk * chunk_stride + blocks % pool.per_chunk * pool.stride
