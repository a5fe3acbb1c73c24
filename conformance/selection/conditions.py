"""What a row of the table may ask of facts: the properties it can name, and the terms it can compare them with.

A condition is `property: term` or `property: [term, ...]`, which holds if one of the terms does. Each property reads
one axis of the facts only, so that `totality` can go through all combinations axis by axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from backends.contract import Direction, Memory, Stream
from backends.selection import Facts

Value = str | int
PLATFORMS = ("cuda", "rocm", "xpu", "cpu")


class TableError(ValueError):
    """A table that can't be used. The text names the row, what is wrong with it and what it may hold."""


@dataclass(frozen=True)
class Property:
    """One thing a row can ask: a word, or a number where there is one."""

    axis: str  # what it reads: a field of Facts, or "side" for direction and host memory, which depend on each other
    read: Callable[[Facts], Value]
    words: tuple[str, ...]
    means: str
    numeric: bool = False


def _yes_no(name: str) -> Callable[[Facts], Value]:
    return lambda facts: {True: "yes", False: "no", None: "unknown"}[getattr(facts, name)]


def _call(facts: Facts) -> Value:
    return "none" if facts.batch_api is None else "found"


def _or(word: str, number: int | None) -> Value:
    return word if number is None else number


YES_NO = ("yes", "no")
YES_NO_UNKNOWN = ("yes", "no", "unknown")

PROPERTIES: Mapping[str, Property] = {
    "platform": Property(
        "platform",
        lambda facts: facts.platform if facts.platform in PLATFORMS else "other",
        (*PLATFORMS, "other"),
        "the accelerator; `other` is any that this table does not describe",
    ),
    "direction": Property(
        "side", lambda facts: facts.direction.value, tuple(kind.value for kind in Direction), "where the bytes go"
    ),
    "host_memory": Property(
        "side",
        lambda facts: facts.host_memory.value,
        tuple(kind.value for kind in Memory),
        "the kind of memory on the host; `device` if no side is there",
    ),
    "triton_present": Property("triton_present", _yes_no("triton_present"), YES_NO, "Triton can be imported"),
    "triton_usable": Property(
        "triton_usable", _yes_no("triton_usable"), YES_NO_UNKNOWN, "a Triton kernel ran on this device (probed)"
    ),
    "zero_copy": Property(
        "zero_copy",
        _yes_no("zero_copy"),
        YES_NO_UNKNOWN,
        "a kernel may dereference all of this host memory at its host address (probed)",
    ),
    "batch_call": Property("batch_api", _call, ("none", "found"), "the driver has a batch copy call"),
    "kernel_any_size": Property(
        "kernel_any_size",
        _yes_no("kernel_any_size"),
        YES_NO,
        "the kernel at hand also copies sizes and addresses that are not multiples of 8",
    ),
    "largest_page": Property(
        "page_sizes", lambda facts: max(facts.page_sizes, default="none"), ("none",), "in bytes", numeric=True
    ),
    "page_multiple": Property(
        "page_sizes",
        lambda facts: gcd(*facts.page_sizes) or "none",
        ("none",),
        "the greatest number of bytes that divides every page",
        numeric=True,
    ),
    "fragment_multiple": Property(
        "fragment_sizes",
        lambda facts: gcd(*facts.fragment_sizes) or "unknown",
        ("unknown",),
        "the greatest number of bytes that divides every copy submitted",
        numeric=True,
    ),
    "address_multiple": Property(
        "address_multiple",
        lambda facts: _or("unknown", facts.address_multiple),
        ("unknown",),
        "the greatest power of two that divides every address",
        numeric=True,
    ),
    "descriptors": Property(
        "descriptors",
        lambda facts: _or("unknown", facts.descriptors),
        ("unknown",),
        "copies in the batch",
        numeric=True,
    ),
    "stream": Property(
        "stream", lambda facts: facts.stream.value, tuple(kind.value for kind in Stream), "the stream of the copy"
    ),
    "captured": Property("captured", _yes_no("captured"), YES_NO, "the stream is being captured into a graph"),
}

NUMBER_TERMS = ("at least N", "below N", "N to M", "a multiple of N", "not a multiple of N")


@dataclass(frozen=True)
class Term:
    """What a property is compared with."""

    text: str
    holds: Callable[[Value], bool]
    numbers: tuple[int, ...] = ()  # where the answer changes


@dataclass(frozen=True)
class Condition:
    """One property of a row, with the terms of which one must hold."""

    name: str
    terms: tuple[Term, ...]

    @property
    def axis(self) -> str:
        return PROPERTIES[self.name].axis

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(number for term in self.terms for number in term.numbers)

    def holds(self, facts: Facts) -> bool:
        value = PROPERTIES[self.name].read(facts)
        return any(term.holds(value) for term in self.terms)

    def __str__(self) -> str:
        return f"{self.name}: {' or '.join(term.text for term in self.terms)}"


def read_condition(name: str, terms: Any) -> Condition:
    """A condition from its JSON form. Raises TableError (without the row's name) for what is not known."""
    if name not in PROPERTIES:
        raise TableError(f"unknown property {name!r}; known: {', '.join(PROPERTIES)}")
    listed = terms if isinstance(terms, list) else [terms]
    if not listed:
        raise TableError(f"{name}: an empty list holds for nothing; name at least one term")
    return Condition(name, tuple(_read_term(name, term) for term in listed))


def _read_term(name: str, text: Any) -> Term:
    known = PROPERTIES[name]
    if isinstance(text, str):
        if text in known.words:
            return Term(text, lambda value: value == text)
        number_term = _read_number_term(text) if known.numeric else None
        if number_term is not None:
            return number_term
    allowed = [*known.words, *(NUMBER_TERMS if known.numeric else ())]
    raise TableError(f"{name}: {text!r} is not a term; it may be {', '.join(allowed)}")


def _read_number_term(text: str) -> Term | None:
    shape = re.sub(r"\d+", "N", text)
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", text))
    first, last = (numbers[0], numbers[-1]) if numbers else (0, 0)
    tests: Mapping[str, Callable[[int], bool]] = {
        "at least N": lambda number: number >= first,
        "below N": lambda number: number < first,
        "N to N": lambda number: first <= number <= last,
        "a multiple of N": lambda number: number % first == 0,
        "not a multiple of N": lambda number: number % first != 0,
    }
    if shape not in tests or ("multiple" in shape and first == 0) or first > last:
        return None
    test = tests[shape]
    return Term(text, lambda value: isinstance(value, int) and test(value), numbers)
