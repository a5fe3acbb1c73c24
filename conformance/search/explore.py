"""One Hypothesis run over a strategy, with the settings that every search of the suite uses.

Quiet, since failures are told by the suite itself; without deadline and health checks, since cases wait for a device;
from a seed of its own, since shards under one seed would draw the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import FlakyFailure


class Enough(BaseException):
    """Raised by an attempt to end shrinking at once: Hypothesis would go on for minutes with cases nobody runs."""


def explore(
    strategy: st.SearchStrategy[Any],
    attempt: Callable[[Any], None],
    *,
    examples: int,
    number: int,
    failed: type[Exception],
    database: Path | None = None,
) -> bool:
    """Call `attempt` with `examples` values drawn from the seed `number`, with smaller ones once it raised `failed`;
    whether it did. Failures that come and go count. With `database`, those of earlier runs are tried first."""

    @settings(  # above the seed, which turns the database off in whatever settings it finds
        max_examples=examples,
        database=DirectoryBasedExampleDatabase(database) if database else None,
        deadline=None,
        derandomize=False,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        backend="hypothesis",
    )
    @seed(number)
    @given(strategy)
    def quietly(value: Any) -> None:
        attempt(value)

    try:
        quietly()
    except (failed, FlakyFailure, Enough):
        return True
    return False
