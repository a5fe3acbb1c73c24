"""Measurements made up for tests: two backends on a simulated H200."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.audit.grid import Point
from conformance.audit.measurements import Measurements, Setting, Visit
from conformance.audit.timing import LIMIT
from conformance.selection.simulated import CUDA

SETTING = Setting(CUDA, "pinned", ("batch_dma", "triton_copy"), 0)
Times = Mapping[Point, tuple[float, float]]


def measured(times: Times, limit: float = 10.0, again: float = 1.0) -> Measurements:
    """Two visits a point, microseconds of (batch_dma, triton_copy); the second takes `again` times as long."""
    found = Measurements(SETTING)
    for point, (dma, kernel) in times.items():
        for factor in (1.0, again):
            visit = {"batch_dma": dma * factor, "triton_copy": kernel * factor, LIMIT: limit * factor}
            found.add(point, Visit(visit, 9))
    return found
