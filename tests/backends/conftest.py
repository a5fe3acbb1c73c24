"""What the backends' tests share: the CPU platform, a device's facts, and an arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from copy_arena import Arena

from backends import running
from backends.contract import Device


@pytest.fixture(autouse=True)
def _on_cpu() -> Iterator[None]:
    running.use_platform("cpu")
    yield
    running.use_platform(None)


@pytest.fixture
def device() -> Callable[..., Device]:
    """Make a Device with some facts changed."""

    def make(**changed: object) -> Device:
        facts: dict[str, object] = {
            "platform": "cpu",
            "index": 0,
            "name": "a CPU",
            "driver": "6.1",
            "runtime": "none",
            "torch": "2",
            "triton": "3",
            "memory": (),
            "streams": (),
            "pageable_access": True,
            "registered_address_is_host_address": True,
            "batch_api": None,
        }
        return Device(**{**facts, **changed})  # type: ignore[arg-type]

    return make


@pytest.fixture
def arena() -> Arena:
    """256 KiB a side."""
    return Arena(1 << 18)
