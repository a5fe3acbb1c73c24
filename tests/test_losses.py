"""Options of xdist that lose tests are named with the reason; others are not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conformance.session import xdist_warnings


def config(**options: object) -> SimpleNamespace:
    return SimpleNamespace(getoption=lambda name, default=None: options.get(name, default))


@pytest.mark.parametrize("options", [{}, {"dist": "load"}, {"dist": "worksteal"}, {"maxworkerrestart": "4"}])
def test_silent(options: dict[str, object]) -> None:
    assert xdist_warnings.warnings(config(**options)) == []


@pytest.mark.parametrize("dist", ["loadgroup", "loadfile", "loadscope"])
def test_ways_of_handing_out(dist: str) -> None:
    (text,) = xdist_warnings.warnings(config(dist=dist))
    assert text.startswith(f"warning: --dist {dist}: after the death of a worker")
    assert text.endswith("use --dist load or worksteal")


def test_no_restarts() -> None:
    (text,) = xdist_warnings.warnings(config(maxworkerrestart="0"))
    assert "--max-worker-restart=0: a worker that dies is not replaced" in text


def test_both() -> None:
    assert len(xdist_warnings.warnings(config(dist="loadfile", maxworkerrestart="0"))) == 2
