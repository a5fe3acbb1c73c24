"""The vendor's template copies right and refuses what it declares, as a vendor finds it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from copy_arena import Arena

from backends.contract import Refused

TEMPLATE = Path(__file__).parents[2] / "examples" / "vendor" / "acme_kvcopy.py"


def test_it_copies_and_refuses() -> None:
    backend = runpy.run_path(str(TEMPLATE))["AcmeCopy"]()
    arena = Arena(4096)
    arena.check(backend, [(0, 512, 64), (1024, 8, 16), (2048, 2048, 1024)])
    with pytest.raises(Refused, match="size 7 is not a multiple of"):
        backend.copy(*Arena(64).descriptors([(0, 0, 7)]))
