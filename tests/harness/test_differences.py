"""Where wrong bytes lie and where they come from, on images made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from some_cases import load

from conformance.judge.fill import Bytes
from conformance.judge.oracle import expected, initial
from conformance.judge.places import MOST, Comparison, compare
from strategies.case import Case, Fence, Pool
from strategies.footprint import destination_footprint, source_footprint

CASE = load(16, source_stride=20, destination_stride=24)  # blocks 2->1, 0->3, 1->0
BASE = destination_footprint(CASE).bases[0]


def spoilt(case: Case, side: str, *offsets: int, value: int = 0) -> Comparison:
    """What is said of these image offsets holding `value`."""
    before = initial(case)
    right: Bytes = getattr(expected(case, before), side).copy()
    found = right.copy()
    found[list(offsets)] = value
    return compare(case, side, right, found, before)


@pytest.mark.parametrize(
    ("offsets", "place", "copied"),
    [
        ([BASE], "block 0 (the first of its 16 bytes)", True),
        (range(BASE, BASE + 16), "block 0 (all 16 bytes)", True),
        ([BASE + 15], "block 0 (the last of its 16 bytes)", True),
        ([BASE + 5, BASE + 6], "block 0 (2 of 16 bytes, from byte 5 on)", True),
        ([BASE + 16], "padding behind block 0 (the first of its 8 bytes)", False),
        ([BASE + 48], "block 2, which is not in the mapping (the first of its 16 bytes)", False),
        ([BASE - 1], f"guard band before block 0 (the last of its {BASE} bytes)", False),
        ([0], f"guard band before block 0 (the first of its {BASE} bytes)", False),
        ([BASE + 88], "guard band behind block 3 (the first of its 256 bytes)", False),
    ],
)
def test_place(offsets: list[int], place: str, copied: bool) -> None:
    """Each part of an arena has its name, and the place inside it is told from the nearer end."""
    (found,) = spoilt(CASE, "destination", *offsets).differences
    assert (found.place, found.copied) == (place, copied)
    assert (found.side, found.nbytes, found.image_offset) == ("destination", len(offsets), min(offsets))


def test_parts_are_told_apart() -> None:
    """Bytes next to each other in different parts are two differences, in one part only one."""
    comparison = spoilt(CASE, "destination", BASE + 15, BASE + 16, BASE + 23)
    assert comparison.nbytes == 3
    assert [(difference.place.split(" (")[0], difference.nbytes) for difference in comparison.differences] == [
        ("block 0", 1),
        ("padding behind block 0", 2),
    ]


def test_tensors_are_named_where_there_are_several() -> None:
    """With more than one tensor a place names its own."""
    case = replace(CASE, tensors=(CASE.tensors[0], CASE.tensors[0]))
    second = destination_footprint(case).bases[1]
    assert spoilt(case, "destination", second).differences[0].place.startswith("block 0 of tensor 1 (")
    gap = spoilt(case, "destination", second - 1).differences[0].place
    assert gap.startswith("guard band before block 0 of tensor 1 (the last of its ")


def test_chunks_and_sparse_arenas() -> None:
    """A block's number is right in chunked pools, and where the image leaves out most of the arena."""
    far = Pool(blocks=1 << 28, stride=20, per_chunk=4, chunk_stride=100, origin=3)
    tensor = replace(CASE.tensors[0], source=far, sources=(2, 7, (1 << 28) - 1))
    case = replace(CASE, tensors=(tensor,))
    footprint = source_footprint(case)
    assert footprint.sparse
    at = footprint.image_offset(footprint.bases[0] + far.offset(7))
    assert spoilt(case, "source", at).differences[0].place == "block 7 (the first of its 16 bytes)"
    last = footprint.image_offset(footprint.bases[0] + far.offset((1 << 28) - 1) + 15)
    assert spoilt(case, "source", last).differences[0].place == f"block {(1 << 28) - 1} (the last of its 16 bytes)"


def test_origins() -> None:
    """What the found bytes look like: never written, zeros, another block's, the source's, something else."""
    before = initial(CASE)
    right = expected(CASE, before).destination.copy()
    there = slice(BASE, BASE + 16)
    source = source_footprint(CASE).bases[0]

    def origin(content: Bytes | int) -> str:
        found = right.copy()
        found[there] = content
        return compare(CASE, "destination", right, found, before).differences[0].origin

    assert origin(before.destination[there]) == "as before the copy: never written"
    assert origin(0) == "zeros"
    assert origin(before.source[source + 41 : source + 57]) == "bytes of source block 2, from byte 1 on"
    assert origin(right[there] ^ 1) in ("bytes of the source", "other bytes")
    assert origin(255) == "other bytes"


def test_many_differences_are_counted_but_not_listed() -> None:
    """The count is whole however many differences there are; the list is cut."""
    many = load(1, (tuple(range(4)), tuple(range(4))))
    case = replace(many, destination_fence=Fence.NONE)
    size = initial(case).destination.size
    offsets = list(range(0, size, 20))
    comparison = spoilt(case, "destination", *offsets, value=255)
    assert comparison.nbytes == len(offsets)
    assert len(comparison.differences) == min(MOST, len(offsets))


def test_equal_images_have_no_difference() -> None:
    """Nothing is said of equal images."""
    before = initial(CASE)
    assert compare(CASE, "source", before.source, np.array(before.source), before) == Comparison(0, ())
