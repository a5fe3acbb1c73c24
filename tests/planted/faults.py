"""The planted faults as data: what each must trip, and how small the case that shows it has to become."""

from __future__ import annotations

import time
from dataclasses import dataclass

from conformance.requirements import copies as req
from conformance.requirements.budgets import COPY, MALFORMED, REFUSED, UNDEFINED, ClaimKind
from conformance.search.search import size
from strategies.case import Case

MODULE = "tests.planted.wrong"


@dataclass(frozen=True)
class Fault:
    """One faulty copy of `tests.planted.wrong`, and the most that its shrunk case may hold."""

    attribute: str
    requirements: tuple[str, ...]  # any of them may be the first that a failure names
    descriptors: int = 1
    page_bytes: int = 1
    tensors: int = 1
    oddities: int = 0  # see conformance.search.search.size
    kind: ClaimKind = COPY
    seeds: int = 3  # run seeds tried with drawn cases alone; none where they are too large to be drawn often
    alone: bool = True  # the shrunk case fails without the cases before it; else those decide how small it gets
    lingers: float = 0.0  # seconds for which it may write into whatever runs after it

    @property
    def backend(self) -> str:
        return f"{MODULE}:{self.attribute}"

    def settle(self) -> None:
        """Wait until nothing of it can meet the next fault's cases."""
        time.sleep(self.lingers)

    def too_large(self, case: Case) -> str:
        """In what the case is larger than it has to be, or ""."""
        tensors, descriptors, oddities, page_bytes, _ = size(case)
        found = {"tensors": tensors, "descriptors": descriptors, "oddities": oddities, "page_bytes": page_bytes}
        return ", ".join(
            f"{name}: {value}, at most {getattr(self, name)}"
            for name, value in found.items()
            if value > getattr(self, name)
        )


FAULTS = (
    Fault("dropped_tail", (req.COPIED,)),
    Fault("touches_padding", (req.UNTOUCHED,)),
    Fault("first_chunk_only", (req.COPIED,), page_bytes=8193),
    Fault("last_partial_chunk_lost", (req.COPIED,), page_bytes=8193),
    Fault("first_size_for_all", (req.COPIED, req.UNTOUCHED, req.FAULT), 2, page_bytes=3, tensors=2, oddities=1),
    Fault("byte_past_the_end", (req.UNTOUCHED,)),
    Fault("over_read", (req.FAULT,), oddities=2),
    Fault("under_read", (req.FAULT,), oddities=2),
    Fault("off_by_one_block", (req.COPIED, req.FAULT), descriptors=4),
    Fault("swapped_direction", (req.COPIED,)),
    Fault("modifies_source", (req.SOURCE,)),
    Fault("wrong_stride", (req.COPIED,), descriptors=2),
    Fault("source_rounded_down", (req.COPIED,)),
    Fault("unsigned_32_bit_offsets", (req.COPIED, req.FAULT), descriptors=2, page_bytes=3),
    Fault("signed_32_bit_offsets", (req.COPIED, req.FAULT), descriptors=2, page_bytes=3),
    Fault("skipped_last", (req.COPIED,)),
    Fault("only_64_rows", (req.COPIED,), descriptors=65),
    Fault("only_1024_rows", (req.COPIED,), descriptors=1025),
    Fault("only_4096_rows", (req.COPIED,), descriptors=4097, seeds=0),
    Fault("only_8192_rows", (req.COPIED,), descriptors=8193, seeds=0),
    Fault("one_place_a_source", (req.COPIED,), descriptors=2),
    Fault("merged_by_source", (req.COPIED,), descriptors=2),
    Fault("merged_by_destination", (req.COPIED,), descriptors=2),
    Fault("first_and_last_look_consecutive", (req.COPIED,), descriptors=4, seeds=2),
    Fault("stale_descriptors", (req.COPIED,), 2, page_bytes=64, oddities=1, alone=False),
    Fault("wrong_from_shared_memory", (req.COPIED,)),
    Fault("IgnoresStream", (req.COPIED,), oddities=1),
    Fault("EarlyWhenAllowed", (req.COPIED,), oddities=2),
    Fault("ReadsDescriptorsLate", (req.COPIED,), oddities=1),
    Fault("WritesAfterSynchronise", (req.COPIED, req.UNTOUCHED), lingers=0.2),
    Fault("zero_size_is_an_error", (req.DECLARED,)),
    Fault("undeclared_limit", (req.DECLARED,)),
    Fault("undeclared_maximum", (req.DECLARED,), descriptors=1025, seeds=1),
    Fault("adds_up_duplicates", (req.UNDEFINED,), descriptors=2, kind=UNDEFINED),
    Fault("accepts_negative_sizes", (req.REJECTED,), kind=MALFORMED),
    Fault("accepts_null_addresses", (req.REJECTED,), kind=MALFORMED),
    Fault("accepts_float_sizes", (req.REJECTED,), kind=MALFORMED),
    Fault("silent_about_malformed_input", (req.REJECTED,), kind=MALFORMED),
    Fault("checks_while_it_copies", (req.INPUT_UNTOUCHED,), descriptors=2, kind=MALFORMED),
    Fault("copies_what_pairs_up", (req.INPUT_UNTOUCHED,), descriptors=2, kind=MALFORMED),
    Fault("refuses_without_reason", (req.REASON,), kind=REFUSED),
    Fault("accepts_what_it_declares_unsupported", (req.REASON,), kind=REFUSED),
    Fault("writes_before_it_refuses", (req.REASON,), page_bytes=9, kind=REFUSED),
)

RIGHT = (
    "plain_loop",
    "sorted_rows",
    "reversed_rows",
    "merged_on_both_sides",
    "numpy_gather",
    "in_chunks",
    "in_threads",
    "multiples_of_eight",
    "Asynchronous",
)
