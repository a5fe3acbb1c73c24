"""`python -m conformance.selection render|check`: write docs/selection.md, or prove the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.selection.render import render
from conformance.selection.table import TABLE, load_table
from conformance.selection.totality import combinations, problems

PAGE = Path(__file__).parents[2] / "docs" / "selection.md"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status is 1 if the table has problems."""
    parser = argparse.ArgumentParser(prog="python -m conformance.selection", description=__doc__)
    parser.add_argument("command", choices=("render", "check"))
    parser.add_argument("--table", type=Path, default=TABLE, help="another table than the suite's own")
    parser.add_argument("--page", type=Path, default=PAGE, help="where render writes to")
    options = parser.parse_args(arguments)
    table = load_table(options.table)
    if options.command == "render":
        options.page.write_text(render(table), encoding="utf-8")
        return 0
    found = problems(table)
    print("\n".join(found) or f"one answer for each of {combinations(table):,} combinations, every row needed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
