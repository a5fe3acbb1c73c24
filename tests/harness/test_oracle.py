"""The oracle against a second model that goes byte by byte, and against the descriptors that backends are given."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from some_cases import load

from backends.contract import Memory, Stream
from conformance.execution.descriptors import Descriptors, offsets
from conformance.judge.fill import Content, Images, fill
from conformance.judge.oracle import expected, initial, pieces, sizes
from strategies.case import Case, Pool, Run
from strategies.draw.cases import cases, round_trips, undefined_cases
from strategies.footprint import Footprint, destination_footprint, source_footprint
from strategies.scope import Scope

KINDS = frozenset({Memory.DEVICE, Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY})
SCOPE = Scope(
    memory=KINDS,
    streams=frozenset(Stream),
    late=KINDS - {Memory.READ_ONLY},
    fenceable=KINDS,
    sparse=KINDS,
    max_descriptors=1500,
)
LITTLE = 20_000  # bytes a case may move where they are gone through one by one

any_case = st.one_of(cases(SCOPE), round_trips(SCOPE), undefined_cases(SCOPE))


def copied_bytes(case: Case) -> int:
    """How many bytes the case moves."""
    return sum(piece.nbytes for piece in pieces(case))


little_case = any_case.filter(lambda case: copied_bytes(case) <= LITTLE)


def one_by_one(case: Case) -> list[tuple[int, int]]:
    """(source, destination) arena offset of every byte copied, in order."""
    moved = []
    source, destination = source_footprint(case), destination_footprint(case)
    for index, tensor in enumerate(case.tensors):
        page = [(at, at) for at in range(tensor.page_bytes)]
        if tensor.runs:
            page = [pair for run in tensor.runs for pair in _of_run(run)]
        for a, b in zip(tensor.sources, tensor.destinations, strict=True):
            from_block = source.bases[index] + _start(tensor.source, a)
            to_block = destination.bases[index] + _start(tensor.destination, b)
            moved += [(from_block + from_page, to_block + to_page) for from_page, to_page in page]
    return moved


def _of_run(run: Run) -> list[tuple[int, int]]:
    return [
        (run.source + i * run.source_step + at, run.destination + i * run.destination_step + at)
        for i in range(run.count)
        for at in range(run.nbytes)
    ]


def _start(pool: Pool, block: int) -> int:
    """Walk there: chunk by chunk, then block by block."""
    at = pool.origin
    chunk = pool.chunk_stride or pool.stride * pool.per_chunk
    at += chunk * (block // pool.per_chunk)
    while block % pool.per_chunk:
        at, block = at + pool.stride, block - 1
    return at


class Arena:
    """A side's bytes by arena offset, over its image."""

    def __init__(self, footprint: Footprint, image: np.ndarray) -> None:  # type: ignore[type-arg]
        self.image = image
        self.windows = []
        at = 0
        for offset, nbytes in footprint.extents:
            self.windows.append((offset, nbytes, at))
            at += nbytes

    def place(self, offset: int) -> int:
        """Where the image holds the byte at this offset."""
        (found,) = [at + offset - start for start, nbytes, at in self.windows if start <= offset < start + nbytes]
        return found


@settings(max_examples=60, deadline=None)
@given(little_case)
def test_expected_is_what_copying_byte_by_byte_gives(case: Case) -> None:
    """Both images after a case, there and back, equal those of a model that moves one byte at a time."""
    before = initial(case)
    source = Arena(source_footprint(case), before.source.copy())
    destination = Arena(destination_footprint(case), before.destination.copy())
    moves = [(source.place(a), destination.place(b)) for a, b in one_by_one(case)]
    for a, b in moves:
        destination.image[b] = source.image[a]
    if case.round_trip:
        fill(source.image, case.seed, Content.WIPED)
        for a, b in moves:
            source.image[a] = destination.image[b]
    wanted = expected(case, before)
    assert np.array_equal(wanted.source, source.image)
    assert np.array_equal(wanted.destination, destination.image)


@settings(max_examples=150, deadline=None)
@given(any_case)
def test_descriptors_name_the_bytes_that_the_oracle_expects(case: Case) -> None:
    """The vectorised descriptors and the oracle's plain loop, written apart, name the same bytes in the same order."""
    source, destination = source_footprint(case), destination_footprint(case)
    batch = offsets(case, source, destination)
    kept = batch.sizes > 0
    assert batch.sizes.size == case.descriptors
    columns = (batch.source, batch.destination, batch.sizes)
    found = list(zip(*(column[kept].tolist() for column in columns), strict=True))
    wanted = [
        (source.arena_offset(piece.source), destination.arena_offset(piece.destination), piece.nbytes)
        for piece in pieces(case)
    ]
    assert found == wanted
    assert int(batch.sizes.sum()) == copied_bytes(case)


@settings(max_examples=60, deadline=None)
@given(any_case)
def test_images_hold_every_byte_that_is_copied(case: Case) -> None:
    """Every piece lies inside its image, and the images have the sizes that were asked for."""
    before = initial(case)
    assert (before.source.size, before.destination.size) == sizes(case)
    for piece in pieces(case):
        assert 0 <= piece.source <= piece.source + piece.nbytes <= before.source.size
        assert 0 <= piece.destination <= piece.destination + piece.nbytes <= before.destination.size


@given(st.integers(0, 200), st.integers(1, 64))
def test_parts_hold_every_descriptor_in_order(count: int, calls: int) -> None:
    """A batch given in several calls is the same batch, in parts that differ by one at most."""
    sizes = np.arange(count, dtype=np.int64)
    parts = [sizes[part] for part in Descriptors(sizes, sizes, sizes).parts(calls)]
    assert len(parts) == calls
    assert np.concatenate(parts).tolist() == sizes.tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_expected_leaves_the_initial_images_alone() -> None:
    """What memory held before is not changed by asking what it must hold after."""
    case = load(round_trip=True)
    before = initial(case)
    kept = Images(before.source.copy(), before.destination.copy())
    expected(case, before)
    assert np.array_equal(before.source, kept.source)
    assert np.array_equal(before.destination, kept.destination)
