"""Set-up keeps a torch that is there, needs no network where nothing is missing, and does nothing twice."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def set_up() -> ModuleType:
    """tools/set_up.py as a module."""
    spec = importlib.util.spec_from_file_location("set_up", ROOT / "tools" / "set_up.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirement", "found", "fits"),
    [
        ("numpy>=1.26", "1.26", True),
        ("numpy>=1.26", "2.4.6", True),
        ("numpy>=1.26", "1.25.9", False),
        ("numpy>=1.26", None, False),
        ("torch==2.13.0", "2.13.0+cpu", True),
        ("torch==2.13.0", "2.13", True),
        ("torch==2.13.0", "2.14.0", False),
        ("pytest>=8.2", "8.2.0rc1", True),
    ],
)
def test_versions(set_up: ModuleType, requirement: str, found: str | None, fits: bool) -> None:
    assert set_up.fits(requirement, found) is fits


def test_requirements_are_those_of_the_project(set_up: ModuleType) -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set_up.requirements(dev=False, torch_too=False) == project["dependencies"]
    assert set_up.requirements(dev=True, torch_too=True) == [*project["dependencies"], *extras["dev"], *extras["cpu"]]


def test_torch_of_a_surrounding_environment_is_kept_without_a_network(set_up: ModuleType, tmp_path: Path) -> None:
    """With everything in the parent, a virtual environment itself: no index is asked, and a second run does nothing."""
    parent = tmp_path / "parent"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", parent], check=True)
    packages = next(parent.glob("lib/python*/site-packages"))
    for requirement in set_up.requirements(dev=False, torch_too=True):
        name, _, version = set_up.split(requirement)
        (packages / name).mkdir()
        (packages / name / "__init__.py").touch()
        about = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    clone = tmp_path / "clone"
    (clone / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", clone)
    shutil.copy(ROOT / "tools" / "set_up.py", clone / "tools")

    first = run(parent / "bin" / "python", clone)
    assert f"keeping torch at {packages / 'torch'}" in first
    assert "installing" not in first
    found = "import importlib.util as u; print(*(u.find_spec(n).origin for n in ('torch', 'triton')))"
    python = clone / ".venv" / "bin" / "python"
    seen = subprocess.run(
        [python, "-c", found], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout.split()
    assert seen == [str(packages / name / "__init__.py") for name in ("torch", "triton")]
    assert os.access(clone / ".venv" / "bin" / "kvconform", os.X_OK)

    assert run(parent / "bin" / "python", clone) == ""
    assert run(python, clone) == "", "with .venv activated"


def run(python: Path, clone: Path) -> str:
    """What set-up prints, with no index to ask."""
    done = subprocess.run(
        [python, clone / "tools" / "set_up.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_NO_INDEX": "1", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
