"""From block ids to descriptors: addresses and sizes, vectorised. The only place where a case meets an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from strategies.case import Case, Pool, Run, Tensor
from strategies.footprint import Footprint

Int64s = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Descriptors:
    """Three int64 arrays of length n: source addresses, destination addresses, sizes in bytes."""

    source: Int64s
    destination: Int64s
    sizes: Int64s

    def split(self, calls: int) -> list[Descriptors]:
        """The batch as `calls` consecutive batches, each with arrays of its own."""
        parts = zip(*(np.array_split(part, calls) for part in (self.source, self.destination, self.sizes)), strict=True)
        return [Descriptors(*(part.copy() for part in batch)) for batch in parts]

    def backwards(self) -> Descriptors:
        """The inverse copy."""
        return Descriptors(self.destination, self.source, self.sizes)


def descriptors(case: Case, source: Footprint, destination: Footprint, bases: tuple[int, int]) -> Descriptors:
    """The descriptors of a case whose arenas begin at the two addresses `bases` (source, destination)."""
    columns = [
        _of_tensor(tensor, bases[0] + source.bases[i], bases[1] + destination.bases[i])
        for i, tensor in enumerate(case.tensors)
    ]
    sources, destinations, sizes = (np.concatenate(column) for column in zip(*columns, strict=True))
    if case.submission.zero_entries:
        at = np.minimum(np.array(case.submission.zero_entries, np.int64), sizes.size)
        sources = np.insert(sources, at, bases[0] + source.bases[0])
        destinations = np.insert(destinations, at, bases[1] + destination.bases[0])
        sizes = np.insert(sizes, at, 0)
    return Descriptors(sources, destinations, sizes)


def _of_tensor(tensor: Tensor, source_base: int, destination_base: int) -> tuple[Int64s, Int64s, Int64s]:
    runs = tensor.runs or (Run(0, 0, tensor.page_bytes),)
    source_in_page = np.concatenate([run.source + np.arange(run.count) * run.source_step for run in runs])
    destination_in_page = np.concatenate(
        [run.destination + np.arange(run.count) * run.destination_step for run in runs]
    )
    sizes = np.repeat([run.nbytes for run in runs], [run.count for run in runs])
    source = _blocks(tensor.source, tensor.sources, source_base)
    destination = _blocks(tensor.destination, tensor.destinations, destination_base)
    return (
        (source[:, None] + source_in_page).ravel(),
        (destination[:, None] + destination_in_page).ravel(),
        np.tile(sizes, source.size).astype(np.int64),
    )


def _blocks(pool: Pool, ids: tuple[int, ...], base: int) -> Int64s:
    blocks = np.array(ids, np.int64)
    chunk_stride = pool.chunk_stride or pool.per_chunk * pool.stride
    return base + pool.origin + blocks // pool.per_chunk * chunk_stride + blocks % pool.per_chunk * pool.stride
