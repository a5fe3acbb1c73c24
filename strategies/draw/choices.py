"""Two draws that everything else is made of, built once and kept: making a Hypothesis strategy costs more than a draw.

The first option and the lowest number are what a failure shrinks to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@lru_cache(maxsize=4096)
def between(low: int, high: int) -> st.SearchStrategy[int]:
    """An integer from `low` to `high`, both included."""
    return st.integers(low, high)


@lru_cache(maxsize=4096)
def _one_of_these(options: tuple[T, ...]) -> st.SearchStrategy[T]:
    return st.sampled_from(options)


def pick(*options: T) -> st.SearchStrategy[T]:
    """One of the options; repeat one to draw it more often."""
    return _one_of_these(options)
