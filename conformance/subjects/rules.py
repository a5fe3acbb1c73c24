"""Selectors under test: this project's own, one named by import path, those that installed packages offer.

A selector is a callable that takes `Facts` and returns a `Choice` or a backend's name. What it does not look at, and
where it is meant to be used, is declared beside it, so that it is judged by what it can know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from backends.contract import Direction, Memory, Stream
from backends.selection import BACKENDS, Choice, ChoiceError, Facts, choose
from conformance.selection import simulated

GROUP = "kvconform.selectors"  # entry points
MUST_SEE = frozenset({"platform", "direction", "host_memory", "page_sizes", "triton_present"})
ALL_FACTS = frozenset(field.name for field in fields(Facts))
UNKNOWN: Mapping[str, Any] = {
    "triton_usable": None,
    "kernel_any_size": False,
    "fragment_sizes": (),
    "descriptors": None,
    "address_multiple": None,
    "stream": Stream.SIDE,
    "captured": False,
    "explicit": None,
}


class SelectorError(ValueError):
    """Something that can't be used as a selector. The text says what and why."""


@dataclass(frozen=True)
class Outcome:
    """What a selector did with facts: it chose, it refused, or it broke."""

    backend: str | None  # None: it did not choose
    bytes_per_chunk: int | None = None
    chunk_known: bool = False  # it returned a Choice, not only a name
    reason: str = ""  # its own; of a refusal the error's text
    broke: str | None = None  # an error other than ChoiceError, or an answer that is none

    def __str__(self) -> str:
        if self.broke is not None:
            return self.broke
        if self.backend is None:
            return f"a refusal ({self.reason or 'without a reason'})"
        return self.backend + (f" with chunks of {self.bytes_per_chunk} bytes" if self.bytes_per_chunk else "")


@dataclass(frozen=True)
class Selector:
    """A selection rule as a subject."""

    name: str
    call: Callable[[Facts], Choice | str]
    sees: frozenset[str] = ALL_FACTS  # the fields of Facts that it looks at
    platforms: frozenset[str] | None = None  # where it is meant to be used; None: anywhere
    directions: frozenset[Direction] = frozenset(Direction)
    memory: frozenset[Memory] = frozenset(Memory)

    def __post_init__(self) -> None:
        unknown = sorted(self.sees - ALL_FACTS)
        if unknown:
            raise SelectorError(f"selector {self.name} sees {unknown[0]!r}, which is not a fact")

    def outside(self, facts: Facts) -> str | None:
        """Why this selector is not judged on these facts; None if it is."""
        if self.platforms is not None and facts.platform not in self.platforms:
            return f"{self.name} is not meant for {facts.platform}"
        if facts.direction not in self.directions:
            return f"{self.name} is not meant for {facts.direction.value} copies"
        if facts.host_memory not in self.memory:
            return f"{self.name} is not meant for {facts.host_memory.value} memory"
        return None

    def view(self, facts: Facts) -> Facts:
        """The facts as they are where this selector is used: those it does not look at as they usually are there."""
        usual = {
            **UNKNOWN,
            "zero_copy": simulated.zero_copy(facts.platform, facts.host_memory),
            "batch_api": simulated.batch_api(facts.platform),
        }
        return replace(facts, **{name: value for name, value in usual.items() if name not in self.sees})

    def ask(self, facts: Facts) -> Outcome:
        """What the selector does with these facts. Never raises."""
        try:
            answer = self.call(facts)
        except ChoiceError as error:
            return Outcome(None, reason=str(error))
        except (Exception, SystemExit) as error:  # whatever a selector raises is a finding, not the end of the run
            return Outcome(None, broke=_told(error))
        if isinstance(answer, Choice) and answer.backend in BACKENDS:
            return Outcome(answer.backend, answer.bytes_per_chunk, True, answer.reason)
        if isinstance(answer, str) and answer in BACKENDS:
            return Outcome(answer)
        return Outcome(None, broke=f"{_shown(answer)}, which is neither a Choice nor one of {', '.join(BACKENDS)}")


BUILT_IN = Selector("backends.selection:choose", choose)


def selector_named(name: str) -> Selector:
    """The selector of that name: built-in, one of `installed_selectors`, or "package.module:callable".

    Raises SelectorError, which says what there is."""
    if name == "built-in":
        return BUILT_IN
    if ":" in name:
        return load_selector(name)
    installed = installed_selectors()
    if name not in installed:
        known = ", ".join(["built-in", *sorted(installed)])
        raise SelectorError(f"no selector is called {name!r}; there are {known}, or give package.module:callable")
    return installed[name]


def load_selector(path: str) -> Selector:
    """The selector at "package.module:name": a Selector, or a callable that takes Facts. Raises SelectorError."""
    module_name, _, name = path.partition(":")
    if not (module_name and name):
        raise SelectorError(f"{path!r} is not of the form package.module:callable")
    try:
        found = getattr(import_module(module_name), name)
    except ImportError as error:
        raise SelectorError(f"{path}: {module_name} can't be imported ({error})") from error
    except AttributeError as error:
        raise SelectorError(f"{path}: {module_name} has no {name}") from error
    except (Exception, SystemExit) as error:
        raise SelectorError(f"{path}: importing {module_name} failed: {_told(error)}") from error
    return as_selector(path, found)


def _told(error: BaseException) -> str:
    """An error in words, whatever its own code does when asked for them."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__} (its text can't be printed)"


def _shown(answer: object) -> str:
    try:
        return repr(answer)
    except Exception:
        return f"a {type(answer).__name__} that can't be printed"


def as_selector(name: str, found: Any) -> Selector:
    """`found` as a selector. Raises SelectorError if it is neither a Selector nor callable."""
    if isinstance(found, Selector):
        return found
    if not callable(found):
        raise SelectorError(f"{name} is a {type(found).__name__}; a selector is a callable that takes Facts")
    return Selector(name, found)


def installed_selectors() -> dict[str, Selector]:
    """The selectors that installed packages offer under the entry point group `kvconform.selectors`, by name."""
    return {point.name: as_selector(point.value, point.load()) for point in entry_points(group=GROUP)}
