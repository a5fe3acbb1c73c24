"""A case made ready for the device process: where the arenas' bytes lie, and offsets instead of block ids.

All arithmetic on blocks is done here, by the worker, of which there are many; the one process that owns the device
only adds two addresses. Plain data; the offsets travel beside it, in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from backends.contract import Memory
from conformance.execution.descriptors import Descriptors, offsets
from strategies.case import Case, Submission
from strategies.footprint import Footprint, destination_footprint, source_footprint


@dataclass(frozen=True)
class Job:
    """What the device process has to know of a case."""

    source_memory: Memory
    destination_memory: Memory
    source: Footprint
    destination: Footprint
    submission: Submission
    round_trip: bool
    seed: int
    descriptors: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of the source image, bytes of the destination image, number of descriptors."""
        return self.source.image_bytes, self.destination.image_bytes, self.descriptors


def prepare(case: Case) -> tuple[Job, Descriptors]:
    """The job of a case, and its descriptors counted from the beginning of each arena."""
    source, destination = source_footprint(case), destination_footprint(case)
    batch = offsets(case, source, destination)
    job = Job(
        case.source_memory,
        case.destination_memory,
        source,
        destination,
        case.submission,
        case.round_trip,
        case.seed,
        batch.sizes.size,
    )
    return job, batch
