"""Foreign functions are called as their signature says, or refused with the parameter that can't be filled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import foreign
import numpy as np
import pytest
import torch
from copy_arena import Arena, Row

from backends import adapters, running
from backends.adapters import from_callable, swap_blocks
from backends.contract import Device, Direction, Refused, Support
from backends.drivers import cpu_stream
from backends.signatures import SignatureError

ROWS: list[Row] = [(0, 64, 48), (128, 256, 5), (1000, 1000, 0)]


@pytest.fixture(autouse=True)
def _fresh_calls() -> Iterator[None]:
    foreign.calls.clear()
    yield
    foreign.calls.clear()


@pytest.mark.parametrize("flag", [False, True])
def test_flag_goes_by_keyword(arena: Arena, flag: bool) -> None:
    """A function that has the flag is given it."""
    from_callable(foreign.with_flag, "f").copy(*arena.descriptors(ROWS), flag)
    assert foreign.calls == [("flag", flag)]
    np.testing.assert_array_equal(arena.destination, arena.wanted)


@pytest.mark.parametrize("function", [foreign.three, foreign.anything])
def test_no_flag_where_there_is_none(arena: Arena, function: Callable[..., None]) -> None:
    """Three tensors are all that is passed; on a CPU they stay int64."""
    from_callable(function, "f").copy(*arena.descriptors(ROWS), True)
    assert foreign.calls in ([("dtype", torch.int64)], [("anything", (3, {}))])
    np.testing.assert_array_equal(arena.destination, arena.wanted)


def test_three_tensors_are_unsigned_on_xpu(arena: Arena) -> None:
    """As XPU's own copy asks."""
    running.use_platform("xpu")
    from_callable(foreign.three, "f").copy(*arena.descriptors(ROWS))
    assert foreign.calls == [("dtype", torch.uint64)]
    np.testing.assert_array_equal(arena.destination, arena.wanted)


@pytest.mark.parametrize(
    ("sizes", "chunk"),
    [([16, 300], 512), ([512], 512), ([3], 8), ([0], 8), ([1 << 20], 8192), ([], 8192), ([1.5], 8192)],
)
def test_chunk_is_the_next_power_of_two(sizes: list[Any], chunk: int) -> None:
    """Of the largest size, at most 8192; what can't be a size is the function's to refuse."""
    here = torch.zeros(0, dtype=torch.int64)
    function: list[int] = []

    def copy(a: Any, b: Any, c: Any, *, bytes_per_chunk: int) -> None:
        function.append(bytes_per_chunk)

    from_callable(copy, "f").copy(here, here, torch.tensor(sizes, dtype=None if sizes else torch.int64))
    assert function == [chunk]


def test_chunk_of_vllms_triton_copy(arena: Arena) -> None:
    """Flag and chunk together."""
    from_callable(foreign.with_chunk, "f").copy(*arena.descriptors(ROWS))
    assert foreign.calls == [("chunk", 64)]


def test_optional_parameters_keep_their_defaults(arena: Arena) -> None:
    """Only what is required is filled."""
    from_callable(foreign.with_optional_chunk, "f").copy(*arena.descriptors(ROWS))
    assert foreign.calls == [("chunk", 4)]


@pytest.mark.parametrize(
    ("on_device", "code"), [((False, True), 0), ((True, False), 1), ((True, True), 2), ((False, False), None)]
)
def test_direction_from_the_addresses(
    on_device: tuple[bool, bool], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ascend's codes; host to host has none."""
    running.use_platform("npu")
    kinds = dict(zip((4096, 8192), on_device, strict=True))
    monkeypatch.setattr(adapters, "is_device", kinds.__getitem__)
    backend = from_callable(foreign.with_direction, "f")
    batch = torch.tensor([4096]), torch.tensor([8192]), torch.tensor([16])
    if code is None:
        with pytest.raises(Refused, match="f has no direction code for host to host"):
            backend.copy(*batch)
    else:
        backend.copy(*batch)
    assert foreign.calls == ([] if code is None else [("direction", code)])


def test_mixed_directions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One code serves the whole batch."""
    monkeypatch.setattr(adapters, "is_device", {4096: True, 8192: False}.__getitem__)
    addresses = torch.tensor([4096, 8192])
    with pytest.raises(Refused, match="one direction for a batch; this one has 2"):
        from_callable(foreign.with_direction, "f").copy(addresses, addresses.flip(0), torch.tensor([1, 1]))


def test_direction_is_declared(device: Callable[..., Device]) -> None:
    """Not on a CPU, whose addresses are all alike; elsewhere not host to host."""
    backend = from_callable(foreign.with_direction, "f")
    assert backend.support(device()).unavailable == "f asks for a direction, and CPU addresses don't tell one"
    support = backend.support(device(platform="npu"))
    assert support == Support(directions=frozenset(Direction) - {Direction.HOST_TO_HOST})


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (foreign.with_stream, "f needs parameter 'stream', which a descriptor copy doesn't have"),
        (foreign.two, "f takes 2 positional arguments; src_ptrs, dst_ptrs, sizes are three"),
        (foreign.flag_by_position, "f: parameter 'is_src_access_order_any' can't be given by keyword"),
    ],
)
def test_signatures_that_do_not_fit(function: Callable[..., None], text: str) -> None:
    """The text names the parameter."""
    with pytest.raises(SignatureError) as caught:
        from_callable(function, "f")
    assert str(caught.value) == text


def test_torch_ops_are_read_by_their_schema(arena: Arena) -> None:
    """Packets and overloads alike; Python can't inspect them."""
    with torch.library._scoped_library("kvconform_test", "DEF") as library:
        for name, rest in (("flag", ", bool is_src_access_order_any=False"), ("direction", ", int direction")):
            library.define(f"{name}(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes{rest}) -> ()")
        library.impl("flag", foreign.with_flag, "CPU")
        ops = torch.ops.kvconform_test
        for op in (ops.flag, ops.flag.default):
            from_callable(op, "op").copy(*arena.descriptors(ROWS), True)
        assert foreign.calls == [("flag", True)] * 2
        np.testing.assert_array_equal(arena.destination, arena.wanted)
        assert from_callable(ops.direction, "op")._direction
    with pytest.raises(SignatureError, match="op takes 2 positional arguments"):
        from_callable(torch.ops.aten.add, "op")


def test_called_after_the_streams_earlier_work(arena: Arena) -> None:
    """Stream order holds although the function knows no CpuStream, and its exceptions come from the call."""
    gate = threading.Event()
    flipped = arena.source[:64] ^ 0xFF
    with cpu_stream.use(cpu_stream.CpuStream("gated")) as stream:
        stream.submit(gate.wait)
        stream.submit(lambda: arena.source.__ixor__(0xFF))
        threading.Timer(0.05, gate.set).start()
        from_callable(foreign.three, "f").copy(*arena.descriptors([(0, 0, 64)]))
        np.testing.assert_array_equal(arena.destination[:64], flipped)
        with pytest.raises(ArithmeticError, match="no luck"):
            from_callable(foreign.fails, "f").copy(*arena.descriptors([(0, 0, 64)]))


def test_declarations(device: Callable[..., Device]) -> None:
    """An attribute of the function: a Support, or a callable that gives one; without it everything is claimed."""
    assert from_callable(foreign.three, "f").support(device()) == Support()
    assert from_callable(foreign.declared, "f").support(device()) == Support(size_multiple=8)
    assert from_callable(foreign.declared_by_device, "f").support(device()) == Support(max_descriptors=7)
    with pytest.raises(SignatureError, match="kvconform_support gives dict; a Support is needed"):
        from_callable(foreign.declared_wrong, "f").support(device())


@pytest.mark.parametrize("function", [foreign.swap, foreign.swap_without_size])
def test_swap_blocks(arena: Arena, function: Callable[..., None]) -> None:
    """Addresses become block ids of two tensors that begin at the lowest address."""
    backend = swap_blocks(function)
    arena.check(backend, [(100 + 96 * s, 7 + 96 * d, 96) for s, d in ((5, 2), (3, 9), (8, 4))])
    assert backend.name == function.__name__
    assert foreign.calls == [("swap", ((6, 96), (8, 96), [[2, 0], [0, 7], [5, 2]]))]
    arena.check(backend, [])
    arena.check(backend, [(5, 5, 0)])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(0, 0, 8), (8, 8, 16)], r"swap copies blocks of one size; these are \[8, 16\]"),
        ([(0, 0, 8), (8, 8, 0)], r"swap copies blocks of one size; these are \[0, 8\]"),
        ([(0, 0, 8), (12, 8, 8)], "source addresses are not multiples of 8 apart"),
        ([(0, 0, 8), (8, 17, 8)], "destination addresses are not multiples of 8 apart"),
    ],
)
def test_swap_blocks_refuses_what_it_cannot_say(arena: Arena, rows: list[Row], text: str) -> None:
    """Before anything is written."""
    with pytest.raises(Refused, match=text):
        swap_blocks(foreign.swap).copy(*arena.descriptors(rows))
    assert (arena.destination == 0xA5).all()
    assert foreign.calls == []


def test_swap_blocks_declares_its_limits(device: Callable[..., Device]) -> None:
    """Host to host is left to devices that are hosts."""
    assert swap_blocks(foreign.swap).support(device()) == Support(uniform_dense=True)
    support = swap_blocks(foreign.swap).support(device(platform="cuda"))
    assert support.uniform_dense
    assert support.directions == frozenset(Direction) - {Direction.HOST_TO_HOST}
