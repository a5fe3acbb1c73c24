"""Counting over a run: how often each cell and each pair of cells was met, and which required cells were never met.

Counts add up over processes and travel as JSON. It counts what it is told ran; whether that passed is told elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from strategies.axes import AXES, PAIRS, required
from strategies.case import Case
from strategies.cells import cells_of
from strategies.footprint import destination_footprint, source_footprint
from strategies.scope import Scope


class Coverage:
    """How often each cell, and each pair of cells of the axes in PAIRS, was met by the cases added so far."""

    def __init__(self) -> None:
        self.cases = 0
        self.moved_bytes = 0  # copied from a source to a destination
        self.compared_bytes = 0  # of both arenas, which are compared whole
        self.cells: dict[str, Counter[str]] = {axis.name: Counter() for axis in AXES}
        self.pairs: dict[tuple[str, str], Counter[tuple[str, str]]] = {pair: Counter() for pair in PAIRS}

    def add(self, case: Case) -> None:
        """Count one case that ran."""
        source, destination = source_footprint(case), destination_footprint(case)
        found = cells_of(case, source, destination)
        self.cases += 1
        self.moved_bytes += moved_bytes(case)
        self.compared_bytes += source.image_bytes + destination.image_bytes
        for axis, cells in found.items():
            self.cells[axis].update(cells)
        for pair, counted in self.pairs.items():
            counted.update(product(found.get(pair[0], ()), found.get(pair[1], ())))

    def merge(self, other: Coverage) -> None:
        """Add what another process counted."""
        self.cases += other.cases
        self.moved_bytes += other.moved_bytes
        self.compared_bytes += other.compared_bytes
        for axis, cells in other.cells.items():
            self.cells.setdefault(axis, Counter()).update(cells)
        for pair, counted in other.pairs.items():
            self.pairs.setdefault(pair, Counter()).update(counted)

    def missing(self, scope: Scope) -> list[str]:
        """The required cells with no hit, as "axis: cell"."""
        return [
            f"{axis}: {cell}"
            for axis, cells in required(scope).items()
            for cell in cells
            if not self.cells.get(axis, Counter())[cell]
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain dicts and lists, sorted."""
        return {
            "cases": self.cases,
            "moved_bytes": self.moved_bytes,
            "compared_bytes": self.compared_bytes,
            "cells": {axis: dict(sorted(cells.items())) for axis, cells in self.cells.items()},
            "pairs": [
                {"axes": list(axes), "counts": [[*cells, count] for cells, count in sorted(counted.items())]}
                for axes, counted in self.pairs.items()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Coverage:
        """The inverse of `to_json`."""
        coverage = cls()
        coverage.cases = data["cases"]
        coverage.moved_bytes = data["moved_bytes"]
        coverage.compared_bytes = data["compared_bytes"]
        coverage.cells.update((axis, Counter(cells)) for axis, cells in data["cells"].items())
        for entry in data["pairs"]:
            first, second = entry["axes"]
            coverage.pairs[first, second] = Counter({(a, b): count for a, b, count in entry["counts"]})
        return coverage


def moved_bytes(case: Case) -> int:
    """Bytes that the copy moves, there; a round trip moves them twice."""
    once = sum(
        len(tensor.sources) * (sum(run.nbytes * run.count for run in tensor.runs) or tensor.page_bytes)
        for tensor in case.tensors
    )
    return 2 * once if case.round_trip else once
