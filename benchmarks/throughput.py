"""Cases a second by backend and number of workers, and what a case costs by phase, as Markdown tables.

    python benchmarks/throughput.py --platform cpu --workers 0 1 2

Runs the suite once a backend and number of workers and reads each run's summary.json. A run that fails is marked, not
left out: its cases were run all the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REST = "draw, and the rest"
BUILT_IN = ("torch_copy", "triton_copy", "batch_dma")


@dataclass(frozen=True)
class Measured:
    """One run."""

    backend: str
    workers: int
    status: int  # of pytest
    wall_seconds: float  # of the whole command, start-up included
    summary: dict[str, Any]

    @property
    def rate(self) -> float:
        """Cases a second, from the first answer of a device to the end of the last test."""
        return float(self.summary["cases_a_second"])

    @property
    def cases(self) -> int:
        return int(self.summary["cost_seconds"].get("cases", 0))

    def phases(self) -> dict[str, float]:
        """Microseconds a case, by phase, over all workers. What no phase accounts for is Hypothesis, mostly: drawing,
        shrinking; and waiting for the first answer of a device."""
        cost = {phase: spent for phase, spent in self.summary["cost_seconds"].items() if phase != "cases"}
        rest = sum(self.summary["worker_seconds"].values()) - sum(cost.values())
        return {phase: 1e6 * spent / self.cases for phase, spent in {**cost, REST: rest}.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--budget", default="smoke", choices=("smoke", "gate", "certify"))
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], metavar="N", help="values for pytest's -n")
    parser.add_argument(
        "--backend", action="append", metavar="NAME", help=f"repeatable (default: {', '.join(BUILT_IN)})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep every run's figures too")
    options = parser.parse_args(arguments)
    runs = []
    for backend in options.backend or BUILT_IN:
        for workers in options.workers:
            print(f"running {backend} with -n {workers} ...", file=sys.stderr, flush=True)
            runs.append(measure(backend, workers, options.platform, options.budget))
    print("\n".join([*rates(runs), "", *phases(runs)]))
    if options.json:
        options.json.write_text(json.dumps([run.__dict__ for run in runs], indent=1) + "\n", encoding="utf-8")
    return 0


def measure(backend: str, workers: int, platform: str, budget: str) -> Measured:
    """Run the suite once. Raises SystemExit with pytest's output if it ran no case."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"platform": platform, "budget": budget, "backend": backend, "report": folder, "run-seed": "1"}
        options = [f"--{name}={value}" for name, value in asked.items()]
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), *options]
        begun = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        wall = time.monotonic() - begun
        try:
            summary = json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))
        except OSError:
            raise SystemExit(
                f"{' '.join(command)} left no summary:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            ) from None
    return Measured(backend, workers, done.returncode, wall, summary)


def rates(runs: list[Measured]) -> list[str]:
    """Cases a second: a row a backend, a column a number of workers."""
    workers = sorted({run.workers for run in runs})
    cells = {(run.backend, run.workers): run for run in runs}
    rows = []
    for backend in dict.fromkeys(run.backend for run in runs):
        found = [cells[backend, count] for count in workers]
        rows.append([f"`{backend}`", *(_rate(run) for run in found), str(found[-1].cases)])
    return _table(["cases a second", *(f"-n {count}" for count in workers), "cases"], rows)


def _rate(run: Measured) -> str:
    return f"{run.rate:.0f} ({run.wall_seconds:.0f} s in all{', run failed' if run.status else ''})"


def phases(runs: list[Measured]) -> list[str]:
    """Microseconds a case by phase, where one worker ran: with more, waiting for the device counts many times."""
    least = min(run.workers for run in runs)
    ones = [run for run in runs if run.workers == (1 if any(run.workers == 1 for run in runs) else least)]
    names = sorted({phase for run in ones for phase in run.phases()})
    rows = [[name, *(f"{run.phases().get(name, 0.0):.0f}" for run in ones)] for name in names]
    heads = [f"us a case, -n {ones[0].workers}", *(f"`{run.backend}`" for run in ones)]
    return _table(heads, rows)


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]


if __name__ == "__main__":
    sys.exit(main())
