"""Simpler variants of a case, boldest first: for cases that Hypothesis did not draw and so can't shrink.

A listed example, a corpus entry and a case from a bug report are shrunk with these; a drawn case is polished with them.
Which variant still fails is for the caller to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from backends.contract import Memory, Stream
from strategies.case import Case, CaseError, Fence, Pool, Submission, Tensor

FEW = 16  # up to so many blocks are taken out one by one


def simplify(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The simplest case reached from `case` by steps of `simpler` that all still fail.

    Greedy and deterministic; calls `fails` on each variant at most once."""
    seen = {case.dumps()}
    found = True
    while found:
        found = False
        for variant in simpler(case):
            text = variant.dumps()
            if text not in seen:
                seen.add(text)
                if fails(variant):
                    case, found = variant, True
                    break
    return case


def simpler(case: Case) -> Iterator[Case]:
    """Valid variants of `case`, each simpler in one respect, the boldest first."""
    for change in _changes(case):
        try:
            variant = change()
        except CaseError:
            continue
        if variant != case:
            yield variant


def _changes(case: Case) -> Iterator[Callable[[], Case]]:
    if len(case.tensors) > 1:
        for tensor in case.tensors:
            yield lambda tensor=tensor: replace(case, tensors=(tensor,))  # type: ignore[misc]
    if len(case.tensors) > 2:
        for index in range(len(case.tensors)):
            others = case.tensors[:index] + case.tensors[index + 1 :]
            yield lambda others=others: replace(case, tensors=others)  # type: ignore[misc]
    plain = Submission(malformed=case.submission.malformed)
    yield lambda: replace(case, submission=plain)
    for name, value in (
        ("zero_entries", ()),
        ("zero_entries", case.submission.zero_entries[:1]),
        ("calls", 1),
        ("calls", min(2, case.submission.calls)),
        ("late_source", False),
        ("late_destination", False),
        ("order_any", False),
        ("reuse_descriptors", False),
        ("stream", Stream.SIDE),
    ):
        yield lambda name=name, value=value: replace(  # type: ignore[misc]
            case, submission=replace(case.submission, **{name: value})
        )
    yield lambda: replace(case, source_fence=Fence.NONE, destination_fence=Fence.NONE)
    yield lambda: replace(case, source_fence=Fence.NONE)
    yield lambda: replace(case, destination_fence=Fence.NONE)
    yield lambda: replace(case, round_trip=False)
    yield lambda: replace(case, seed=0)
    for side in ("source_memory", "destination_memory"):
        for plainer in _plainer(getattr(case, side)):
            yield lambda side=side, plainer=plainer: replace(case, **{side: plainer})  # type: ignore[misc]
    for index, tensor in enumerate(case.tensors):
        for change in _tensor_changes(tensor):
            yield (
                lambda index=index, change=change: replace(  # type: ignore[misc]
                    case, tensors=(*case.tensors[:index], change(), *case.tensors[index + 1 :])
                )
            )


def _plainer(memory: Memory) -> tuple[Memory, ...]:
    """The kinds of host memory that are plainer than this one."""
    plain = (Memory.PINNED, Memory.PAGEABLE)
    return () if memory.on_device else plain[: plain.index(memory)] if memory in plain else plain


def _tensor_changes(tensor: Tensor) -> Iterator[Callable[[], Tensor]]:
    pairs = list(zip(tensor.sources, tensor.destinations, strict=True))
    half = len(pairs) // 2
    if half:
        yield lambda: _with_pairs(tensor, pairs[:half])
        yield lambda: _with_pairs(tensor, pairs[half:])
    if 1 < len(pairs) <= FEW:
        for i in range(len(pairs)):
            yield lambda i=i: _with_pairs(tensor, pairs[:i] + pairs[i + 1 :])  # type: ignore[misc]
    elif pairs:
        cut = max(1, half // 2)
        while cut:
            yield lambda cut=cut: _with_pairs(tensor, pairs[:-cut])  # type: ignore[misc]
            cut //= 2
    if tensor.runs:
        yield lambda: replace(tensor, runs=())
        yield lambda: replace(tensor, runs=tensor.runs[:1])
        yield lambda: replace(tensor, runs=tuple(replace(run, count=1) for run in tensor.runs))
    count = len(pairs)
    yield lambda: replace(tensor, sources=tuple(range(count)), destinations=tuple(range(count)))
    yield lambda: replace(tensor, sources=tuple(range(count)))
    yield lambda: replace(tensor, destinations=tuple(range(count)))
    yield lambda: replace(tensor, sources=_ranked(tensor.sources))
    yield lambda: replace(tensor, destinations=_ranked(tensor.destinations))
    for side in ("sources", "destinations"):
        least = min(getattr(tensor, side), default=0)
        for power in reversed(range(least.bit_length())):
            if 1 << power < least:  # all the way down to 0 is tried above
                yield lambda side=side, by=1 << power: _with_lower_ids(tensor, side, by)  # type: ignore[misc]
    yield lambda: _fitted(tensor)
    if count == 1:
        source, destination = tensor.sources[0], tensor.destinations[0]
        yield lambda: replace(tensor, source=_single(tensor.source, source), sources=(0,))
        yield lambda: replace(tensor, destination=_single(tensor.destination, destination), destinations=(0,))
    page = tensor.page_bytes
    for size in (1, page // 2, 1 << (page.bit_length() - 1), page - 16, page - 1):  # 16 less has the same residue
        if 1 <= size < page:
            yield lambda size=size: _with_page(tensor, size)  # type: ignore[misc]
    for side in ("source", "destination"):
        pool: Pool = getattr(tensor, side)
        for simple in (
            replace(pool, per_chunk=1, chunk_stride=0),
            replace(pool, chunk_stride=0),
            replace(pool, origin=0),
            replace(pool, origin=pool.origin % 16),
            replace(pool, origin=pool.origin // 2),
            replace(pool, stride=tensor.page_bytes, chunk_stride=0),
        ):
            yield lambda side=side, simple=simple: replace(tensor, **{side: simple})  # type: ignore[misc]


def _with_pairs(tensor: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    return replace(tensor, sources=tuple(s for s, _ in pairs), destinations=tuple(d for _, d in pairs))


def _ranked(ids: tuple[int, ...]) -> tuple[int, ...]:
    """The same order with the smallest ids that have it."""
    rank = {block: i for i, block in enumerate(sorted(set(ids)))}
    return tuple(rank[block] for block in ids)


def _with_lower_ids(tensor: Tensor, side: str, by: int) -> Tensor:
    lower = tuple(block - by for block in getattr(tensor, side))
    return replace(tensor, sources=lower) if side == "sources" else replace(tensor, destinations=lower)


def _fitted(tensor: Tensor) -> Tensor:
    """Both pools end at the last block that is used."""
    return replace(
        tensor,
        source=replace(tensor.source, blocks=max(tensor.sources, default=0) + 1),
        destination=replace(tensor.destination, blocks=max(tensor.destinations, default=0) + 1),
    )


def _single(pool: Pool, block: int) -> Pool:
    """A pool of nothing but this block, at the place where it is."""
    return Pool(1, pool.stride, origin=pool.offset(block))


def _with_page(tensor: Tensor, page_bytes: int) -> Tensor:
    """Smaller pages; pools whose rows were dense stay dense."""

    def pool(old: Pool) -> Pool:
        return replace(old, stride=page_bytes) if old.stride == tensor.page_bytes else old

    return replace(tensor, page_bytes=page_bytes, source=pool(tensor.source), destination=pool(tensor.destination))
