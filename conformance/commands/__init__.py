"""What `kvconform` can be asked for: one module a command, each a `Command`.

To add one, write the module and name it in `conformance/cli.py`.
"""

from __future__ import annotations

import argparse
from typing import Protocol


class CommandError(Exception):
    """Bad input or a machine that can't do what was asked: the text says what and how to go on; exit status 2."""


class Command(Protocol):
    """One command."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own options."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit status. Raises CommandError."""
        ...
