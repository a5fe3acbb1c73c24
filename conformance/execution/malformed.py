"""Descriptor tensors spoiled on purpose, one way for each `Malformed`. Runs in the device process."""

from __future__ import annotations

from typing import Any

from conformance.execution.descriptors import Descriptors
from strategies.case import Malformed


def spoil(batch: Descriptors, how: Malformed, platform: str, seed: int) -> tuple[Any, Any, Any]:
    """The three arguments of a copy, malformed. The seed chooses which: all of them where it is a multiple of 4, else
    one; and whether a length is too short or too long.

    The middle descriptor is the spoiled one: whoever checks row by row while copying, from either end, has written
    something by then."""
    import torch

    columns: list[Any] = [torch.from_numpy(part.copy()) for part in (batch.source, batch.destination, batch.sizes)]
    source, destination, sizes = columns
    middle, one = len(sizes) // 2, seed % 3
    if how is Malformed.NEGATIVE_SIZE:
        sizes[middle] = -sizes[middle]
    elif how is Malformed.NULL_SOURCE:
        source[middle] = 0
    elif how is Malformed.NULL_DESTINATION:
        destination[middle] = 0
    elif how is Malformed.LENGTHS_DIFFER:
        longer = torch.cat([columns[one], columns[one][-1:]])
        columns[one] = longer if seed % 2 else columns[one][:-1]
    else:
        for place in range(3) if seed % 4 == 0 else (one,):
            columns[place] = _spoiled(columns[place], how, platform)
    return columns[0], columns[1], columns[2]


def _spoiled(column: Any, how: Malformed, platform: str) -> Any:
    """One argument of a wrong dtype, shape or kind, or in the wrong place."""
    import torch

    if how is Malformed.WRONG_DTYPE:
        return column.to(torch.float64)
    if how is Malformed.TWO_DIMENSIONS:
        return column[:, None]
    if how is Malformed.ON_DEVICE:
        return column.to({"cpu": "meta", "rocm": "cuda"}.get(platform, platform))
    return column.tolist()
