"""The table as docs/selection.md, for people. Made from the table alone; a test keeps the page up to date."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.selection.conditions import PROPERTIES
from conformance.selection.table import Row, Table
from conformance.selection.totality import combinations


def render(table: Table) -> str:
    """The page, as Markdown."""
    sections = (
        "# Which backend copies a batch",
        "Made from `conformance/selection/table.json` by `python -m conformance.selection render`; change the table, "
        "not this page.",
        f"The table answers each of {combinations(table):,} combinations of facts in exactly one way, and no row of it "
        "is without effect: the suite's own tests prove both. The rule in `backends/selection.py` was written apart "
        "from it, and so was any rule that you bring; the `SELECT-*` claims compare them with this table.",
        "Backends: `batch_dma` is the driver's batch copy call, `triton_copy` a kernel that dereferences host "
        "addresses, `torch_copy` plain torch operations.",
        "## Safety: what rules a backend out",
        "A backend is ruled out if one of its rows matches. What is not known counts as not possible where a wrong "
        "guess would crash or corrupt.",
        _rows(
            ("row", "rules out", "when", "why"),
            ((row.id, f"`{row.backend}`", _when(row), _why(row)) for row in table.safety),
        ),
        "## Policy: what is chosen",
        "The first row that matches, from the top, is the one that counts. Where its choice is ruled out, the first of "
        f"{', '.join(f'`{name}`' for name in table.fallbacks)} that is not is the answer; where all three are, the "
        "copy is refused with `ChoiceError`.",
        _rows(
            ("", "row", "choice", "when", "why"),
            (
                (str(number), row.id, f"`{row.backend}`", _when(row), _why(row))
                for number, row in enumerate(table.policy, 1)
            ),
        ),
        f"`triton_copy` gets `bytes_per_chunk`: the next power of two of the largest page, at most {table.most_chunk}.",
        "A backend asked for by name is used whatever the policy says, unless a safety row rules it out: then the call "
        "raises `ChoiceError` with that row's reason. Another backend is never used instead.",
        "## Performance: where something else was faster",
        "Measured, and advisory: these rows never change the answer. They show what a threshold costs on that device.",
        _rows(
            ("row", "faster", "times", "device", "when", "why"),
            (
                (row.id, f"`{row.backend}`", str(row.times_faster), str(row.device), _when(row), _why(row))
                for row in table.performance
            ),
        ),
        "## Words",
        _rows(("property", "what it is"), ((f"`{name}`", known.means) for name, known in PROPERTIES.items())),
    )
    return "\n\n".join(sections) + "\n"


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _when(row: Row) -> str:
    return ", and ".join(f"{condition.name} is {_terms(condition.terms)}" for condition in row.when) or "always"


def _terms(terms: tuple[object, ...]) -> str:
    texts = [getattr(term, "text", "") for term in terms]
    return " or ".join(texts)


def _why(row: Row) -> str:
    if row.reference is None:
        return row.reason
    repository, _, number = row.reference.partition("#")
    return f"{row.reason} [{row.reference}](https://github.com/{repository}/issues/{number})"
