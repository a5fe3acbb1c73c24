"""Platforms by name: the built-in ones, and those that other packages bring.

A package brings a platform through an entry point of the group `kvconform.platforms`: the entry's name is the
platform's name, its object a `Platform` or a callable without arguments that returns one. Nothing here imports torch
or touches a device; a platform's own module may import what it likes once it is asked for.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from backends.platforms.contract import Platform

GROUP = "kvconform.platforms"
BUILT_IN = ("cuda", "rocm", "xpu", "cpu")


class PlatformError(LookupError):
    """No such platform, or one that can't be loaded. The text says which names exist, or whose entry point failed."""


def names() -> tuple[str, ...]:
    """Every platform that can be asked for: cuda, rocm, xpu, cpu, then those of entry points by name."""
    return (*BUILT_IN, *sorted(set(_entries()) - set(BUILT_IN)))


def load(name: str) -> Platform:
    """The platform of this name, whether or not this machine can run it (see `Platform.missing`).

    Raises PlatformError for an unknown name and for an entry point that fails or does not fit the protocol."""
    if name in BUILT_IN:
        return cast(Platform, importlib.import_module(f"backends.platforms.{name}").PLATFORM)
    entry = _entries().get(name)
    if entry is None:
        raise PlatformError(
            f"platform {name!r} is unknown; known: {', '.join(names())}. Others come from installed packages that "
            f"declare an entry point of the group {GROUP!r}"
        )
    return _load_entry(entry)


def best() -> str:
    """The first of cuda, rocm and xpu that this machine can run, else cpu."""
    return next((name for name in BUILT_IN if name != "cpu" and load(name).missing() is None), "cpu")


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load_entry(entry: EntryPoint) -> Platform:
    origin = f"platform {entry.name!r} (entry point {entry.value!r} of the group {GROUP!r})"
    try:
        found = entry.load()
        platform = found() if isinstance(found, type) or not hasattr(found, "open") else found
    except Exception as error:
        raise PlatformError(f"{origin} can't be loaded: {type(error).__name__}: {error}") from error
    wanted = ("missing", "device_count", "visible_env", "preload", "open")
    lacking = [member for member in wanted if not callable(getattr(platform, member, None))]
    if lacking:
        raise PlatformError(f"{origin} is not a Platform: {', '.join(lacking)} missing")
    if getattr(platform, "name", None) != entry.name:
        raise PlatformError(f"{origin} calls itself {getattr(platform, 'name', None)!r}; the two names have to agree")
    return cast(Platform, platform)
