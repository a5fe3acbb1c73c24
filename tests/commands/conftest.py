"""What tests of the commands share: saved cases, and a run of `kvconform` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.contract import Direction, Memory
from conformance.cli import main
from strategies.case import Case, Pool, Tensor


@dataclass(frozen=True)
class Ended:
    """A command that has run."""

    status: int
    out: str
    err: str


@pytest.fixture
def kvconform(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command in this process."""

    def run(*arguments: object) -> Ended:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse ends so
            status = int(ended.code or 0)
        said = capsys.readouterr()
        return Ended(status, said.out, said.err)

    return run


@pytest.fixture
def case() -> Case:
    """Two blocks of nine bytes, crosswise."""
    tensor = Tensor(9, Pool(2, 9), Pool(2, 12), (0, 1), (1, 0))
    return Case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, (tensor,), seed=7)


@pytest.fixture
def saved(case: Case, tmp_path: Path) -> Callable[..., Path]:
    """Write a case to a file, bare or as a failure that names a backend."""

    def save(backend: str | None = None, **more: object) -> Path:
        path = tmp_path / f"{backend or 'bare'}.json".replace(":", "-")
        data = {"backend": backend, "case": case.to_json(), **more} if backend else case.to_json()
        path.write_text(json.dumps(data))
        return path

    return save
