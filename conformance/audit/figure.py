"""The figure of an audit: who wins, how far from the limit, what the rule loses, by page size and descriptors.

Needs matplotlib, which is an extra (`audit`); without it there is no figure, and nothing else is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.audit.grid import size_text
from conformance.audit.judgement import Judged
from conformance.audit.measurements import Measurements

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # told apart by most eyes
MOST_RATIO, MOST_REGRET = 8.0, 4.0  # where a colour ends; the number in the cell goes on


def draw(found: Measurements, judged: Sequence[Judged], selector: str, path: Path) -> str | None:
    """Write a PNG; why there is none, or None."""
    try:
        import_module("matplotlib").use("Agg")
        pyplot = import_module("matplotlib.pyplot")
    except ImportError as error:
        return f"no figure: {error}; .venv/bin/pip install -e '.[audit]' brings matplotlib"
    directions = list(dict.fromkeys(each.point.direction for each in judged))
    names = sorted({name for each in judged for name in each.times})
    figure, axes = pyplot.subplots(
        len(directions), 3, figsize=(19, 1 + 4.2 * len(directions)), squeeze=False, layout="constrained"
    )
    for row, direction in zip(axes, directions, strict=True):
        here = [each for each in judged if each.point.direction == direction]
        _winners(row[0], here, names, f"{direction}: the fastest")
        _heat(
            row[1], here, lambda each: each.ratio, MOST_RATIO, f"{direction}: best time / one contiguous copy", "YlGnBu"
        )
        _heat(row[2], here, lambda each: each.regret, MOST_REGRET, f"{direction}: time of {selector} / best", "Reds")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=_colour(names, name), label=name) for name in names]
    figure.legend(handles=handles, loc="outside lower left", ncols=len(names), frameon=False)
    device = found.setting.device
    figure.suptitle(
        f"{device.name}, driver {device.driver}, torch {device.torch}, triton {device.triton}; {found.setting.memory} "
        "host memory, random places; = others within the dead band, ~ unstable"
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return None


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS[names.index(name) % len(COLOURS)]


def _winners(axis: Any, judged: Sequence[Judged], names: Sequence[str], title: str) -> None:
    """Each cell in the winner's colour, with its time."""
    pages, counts = _axes(axis, judged, title)
    for each in judged:
        x, y = counts.index(each.point.count), pages.index(each.point.page)
        axis.add_patch(_cell(x, y, _colour(names, each.best)))
        note = ("=" if len(each.equals) > 1 else "") + ("" if each.stable else "~")
        axis.text(x, y, f"{_time(each.times[each.best])}{note}", ha="center", va="center", color="white", fontsize=9)


def _heat(
    axis: Any, judged: Sequence[Judged], value: Callable[[Judged], float | None], most: float, title: str, shades: str
) -> None:
    """Each cell by a ratio from 1 on, on a scale of logarithms."""
    pages, counts = _axes(axis, judged, title)
    norm = import_module("matplotlib.colors").LogNorm(1.0, most, clip=True)
    colours = import_module("matplotlib").colormaps[shades]
    for each in judged:
        x, y, ratio = counts.index(each.point.count), pages.index(each.point.page), value(each)
        shade = "#eeeeee" if ratio is None else colours(0.05 + 0.85 * float(norm(max(1.0, ratio))))
        axis.add_patch(_cell(x, y, shade))
        text = "?" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
        dark = ratio is not None and norm(max(1.0, ratio)) > 0.55
        axis.text(x, y, text, ha="center", va="center", color="white" if dark else "black", fontsize=9)


def _cell(x: int, y: int, colour: Any) -> Any:
    rectangle = import_module("matplotlib.patches").Rectangle
    return rectangle((x - 0.48, y - 0.48), 0.96, 0.96, facecolor=colour, edgecolor="none")


def _axes(axis: Any, judged: Sequence[Judged], title: str) -> tuple[list[int], list[int]]:
    pages = sorted({each.point.page for each in judged})
    counts = sorted({each.point.count for each in judged})
    axis.set(xlim=(-0.5, len(counts) - 0.5), ylim=(-0.5, len(pages) - 0.5), title=title)
    axis.set(xlabel="descriptors", ylabel="page")
    axis.set_xticks(range(len(counts)), counts)
    axis.set_yticks(range(len(pages)), [size_text(page) for page in pages])
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return pages, counts


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f} us" if microseconds < 10_000 else f"{microseconds / 1000:.0f} ms"
