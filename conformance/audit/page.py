"""An audit as one page of HTML that needs nothing else: tables with colours, the advised rows, the figure inside.

Made with string.Template: a page of six tables needs no template engine.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from math import log
from pathlib import Path
from string import Template
from typing import Any

from conformance.audit.figure import COLOURS, MOST_REGRET
from conformance.audit.grid import size_text
from conformance.audit.judgement import Judged
from conformance.audit.measurements import DEAD_BAND, Measurements
from conformance.audit.text import failure_lines, regret_lines

PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
table { border-collapse: separate; border-spacing: 2px; margin: 1em 0; }
th { text-align: right; font-weight: 600; padding: .3em .6em; }
td { padding: .3em .7em; text-align: right; border-radius: 3px; white-space: nowrap; }
td small { display: block; opacity: .85; }
pre { background: #f4f4f4; padding: 1em; overflow-x: auto; }
img { max-width: 100%; }
.key span { padding: .15em .6em; border-radius: 3px; color: #fff; margin-right: .6em; }
</style>
<h1>$title</h1>
<p>$setting</p>
<p class="key">$key</p>
$sections
<h2>The rule that would be right here</h2>
<p>$advice</p>
<pre>$rows</pre>
$figure
</html>
""")


def write(
    path: Path,
    found: Measurements,
    judged: Sequence[Judged],
    selector: str,
    rows: Sequence[dict[str, Any]],
    figure: Path | None,
) -> None:
    """Write the page; with the figure inside if there is one. Raises OSError."""
    device = found.setting.device
    names = sorted({name for each in judged for name in each.times})
    sections = [_section(direction, judged, names, selector) for direction in _directions(judged)]
    sections += [f"<p>{escape(line)}</p>" for line in failure_lines(found)]
    image = ""
    if figure is not None:
        data = base64.b64encode(figure.read_bytes()).decode()
        image = f'<h2>Figure</h2>\n<img alt="the same as a figure" src="data:image/png;base64,{data}">'
    advice = (
        "Rows for the performance part of the selection table, in its format; where no row speaks, the table is right."
        if rows
        else "At no stable point is anything faster than what the selection table chooses."
        if any(each.stable for each in judged)
        else "No point was stable: this says nothing about the selection table."
    )
    text = PAGE.substitute(
        title=escape(f"Copies on {device.name}"),
        setting=escape(
            f"{device.platform}, driver {device.driver}, torch {device.torch}, Triton {device.triton}; "
            f"{found.setting.memory} host memory, pages in random places. A cell: the time of the fastest backend, "
            "below it that time over one contiguous copy of the same bytes. Times within "
            f"{DEAD_BAND:.0%} count as equal (=); ~ marks numbers that did not come again."
        ),
        key="".join(f'<span style="background:{_colour(names, name)}">{escape(name)}</span>' for name in names),
        sections="\n".join(sections),
        advice=advice,
        rows=escape(json.dumps(rows, indent=1)),
        figure=image,
    )
    path.write_text(text, encoding="utf-8")


def _section(direction: str, judged: Sequence[Judged], names: Sequence[str], selector: str) -> str:
    here = [each for each in judged if each.point.direction == direction]
    lost = " ".join(regret_lines(here, selector))
    return (
        f"<h2>{escape(direction.capitalize())}</h2>\n{_table(here, lambda each: _winner(each, names))}\n"
        f"<h3>What the rule loses</h3>\n<p>{escape(lost)}</p>\n{_table(here, _loss)}"
    )


def _table(judged: Sequence[Judged], cell: Any) -> str:
    counts = sorted({each.point.count for each in judged})
    cells = {(each.point.page, each.point.count): cell(each) for each in judged}
    lines = ["<table>", f"<tr><th>page</th>{''.join(f'<th>{count}</th>' for count in counts)}</tr>"]
    for page in sorted({each.point.page for each in judged}):
        row = "".join(cells.get((page, count), "<td></td>") for count in counts)
        lines.append(f"<tr><th>{size_text(page)}</th>{row}</tr>")
    return "\n".join([*lines, "</table>"])


def _winner(each: Judged, names: Sequence[str]) -> str:
    marks = ("=" if len(each.equals) > 1 else "") + ("" if each.stable else "~")
    times = ", ".join(f"{name} {time:.0f} us" for name, time in each.times.items())
    return (
        f'<td style="background:{_colour(names, each.best)};color:#fff" title="{escape(times)}">'
        f"{each.times[each.best]:.0f} us {marks}<small>{each.ratio:.2f}</small></td>"
    )


def _loss(each: Judged) -> str:
    if each.regret is None or each.chosen is None:
        return '<td style="background:#eee" title="the rule chose nothing that was timed">?</td>'
    share = min(1.0, log(each.regret) / log(MOST_REGRET))
    return (
        f'<td style="background:rgba(200,30,30,{share:.2f})" title="{escape(each.chosen)}">{each.regret:.2f}'
        f"<small>{escape(each.chosen)}</small></td>"
    )


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS[names.index(name) % len(COLOURS)]


def _directions(judged: Sequence[Judged]) -> list[str]:
    return list(dict.fromkeys(each.point.direction for each in judged))
