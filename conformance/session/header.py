"""The lines at the top of a run: every effective option, the device, driver and versions."""

from __future__ import annotations

import platform as host
from importlib.metadata import PackageNotFoundError, version

from conformance.record.settings import RunSettings
from conformance.requirements.budgets import CASES, Budget

PACKAGES = ("torch", "triton", "hypothesis", "pytest", "pytest-xdist", "numpy")


def header_lines(settings: RunSettings) -> list[str]:
    """One `name: value` a line."""
    cases = CASES.get(settings.platform, CASES["cuda"])[Budget(settings.budget)]
    devices = ", ".join(map(str, settings.devices)) or "none"
    return [
        f"kvconform: platform {settings.platform}, device {devices}, isolation {settings.isolation}, "
        f"deadline {settings.floor_seconds:g} s",
        f"backends: {', '.join(settings.backends)}",
        f"budget: {settings.budget} ({cases} drawn cases a backend), run seed {settings.seed}",
        f"versions: Python {host.python_version()}, " + ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        f"report: {settings.report}",
        f"failures kept for the next run: {settings.database}",
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
