"""Which path a copy really took, read from the device's profiler and held against what backend and rule say.

A Triton kernel shows by its name, a copy engine as copies without a kernel, a loop of torch copies by the operators
that the host ran. What the profiler does not show is not judged: a loop of single driver calls inside a library looks
like a batch call, and on a CPU nothing is to be seen at all, which is then said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from random import Random
from typing import Any, NoReturn

import pytest

from backends.contract import Backend, Direction, Memory
from backends.selection import BATCH_DMA, TORCH_COPY, TRITON_COPY
from conformance.claims.claim import Claim
from conformance.claims.rule import DMA_PAGE, DMA_PAGES, KERNEL_PAGE, KERNEL_PAGES, SelectorClaim, plain_case
from conformance.device.task import Task, Tools
from conformance.execution.prepared import prepare
from conformance.judge.oracle import initial
from conformance.record.counts import Key
from conformance.requirements import copies as req
from strategies.case import Case
from strategies.must_have import must_have
from strategies.request import ask
from strategies.scope import Scope

OBSERVED = ("cuda", "rocm", "xpu")  # platforms whose activities torch.profiler records
FIRST_PROFILE_SECONDS = 90.0  # measured: 4 s on an H200; the rest is for a kernel's compilation and slow machines
SINGLE_COPIES = ("aten::copy_", "cudaMemcpyAsync", "cudaMemcpy", "cuMemcpyAsync", "hipMemcpyAsync", "hipMemcpy")
FEW = 4  # descriptors: up to so many, a table or two look like the copies themselves


class Path(str, Enum):
    """The kinds of paths that can be told apart."""

    KERNEL = "a kernel"
    BATCH = "a batch call"
    COPIES = "single copies"
    NOTHING = "nothing"
    UNKNOWN = "a path of its own"


@dataclass(frozen=True)
class Seen:
    """What the profiler saw of one copy. Plain data."""

    kernels: tuple[str, ...] = ()  # names, in order
    copies: tuple[str, ...] = ()  # e.g. "Memcpy HtoD (Pinned -> Device)"
    calls: Mapping[str, int] = field(default_factory=dict)  # host-side operators and driver calls, counted
    said: str = ""  # what the backend says it did
    trouble: str = ""  # what it raised

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Seen:
        return cls(**{**data, "kernels": tuple(data["kernels"]), "copies": tuple(data["copies"])})

    def __str__(self) -> str:
        kernels = f"kernels {', '.join(sorted(set(self.kernels)))}" if self.kernels else "no kernel"
        loops = {name: count for name, count in self.calls.items() if name in SINGLE_COPIES}
        calls = f", {', '.join(f'{count} x {name}' for name, count in sorted(loops.items()))}" if loops else ""
        return f"{kernels}, {len(self.copies)} copies{calls}"


def seen_in(events: Iterable[Any], said: str = "") -> Seen:
    """What a profile's events show. An event has a `name` and a `device_type` with a name, as torch's have."""
    kernels, copies = [], []
    calls: dict[str, int] = {}
    for event in events:
        name = str(event.name)
        if event.device_type.name == "CPU":
            calls[name] = calls.get(name, 0) + 1
        elif name.lower().startswith("memcpy") or "copybuffer" in name.lower():
            copies.append(name)
        elif not name.lower().startswith("memset"):
            kernels.append(name)
    return Seen(tuple(kernels), tuple(copies), calls, said)


def claimed(said: str) -> Path:
    """The kind of path that a backend's `path()` names."""
    text = said.lower()
    if text.startswith("empty batch"):
        return Path.NOTHING
    if text.startswith("call of "):  # of a foreign function, by its name
        return Path.UNKNOWN
    if "kernel" in text:
        return Path.KERNEL
    if "loop" in text or "copy_" in text:
        return Path.COPIES
    return Path.BATCH if "batch" in text else Path.UNKNOWN


CHOSEN_PATHS: Mapping[str, tuple[Path, ...]] = {
    TRITON_COPY: (Path.KERNEL,),
    BATCH_DMA: (Path.BATCH,),
    TORCH_COPY: (Path.COPIES,),
}


def contradiction(seen: Seen, descriptors: int, chosen: str | None = None) -> str | None:
    """Why what was seen is not the path that the backend names (nor the one that the rule chose), or None.

    `descriptors`: how many copies were asked for."""
    path = claimed(seen.said)
    if chosen is not None and path not in (*CHOSEN_PATHS[chosen], Path.UNKNOWN, Path.NOTHING):
        return f"the rule chose {chosen}, which is {CHOSEN_PATHS[chosen][0].value}, but the copy went by {seen.said!r}"
    claims = f"it says {seen.said!r}, which is {path.value}, but the device shows {seen}"
    many = descriptors > FEW
    looped = max((seen.calls.get(name, 0) for name in SINGLE_COPIES), default=0) >= descriptors
    wrong = {
        Path.KERNEL: not seen.kernels or (many and len(seen.copies) >= descriptors),
        Path.BATCH: bool(seen.kernels) or not seen.copies or (many and looped),
        Path.COPIES: bool(seen.kernels) or not seen.copies,
        Path.NOTHING: bool(seen.kernels or seen.copies),
        Path.UNKNOWN: False,
    }
    return claims if wrong[path] else None


def why_not_observable(platform: str) -> str | None:
    """Why the path can't be read from the device there, or None."""
    if platform in OBSERVED:
        return None
    return (
        f"not observable here: on {platform} a copy runs on the processor itself, where no profiler tells "
        "a batch call or an interpreted kernel from any other work"
    )


def observe(tools: Tools, pairs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """In the device process: run each (backend, case as JSON) under the profiler; what was seen, as plain data."""
    return [asdict(_observe(tools, tools.backend(name), Case.from_json(case))) for name, case in pairs]


def _observe(tools: Tools, backend: Backend, case: Case) -> Seen:
    job, offsets = prepare(case)
    images = initial(case)
    watched = _Watched(backend, tools)
    tools.executor.execute(backend, job, images, offsets)  # a first time unseen: kernels are compiled then
    evidence = tools.executor.execute(watched, job, initial(case), offsets)
    found = seen_in(watched.events, evidence.path)
    return Seen(found.kernels, found.copies, found.calls, found.said, evidence.text)


class _Watched:
    """A backend under the profiler, from its call until the device is through with it."""

    def __init__(self, backend: Backend, tools: Tools) -> None:
        self.name = backend.name
        self.support, self.path = backend.support, backend.path
        self.events: list[Any] = []
        self._backend, self._tools = backend, tools

    def copy(self, src_ptrs: Any, dst_ptrs: Any, sizes: Any, is_src_access_order_any: bool = False) -> None:
        from torch.profiler import ProfilerActivity, profile

        accelerator = ProfilerActivity.XPU if self._tools.device.facts.platform == "xpu" else ProfilerActivity.CUDA
        with profile(activities=[ProfilerActivity.CPU, accelerator]) as profiler:
            self._backend.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=is_src_access_order_any)
            self._tools.device.synchronize()
        self.events += profiler.events()


def sampled(scope: Scope, count: int, seed: int) -> list[Case]:
    """A few cases to profile: first a load and a store that a kernel is for, then two for a copy engine, then some of
    the listed ones, by seed. None is host-to-host, which may be done by the processor."""
    kinds = [Direction.LOAD, Direction.STORE]
    routes = [next((route for route in scope.routes if route[0] is kind), None) for kind in kinds]
    sizes = ((KERNEL_PAGE, KERNEL_PAGES), (DMA_PAGE, DMA_PAGES))
    plain = [plain_case(*route, page, pages, scope) for page, pages in sizes for route in routes if route]
    plain = [case for case in plain if scope.support.why_not(ask(case)) is None]
    others = [case for _, case in must_have(scope) if case.direction in kinds and case.descriptors > FEW]
    others = [case for case in others if not (case.round_trip or case.undefined or ask(case).late)]
    Random(seed).shuffle(others)
    return [*plain, *others][:count]


def takes_its_path(claim: Claim) -> None:
    """SELECT-PATH-TAKEN of a backend: each sampled copy goes the way that the backend says."""
    support = claim.run.support(claim.backend, claim.bench)
    if support.unavailable:
        pytest.skip(f"{claim.backend} can't run here: {support.unavailable}")
    cases = _sample(claim, Scope.of(claim.bench.runner.device, support))
    _compare(claim, [(claim.backend, case, None) for case in cases])


def takes_the_chosen_path(claim: SelectorClaim) -> None:
    """SELECT-PATH-TAKEN of the rule: each sampled copy goes the way that the rule chose."""
    claim.load_supports()
    usable = [support for support in claim.supports.values() if not support.unavailable]
    found: list[tuple[str, Case, str | None]] = []
    for support in usable:
        for case in _sample(claim, Scope.of(claim.bench.runner.device, support)):
            facts = claim.facts(case)
            chosen = None if claim.selector.outside(facts) else claim.selector.ask(claim.selector.view(facts)).backend
            if chosen and claim.supports[chosen].why_not(ask(case)) is None:
                found.append((chosen, case, chosen))
    _compare(claim, found)


def _sample(claim: Claim, scope: Scope) -> list[Case]:
    reason = why_not_observable(claim.run.settings.platform)
    if reason:
        _plan_none(claim, reason)
    return sampled(scope, claim.kind.least, claim.run.settings.seed)


def _plan_none(claim: Claim, reason: str) -> NoReturn:
    """Book that nothing is planned, and why in the test's outcome."""
    claim.run.tally.count(Key(claim.backend, req.TAKEN), "planned", 0)
    pytest.skip(reason)


def _control(claim: Claim) -> Case:
    memory = claim.bench.runner.device.memory
    host = Memory.PINNED if Memory.PINNED.value in memory else Memory.PAGEABLE
    return plain_case(Direction.LOAD, host, Memory.DEVICE, KERNEL_PAGE, KERNEL_PAGES)


def _compare(claim: Claim, copies: Sequence[tuple[str, Case, str | None]]) -> None:
    """Profile the copies in one process of their own and count what came of them; fail with every contradiction.

    A copy by torch comes first: a profiler that does not even show that one (no CUPTI, no permission) shows nothing."""
    key = Key(claim.backend, req.TAKEN)
    pairs = [(backend, case.to_json()) for backend, case, _ in [(TORCH_COPY, _control(claim), None), *copies]]
    task = Task("conformance.claims.execution_path:observe", {"pairs": pairs}, FIRST_PROFILE_SECONDS + 10 * len(pairs))
    result = claim.bench.runner.perform_clean(task)
    control, *found = map(Seen.from_json, result.value or [asdict(Seen(trouble=result.trouble))])
    if not (control.copies or control.trouble):
        _plan_none(claim, "not observable here: the profiler does not show a copy that torch makes")
    for column in ("planned", "drawn"):
        claim.run.tally.count(key, column, len(copies))
    if result.trouble:
        claim.run.tally.count(key, "not_judged", len(copies))
        pytest.fail(f"{claim.backend}: profiling its copies failed: {result.trouble}\n{result.output}", pytrace=False)
    wrong = []
    for (backend, case, chosen), seen in zip(copies, found, strict=True):
        reason = seen.trouble or contradiction(seen, case.descriptors, chosen)
        claim.run.tally.count(key, "failed" if reason else "passed")
        if reason:
            wrong.append(f"{backend}, {case.direction.value} of {case.descriptors} descriptors: {reason}")
    if wrong:
        pytest.fail("\n".join([f"{claim.backend} breaks {req.TAKEN}:", *wrong]), pytrace=False)
