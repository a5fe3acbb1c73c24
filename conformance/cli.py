"""The command line `kvconform`: which commands there are, and how their errors are shown. Does nothing by itself.

Runs of the suite are pytest's (`pytest -n auto`); these commands look at machines, cases, reports and requirements.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from conformance.commands import Command, CommandError, audit, corpus, list_, probe, replay, report, spec

COMMANDS: tuple[Command, ...] = (list_, replay, report, spec, probe, corpus, audit)
BAD_INPUT = 2
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(prog="kvconform", description="Conformance of KV-cache block copies.")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        about = (command.__doc__ or "").partition("\n")[0]
        one = commands.add_parser(command.NAME, help=command.HELP, description=about)
        command.add_arguments(one)
        one.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status, 2 for bad input."""
    args = parser().parse_args(arguments)
    if os.getcwd() not in sys.path:  # as pytest and python -m have it, so that module:attribute means the same here
        sys.path.append(os.getcwd())
    try:
        status: int = args.run(args)
        return status
    except CommandError as error:
        print(f"kvconform {args.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
