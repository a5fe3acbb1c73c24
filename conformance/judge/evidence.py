"""What a device process reports of one case: plain data, before anyone judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Outcome(str, Enum):
    """How the execution of a case ended."""

    COMPLETED = "completed"
    RAISED = "raised"  # the backend raised: the images say whether anything was written
    REFUSED = "refused"  # the backend raised `Refused`, or the declaration excludes the case and it was not tried
    DEVICE_ERROR = "device-error"  # the device reported an error: an illegal access, a failed launch
    FAULT = "fault"  # the device process died
    HANG = "hang"  # the device process was ended at the case's deadline
    IMPOSSIBLE = "impossible"  # this machine can't build the case's arena; the text says why


@dataclass(frozen=True)
class Evidence:
    """One execution. The images, changed in place by the execution, belong to it."""

    outcome: Outcome
    text: str = ""  # the error's text, or the signal's name
    error: str = ""  # the exception's class
    path: str = ""  # what the backend says it did
    poisoned: str | None = None  # the device's error after the case
    tried: bool = True  # False: refused on the declaration alone
    output: str = ""  # the tail of what the device process printed before it died
    previous: str = ""  # the request before, where the process died: who may have caused it
    after: str = ""  # the backend of the case that its process ran before
    first: bool = False  # the first case of its backend in its process, which may have compiled something
    pid: int = 0
    serial: int = 0  # which case of its process this was, from 1
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
