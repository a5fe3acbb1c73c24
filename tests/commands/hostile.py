"""What the name of a backend may lead to, but no backend: see test_wrong_backends.py."""

from __future__ import annotations

import os
import signal
import sys
import time

MODE = os.environ.get("KVCONFORM_TEST_HOSTILE", "")

print("no answer: this is what a module prints")  # at its import, to the stream that carries the answer
if MODE == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if MODE == "leave":
    sys.exit(3)
if MODE == "raise":
    raise RuntimeError("no such hardware")
if MODE == "hang":
    time.sleep(600.0)


def two(source: object, destination: object) -> None:
    """A copy has three tensors."""
