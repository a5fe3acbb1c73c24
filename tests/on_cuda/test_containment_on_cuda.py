"""What kills a process or poisons a context on a GPU: contained, named, shrunk, and nobody else is blamed."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from backends.contract import Direction, Memory
from conformance.device.case_runner import Bench
from conformance.judge.verdict import Kind
from conformance.requirements import copies as req
from strategies.case import Case, Fence, Pool, Submission, Tensor
from strategies.request import ask
from tests.planted.hunting import Catch, hunt

PLANTED = "tests.planted.on_cuda"
RIGHT = Case(
    Direction.LOAD,
    Memory.PINNED,
    Memory.DEVICE,
    (Tensor(4096, Pool(8, 4096), Pool(8, 4096), (0, 1, 2, 3), (7, 6, 5, 4)),),
)


def caught(bench: Bench, name: str) -> Catch:
    """The smallest failure of a planted fault, and that a right backend copies right afterwards."""
    begun = time.monotonic()
    catch = hunt(bench, f"{PLANTED}:{name}", seed=1)
    assert catch.failure is not None, f"{name} was not found in {catch.cases} cases"
    verdict = bench.verdict("batch_dma", RIGHT)
    assert verdict.kind is Kind.PASSED, verdict
    case = catch.case
    print(
        f"{name}: {catch.failure.verdict.findings[0].requirement} after {catch.cases} cases, "
        f"{catch.failure.shrinking} runs to shrink, {time.monotonic() - begun:.1f} s in all: "
        f"{case.descriptors} descriptors of {case.tensors[0].page_bytes} bytes; "
        f"{catch.failure.verdict.findings[0].sentence}"
    )
    return catch


def test_undeclared_pageable_access(bench: Bench) -> None:
    """A kernel given memory that it can't dereference is a contained fault of one block of one byte."""
    catch = caught(bench, "undeclared_kernel")
    assert catch.failure is not None
    assert catch.failure.verdict.findings[0].requirement == req.FAULT
    assert (catch.case.descriptors, catch.case.tensors[0].page_bytes) == (1, 1)


def test_illegal_access(bench: Bench) -> None:
    """An illegal access is told in the driver's words and shrinks to the one descriptor that causes it."""
    catch = caught(bench, "illegal_access")
    assert catch.failure is not None
    finding = catch.failure.verdict.findings[0]
    assert finding.requirement == req.FAULT
    assert "illegal" in finding.sentence.lower()
    assert (catch.case.descriptors, catch.case.tensors[0].page_bytes) == (1, 5)


def test_wild_descriptor(bench: Bench) -> None:
    """A wild address makes the driver die: the signal is named."""
    catch = caught(bench, "wild_destination")
    assert catch.failure is not None
    assert catch.failure.verdict.findings[0].requirement == req.FAULT
    assert catch.case.descriptors == 1


def test_endless_kernel(bench: Bench) -> None:
    """A kernel that never ends is a hang, ended at its deadline."""
    catch = caught(bench, "endless_kernel")
    assert catch.failure is not None
    assert catch.failure.verdict.kind is Kind.HANG
    assert 5 in ask(catch.case).sizes
    assert catch.case.descriptors <= 4


@pytest.mark.parametrize("fence", [Fence.AFTER, Fence.NONE])
def test_over_read_shows_at_a_fence_only(bench: Bench, fence: Fence) -> None:
    """Eight bytes read beyond a block on the device leave no trace in bytes; at an unmapped page they are a fault."""
    case = replace(RIGHT, direction=Direction.STORE, source_memory=Memory.DEVICE, destination_memory=Memory.PINNED)
    case = replace(case, source_fence=fence, tensors=(Tensor(4096, Pool(1, 4096), Pool(1, 4096), (0,), (0,)),))
    verdict = bench.verdict(f"{PLANTED}:over_read", case)
    assert verdict.kind is (Kind.PASSED if fence is Fence.NONE else Kind.FAULT), verdict


def test_other_stream_is_found(bench: Bench) -> None:
    """A copy on a stream of its own, which nobody waits for: too early, too late, or both."""
    catch = caught(bench, "other_stream")
    assert catch.failure is not None
    assert catch.failure.verdict.findings[0].requirement == req.COPIED
    assert catch.case.descriptors == 1


def test_an_early_write_is_found(bench: Bench) -> None:
    """A copy that may read early, and writes early, is found by a destination that is still in use."""
    catch = caught(bench, "early_when_allowed")
    assert catch.failure is not None
    assert catch.failure.verdict.findings[0].requirement == req.COPIED
    assert catch.case.submission.late_destination
    assert catch.case.submission.order_any


@pytest.mark.parametrize("far", [(1 << 31) - 8192, (1 << 31) + 4096, (1 << 32) - 8192, 1 << 40])
@pytest.mark.parametrize("backend", ["torch_copy", "triton_copy", "batch_dma"])
def test_far_offsets(bench: Bench, backend: str, far: int) -> None:
    """Blocks just below, across and above 2^31, 2^32 and 2^40 bytes are copied like others."""
    blocks = far // 4096 + 8
    pool = Pool(blocks, 4096)
    near = Pool(4, 4096)
    ids = (far // 4096, far // 4096 + 1, far // 4096 + 2, far // 4096 + 3)
    load = Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, (Tensor(4096, near, pool, (0, 1, 2, 3), ids),))
    store = Case(Direction.STORE, Memory.DEVICE, Memory.REGISTERED, (Tensor(4096, pool, near, ids, (3, 2, 1, 0)),))
    for case in (load, store, replace(load, submission=Submission(calls=2))):
        verdict = bench.verdict(backend, case)
        assert verdict.kind is Kind.PASSED, verdict


def test_restart_time(bench: Bench) -> None:
    """After a fault the next case runs in a new process; how long that takes is printed, not judged."""
    five = Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, (Tensor(5, Pool(1, 5), Pool(1, 5), (0,), (0,)),))
    took = []
    for _ in range(3):
        assert bench.verdict(f"{PLANTED}:illegal_access", five).kind is Kind.FAULT
        begun = time.monotonic()
        assert bench.verdict("batch_dma", RIGHT).kind is Kind.PASSED
        took.append(time.monotonic() - begun)
    print("seconds from a fault to the next verdict:", [f"{seconds:.2f}" for seconds in took])
