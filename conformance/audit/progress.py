"""How far an audit is, while it runs: a bar if rich is installed and a person looks, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from conformance.audit.grid import Point

LINE_EVERY = 10.0  # seconds
TEXT = "{task.description}"
Show = Callable[[int, int, Point], None]


@contextmanager
def shown(seconds: float) -> Iterator[Show]:
    """A function to call after every visit: (visits done, visits planned at least, the point)."""
    bar = _rich_bar() if sys.stderr.isatty() else None
    if bar is None:
        yield _lines(seconds)
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, planned, point: bar.update(task, completed=done, total=planned, description=str(point))


def _rich_bar() -> Any:
    try:
        console, bars = import_module("rich.console"), import_module("rich.progress")
    except ImportError:
        return None
    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TextColumn(TEXT))
    return bars.Progress(*columns, console=console.Console(stderr=True))


def _lines(seconds: float) -> Show:
    begun = time.monotonic()
    said = begun

    def show(done: int, planned: int, point: Point) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= LINE_EVERY:
            said = now
            print(
                f"{now - begun:.0f} s of at most {seconds:.0f}: {done} visits, at {point}", file=sys.stderr, flush=True
            )

    return show
