"""Ask once whether backends named by the user can be had at all: `python -m conformance.commands.check_backend`.

A wrong name is an error of whoever starts the run, and is told before a test runs. A vendor's module may crash, hang
or print when it is imported, so that is done in a process of its own which opens no device. Only what can't be the
device's doing counts: whatever else goes wrong here, a crash included, the run meets again and reports as a finding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from backends import platforms, registry, running
from backends.registry import UnknownBackend
from backends.signatures import SignatureError
from conformance.device.launch import environment

SECONDS = 60.0
WRONG_IMPORTS = (ImportError, AttributeError, SyntaxError)  # no such module or attribute, and modules that are broken


def wrong_name(platform: str, names: Sequence[str], seconds: float = SECONDS) -> str | None:
    """What is wrong with the first of `names` that leads to no backend, on one line; None if nothing is known to be.

    Built-in and installed backends are known by their names and not loaded."""
    asked = [name for name in names if name not in registry.names()]
    if not asked:
        return None
    try:
        ended = subprocess.run(
            [sys.executable, "-m", __name__, platform, *asked],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return " ".join(ended.stdout.decode(errors="replace").split()) or None


def problem(name: str) -> str:
    """Why `name` leads to no backend; "" if it leads to one, or to an error that may be the machine's."""
    try:
        registry.load(name)
    except SignatureError as error:
        return str(error)
    except UnknownBackend as error:
        if error.__cause__ is None or isinstance(error.__cause__, WRONG_IMPORTS):
            return str(error)
    return ""


def main(platform: str, names: Sequence[str]) -> None:
    """Print the first problem. What modules print goes elsewhere, and threads that they start end with the answer."""
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    platforms.load(platform).preload()
    running.use_platform(platform)
    os.write(answer, next(filter(None, map(problem, names)), "").encode())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
