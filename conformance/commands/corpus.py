"""The frozen corpus: make it from a seed, or check files: digest, ids, that every case loads, and what they cover."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from pathlib import Path

from conformance.commands import CommandError
from strategies.axes import required
from strategies.corpus import FOLDER, KINDS, Corpus, CorpusError, path_of, problems, read, write
from strategies.coverage import Coverage

NAME = "corpus"
HELP = "make or check the frozen corpus"
SEED = 20_260_101
CASES = 1500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = actions.add_parser("generate", help="draw the cases anew, which makes another corpus; about two minutes")
    make.add_argument("--seed", type=int, default=SEED, metavar="N", help="of all draws (default: %(default)s)")
    make.add_argument("--cases", type=int, default=CASES, metavar="N", help="in each file (default: %(default)s)")
    make.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR", help="where to (default: %(default)s)")
    look = actions.add_parser("check", help="check files and print what they cover")
    look.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl", help="default: those of the checkout")


def run(args: argparse.Namespace) -> int:
    """Make, or check: 0 if all is well, 1 if a file is damaged."""
    if args.action == "generate":
        return _generate(args.seed, args.cases, args.folder)
    return max([_check(path) for path in args.files or [path_of(kind) for kind in KINDS]])


def _generate(seed: int, count: int, folder: Path) -> int:
    from strategies.freezing import freeze

    if seed < 0 or count < 1:
        raise CommandError(f"--seed {seed} --cases {count}: a seed is 0 or more, and there is at least one case")
    command = f"kvconform corpus generate --seed {seed} --cases {count}"
    made_with = f"Python {platform.python_version()}, Hypothesis {version('hypothesis')}"
    for kind in KINDS:
        path = folder / f"{kind}.jsonl"
        try:
            header = write(path, freeze(kind, count, seed), kind, seed, command, made_with)
        except OSError as error:
            raise CommandError(f"--folder {folder}: {error.strerror}") from error
        except ValueError as error:
            raise CommandError(str(error)) from error
        print(f"{path}: {header.cases} cases, {path.stat().st_size} bytes, digest {header.digest}")
    return 0


def _check(path: Path) -> int:
    try:
        corpus = read(path)
        wrong = problems(corpus)
        for problem in wrong:
            print(problem)
        if wrong:
            return 1
        print("\n".join(coverage_lines(corpus)))
    except CorpusError as error:
        print(error)
        return 1
    return 0


def coverage_lines(corpus: Corpus) -> list[str]:
    """What a corpus holds and reaches, for a person. Raises CorpusError for a case that can't be."""
    from strategies.freezing import scope_of

    coverage = Coverage()
    for _, case in corpus.named():
        coverage.add(case)
    scope = scope_of(corpus.header.kind)
    missing = coverage.missing(scope)
    cells = sum(len(cells) for cells in required(scope).values())
    pairs = sum(len(counted) for counted in coverage.pairs.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in coverage.cells["kind"].most_common())
    lines = [
        f"{corpus.path}: {kinds}; {corpus.path.stat().st_size} bytes, digest {corpus.header.digest}",
        f"  {cells - len(missing)} of {cells} required cells, {pairs} pairs of cells; "
        f"{coverage.moved_bytes / 2**20:.0f} MiB moved, {coverage.compared_bytes / 2**20:.0f} MiB compared",
    ]
    return [*lines, *([f"  left to the listed examples: {', '.join(missing)}"] if missing else [])]
