"""An audit as text: who wins where as one grid a direction, the rule's regret, what to change. For a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.audit.grid import size_text
from conformance.audit.judgement import Change, Judged, regret
from conformance.audit.measurements import DEAD_BAND, Measurements
from conformance.audit.timing import LIMIT

LEGEND = (
    "A cell: the fastest backend (=: others are as fast), its time over one contiguous copy of the same bytes; "
    "!1.8: the rule chooses one that takes 1.8 times as long; ~: the numbers did not come again."
)


def summary_lines(found: Measurements, judged: Sequence[Judged], selector: str) -> list[str]:
    """The whole text."""
    device = found.setting.device
    lines = [f"{device.name} ({device.platform}), driver {device.driver}, torch {device.torch}, triton {device.triton}"]
    lines += [f"host memory: {found.setting.memory}; dead band {DEAD_BAND:.0%}; {LEGEND}", ""]
    for direction in dict.fromkeys(each.point.direction for each in judged):
        here = [each for each in judged if each.point.direction == direction]
        lines += [f"{direction}:", *_indented(grid_lines(here)), "", *regret_lines(here, selector), ""]
    lines += failure_lines(found)
    return lines


def grid_lines(judged: Sequence[Judged]) -> list[str]:
    """Pages down, descriptors across."""
    counts = sorted({each.point.count for each in judged})
    cells = {(each.point.page, each.point.count): cell_text(each) for each in judged}
    rows = [["page", *map(str, counts)]]
    for page in sorted({each.point.page for each in judged}):
        rows.append([size_text(page), *(cells.get((page, count), "") for count in counts)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def cell_text(each: Judged) -> str:
    """One point in a few characters; see LEGEND."""
    loses = f" !{each.regret:.1f}" if each.regret is not None and each.regret > 1 else ""
    unknown = " ?" if each.chosen is None else ""
    equal = "=" if len(each.equals) > 1 else ""
    return f"{each.best}{equal} {each.ratio:.2f}{loses}{unknown}{'' if each.stable else ' ~'}"


def regret_lines(judged: Sequence[Judged], selector: str) -> list[str]:
    """What the rule loses, in sentences."""
    lost = regret(judged)
    if not lost.points:
        return [f"{selector} chooses nothing that was timed"]
    text = f"{selector}: {lost.mean:.2f} times the best time on average over {lost.points} points"
    if lost.better:
        text += f"; at {lost.better} another is faster, at worst {lost.worst:.1f} times ({lost.where})"
    else:
        text += "; nothing is faster by more than the dead band"
    unstable = sum(not each.stable for each in judged)
    if unstable == len(judged):
        return [text, "no point was stable: this says nothing about the selection table"]
    return [text, *([f"{unstable} of {len(judged)} points unstable"] if unstable else [])]


def failure_lines(found: Measurements) -> list[str]:
    """What was not timed since it went wrong: once a backend and text, with how often."""
    seen: dict[tuple[str, str], list[str]] = {}
    for point in sorted(found.visits):
        for name, text in found.failed(point).items():
            seen.setdefault((name, text), []).append(str(point))
    return [
        f"not timed: {name} at {points[0]}{f' and {len(points) - 1} more' if len(points) > 1 else ''}: {text}"
        for (name, text), points in seen.items()
    ]


def advice_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows in words."""
    if not rows:
        return ["at no stable point is anything faster than what the selection table chooses"]
    return [
        f"better here: {row['choice']} ({row['times_faster']} times as fast) for a {row['when']['direction']}; "
        f"pages of {_range(row['when']['largest_page'])} bytes, {_range(row['when']['descriptors'])} descriptors"
        for row in rows
    ]


def change_lines(changes: Sequence[Change], winners: Sequence[object]) -> list[str]:
    """Two audits compared."""
    lines = [
        f"{change.name}: {change.mean:.3f} times the earlier time on average over {change.points} points "
        f"({change.least:.2f} to {change.most:.2f})"
        for change in sorted(changes, key=lambda change: change.name == LIMIT)
    ]
    others = f"other winners at {len(winners)} points: {', '.join(map(str, winners[:5]))}" if winners else ""
    return [*lines, others or "the same winners at every point"]


def _range(term: str) -> str:
    """A table's "N to N" as people write it."""
    first, last = term.split(" to ")
    return first if first == last else term


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
