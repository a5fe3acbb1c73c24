"""Work other than a case that a device process does: a function named by its import path, plain data in and out.

Probes, profiles and timings are such functions. They get `Tools`, return plain data, and may end the process: then how
it died is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from backends.contract import Backend
from backends.platforms.contract import OpenDevice
from conformance.execution.executor import Executor


@dataclass(frozen=True)
class Tools:
    """What a function finds in the device process."""

    executor: Executor
    backend: Callable[[str], Backend]  # by name; raises what loading it raises

    @property
    def device(self) -> OpenDevice:
        return self.executor.device


@dataclass(frozen=True)
class Task:
    """Call `function` ("package.module:name") with Tools and `arguments`, within so many seconds."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 60.0


@dataclass(frozen=True)
class Result:
    """What came of a task: a value, or the text of what went wrong."""

    value: Any = None
    error: str = ""  # what the function raised, with its class
    fault: str = ""  # how the process died, or the device's error afterwards
    hang: bool = False
    output: str = ""  # the tail of what a process that died had printed

    @property
    def trouble(self) -> str:
        """One line on what went wrong, or nothing."""
        return self.fault or self.error


def perform(task: Task, tools: Tools) -> Result:
    """Do it here and now. Whatever it raises is the result."""
    module, _, name = task.function.partition(":")
    value, error = None, ""
    try:
        value = getattr(import_module(module), name)(tools, **task.arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # a backend may raise anything, SystemExit included
        error = f"{type(raised).__name__}: {raised}"
    return Result(value, error, tools.device.health() or "")
