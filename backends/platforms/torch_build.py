"""What the installed torch was built for, read from its version file: importing torch takes seconds, this does not."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TorchBuild:
    """Versions that torch/version.py states; None where torch was built without that toolkit."""

    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None


def torch_build() -> TorchBuild | None:
    """The build of the torch that `import torch` would find, or None without one. Imports nothing."""
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # a module without a spec was put in its place
        return None
    if spec is None or spec.origin is None:
        return None
    return read_version_file(Path(spec.origin).with_name("version.py"))


@cache
def read_version_file(path: Path) -> TorchBuild | None:
    """The build that `path`, a torch/version.py, states; None if it can't be read as one."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    stated: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            stated.update({target.id: node.value.value for target in targets if isinstance(target, ast.Name)})
    if "__version__" not in stated:
        return None
    return TorchBuild(stated["__version__"], stated.get("cuda"), stated.get("hip"), stated.get("xpu"))


def why_not_built_for(toolkit: str, build: TorchBuild | None, found: str | None) -> str | None:
    """In words, why torch can't use a platform: it is missing, or was built without `toolkit`. None if it can."""
    if build is None:
        return "torch is not installed"
    if not found:
        return f"torch {build.version} was built without {toolkit}"
    return None


def triton_version() -> str | None:
    """Triton's version as installed, under any of the names it is published by; None without one. Imports nothing."""
    if importlib.util.find_spec("triton") is None:
        return None
    for name in ("triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "pytorch-triton"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def descriptor_tensor(values: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """A CPU int64 tensor that shares `values` (writable, int64). Imports torch."""
    import torch

    if values.dtype != np.int64 or not values.flags.writeable:
        raise ValueError(f"descriptors: a writable int64 array, not {values.dtype}, writable={values.flags.writeable}")
    return torch.from_numpy(values)
