"""How the Triton copy cuts a batch, and what it declares. Its bytes are tested with the others'."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from copy_arena import Arena

from backends.contract import REGISTERED_MEMORY, Device, Memory
from backends.copies.triton_copy import TritonCopy
from backends.copies.triton_shapes import Shape
from backends.descriptors import check
from backends.drivers import cpu_stream

ROOT = Path(__file__).parents[2]
BASE = 1 << 40


@pytest.fixture
def kernel(device: Callable[..., Device]):  # type: ignore[no-untyped-def]
    """The kernel's module, imported as the backend imports it."""
    assert TritonCopy().support(device()).unavailable is None
    from backends.copies import triton_kernel

    return triton_kernel


def _plan(kernel, rows, chunk=8192):  # type: ignore[no-untyped-def]
    columns = torch.tensor(rows) + torch.tensor([BASE, BASE, 0])
    return kernel.plan(check(*columns.unbind(1)), chunk)


@pytest.mark.parametrize(
    ("rows", "alignments"),
    [
        ([(0, 16, 32)], [16]),
        ([(8, 16, 32)], [8]),
        ([(0, 16, 40)], [8]),
        ([(0, 16, 41)], [16, 1]),
        ([(3, 19, 41)], [16, 1]),
        ([(3, 11, 41)], [8, 1]),
        ([(0, 4, 40)], [1]),
        ([(0, 0, 7)], [1]),
        ([(0, 0, 64), (1, 2, 64)], [8, 1]),
    ],
)
def test_words_where_both_sides_are_aligned_alike(kernel, rows, alignments) -> None:  # type: ignore[no-untyped-def]
    """Bytes for heads, tails and what is aligned otherwise; every word address and size is a multiple."""
    launches = _plan(kernel, rows)
    assert [launch.alignment for launch in launches] == alignments
    for launch in launches:
        assert not (launch.table % launch.alignment).any()
        assert launch.table.flags.c_contiguous  # the kernel reads it by its address


def test_every_byte_is_in_one_launch(kernel) -> None:  # type: ignore[no-untyped-def]
    """Random batches: the pieces of all launches are the batch, byte for byte."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        sizes = rng.choice([1, 7, 8, 16, 40, 4096, 5000, 70_000], int(rng.integers(1, 30)))
        starts = np.cumsum(sizes + rng.choice([0, 3, 8, 16], len(sizes))) - sizes
        moves = rng.choice([0, 8, 16, 5], len(sizes))
        rows = np.stack([starts + moves, starts, sizes], axis=1)
        wanted = {d + i: s + i for s, d, n in rows.tolist() for i in (0, n // 2, n - 1)}
        covered = np.zeros(starts[-1] + sizes[-1], dtype=np.int64)
        for launch in _plan(kernel, rows.tolist()):
            assert launch.entries <= 4 * len(sizes)
            for source, destination, size in zip(*launch.table.tolist(), strict=True):
                covered[destination - BASE : destination - BASE + size] += 1
                for at in [at for at in wanted if 0 <= at - (destination - BASE) < size]:
                    assert source - destination == wanted[at] - at
        inside = np.zeros_like(covered)
        for _, destination, size in rows.tolist():
            inside[destination : destination + size] = 1
        np.testing.assert_array_equal(covered, inside)


def test_tiles_hold_many_short_entries_or_part_of_a_long_one(kernel) -> None:  # type: ignore[no-untyped-def]
    """A tile is always `chunk` bytes."""
    shapes = {}
    for size in (16, 128, 512, 4096, 8192, 65536):
        (launch,) = _plan(kernel, [(size * i, size * i, size) for i in range(300)])
        assert launch.rows * launch.cols * 8 == 8192
        shapes[size] = (launch.rows, launch.tiles_per_row, launch.tiles)
    assert shapes == {
        16: (256, 1, 2),
        128: (64, 1, 5),
        512: (16, 1, 19),
        4096: (2, 1, 150),
        8192: (1, 1, 300),
        65536: (1, 8, 2400),
    }


def test_one_long_entry_does_not_multiply_the_others(kernel) -> None:  # type: ignore[no-untyped-def]
    """Tiles grow with the bytes, not with entries times the longest."""
    (launch,) = _plan(kernel, [(0, 0, 1 << 33), *((64 * i, 64 * i, 64) for i in range(1000))])
    assert launch.entries <= 2002
    assert launch.table.flags.c_contiguous
    assert launch.tiles < 3 * (1 << 33) // 8192
    assert int(launch.table[2].sum()) == (1 << 33) + 64_000


def test_programs_share_the_tiles(arena: Arena, kernel) -> None:  # type: ignore[no-untyped-def]
    """Fewer programs than tiles, and more; both directions' shapes."""
    rows = [(700 * i, 900 * i + 4, 601) for i in range(70)]
    for programs, streak in product((1, 3, 7, 1000), (False, True)):
        shape = Shape(programs=programs, chunk=2048, warps=1, streak=streak)
        arena.check(TritonCopy(to_device=shape, to_host=shape), rows)
        arena.destination[:] = 0xA5


def test_interpreted_launches_never_overlap(arena: Arena, kernel, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The interpreter patches triton.language for the whole process while it runs."""
    inside: list[int] = []

    def slow(*launch: object) -> None:
        inside.append(1)
        time.sleep(0.005)
        assert len(inside) == 1
        inside.pop()

    monkeypatch.setattr(kernel, "run", slow)
    streams = [cpu_stream.CpuStream(f"lane {lane}") for lane in range(3)]
    for stream in 3 * streams:
        with cpu_stream.use(stream):
            TritonCopy().copy(*arena.descriptors([(0, 0, 64)]))
    for stream in streams:
        stream.synchronize()


REGISTERED = set(REGISTERED_MEMORY)
PAGEABLE = {Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY}


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("pageable", [False, True])
@pytest.mark.parametrize("one_address", [False, True])
def test_declares_the_memory_a_kernel_reaches(
    device: Callable[..., Device], platform: str, pageable: bool, one_address: bool
) -> None:
    """By what was probed on the device, not by the platform's name."""
    facts = device(platform=platform, pageable_access=pageable, registered_address_is_host_address=one_address)
    wanted = {Memory.DEVICE, Memory.PINNED} | (REGISTERED if one_address else set()) | (PAGEABLE if pageable else set())
    assert TritonCopy().support(facts).memory == wanted


def test_declares_the_interpreter(device: Callable[..., Device]) -> None:
    """Everything, at a price."""
    support = TritonCopy().support(device())
    assert support.memory == frozenset(Memory)
    assert support.relative_cost == 10


def test_an_interpreter_is_not_for_devices(device: Callable[..., Device], kernel) -> None:  # type: ignore[no-untyped-def]
    """One process can't have both."""
    assert TritonCopy().support(device(platform="cuda")).unavailable == (
        "Triton was imported as an interpreter, which can't reach device memory; unset TRITON_INTERPRET"
    )


def test_a_compiler_is_not_for_cpus() -> None:
    """Whoever imported Triton first decided; the copy says so rather than failing in a launch."""
    code = (
        "import triton, torch; from backends import running; from backends.copies import triton_copy\n"
        "running.use_platform('cpu')\n"
        "one = torch.ones(1, dtype=torch.int64)\n"
        "try: triton_copy.TritonCopy().copy(one, one, one)\n"
        "except RuntimeError as error: print(error)"
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "triton_copy: Triton was imported as a compiler, but a CPU needs its interpreter; "
        "set TRITON_INTERPRET=1 before\n"
    )
