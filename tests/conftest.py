"""The suite's own tests draw the same values at every run: what they must find is listed or counted, never luck."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, database=None, deadline=None)
settings.load_profile("same-every-time")
