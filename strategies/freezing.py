"""Choose the cases of a frozen corpus: draw from one seed, keep those that reach something new, fill up with the rest.

Small cases only; what needs a huge mapping is left to `must_have`. The seed makes the choice repeatable on one day and
one machine; what makes it last is the file (`corpus`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from backends.contract import Device, Memory, Stream, Support
from strategies.axes import required
from strategies.case import Case
from strategies.corpus import MOST_LINE, Entry
from strategies.coverage import Coverage
from strategies.draw.cases import cases, malformed_cases, round_trips, undefined_cases
from strategies.must_have import must_have
from strategies.scope import Scope

CPU_MEMORY = (Memory.DEVICE, Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY)  # huge pages are rarely set aside
CPU_STREAMS = (Stream.SIDE,)
SHARES = (("undefined", 0.03), ("malformed", 0.03), ("round trip", 0.08))  # of all cases; the rest are plain copies
BATCH, MOST_BATCHES = 2000, 6  # cases drawn at a time, and how often
EACH_REQUIRED, EACH_PAIR = 5, 2  # hits that a case may still be kept for
FILL_LINE = 1200  # bytes: longer cases are kept only for what they reach


def scope_of(kind: str) -> Scope:
    """All that a platform of this kind may have, for a backend without limits."""
    cpu = kind == "cpu"
    device = Device(
        platform="cpu" if cpu else "cuda",
        index=0,
        name=kind,
        driver="",
        runtime="",
        torch="",
        triton=None,
        memory=tuple(memory.value for memory in (CPU_MEMORY if cpu else Memory)),
        streams=tuple(stream.value for stream in (CPU_STREAMS if cpu else Stream)),
        pageable_access=cpu,
        registered_address_is_host_address=True,
        batch_api=None,
        fences=True,
    )
    return Scope.of(device, Support())


def freeze(kind: str, count: int, number: int) -> list[Case]:
    """`count` cases for one kind of platform, drawn from seed `number`; no two alike.

    Raises ValueError where the strategies do not give so many small ones."""
    scope = scope_of(kind)
    chosen = _Chosen()
    others = [(name, int(share * count)) for name, share in SHARES]
    copies = _copies(scope, count - sum(amount for _, amount in others), number)
    found = [*copies, *(case for name, amount in others for case in _others(scope, name, amount, number))]
    for case in found:
        chosen.take(case)
    if len(chosen.cases) != count:
        raise ValueError(f"{kind}: {len(chosen.cases)} of {count} cases: fewer small ones were drawn; ask for fewer")
    return chosen.cases


@dataclass
class _Chosen:
    """What is kept so far, and how often it reaches what."""

    cases: list[Case] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    seen: set[str] = field(default_factory=set)

    def take(self, case: Case) -> None:
        """Keep a case unless it is here already."""
        entry = Entry.of(case)
        if entry.id not in self.seen:
            self.seen.add(entry.id)
            self.cases.append(case)
            self.coverage.add(case)

    def gains(self, case: Case, wanted: dict[str, tuple[str, ...]]) -> bool:
        """Whether the case reaches a required cell, or a pair of cells, that has too few hits."""
        one = Coverage()
        one.add(case)
        return any(
            self.coverage.cells[axis][cell] < EACH_REQUIRED
            for axis, cells in wanted.items()
            for cell in cells
            if one.cells[axis][cell]
        ) or any(self.coverage.pairs[axes][pair] < EACH_PAIR for axes, counted in one.pairs.items() for pair in counted)


def _copies(scope: Scope, count: int, number: int) -> list[Case]:
    """First what reaches something, then the next ones drawn."""
    wanted = required(scope)
    chosen = _Chosen()
    rest: list[Case] = []
    for batch in range(MOST_BATCHES):
        for case in drawn(cases(scope), BATCH, number + batch):
            if len(chosen.cases) < count and chosen.gains(case, wanted):
                chosen.take(case)
            else:
                rest.append(case)
        if not chosen.coverage.missing(scope):
            break
    for _, case in must_have(scope):
        missing = set(chosen.coverage.missing(scope))
        if not missing:
            break
        if _small(case) and _reaches(case, scope, missing):
            chosen.take(case)
    for case in rest:
        if len(chosen.cases) == count:
            break
        if len(Entry.of(case).line) <= FILL_LINE:
            chosen.take(case)
    return chosen.cases[:count]


def _reaches(case: Case, scope: Scope, missing: set[str]) -> bool:
    one = Coverage()
    one.add(case)
    return bool(missing - set(one.missing(scope)))


def _others(scope: Scope, name: str, count: int, number: int) -> Iterator[Case]:
    strategies: dict[str, Callable[[Scope], st.SearchStrategy[Case]]] = {
        "undefined": undefined_cases,
        "malformed": malformed_cases,
        "round trip": round_trips,
    }
    small = (case for case in drawn(strategies[name](scope), 4 * count, number) if len(case.dumps()) <= FILL_LINE)
    unlike = {case.dumps(): case for case in small}
    yield from list(unlike.values())[:count]


def drawn(strategy: st.SearchStrategy[Case], count: int, number: int) -> list[Case]:
    """The small ones among so many drawn cases, in the order in which they come."""
    found: list[Case] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        backend="hypothesis",
    )
    @given(strategy)
    def collect(case: Case) -> None:
        if _small(case):
            found.append(case)

    collect()
    return found


def _small(case: Case) -> bool:
    return len(Entry.of(case).line) <= MOST_LINE
