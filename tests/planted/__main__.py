"""`python -m tests.planted`: print the table of planted faults, cases to detection, requirement, shrunk case."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from conformance.search.search import size
from tests.planted.faults import FAULTS
from tests.planted.hunting import bench_at, device_server, hunt


def main(seed: int) -> None:
    """One line a fault, as a run with this seed finds it."""
    print("fault | requirement | found in case (listed + drawn) | drawn alone | descriptors | page bytes | seconds")
    with (
        tempfile.TemporaryDirectory() as folder,
        device_server(Path(folder)) as address,
        bench_at(address, Path(folder)) as bench,
    ):
        for fault in FAULTS:
            catch = hunt(bench, fault.backend, fault.kind, seed=seed)
            fault.settle()
            drawn = (
                hunt(bench, fault.backend, fault.kind, seed=seed, listed=False, shrink=False) if fault.seeds else None
            )
            fault.settle()
            assert catch.failure is not None
            _, descriptors, _, page_bytes, _ = size(catch.case)
            requirement = catch.failure.verdict.findings[0].requirement
            cells = (
                requirement,
                catch.cases,
                drawn.cases if drawn else "-",
                descriptors,
                page_bytes,
                f"{catch.seconds:.1f}",
            )
            print(" | ".join([fault.attribute, *map(str, cells)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
