"""Memory of both sides of a copy, every byte of which is compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from backends.contract import Backend
from backends.drivers import cpu_stream

Row = tuple[int, int, int]  # source offset, destination offset, size; bytes


class Arena:
    """A random source and a destination of 0xA5, and what the destination has to hold after copies."""

    def __init__(self, nbytes: int) -> None:
        self.source = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
        self.destination = np.full(nbytes, 0xA5, dtype=np.uint8)
        self.wanted = self.destination.copy()

    def descriptors(self, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tensors of a batch, which is noted as wanted."""
        for source, destination, size in rows:
            self.wanted[destination : destination + size] = self.source[source : source + size]
        columns = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)
        return (
            columns[:, 0].contiguous() + self.source.ctypes.data,
            columns[:, 1].contiguous() + self.destination.ctypes.data,
            columns[:, 2].contiguous(),
        )

    def check(self, backend: Backend, rows: Sequence[Row]) -> None:
        """Copy `rows` and compare every byte."""
        before = self.source.copy()
        backend.copy(*self.descriptors(rows))
        cpu_stream.current().synchronize()
        np.testing.assert_array_equal(self.destination, self.wanted)
        np.testing.assert_array_equal(self.source, before)
