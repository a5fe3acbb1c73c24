"""The fill: never zero, never alike on both sides, never alike beside each other, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.judge.fill import LENGTH, Bytes, Content, comes_from_source, fill

seeds = st.integers(0, 1 << 40)
lengths = st.integers(1, 5000)


def filled(nbytes: int, seed: int, content: Content) -> Bytes:
    image = np.zeros(nbytes, np.uint8)
    fill(image, seed, content)
    return image


@given(lengths, seeds)
def test_never_alike(nbytes: int, seed: int) -> None:
    """Each byte differs from the byte at the same place of the other contents, and tells whether it is the source's."""
    source, destination, wiped = (filled(nbytes, seed, content) for content in Content)
    assert (source != destination).all()
    assert (source != wiped).all()
    assert all(comes_from_source(byte, seed) for byte in source[:50].tolist())
    assert not any(comes_from_source(byte, seed) for byte in destination[:50].tolist())


def test_seed_zero_has_no_zeros() -> None:
    """The plainest seed's bytes are never 0 nor 255."""
    for content in Content:
        image = filled(LENGTH, 0, content)
        assert image.min() > 0
        assert image.max() < 255


@pytest.mark.parametrize("content", Content)
def test_every_value_occurs(content: Content) -> None:
    """Four seeds in a row hold every value of a byte on either side, zeros and sign bits too."""
    values = {int(byte) for seed in range(4) for byte in filled(4096, seed, content)}
    assert values == set(range(256))


@given(lengths, seeds, st.sampled_from(Content))
def test_neighbours_differ(nbytes: int, seed: int, content: Content) -> None:
    """Two bytes beside each other are never equal, so that a shift by one shows everywhere."""
    image = filled(nbytes, seed, content)
    assert (image[1:] != image[:-1]).all()


def test_neighbours_differ_where_the_tape_begins_anew() -> None:
    """A whole tape and more, across its end, has no equal neighbours."""
    image = filled(LENGTH + 100, 0, Content.SOURCE)
    assert (image[1:] != image[:-1]).all()
    assert np.array_equal(image[LENGTH:], image[:100])


@given(seeds, lengths, st.integers(1, 3000))
@example(0, 5000, 4096)
def test_stretches_do_not_repeat(seed: int, nbytes: int, step: int) -> None:
    """Bytes a step apart are no copy of each other, so that a block taken for its neighbour shows."""
    image = filled(nbytes + step + 64, seed, Content.SOURCE)
    assert not np.array_equal(image[:64], image[step : step + 64])


@given(seeds, lengths)
def test_the_same_seed_gives_the_same_bytes(seed: int, nbytes: int) -> None:
    """A fill is a function of its seed and content, and a longer image begins with the shorter one."""
    assert np.array_equal(filled(nbytes, seed, Content.SOURCE), filled(nbytes + 7, seed, Content.SOURCE)[:nbytes])
    assert nbytes < 64 or not np.array_equal(
        filled(nbytes, seed, Content.SOURCE), filled(nbytes, seed + 1, Content.SOURCE)
    )
