"""What memory must hold after a case: computed with numpy from block ids, independent of torch, of every backend,
and of the code that makes descriptors.

Deliberately a plain loop over blocks: it is the reference, so it is boring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from conformance.judge.fill import Bytes, Content, Images, fill
from strategies.case import Case, Pool, Run
from strategies.footprint import Footprint, destination_footprint, source_footprint


class Scratch:
    """Arrays used again for every case: fresh pages for megabytes a case would cost more than the copy."""

    def __init__(self) -> None:
        self._arrays: dict[str, Bytes] = {}

    def room(self, name: str, nbytes: int) -> Bytes:
        """The array of this name, `nbytes` long, with arbitrary contents; the same memory at every call."""
        array = self._arrays.get(name)
        if array is None or array.size < nbytes:
            array = self._arrays[name] = np.empty(max(nbytes, 1 << 20), np.uint8)
        return array[:nbytes]


@dataclass(frozen=True)
class Piece:
    """One run of bytes that the case copies, as offsets in the two images."""

    source: int
    destination: int
    nbytes: int


def sizes(case: Case) -> tuple[int, int]:
    """Bytes of the source image and of the destination image."""
    return source_footprint(case).image_bytes, destination_footprint(case).image_bytes


def fill_initial(case: Case, images: Images) -> None:
    """Overwrite both images with what memory holds before the copy."""
    fill(images.source, case.seed, Content.SOURCE)
    fill(images.destination, case.seed, Content.DESTINATION)


def initial(case: Case, scratch: Scratch | None = None) -> Images:
    """Both images before the copy; in `scratch`, until it is used for the next case."""
    scratch = scratch or Scratch()
    source, destination = sizes(case)
    images = Images(scratch.room("initial source", source), scratch.room("initial destination", destination))
    fill_initial(case, images)
    return images


def expected(case: Case, before: Images, scratch: Scratch | None = None) -> Images:
    """Both images after the copy, given the initial ones (which are not changed).

    With duplicate destinations (Case.undefined) the last one in order wins here.
    """
    scratch = scratch or Scratch()
    source = before.source
    destination = scratch.room("expected destination", before.destination.size)
    np.copyto(destination, before.destination)
    for piece in pieces(case):
        destination[piece.destination : piece.destination + piece.nbytes] = source[
            piece.source : piece.source + piece.nbytes
        ]
    if case.round_trip:
        source = scratch.room("expected source", source.size)
        fill(source, case.seed, Content.WIPED)
        for piece in pieces(case):
            source[piece.source : piece.source + piece.nbytes] = destination[
                piece.destination : piece.destination + piece.nbytes
            ]
    return Images(source, destination)


def pieces(case: Case) -> Iterator[Piece]:
    """Every run of bytes the case copies, in order."""
    sources, destinations = source_footprint(case), destination_footprint(case)
    find_source, find_destination = _finder(sources), _finder(destinations)
    for tensor, source_base, destination_base in zip(case.tensors, sources.bases, destinations.bases, strict=True):
        runs = tensor.runs or (Run(0, 0, tensor.page_bytes),)
        for source_block, destination_block in zip(tensor.sources, tensor.destinations, strict=True):
            source = find_source(source_base + block_offset(tensor.source, source_block))
            destination = find_destination(destination_base + block_offset(tensor.destination, destination_block))
            for run in runs:
                for i in range(run.count):
                    yield Piece(
                        source + run.source + i * run.source_step,
                        destination + run.destination + i * run.destination_step,
                        run.nbytes,
                    )


def block_offset(pool: Pool, block: int) -> int:
    """Bytes from the tensor's base to a block: written here a second time, so that one mistake can't hide itself."""
    row = pool.chunk_stride if pool.chunk_stride else pool.stride * pool.per_chunk
    return pool.origin + row * (block // pool.per_chunk) + pool.stride * (block % pool.per_chunk)


def _finder(footprint: Footprint) -> Callable[[int], int]:
    return footprint.image_offset if footprint.sparse else int
