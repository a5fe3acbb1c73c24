"""Counts that survive the process that makes them: drawn = passed + failed + refused + not judged, always.

Each worker maps a file of its own and counts in it, one row a backend and requirement; whoever reads the folder later
adds them up. A worker that is killed leaves its counts behind, and the case it was running shows as the difference.
"""

from __future__ import annotations

import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COLUMNS = ("planned", "drawn", "passed", "failed", "refused", "not_judged")
ROWS = 4096
ROW_BYTES = 8 * len(COLUMNS)


@dataclass(frozen=True)
class Key:
    """What a row counts."""

    backend: str
    requirement: str


@dataclass
class Count:
    """One row's sums."""

    planned: int = 0
    drawn: int = 0
    passed: int = 0
    failed: int = 0
    refused: int = 0
    not_judged: int = 0

    @property
    def open(self) -> int:
        """Cases drawn whose verdict never came: their worker died."""
        return self.drawn - self.passed - self.failed - self.refused - self.not_judged

    def add(self, other: Count) -> None:
        for column in COLUMNS:
            setattr(self, column, getattr(self, column) + getattr(other, column))


class Tally:
    """One process's counts, in `folder/NAME.counts` with the rows' names in `folder/NAME.rows`.

    Raises OSError when the files can't be made (unwritable folder, full disk): blocks are allocated ahead."""

    def __init__(self, folder: Path, name: str) -> None:
        descriptor = os.open(folder / f"{name}.counts", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, ROWS * ROW_BYTES)
            self._map = mmap.mmap(descriptor, ROWS * ROW_BYTES)
        finally:
            os.close(descriptor)
        self._counts = np.frombuffer(self._map, np.int64).reshape(ROWS, len(COLUMNS))
        self._names = folder / f"{name}.rows"
        self._names.write_text("")
        self._rows: dict[Key, int] = {}

    def count(self, key: Key, column: str, amount: int = 1) -> None:
        """Add to one cell."""
        self._counts[self._row(key), COLUMNS.index(column)] += amount

    def _row(self, key: Key) -> int:
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) == ROWS:
                raise IndexError(f"no row is left for {key}: {ROWS} at most")
            row = self._rows[key] = len(self._rows)
            with self._names.open("a") as file:
                file.write(json.dumps([key.backend, key.requirement]) + "\n")
        return row


def halves(folder: Path) -> list[str]:
    """Names of processes whose counts are not whole: one of their two files is missing."""
    rows, counts = ({path.stem for path in folder.glob(f"*.{end}")} for end in ("rows", "counts"))
    return sorted(rows ^ counts)


def read(folder: Path) -> dict[Key, Count]:
    """The sums over all processes that counted in `folder`."""
    total: dict[Key, Count] = {}
    for names in sorted(folder.glob("*.rows")):
        if not names.with_suffix(".counts").exists():
            continue
        counts = np.fromfile(names.with_suffix(".counts"), np.int64).reshape(ROWS, len(COLUMNS))
        for row, line in enumerate(names.read_text().splitlines()):
            backend, requirement = json.loads(line)
            found = Count(**dict(zip(COLUMNS, counts[row].tolist(), strict=True)))
            total.setdefault(Key(backend, requirement), Count()).add(found)
    return total
