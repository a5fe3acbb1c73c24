"""How long the suite takes before it does anything, as a Markdown table: `python benchmarks/start_up.py`.

Each command is run several times in a process of its own; the first run is not counted, since it fills caches.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the commands and print the table; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args(arguments)
    print("| command | seconds (median) | least | most |\n| --- | --- | --- | --- |")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(options.platform, folder).items():
            if run(command) is None:
                failed = True
                continue
            seconds = [one for one in (run(command) for _ in range(options.times)) if one is not None]
            failed |= len(seconds) < options.times
            cells = [f"{f(seconds):.1f}" for f in (statistics.median, min, max)] if seconds else []
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return int(failed)


def commands(platform: str, folder: str) -> dict[str, list[str]]:
    """What is timed, by the name that the table gives it."""
    here = f"--platform={platform}"
    suite = ["-m", "pytest", "-q", here]
    smoke = [*suite, f"--report={folder}", "--budget=smoke", "--backend=batch_dma"]
    return {
        "`make set-up`, nothing changed": ["tools/set_up.py"],
        "`kvconform --help`": ["-m", "conformance", "--help"],
        "`kvconform list`": ["-m", "conformance", "list", here],
        "`pytest --collect-only`": [*suite, "--collect-only"],
        "one claim, one shard": [*smoke, "-k", "test_malformed"],
        "smoke, one backend, `-n auto`": [*smoke, "-n", "auto"],
    }


def run(command: list[str]) -> float | None:
    """Seconds of one run; None, with its output shown, if it failed."""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
