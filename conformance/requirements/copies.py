"""The requirements, as data: a stable id, what must hold, and why. SPEC.md is rendered from here; tests name the ids.

An id is never reused and never changes its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """One thing that must hold for every backend (or, for SELECT-*, for the selection rule)."""

    id: str
    statement: str
    why: str
    mandatory: bool = True


COPIED = "BYTES-COPIED"
UNTOUCHED = "BYTES-UNTOUCHED"
SOURCE = "BYTES-SOURCE"
ROUND_TRIP = "BYTES-ROUND-TRIP"
AGREE = "BYTES-AGREE"
UNDEFINED = "BYTES-UNDEFINED"
REJECTED = "INPUT-REJECTED"
INPUT_UNTOUCHED = "INPUT-UNTOUCHED"
DECLARED = "REFUSE-DECLARED"
REASON = "REFUSE-REASON"
FAULT = "SURVIVE-FAULT"
HANG = "SURVIVE-HANG"
HEALTHY = "SURVIVE-HEALTHY"
CHOSEN = "SELECT-CHOSEN-COPIES"
CELLS_COVERED = "COVER-CELLS"
BYTES_COVERED = "COVER-BYTES"
TAKEN = "SELECT-PATH-TAKEN"

REQUIREMENTS = (
    Requirement(
        COPIED,
        "After the stream is synchronised, every byte that a descriptor names is in the destination, identical to "
        "what the source held when the stream came to the copy, whatever the stream did with either side before.",
        "A wrong byte in a KV block is a wrong answer that nobody sees.",
    ),
    Requirement(
        UNTOUCHED,
        "Every byte of the destination allocation that no descriptor names is unchanged: other blocks, padding "
        "between rows, gaps between tensors, guard bands on both ends.",
        "A neighbour's block belongs to another request; a byte beyond the pool to somebody else.",
    ),
    Requirement(
        SOURCE,
        "The source allocation is unchanged, all of it.",
        "A block is read by several requests; a copy that writes its source corrupts those that come later.",
    ),
    Requirement(
        ROUND_TRIP,
        "A store followed by a load (or the inverse of any copy) restores the original blocks after they were wiped.",
        "That is the one thing an offload worker promises: what was stored comes back.",
    ),
    Requirement(
        AGREE,
        "All backends of the platform leave byte-identical destinations for one case.",
        "A serving engine changes the path with page size, direction and platform, and the answer may not change.",
    ),
    Requirement(
        UNDEFINED,
        "With duplicate or overlapping destinations, which the drivers leave undefined, the backend refuses before "
        "writing, or each byte of the duplicated block is that of one of the contents copied to it; everything else is "
        "as required.",
        "Undefined may mean any order, piece by piece; it may not mean a byte from elsewhere or a stray write.",
    ),
    Requirement(
        REJECTED,
        "Malformed descriptors (lengths that differ, a wrong dtype, shape or device, a negative size, a null address) "
        "raise an error that says what was wrong.",
        "A descriptor goes to a DMA engine unchecked: what is not caught here kills the process or another's memory.",
    ),
    Requirement(
        INPUT_UNTOUCHED,
        "When descriptors are rejected, nothing has been written.",
        "Half a batch written is worse than none: the caller thinks nothing happened.",
    ),
    Requirement(
        DECLARED,
        "What a backend does not declare unsupported, it copies; it never refuses.",
        "An undeclared limit is found in production, by whoever hits it first.",
    ),
    Requirement(
        REASON,
        "What a backend declares unsupported, it refuses with a reason, before it has written anything.",
        "The caller can then take another path; a silent half copy leaves it no choice.",
    ),
    Requirement(
        FAULT,
        "No case kills the process: no signal, no exit, no error of the device.",
        "An illegal access poisons the context for good and takes every request of the engine with it.",
    ),
    Requirement(
        HANG,
        "Every case ends within its deadline (from its bytes and the measured bandwidth).",
        "A copy that never finishes holds the blocks, the stream and in the end the engine.",
    ),
    Requirement(
        HEALTHY,
        "After a case that passed, the device has no error pending, also a little later.",
        "An error that surfaces one call later is blamed on whoever comes next.",
    ),
    Requirement(
        CHOSEN,
        "For facts that this device can realise, the backend that the selection rule chooses copies right.",
        "A rule can agree with its table and still choose what this device can't do.",
    ),
    Requirement(
        TAKEN,
        "The path that a backend says it took, and that the rule chose, is the one that the device's profiler shows; "
        "where no profiler shows any, nothing is planned.",
        "Who measures or debugs a path that was never taken draws the wrong conclusion, and nobody sees it.",
    ),
    Requirement(
        CELLS_COVERED,
        "At gate and above, the cases that a backend copied meet every required value of every axis that this device "
        "and the backend's declaration allow.",
        "Public bugs cluster where tests were blind by coincidence; a run that did not look there has shown nothing.",
    ),
    Requirement(
        BYTES_COVERED,
        "The cases that a backend copied moved bytes, and bytes were compared.",
        "A run of empty batches passes everything.",
    ),
)
