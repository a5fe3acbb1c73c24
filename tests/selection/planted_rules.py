"""Selection rules with one fault each, and a right one, for --selector."""

from __future__ import annotations

from dataclasses import replace

from backends.contract import Direction, Memory
from backends.selection import Choice, ChoiceError, Facts, choose


def right(facts: Facts) -> Choice:
    """This project's own."""
    return choose(facts)


def before_the_fix(facts: Facts) -> Choice:
    """As if every host mapping were within a kernel's reach: the rule that faulted on ROCm. With it, a GPU without HMM
    shows the same fault for shared memory that is not registered."""
    if facts.direction is not Direction.LOAD:
        return choose(facts)
    platform = "cuda" if facts.platform == "rocm" else facts.platform
    return choose(replace(facts, platform=platform, host_memory=Memory.PINNED, zero_copy=True))


def refuses_stores(facts: Facts) -> Choice:
    if facts.direction is Direction.STORE:
        raise ChoiceError("stores are for others")
    return choose(facts)


def fails_on_many(facts: Facts) -> Choice:
    if (facts.descriptors or 0) > 20:
        raise KeyError("descriptors")
    return choose(facts)


def off_by_one(facts: Facts) -> Choice:
    """Takes a page of exactly 28 KiB for a small one."""
    return choose(replace(facts, page_sizes=tuple(28671 - 7 if size == 28672 else size for size in facts.page_sizes)))
