"""What a probe found out: one answer a question, with the evidence, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from backends.contract import Device, Direction, Memory
from backends.selection import Facts, facts_on

YES, NO, UNKNOWN = "yes", "no", "not known"
KERNEL_RUNS = "kernel-runs"  # the id of the question whose answer is a fact of its own (Facts.triton_usable)
USUAL_PAGE, USUAL_COUNT = 512, 64  # of the copies that an answer is taken to speak about


@dataclass(frozen=True)
class About:
    """The copies that an answer speaks about, in the words of the selection table."""

    backend: str
    direction: Direction = Direction.LOAD
    host_memory: Memory = Memory.PINNED
    captured: bool = False

    def facts(self, device: Device, page: int = USUAL_PAGE, count: int = USUAL_COUNT) -> Facts:
        """Such a copy on this device, as far as the device's own facts go."""
        return facts_on(
            device,
            direction=self.direction,
            host_memory=self.host_memory,
            page_sizes=(page,),
            fragment_sizes=(page,),
            descriptors=count,
            captured=self.captured,
        )


@dataclass(frozen=True)
class Answer:
    """One question, what came of it, and how that was seen."""

    id: str
    question: str
    answer: str  # YES, NO, UNKNOWN, or what was asked for (a number)
    evidence: str
    about: About | None = None  # None: nothing that a selection rule decides by
    case: Mapping[str, Any] | None = None  # the copy that was tried, as JSON

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        data = asdict(self)
        if self.about is not None:
            data["about"]["direction"] = self.about.direction.value
            data["about"]["host_memory"] = self.about.host_memory.value
        return data
