"""Malformed descriptors are refused with a text that says which and why; others are read as torch means them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from backends.contract import DescriptorError
from backends.descriptors import check


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


GOOD = ints(4096, 8192)
SIZES = ints(16, 32)


@pytest.mark.parametrize(
    ("source", "destination", "sizes", "text"),
    [
        pytest.param([4096], GOOD, SIZES, "src_ptrs is list; a 1-D CPU int64 tensor is needed", id="list"),
        pytest.param(GOOD, GOOD.numpy(), SIZES, "dst_ptrs is ndarray", id="numpy"),
        pytest.param(GOOD, GOOD, SIZES.double(), "sizes has dtype torch.float64; torch.int64 is needed", id="float"),
        pytest.param(GOOD.view(torch.uint64), GOOD, SIZES, "src_ptrs has dtype torch.uint64", id="unsigned"),
        pytest.param(GOOD, GOOD.reshape(2, 1), SIZES, "dst_ptrs has shape (2, 1); one dimension", id="two dimensions"),
        pytest.param(GOOD[0], GOOD, SIZES, "src_ptrs has shape (); one dimension", id="no dimension"),
        pytest.param(GOOD, GOOD, SIZES.to("meta"), "sizes is on meta; descriptors are read by the CPU", id="device"),
        pytest.param(GOOD, GOOD, SIZES[:1], "lengths differ: 2 src_ptrs, 2 dst_ptrs, 1 sizes", id="short sizes"),
        pytest.param(GOOD[:0], GOOD, SIZES, "lengths differ: 0 src_ptrs, 2 dst_ptrs, 2 sizes", id="no sources"),
        pytest.param(GOOD, GOOD, ints(0, -8), "sizes[1] is -8; a size is 0 or more bytes", id="negative size"),
        pytest.param(ints(4096, 0), GOOD, SIZES, "src_ptrs[1] is null, but sizes[1] is 32", id="null source"),
        pytest.param(GOOD, ints(0, 8192), SIZES, "dst_ptrs[0] is null, but sizes[0] is 16", id="null destination"),
        pytest.param(GOOD, ints(4096, 0), ints(0, 7), "dst_ptrs[1] is null, but sizes[1] is 7", id="null behind zero"),
        pytest.param(
            GOOD,
            ints(4096, 2**63 - 16),
            SIZES,
            "dst_ptrs[1] + sizes[1] overflows: 0x7ffffffffffffff0 + 32 bytes",
            id="overflow",
        ),
        pytest.param(ints(-16, 8192), GOOD, ints(17, 32), "src_ptrs[0] + sizes[0] overflows", id="past the last byte"),
        pytest.param(GOOD, GOOD, ints(16, 2**63 - 1), "src_ptrs[1] + sizes[1] overflows", id="huge size"),
    ],
)
def test_malformed(source: object, destination: object, sizes: object, text: str) -> None:
    """One sentence names the argument, the entry and what is wrong with it."""
    with pytest.raises(DescriptorError) as caught:
        check(source, destination, sizes)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_edges_of_the_address_space_are_well_formed() -> None:
    """The last byte below 2^63 and addresses above it, which some devices have, are addresses."""
    checked = check(ints(2**63 - 32, -4096), GOOD, ints(32, 4096))
    assert checked.describe(1) == "descriptor 1 (4096 bytes from 0xfffffffffffff000 to 0x2000)"


def test_entries_of_size_zero_are_dropped_and_indices_kept() -> None:
    """Null addresses don't matter where nothing is copied."""
    checked = check(ints(0, 4096, 0, 8192), ints(0, 64, 0, 128), ints(0, 5, 0, 6))
    assert list(checked.rows()) == [(4096, 64, 5), (8192, 128, 6)]
    assert [checked.index(entry) for entry in range(len(checked))] == [1, 3]


@pytest.mark.parametrize("sizes", [(), (0, 0)])
def test_nothing_to_copy(sizes: tuple[int, ...]) -> None:
    """An empty batch, or one of zeros only, holds no entry."""
    zeros = torch.zeros(len(sizes), dtype=torch.int64)
    assert len(check(zeros, zeros, ints(*sizes))) == 0


def test_strided_views_are_read_element_by_element() -> None:
    """A column of a matrix is a 1-D tensor like any other; its memory is not read as if it were dense."""
    matrix = torch.tensor([[4096, 64, 5], [8192, 128, 6]])
    checked = check(matrix[:, 0], matrix[:, 1], matrix[:, 2])
    assert list(checked.rows()) == [(4096, 64, 5), (8192, 128, 6)]
    assert checked.table.flags.c_contiguous


@pytest.mark.parametrize("values", [(16, 32), (16, 0)])
def test_entries_survive_the_callers_reuse(values: tuple[int, int]) -> None:
    """What was checked shares no memory with the caller's tensors."""
    tensors = [GOOD.clone(), GOOD.clone(), ints(*values)]
    checked = check(*tensors)
    for tensor in tensors:
        tensor.fill_(-1)
    assert next(iter(checked.rows())) == (4096, 4096, 16)


def test_where_the_columns_lie() -> None:
    """Each column is dense, so that a driver can read it."""
    checked = check(GOOD, ints(1, 2), SIZES)
    found = [np.ctypeslib.as_array((ctypes.c_int64 * 2).from_address(at)).tolist() for at in checked.pointers()]
    assert found == [[4096, 8192], [1, 2], [16, 32]]
