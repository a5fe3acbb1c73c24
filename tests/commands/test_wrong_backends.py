"""A wrong `--backend` is told before a run starts, in one line; what may be the machine's doing is left to the run."""

from __future__ import annotations

import time

import pytest

from conformance.commands.check_backend import wrong_name

HOSTILE = "tests.commands.hostile"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nosuch", "no backend is called 'nosuch'; built in: torch_copy"),
        ("no.module:there", "importing no.module failed with ModuleNotFoundError: No module named 'no'"),
        ("os:nosuch", "os has no attribute 'nosuch'"),
        ("os:sep", "neither a Backend (name, copy, support, path) nor a copy function"),
        (f"{HOSTILE}:two", "two takes 2 positional arguments; src_ptrs, dst_ptrs, sizes are three"),
    ],
)
def test_a_name_that_leads_to_no_backend(name: str, says: str) -> None:
    """After a good one too; and nothing that a module prints gets into the line."""
    text = wrong_name("cpu", ["torch_copy", "tests.commands.copies:right", name])
    assert text is not None
    assert says in text
    assert "\n" not in text
    assert "no answer" not in text


def test_a_good_name() -> None:
    assert wrong_name("cpu", ["tests.commands.copies:right"]) is None


def test_names_that_are_known_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *a, **k: pytest.fail("a process was started"))
    assert wrong_name("cpu", ["torch_copy", "triton_copy", "batch_dma"]) is None


@pytest.mark.parametrize("mode", ["crash", "leave", "raise"])
def test_a_module_that_breaks_is_left_to_the_run(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCONFORM_TEST_HOSTILE", mode)
    assert wrong_name("cpu", [f"{HOSTILE}:two"]) is None


def test_a_module_that_hangs_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCONFORM_TEST_HOSTILE", "hang")
    begun = time.monotonic()
    assert wrong_name("cpu", [f"{HOSTILE}:two"], seconds=0.5) is None
    assert time.monotonic() - begun < 60.0
