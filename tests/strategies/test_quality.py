"""Planted faults of each axis: the strategies draw one within the CPU's gate budget, and it shrinks to its minimum.

A fault is a predicate over cases, so nothing is copied here; faults in real copy functions are in tests/planted. The
search is the one that claims use: shard by shard, each with a seed of its own, drawn cases only. Run with `-rP`
for the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from some_scopes import AWKWARD, SCOPES

from backends.contract import Memory, Stream
from conformance.judge.verdict import Finding, Kind, Verdict
from conformance.requirements import copies as req
from conformance.requirements.budgets import COPY, MALFORMED, REFUSED, UNDEFINED, Budget, ClaimKind
from conformance.search.search import Failure, Plan, search, shard_seed
from strategies.case import Case, Fence, Malformed, Run, Tensor
from strategies.corpus import why_left_out
from strategies.draw.cases import cases, malformed_cases, refused_cases, undefined_cases
from strategies.footprint import destination_footprint, source_footprint
from strategies.request import ask
from strategies.scope import Scope

SEED, OTHER_SEEDS = 1, (2, 3)
CPU, GPU, LIMITED = SCOPES["cpu"], SCOPES["accelerator"], SCOPES["accelerator-awkward"]
LINE = 1 << 32
STRATEGIES = {
    COPY: cases,
    UNDEFINED: undefined_cases,
    MALFORMED: malformed_cases,
    REFUSED: refused_cases,
}


@dataclass(frozen=True)
class Fault:
    """A fault, and the smallest case that shows it."""

    axis: str
    name: str
    fails: Callable[[Case], bool]
    descriptors: int = 1
    pages: tuple[int, ...] | None = (1,)  # bytes of a page, by tensor; None: any
    largest_offset: int | None = None  # of the destination; None: any
    oddities: int = 0  # at most: of submission, fences, pools and pieces: what a person would have to wonder about
    scope: Scope = CPU
    kind: ClaimKind = COPY


def pages(case: Case) -> Iterator[Tensor]:
    return (tensor for tensor in case.tensors if tensor.sources)


def runs(tensor: Tensor) -> tuple[Run, ...]:
    return tensor.runs or (Run(0, 0, tensor.page_bytes),)


def sizes(case: Case) -> set[int]:
    return {run.nbytes for tensor in pages(case) for run in runs(tensor)}


def sources(case: Case) -> set[int]:
    """Addresses of all source pieces, as if the arena began at 0."""
    bases = zip(case.tensors, source_footprint(case).bases, strict=True)
    return {base + t.source.offset(b) + run.source for t, base in bases for b in t.sources for run in runs(t)}


def destinations(case: Case) -> set[int]:
    bases = zip(case.tensors, destination_footprint(case).bases, strict=True)
    return {
        base + t.destination.offset(b) + run.destination for t, base in bases for b in t.destinations for run in runs(t)
    }


def odd_and_unlike(tensor: Tensor) -> bool:
    at, to = tensor.source.origin % 16, tensor.destination.origin % 16
    return at % 2 == to % 2 == 1 and at != to


def descent(tensor: Tensor) -> bool:
    return any(b == a - 1 for a, b in pairwise(tensor.sources))


def hole(tensor: Tensor) -> bool:
    per_chunk = tensor.destination.per_chunk
    return any(a // per_chunk == b // per_chunk and b - a > 1 for a, b in pairwise(tensor.destinations))


def across(case: Case) -> bool:
    far = destination_footprint(case).span > LINE
    return far and any(at < LINE < at + case.tensors[0].page_bytes for at in destinations(case))


FAULTS = (
    Fault(
        "geometry",
        "a page over a chunk, not a multiple of it",
        lambda c: any(s > 8192 and s % 8192 for s in sizes(c)),
        pages=(8193,),
    ),
    Fault(
        "geometry",
        "rows taken for dense",
        lambda c: any(
            t.destination.stride > t.needs[1] and t.destination.per_chunk == 1 and len(t.sources) > 1 for t in c.tensors
        ),
        descriptors=2,
    ),
    Fault(
        "geometry",
        "one size for all tensors",
        lambda c: len({t.page_bytes for t in pages(c)}) > 1,
        descriptors=2,
        pages=(1, 2),
    ),
    Fault(
        "geometry",
        "the group behind an empty one",
        lambda c: any(not a.sources and b.sources for a, b in pairwise(c.tensors)),
        pages=(1, 1),
    ),
    Fault(
        "chunks",
        "a first chunk that begins late",
        lambda c: any(t.source.per_chunk == 3 and t.sources[0] % 3 == 2 for t in pages(c)),
        oddities=1,
    ),
    Fault(
        "chunks",
        "a last chunk that ends early",
        lambda c: any(t.destination.per_chunk == 4 and t.destinations[-1] % 4 == 1 for t in pages(c)),
        oddities=1,
    ),
    Fault("chunks", "a hole in a chunk", lambda c: any(hole(t) for t in pages(c)), descriptors=2, oddities=1),
    Fault(
        "fragments",
        "more than two heads",
        lambda c: any(r.count > 2 for t in pages(c) for r in t.runs),
        descriptors=3,
        pages=(3,),
        oddities=1,
    ),
    Fault(
        "fragments",
        "a step unlike the size",
        lambda c: any(r.count > 1 and r.source_step > r.nbytes for t in pages(c) for r in t.runs),
        descriptors=2,
        pages=(2,),
        oddities=1,
    ),
    Fault(
        "fragments",
        "a part of a page",
        lambda c: any(t.runs and sum(r.nbytes * r.count for r in t.runs) < t.page_bytes for t in pages(c)),
        pages=(2,),
        oddities=1,
    ),
    Fault("mapping", "a step down taken for one up", lambda c: any(descent(t) for t in pages(c)), descriptors=2),
    Fault(
        "mapping",
        "a block to its own number",
        lambda c: any(s == d for t in pages(c) for s, d in zip(t.sources, t.destinations, strict=True)),
    ),
    Fault(
        "mapping",
        "a source twice",
        lambda c: any(len(set(t.sources)) < len(t.sources) for t in pages(c)),
        descriptors=2,
    ),
    Fault(
        "mapping",
        "a place behind the first 64",
        lambda c: any(max(t.destinations) > 64 for t in pages(c)),
        largest_offset=65,
    ),
    Fault("counts", "17 descriptors", lambda c: c.descriptors > 16, descriptors=17),
    Fault("counts", "1001 descriptors", lambda c: c.descriptors > 1000, descriptors=1001),
    Fault("sizes", "a size of 5 modulo 16", lambda c: any(s % 16 == 5 for s in sizes(c)), pages=(5,)),
    Fault(
        "sizes",
        "a size of 15 modulo 16, not a small one",
        lambda c: any(s % 16 == 15 and s > 100 for s in sizes(c)),
        pages=(111,),
    ),
    Fault("addresses", "a source at 4 modulo 8", lambda c: any(t.source.origin % 8 == 4 for t in pages(c))),
    Fault(
        "addresses",
        "both odd, and unlike",
        lambda c: any(odd_and_unlike(t) for t in pages(c)),
    ),
    Fault("addresses", "a source offset above 2^31", lambda c: any(at > 1 << 31 for at in sources(c))),
    Fault(
        "addresses",
        "an offset above 2^40",
        lambda c: any(at > 1 << 40 for at in destinations(c)),
        largest_offset=(1 << 40) - 4095,
    ),
    Fault("addresses", "a page across a 4 GiB line", across, pages=None, oddities=1),
    Fault(
        "memory",
        "the seam between registrations",
        lambda c: c.source_memory is Memory.REGISTERED_PIECES and max(sizes(c), default=0) > 4096,
        pages=(4097,),
        scope=GPU,
    ),
    Fault(
        "memory",
        "a range registered in part",
        lambda c: c.destination_memory is Memory.REGISTERED_PARTLY and bool(sizes(c)),
        scope=GPU,
    ),
    Fault("memory", "a read-only source", lambda c: c.source_memory is Memory.READ_ONLY and bool(sizes(c))),
    Fault(
        "memory",
        "shared to shared",
        lambda c: c.source_memory is c.destination_memory is Memory.SHARED and bool(sizes(c)),
    ),
    Fault(
        "fences",
        "a read beyond the end",
        lambda c: c.source_fence is Fence.AFTER and any(s % 8 for s in sizes(c)),
        oddities=1,
    ),
    Fault(
        "fences",
        "a write before the beginning",
        lambda c: c.destination_fence is Fence.BEFORE and bool(sizes(c)),
        oddities=1,
    ),
    Fault(
        "submission",
        "the legacy default stream",
        lambda c: c.submission.stream is Stream.DEFAULT and bool(sizes(c)),
        scope=GPU,
    ),
    Fault(
        "submission",
        "a size of zero that is not first",
        lambda c: bool(sizes(c)) and any(at > 0 for at in c.submission.zero_entries),
        descriptors=2,
    ),
    Fault("submission", "a late source", lambda c: c.submission.late_source and bool(sizes(c)), oddities=1),
    Fault(
        "submission",
        "a late destination with early reads allowed",
        lambda c: c.submission.late_destination and c.submission.order_any and bool(sizes(c)),
        oddities=2,
    ),
    Fault(
        "submission",
        "descriptors reused between calls",
        lambda c: (
            c.submission.reuse_descriptors and c.submission.calls > 1 and any(len(t.sources) > 1 for t in c.tensors)
        ),
        descriptors=2,
        oddities=2,
    ),
    Fault(
        "refusals",
        "two blocks to one place",
        lambda c: any(len(set(t.destinations)) < len(t.destinations) for t in c.tensors),
        descriptors=2,
        kind=UNDEFINED,
    ),
    Fault("refusals", "a negative size", lambda c: c.submission.malformed is Malformed.NEGATIVE_SIZE, kind=MALFORMED),
    Fault(
        "refusals",
        "a size that is too odd",
        lambda c: AWKWARD.must_refuse(ask(c)) is not None and any(s % 24 for s in sizes(c)),
        scope=LIMITED,
        kind=REFUSED,
    ),
)


def planted(fault: Fault) -> Callable[[Case], Verdict]:
    """A run that fails where the fault shows, on cases that the scope's device can build."""
    wrong = Verdict(Kind.WRONG, "planted", findings=(Finding(req.COPIED, fault.name),))
    right = Verdict(Kind.PASSED, "planted", (req.COPIED,))
    return lambda case: wrong if why_left_out(fault.scope, case) is None and fault.fails(case) else right


def hunt(fault: Fault, seed: int, *, shrink: bool = True) -> tuple[Failure, int]:
    """The failure, and how many cases were drawn until it was met."""
    strategy = STRATEGIES[fault.kind](fault.scope)
    shards = fault.kind.shards
    total = fault.kind.cases("cpu", Budget.GATE, fault.scope.support)
    tried = 0
    for shard in range(shards):
        planned = total // shards + (shard < total % shards)
        before = tried

        def count(case: Case) -> None:
            nonlocal tried
            tried += 1

        failure = search(
            strategy,
            Plan(planned, shard_seed(seed, fault.kind.name, "planted", str(shard)), None),
            planted(fault),
            worth_shrinking=lambda verdict: shrink,
            on_drawn=count,
        )
        if failure is not None:
            return failure, tried
        assert tried - before == planned
    pytest.fail(f"{fault.axis}: {fault.name}: not met in {tried} cases")


def oddities(case: Case) -> int:
    submission = replace(case.submission, stream=Stream.SIDE, malformed=None, zero_entries=())
    pools = [pool for tensor in case.tensors for pool in (tensor.source, tensor.destination)]
    return sum(
        [
            submission.calls > 1,
            submission.order_any,
            submission.late_source,
            submission.late_destination,
            submission.reuse_descriptors,
            case.source_fence is not Fence.NONE,
            case.destination_fence is not Fence.NONE,
            case.seed != 0,
            *(pool.per_chunk > 1 for pool in pools),
            *(bool(tensor.runs) for tensor in case.tensors),
        ]
    )


def largest_offset(case: Case) -> int:
    """Bytes from the destination's base to its last block."""
    tensor = case.tensors[0]
    return max((tensor.destination.offset(block) for block in tensor.destinations), default=0)


def named(fault: Fault) -> str:
    return f"{fault.axis}: {fault.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_it_is_found_and_shrinks_to_its_minimum(fault: Fault) -> None:
    failure, tried = hunt(fault, SEED)
    case = failure.case
    print(f"| {fault.axis} | {fault.name} | {tried} | {case.dumps()} |")
    assert case.descriptors == fault.descriptors, case.dumps()
    assert fault.pages in (None, tuple(tensor.page_bytes for tensor in case.tensors)), case.dumps()
    assert fault.largest_offset in (None, largest_offset(case)), case.dumps()
    assert oddities(case) <= fault.oddities, case.dumps()


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_other_seeds_meet_it_too(fault: Fault) -> None:
    for seed in OTHER_SEEDS:
        failure, tried = hunt(fault, seed, shrink=False)
        assert failure.verdict.failed
        print(f"| {fault.axis} | {fault.name} | {tried} |")


def test_every_axis_has_two_faults() -> None:
    axes = [fault.axis for fault in FAULTS]
    assert {axis for axis in axes if axes.count(axis) < 2} == set()
