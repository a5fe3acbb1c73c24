"""Make `.venv` ready to run the suite: `python3 tools/set_up.py [--dev]`. Quick when nothing changed.

A torch that this interpreter imports already (a vendor's build) is kept, with its triton: the new environment sees the
packages beside it, and pip may install what is missing, but neither of these two. Without one, the `cpu` extra of
pyproject.toml is installed. Where nothing is missing, no network is used. Standard library only; Python 3.10 or newer.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
READY = VENV / "kvconform-ready.json"
KEPT = (
    "torch",
    "numpy",
    "triton",
    "pytorch-triton",
    "pytorch-triton-rocm",
    "pytorch-triton-xpu",
)  # they fit each other

_LOOK = """
import importlib.metadata, importlib.util, json, sys, sysconfig
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
def origin(name):
    spec = importlib.util.find_spec(name)
    return spec and spec.origin
names = sys.argv[1:]
versions = {name: version(name) for name in names}
print(json.dumps({"versions": versions, "torch": origin("torch"), "packages": sysconfig.get_path("purelib")}))
"""


class SetUpError(Exception):
    """Why the environment can't be made, and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Set up; the exit status is 1, with the reason printed, if that fails."""
    parser = argparse.ArgumentParser(prog="tools/set_up.py", description=__doc__.splitlines()[0])
    parser.add_argument("--dev", action="store_true", help="also ruff and mypy, which .ci/run needs")
    options = parser.parse_args(arguments)
    try:
        set_up(dev=options.dev)
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    return 0


def set_up(dev: bool) -> None:
    """Make the environment, unless it is as it should be."""
    if sys.version_info < (3, 10):  # noqa: UP036 (whoever runs this has any Python)
        raise SetUpError(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}; give make PYTHON=...")
    if Path(sys.prefix).resolve() == VENV:
        go_on_as_parent()
    kept = torch_here()
    state = fingerprint(kept)
    if is_ready(state, dev):
        return
    if made_by_another(state):
        shutil.rmtree(VENV)
    if not PYTHON.exists():
        make_venv()
    if kept:
        show_packages_of_parent()
        say(f"keeping torch at {Path(kept).parent}, and the packages beside it")
    wanted = requirements(dev, torch_too=not kept)
    missing = missing_of(wanted)
    if missing:
        install(missing, kept)
    install_checkout()
    if kept and look([])["torch"] != kept:
        raise SetUpError(f"torch at {kept} is hidden by another one now; remove {VENV} and report this")
    READY.write_text(json.dumps({"state": state, "dev": dev}) + "\n")


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def go_on_as_parent() -> None:
    """Somebody activated .venv: go on as the interpreter that it was made by."""
    parent = read_ready().get("state", {}).get("executable", "")
    if not os.path.exists(parent):
        raise SetUpError(f"python3 is the one of {VENV}, which this did not make; leave it first (deactivate)")
    os.execv(parent, [parent, *sys.argv])


def torch_here() -> str | None:
    """Where this interpreter finds torch; nothing is imported."""
    spec = importlib.util.find_spec("torch")
    return spec.origin if spec else None


def fingerprint(kept: str | None) -> dict[str, str]:
    """What the environment depends on."""
    digest = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return {
        "executable": sys.executable,
        "version": sys.version,
        "torch": kept or "",
        "root": str(ROOT),
        "files": digest.hexdigest(),
    }


def is_ready(state: dict[str, str], dev: bool) -> bool:
    was = read_ready()
    return was.get("state") == state and was.get("dev", False) >= dev and PYTHON.exists()


def made_by_another(state: dict[str, str]) -> bool:
    """Whether .venv was made for another interpreter, torch or folder; one that we did not make is used as it is."""
    was = read_ready().get("state")
    return was is not None and any(was.get(key) != state[key] for key in state if key != "files")


def read_ready() -> dict[str, Any]:
    try:
        ready: dict[str, Any] = json.loads(READY.read_text())
    except (OSError, ValueError):
        return {}
    return ready


def make_venv() -> None:
    """A virtual environment, without a pip of its own where the interpreter has none to give."""
    say(f"making {VENV} for Python {sys.version.split()[0]}")
    made = run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
    if made.returncode:  # Debian's python3 without python3-venv
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])


def show_packages_of_parent() -> None:
    """Let the environment see this interpreter's packages, those of a surrounding virtual environment included, which
    --system-site-packages would not show. The environment's own come first."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders if os.path.isdir(folder)]
    (Path(look([])["packages"]) / "zz-kvconform-parent.pth").write_text("\n".join(lines) + "\n")


def requirements(dev: bool, torch_too: bool) -> list[str]:
    """What pyproject.toml asks for. Its lists of strings are Python's too, and 3.10 can't read TOML."""
    text = (ROOT / "pyproject.toml").read_text()
    wanted = ["dependencies", *(["dev"] if dev else []), *(["cpu"] if torch_too else [])]
    found: list[str] = []
    for name in wanted:
        match = re.search(rf"^{name} = (\[.*?\])$", text, re.MULTILINE | re.DOTALL)
        if match is None:
            raise SetUpError(f"pyproject.toml has no list {name}")
        found += ast.literal_eval(match[1])
    return found


def look(names: Iterable[str]) -> dict[str, Any]:
    """What the environment finds: versions of these packages, where torch comes from, its own site-packages."""
    found: dict[str, Any] = json.loads(run([str(PYTHON), "-c", _LOOK, *names]).stdout)
    return found


def split(requirement: str) -> tuple[str, str, str]:
    """Name, operator and version."""
    match = re.fullmatch(r"([\w-]+)\s*(>=|==)\s*([\w.]+)", requirement)
    if match is None:
        raise SetUpError(f"pyproject.toml: {requirement!r} is more than name>=version or name==version")
    return match[1], match[2], match[3]


def missing_of(wanted: list[str]) -> list[str]:
    """Those that are not there, or there in another version."""
    versions = look(split(requirement)[0] for requirement in wanted)["versions"]
    return [requirement for requirement in wanted if not fits(requirement, versions[split(requirement)[0]])]


def fits(requirement: str, found: str | None) -> bool:
    """Whether an installed version meets the requirement; what stands behind + or letters does not count."""
    _, operator, version = split(requirement)
    if found is None:
        return False
    return numbers(found) == numbers(version) if operator == "==" else numbers(found) >= numbers(version)


def numbers(version: str) -> tuple[int, ...]:
    """1.26.4+x -> (1, 26, 4); zeros at the end are dropped."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def install(missing: list[str], kept: str | None) -> None:
    """Let pip install what is missing; where a torch is kept, its packages are held at their versions."""
    say(f"installing {', '.join(missing)}")
    constraints = VENV / "kvconform-constraints.txt"
    held = look(KEPT)["versions"] if kept else {}
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in held.items() if version))
    done = run([*pip(), "install", "--quiet", "--constraint", str(constraints), *missing], check=False, show=True)
    if done.returncode:
        raise SetUpError(
            f"pip could not install {', '.join(missing)} (its message is above). Without a network, install them into "
            f"{sys.executable} or into {VENV} by hand and run this again"
        )


def install_checkout() -> None:
    """What `pip install -e .` does: through setuptools where it is at hand, else by the same two files. No network."""
    if run([str(PYTHON), "-c", "import setuptools"], check=False).returncode == 0 and pip(required=False):
        command = [*pip(), "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        if run(command, check=False).returncode == 0:
            return
    (Path(look([])["packages"]) / "kvconform.pth").write_text(f"{ROOT}\n")
    script = VENV / "bin" / "kvconform"
    script.write_text(f"#!{PYTHON}\nimport sys\n\nfrom conformance.cli import main\n\nsys.exit(main())\n")
    script.chmod(0o755)


def pip(required: bool = True) -> list[str]:
    """The command that installs into the environment: its own pip, or this interpreter's."""
    if run([str(PYTHON), "-m", "pip", "--version"], check=False).returncode == 0:
        return [str(PYTHON), "-m", "pip", "--disable-pip-version-check"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(PYTHON)]
    if required:
        raise SetUpError(f"{sys.executable} has no pip (python3 -m ensurepip, or install python3-pip)")
    return []


def run(command: list[str], check: bool = True, show: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command; its output is kept, or shown."""
    done = subprocess.run(command, text=True, check=False, capture_output=not show)
    if check and done.returncode:
        raise SetUpError(f"{' '.join(command[:4])} ... failed:\n{done.stderr}")
    return done


if __name__ == "__main__":
    sys.exit(main())
