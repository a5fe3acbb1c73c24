"""What drawing costs: milliseconds a case, by strategy and scope. `python -m benchmarks.draw`; a minute, no device.

Times are of this machine and no test asserts them; compare two runs on one machine.
"""

from __future__ import annotations

import time

from strategies.coverage import Coverage
from strategies.draw.cases import cases, malformed_cases, round_trips, undefined_cases
from strategies.freezing import drawn, scope_of
from strategies.must_have import must_have

COUNT = 1000
STRATEGIES = {"copies": cases, "round trips": round_trips, "undefined": undefined_cases, "malformed": malformed_cases}


def main() -> None:
    print("| scope | what | cases | ms a case |")
    print("| --- | --- | --- | --- |")
    for kind in ("cpu", "accelerator"):
        scope = scope_of(kind)
        found = []
        for name, strategy in STRATEGIES.items():
            begun = time.perf_counter()
            found += drawn(strategy(scope), COUNT, 1)
            _row(kind, f"draw {name}", COUNT, begun)
        begun = time.perf_counter()
        coverage = Coverage()
        for case in found:
            coverage.add(case)
        _row(kind, "count what they cover", len(found), begun)
        begun = time.perf_counter()
        listed = len(must_have(scope))
        _row(kind, "build the listed examples", listed, begun)


def _row(kind: str, what: str, count: int, begun: float) -> None:
    print(f"| {kind} | {what} | {count} | {1e3 * (time.perf_counter() - begun) / count:.2f} |", flush=True)


if __name__ == "__main__":
    main()
