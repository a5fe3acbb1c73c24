"""Backends are found by name, and a wrong name says what there is."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import foreign
import pytest
from copy_arena import Arena

from backends import registry
from backends.contract import Backend
from backends.registry import UnknownBackend
from backends.signatures import SignatureError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(group: str) -> list[EntryPoint]:
        assert group == "kvconform.backends"
        return [
            EntryPoint("theirs", "foreign:with_flag", group),
            EntryPoint("torch_copy", "foreign:Complete", group),
        ]

    monkeypatch.setattr(registry, "entry_points", found)


@pytest.mark.usefixtures("_installed")
def test_names() -> None:
    """Built-in ones first, and not to be taken over."""
    assert registry.names() == ("torch_copy", "triton_copy", "batch_dma", "theirs")
    assert registry.load("torch_copy").name == "torch_copy"
    assert type(registry.load("torch_copy")) is not foreign.Complete


@pytest.mark.usefixtures("_installed")
def test_installed_backend(arena: Arena) -> None:
    """A plain function behind an entry point is adapted."""
    backend = registry.load("theirs")
    assert backend.name == "theirs"
    arena.check(backend, [(0, 0, 100)])


@pytest.mark.parametrize("name", ["torch_copy", "triton_copy", "batch_dma", "foreign:Complete", "foreign:complete"])
def test_loads_backends(name: str) -> None:
    """Built in, by class, by instance."""
    assert isinstance(registry.load(name), Backend)


def test_loads_functions_under_their_full_name(arena: Arena) -> None:
    """The report shall say what was certified."""
    backend = registry.load("foreign:with_flag")
    assert backend.name == "foreign:with_flag"
    arena.check(backend, [(1, 2, 3)])


def test_unknown_name_lists_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says how to give another."""
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(UnknownBackend) as caught:
        registry.load("tritn_copy")
    assert str(caught.value) == (
        "no backend is called 'tritn_copy'; built in: torch_copy, triton_copy, batch_dma; "
        "installed (entry points kvconform.backends): none; "
        'anything else is given as "package.module:attribute"'
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_such_module:f", "importing no_such_module failed with ModuleNotFoundError: No module named 'no_such_"),
        ("foreign:absent", "backend 'foreign:absent': foreign has no attribute 'absent'"),
        ("foreign:complete.absent", "foreign.complete has no attribute 'absent'"),
        ("foreign:", "no backend is called 'foreign:'"),
        (":f", "no backend is called ':f'"),
        ("foreign:number", "backend 'foreign:number' is 3: neither a Backend (name, copy, support, path) nor a copy"),
        ("foreign:Unrelated", "neither a Backend (name, copy, support, path) nor a copy function"),
        ("foreign:Nameless", "Nameless has the methods of a Backend, but no name"),
    ],
)
def test_names_that_lead_nowhere(name: str, text: str) -> None:
    """The import's own error is kept."""
    with pytest.raises(UnknownBackend) as caught:
        registry.load(name)
    assert text in str(caught.value)


def test_a_function_of_another_kind() -> None:
    """Its parameter is named."""
    with pytest.raises(SignatureError, match="foreign:with_stream needs parameter 'stream'"):
        registry.load("foreign:with_stream")


def test_listing_needs_no_torch() -> None:
    """A process that only draws cases stays light."""
    code = "import sys; from backends import registry; registry.names(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
