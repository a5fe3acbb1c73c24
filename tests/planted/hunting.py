"""Hunt for a planted fault as a claim does: shard by shard, listed examples first, then drawn cases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.claims.claim import SMOKE_LISTED
from conformance.device import sockets
from conformance.device.case_runner import Bench
from conformance.device.client import DeviceClient
from conformance.device.launch import ServerProcess
from conformance.device.server import Settings
from conformance.record.incidents import IncidentLog
from conformance.requirements.budgets import COPY, MALFORMED, REFUSED, ROUND_TRIP, UNDEFINED, Budget, ClaimKind
from conformance.search.search import Failure, Plan, search, shard_seed
from strategies.case import Case
from strategies.draw import cases as drawing
from strategies.must_have import must_have
from strategies.request import ask
from strategies.scope import Scope

STRATEGIES = {
    COPY.name: drawing.cases,
    ROUND_TRIP.name: drawing.round_trips,
    UNDEFINED.name: drawing.undefined_cases,
    MALFORMED.name: drawing.malformed_cases,
    REFUSED.name: drawing.refused_cases,
}
MEMORY_BYTES = 3 << 30


@dataclass(frozen=True)
class Catch:
    """What a hunt brought home."""

    failure: Failure | None
    cases: int  # run until the first failure; all of them if there was none
    seconds: float

    @property
    def case(self) -> Case:
        assert self.failure is not None
        return self.failure.case


def hunt(
    bench: Bench,
    backend: str,
    kind: ClaimKind = COPY,
    *,
    seed: int,
    listed: bool = True,
    shrink: bool = True,
    budget: Budget = Budget.GATE,
) -> Catch:
    """Run a claim's shards in their order until one fails. Without `listed`, drawn cases only."""
    begun = time.monotonic()
    support = bench.runner.support(backend)
    scope = Scope.of(bench.runner.device, support)
    strategy = STRATEGIES[kind.name](scope)
    every = SMOKE_LISTED if budget is Budget.SMOKE else 1
    examples = must_have(scope)[::every] if listed and kind is COPY else []
    planned = 0 if strategy.is_empty else kind.cases("cpu", budget, support)
    total = 0
    for shard in range(kind.shards):
        mine = planned // kind.shards + (shard < planned % kind.shards)
        ran = 0

        def count(_: Case) -> None:
            nonlocal ran
            ran += 1

        failure = search(
            strategy,
            Plan(mine, shard_seed(seed, kind.name, backend, str(shard)), None),
            lambda case: bench.verdict(backend, case),
            examples=examples[shard :: kind.shards],
            allowed=lambda case: support.why_not(ask(case)) is None or kind is REFUSED,
            worth_shrinking=lambda verdict: shrink,
            on_drawn=count,
        )
        total += ran
        if failure is not None:
            return Catch(failure, total, time.monotonic() - begun)
    return Catch(None, total, time.monotonic() - begun)


@contextmanager
def device_server(folder: Path, memory_bytes: int = MEMORY_BYTES, platform: str = "cpu") -> Iterator[str]:
    """A server of one device process; gives its address."""
    address = sockets.new_address()
    server = ServerProcess.launch(Settings(platform, address, (0,), str(folder), memory_bytes))
    try:
        yield address
    finally:
        server.stop()


@contextmanager
def bench_at(address: str, folder: Path, floor_seconds: float = 10.0, worker: str = "tests") -> Iterator[Bench]:
    """A worker's bench on that server's device."""
    client = DeviceClient(address, 0, worker, floor_seconds)
    try:
        yield Bench(client, IncidentLog(folder / "incidents.jsonl"))
    finally:
        client.close()
