"""Page sizes: the file of real models, and the edges that no real model has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.page_sizes import CHUNK, PADDED, REAL, REAL_BYTES, SELECTION_EDGE, edges, page_bytes, real


def test_the_file_holds_sound_rows() -> None:
    assert len(REAL) > 200
    assert all(0 < size.page_bytes <= size.row_bytes for size in REAL)
    assert all(size.row_bytes % 64 == 0 for size in REAL)
    assert all(size.tensor_parallel >= 1 and size.block_tokens >= 16 for size in REAL)
    assert {size.kind for size in REAL} == {"kv-16bit", "latent", "latent-padded", "hybrid-state"}


def test_known_models_are_in_the_file() -> None:
    found = {(size.model, size.tensor_parallel, size.block_tokens): size.page_bytes for size in REAL}
    assert found["llama-3.1-8b", 1, 16] == 16 * 8 * 2 * 128 * 2  # tokens, heads, K and V, head size, bytes
    assert found["mla-bf16", 1, 64] == 64 * 576 * 2
    assert (37_376, 37_440) in PADDED


def test_no_real_page_lies_at_the_edge_of_selection() -> None:
    """So only a made-up size tests it."""
    assert not any(24_576 < size < 32_768 for size in REAL_BYTES)
    assert {SELECTION_EDGE - 1, SELECTION_EDGE, SELECTION_EDGE + 1} <= set(edges(1 << 20))


def test_edges_stand_in_threes_and_keep_to_the_multiple() -> None:
    assert {CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 1 << 20} <= set(edges(1 << 20))
    assert {CHUNK - 8, CHUNK, CHUNK + 8} <= set(edges(1 << 20, 8))
    assert edges(5) == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("multiple", [1, 8, 24, 4096])
def test_sizes_are_ascending_multiples(multiple: int) -> None:
    for sizes in (edges(1 << 20, multiple), real(1 << 20, multiple)):
        assert list(sizes) == sorted(set(sizes))
        assert all(multiple <= size <= 1 << 20 and size % multiple == 0 for size in sizes)


@given(st.data())
def test_drawn_sizes_keep_to_the_limit_and_the_multiple(data: st.DataObject) -> None:
    multiple = data.draw(st.sampled_from([1, 2, 8, 24, 512, 4096]), label="multiple")
    most = data.draw(st.integers(multiple, 1 << 20), label="most")
    size = data.draw(page_bytes(most, multiple), label="size")
    assert multiple <= size <= most
    assert size % multiple == 0
