"""Where backends are found by name: built in, installed through an entry point, or "package.module:attribute".

Nothing is imported before `load` asks for it, so listing names needs neither torch nor a device.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from backends.contract import Backend

GROUP = "kvconform.backends"

_BUILT_IN = {
    "torch_copy": "backends.copies.torch_copy:TorchCopy",
    "triton_copy": "backends.copies.triton_copy:TritonCopy",
    "batch_dma": "backends.copies.batch_dma:BatchDma",
}
_METHODS = ("copy", "support", "path")


class UnknownBackend(LookupError):
    """No backend goes by this name, or what the name leads to is not a backend. The text says what would do."""


def names() -> tuple[str, ...]:
    """Every name that `load` knows, built-in ones first. A built-in name can't be taken over by an installed one."""
    return (*_BUILT_IN, *sorted(set(_installed()) - set(_BUILT_IN)))


def load(name: str) -> Backend:
    """The backend of that name, made anew.

    `name` is one of `names()` or "package.module:attribute"; attributes may be dotted, as in
    "torch:ops._C_cache_ops.swap_blocks_batch". What is found may be a Backend, a class of Backends that needs no
    arguments, or a callable with one of the field's signatures (see `backends.adapters`). Raises UnknownBackend, with
    the import's error where there was one, and `adapters.SignatureError` for a callable that can't be adapted.
    """
    if name in _BUILT_IN:
        return _as_backend(_resolve(name, _BUILT_IN[name]), name)
    installed = _installed()
    if name in installed:
        return _as_backend(_resolve(name, installed[name].value), name)
    if ":" in name.strip(":"):
        return _as_backend(_resolve(name, name), name)
    raise UnknownBackend(
        f"no backend is called {name!r}; built in: {', '.join(_BUILT_IN)}; "
        f"installed (entry points {GROUP}): {', '.join(sorted(installed)) or 'none'}; "
        'anything else is given as "package.module:attribute"'
    )


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _resolve(name: str, path: str) -> Any:
    module_name, _, attributes = path.partition(":")
    try:
        found: Any = import_module(module_name)
    except Exception as error:
        raise UnknownBackend(
            f"backend {name!r}: importing {module_name} failed with {type(error).__name__}: {error}"
        ) from error
    reached = module_name
    for attribute in attributes.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise UnknownBackend(f"backend {name!r}: {reached} has no attribute {attribute!r}") from error
        reached = f"{reached}.{attribute}"
    return found


def _as_backend(found: Any, name: str) -> Backend:
    if all(callable(getattr(found, method, None)) for method in _METHODS):
        made = found() if isinstance(found, type) else found
        if isinstance(made, Backend):
            return made
        raise UnknownBackend(f"backend {name!r}: {type(made).__name__} has the methods of a Backend, but no name")
    if isinstance(found, type) or not callable(found):
        raise UnknownBackend(
            f"backend {name!r} is {found!r}: neither a Backend (name, {', '.join(_METHODS)}) nor a copy function"
        )
    from backends.adapters import from_callable

    return from_callable(found, name)
