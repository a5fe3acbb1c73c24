"""Descriptor tensors spoiled on purpose, one way for each `Malformed`. Runs in the device process."""

from __future__ import annotations

from typing import Any

from conformance.addresses import Descriptors
from strategies.case import Malformed


def spoil(batch: Descriptors, how: Malformed, platform: str) -> tuple[Any, Any, Any]:
    """The three arguments of a copy, malformed.

    The middle descriptor is the spoiled one: whoever checks row by row while copying, from either end, has written
    something by then."""
    import torch

    source, destination, sizes = (
        torch.from_numpy(part.copy()) for part in (batch.source, batch.destination, batch.sizes)
    )
    middle = len(sizes) // 2
    if how is Malformed.LENGTHS_DIFFER:
        return source, destination, sizes[:-1]
    if how is Malformed.WRONG_DTYPE:
        return source, destination, sizes.to(torch.float64)
    if how is Malformed.NEGATIVE_SIZE:
        sizes[middle] = -sizes[middle]
    elif how is Malformed.NULL_SOURCE:
        source[middle] = 0
    elif how is Malformed.NULL_DESTINATION:
        destination[middle] = 0
    elif how is Malformed.TWO_DIMENSIONS:
        return source[:, None], destination[:, None], sizes[:, None]
    elif how is Malformed.ON_DEVICE:
        place = {"cpu": "meta", "rocm": "cuda"}.get(platform, platform)
        return source.to(place), destination.to(place), sizes.to(place)
    elif how is Malformed.NOT_A_TENSOR:
        return batch.source.tolist(), batch.destination.tolist(), batch.sizes.tolist()
    return source, destination, sizes
