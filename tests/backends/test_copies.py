"""Each built-in backend copies exactly the bytes it is given, in stream order, on the CPU platform."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from copy_arena import Arena, Row

from backends import registry
from backends.contract import Backend, DescriptorError, Device
from backends.drivers import cpu_stream

BUILT_IN = ("torch_copy", "triton_copy", "batch_dma")

BATCHES: dict[str, list[Row]] = {
    "empty": [],
    "one byte": [(5, 9, 1)],
    "pages permuted": [(4096 * (7 * i % 16), 4096 * i, 4096) for i in range(16)],
    "multiple of 8": [(8 + 40 * i, 16 + 48 * i, 40) for i in range(20)],
    "odd sizes": [(1024 * i, 1024 * i, 1 + 67 * i) for i in range(15)],
    "odd addresses, alike": [(1024 * i + 3, 2048 * i + 3, 1001) for i in range(30)],
    "odd addresses, apart": [(1024 * i + 3, 2048 * i + 6, 1001) for i in range(30)],
    "apart by 8": [(1024 * i, 2048 * i + 8, 1000) for i in range(30)],
    "sizes of zero": [(0, 0, 0), (64, 64, 64), (0, 0, 0), (256, 256, 3), (0, 0, 0)],
    "zeros only": [(1, 1, 0), (2, 2, 0)],
    "one source twice": [(128, 4096 * i, 512) for i in range(5)],
    "one long among short": [(8, 100_000, 150_001), *((16 * i, 16 * i, 16) for i in range(50))],
    "shorter than a word": [(11 * i, 13 * i, i % 8) for i in range(40)],
    "long": [(0, 0, 1 << 18)],
}


@pytest.fixture(params=BUILT_IN)
def backend(request: pytest.FixtureRequest) -> Backend:
    return registry.load(request.param)


@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES.keys())
def test_every_byte(backend: Backend, arena: Arena, rows: list[Row]) -> None:
    """Copied bytes arrive, all others stay, the source is untouched."""
    arena.check(backend, rows)


def test_random_batches(backend: Backend, arena: Arena) -> None:
    """Blocks of random sizes at random residues, destinations apart."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        edges = np.sort(rng.choice(1 << 18, 2 * int(rng.integers(1, 40)), replace=False))
        rows = [(int(rng.integers(0, (1 << 18) - (b - a))), int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]
        arena.check(backend, rows)


@pytest.mark.parametrize("size", [4001, 4000, 3968])
def test_runs_when_the_stream_gets_there(backend: Backend, arena: Arena, size: int) -> None:
    """The call returns before earlier work is done; the source is read after it; descriptors may be overwritten."""
    gate = threading.Event()
    stream = cpu_stream.CpuStream("gated")
    batch = arena.descriptors([(4096 * i, 4096 * i, size) for i in range(8)])
    with cpu_stream.use(stream):
        stream.submit(gate.wait)
        stream.submit(lambda: arena.source.__ixor__(0xFF))
        backend.copy(*batch)
        for tensor in batch:
            tensor.fill_(1)
        assert (arena.destination == 0xA5).all()
        gate.set()
        stream.synchronize()
    touched = np.concatenate([np.arange(4096 * i, 4096 * i + size) for i in range(8)])
    np.testing.assert_array_equal(arena.destination[touched], arena.wanted[touched] ^ 0xFF)
    assert (np.delete(arena.destination, touched) == 0xA5).all()


def test_malformed_descriptors_are_refused_in_the_call(backend: Backend, arena: Arena) -> None:
    """Not on the stream, and before anything is written."""
    source, destination, sizes = arena.descriptors([(0, 0, 64), (64, 64, 64)])
    with pytest.raises(DescriptorError, match="lengths differ"):
        backend.copy(source, destination, sizes[:1])
    cpu_stream.current().synchronize()
    assert (arena.destination == 0xA5).all()


def test_says_what_it_did(backend: Backend, arena: Arena, device: Callable[..., Device]) -> None:
    """Every built-in backend is available here and names its path."""
    assert backend.support(device()).unavailable is None
    arena.check(backend, [(0, 0, 64)])
    assert backend.path() in ("copy_ of views", "Triton kernel, interpreted", "process_vm_readv")


def test_from_many_threads(backend: Backend, arena: Arena) -> None:
    """Streams of several threads don't disturb each other (Triton's interpreter is shared by the process)."""
    failures: list[BaseException] = []
    together = threading.Barrier(4)

    def work(lane: int) -> None:
        with cpu_stream.use(cpu_stream.CpuStream(f"lane {lane}")) as stream:
            try:
                together.wait()
                for turn in range(30):
                    at = 65536 * lane + 2048 * turn
                    backend.copy(*arena.descriptors([(at, at, 1024), (at + 1024, at + 1024, 999)]))
                stream.synchronize()
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    np.testing.assert_array_equal(arena.destination, arena.wanted)


def test_strided_descriptors(backend: Backend, arena: Arena) -> None:
    """Columns of one matrix are descriptors as good as any."""
    batch = torch.stack(arena.descriptors([(64 * i, 128 * i, 33) for i in range(9)]), dim=1)
    backend.copy(batch[:, 0], batch[:, 1], batch[:, 2])
    cpu_stream.current().synchronize()
    np.testing.assert_array_equal(arena.destination, arena.wanted)
