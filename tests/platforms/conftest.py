"""What the platform tests share: running something that may die in a forked child."""

from __future__ import annotations

import faulthandler
import os
import warnings
from collections.abc import Callable

import pytest


@pytest.fixture
def in_child() -> Callable[[Callable[[], object]], int]:
    """Run a callable in a forked child; its exit code, or minus the signal that killed it."""

    def run(what: Callable[[], object]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child only touches memory; threads don't matter
            pid = os.fork()
        if pid == 0:
            faulthandler.disable()  # the death of a child is the result, not an accident to describe
            try:
                what()
                os._exit(0)
            finally:
                os._exit(70)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run
