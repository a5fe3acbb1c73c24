"""The rule that would be right on this device, as performance rows of the selection table.

Where the table's choice is beaten by more than the dead band at stable points, those points are covered with as few
rectangles of (page size, descriptors) as a greedy search finds. Everywhere else the table stays right. A row says
nothing about pages or counts beyond those measured; in between, and where both are large at once, it is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import exp, log
from typing import Any

from backends.contract import Memory
from conformance.audit.grid import Point, size_text
from conformance.audit.judgement import Judged
from conformance.audit.measurements import Measurements
from conformance.selection.table import Table
from conformance.words import counted

Cell = tuple[int, int]  # page size, descriptors


def advised_rows(found: Measurements, judged: Sequence[Judged], table: Table) -> list[dict[str, Any]]:
    """Rows in the format of table.json's "performance"; none where the table is as good as the best."""
    rows: list[dict[str, Any]] = []
    for direction in dict.fromkeys(each.point.direction for each in judged):
        here = [each for each in judged if each.point.direction == direction]
        gains = {_cell(each.point): gain for each in here if (gain := _gain(found, each, table)) is not None}
        known = {_cell(each.point) for each in here}
        for name in sorted({name for name, _ in gains.values()}):
            cells = {cell: factor for cell, (winner, factor) in gains.items() if winner == name}
            for block in _blocks(cells, known):
                rows.append(_row(found, direction, name, block, cells, len(rows) + 1))
    return rows


def _gain(found: Measurements, each: Judged, table: Table) -> tuple[str, float] | None:
    """The winner and how many times faster it is than the table's choice, where that is more than the dead band."""
    setting = found.setting
    facts = each.point.facts(setting.device, Memory(setting.memory))
    answer = table.answer(facts)
    if not each.stable or answer.backend not in each.times or answer.backend in each.equals:
        return None
    allowed = [name for name in each.equals if name not in answer.ruled_out]
    if not allowed or allowed[0] not in table.fallbacks:
        return None
    return allowed[0], each.times[answer.backend] / each.times[allowed[0]]


def _blocks(cells: dict[Cell, float], known: set[Cell]) -> list[tuple[Cell, Cell]]:
    """Rectangles (least cell, greatest cell) that cover all cells and no other known one, the largest first."""
    left, blocks = set(cells), []
    while left:
        corners = list(product(sorted({page for page, _ in cells}), sorted({count for _, count in cells})))
        options = [(low, high) for low, high in product(corners, corners) if low[0] <= high[0] and low[1] <= high[1]]
        whole = [block for block in options if {cell for cell in known if _inside(cell, block)} <= set(cells)]
        best = max(whole, key=lambda block: (sum(_inside(cell, block) for cell in left), -_area(block, known)))
        blocks.append(best)
        left = {cell for cell in left if not _inside(cell, best)}
    return blocks


def _inside(cell: Cell, block: tuple[Cell, Cell]) -> bool:
    low, high = block
    return low[0] <= cell[0] <= high[0] and low[1] <= cell[1] <= high[1]


def _area(block: tuple[Cell, Cell], known: set[Cell]) -> int:
    return sum(_inside(cell, block) for cell in known)


def _row(
    found: Measurements, direction: str, name: str, block: tuple[Cell, Cell], cells: dict[Cell, float], number: int
) -> dict[str, Any]:
    device = found.setting.device
    (page, count), (most_page, most_count) = block
    factors = [factor for cell, factor in cells.items() if _inside(cell, block)]
    mean = exp(sum(map(log, factors)) / len(factors))
    pages = size_text(page) if page == most_page else f"{size_text(page)} to {size_text(most_page)}"
    counts = str(count) if count == most_count else f"{count} to {most_count}"
    return {
        "id": f"measured-{direction}-{number}",
        "choice": name,
        "device": device.name,
        "times_faster": max(1.01, round(mean, 2)),
        "when": {
            "platform": device.platform,
            "direction": direction,
            "host_memory": found.setting.memory,
            "largest_page": f"{page} to {most_page}",
            "descriptors": f"{count} to {most_count}",
        },
        "reason": f"Measured at {counted(len(factors), 'point')}: pages of {pages}, {counts} descriptors, "
        f"{min(factors):.2f} to {max(factors):.2f} times as fast as what the policy chooses.",
    }


def _cell(point: Point) -> Cell:
    return point.page, point.count
