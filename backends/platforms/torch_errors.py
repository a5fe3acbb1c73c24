"""Torch's complaints about a device, told as DeviceError like those of a driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backends.contract import DeviceError


@contextmanager
def torch_errors(what: str) -> Iterator[None]:
    """Raise what torch raises inside as DeviceError that begins with `what`; a DeviceError passes as it is."""
    try:
        yield
    except DeviceError:
        raise
    except (RuntimeError, AssertionError) as error:  # the latter: torch was built without support for the device
        raise DeviceError(f"{what}: {error}") from error
