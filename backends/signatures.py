"""What parameters a callable has, for Python functions and for torch's compiled ops alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class SignatureError(TypeError):
    """A callable that can't be called with what a copy has to offer. The text names the parameter."""


@dataclass(frozen=True)
class Parameter:
    """One parameter that can be given by itself."""

    name: str
    required: bool
    by_position: bool
    by_keyword: bool


@dataclass(frozen=True)
class Signature:
    """The parameters in order. `any_position`: further positional arguments are taken (`*args`)."""

    parameters: tuple[Parameter, ...]
    any_position: bool = False

    def __contains__(self, name: str) -> bool:
        return any(parameter.name == name for parameter in self.parameters)


def of(function: Callable[..., Any]) -> Signature:
    """The signature of `function`; that of the default overload where it is a torch op with several.

    Raises SignatureError where it has none that can be read."""
    schema = _schema(function)
    if schema is not None:
        return Signature(
            tuple(
                Parameter(argument.name, not argument.has_default_value(), not argument.kwarg_only, True)
                for argument in schema.arguments
            )
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise SignatureError(f"the signature of {function!r} can't be read: {error}") from error
    kinds = inspect.Parameter
    return Signature(
        tuple(
            Parameter(
                parameter.name,
                parameter.default is kinds.empty,
                parameter.kind is not kinds.KEYWORD_ONLY,
                parameter.kind is not kinds.POSITIONAL_ONLY,
            )
            for parameter in parameters
            if parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        ),
        any_position=any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters),
    )


def _schema(function: Any) -> Any:
    """The schema of a torch op or of an op's overload, told by their shape: this module doesn't need torch."""
    if hasattr(function, "_schema"):
        return function._schema
    overloads = getattr(function, "overloads", None)
    if callable(overloads) and (known := overloads()):
        return getattr(function, "default" if "default" in known else known[0])._schema
    return None
