"""The documents tell the truth: options, commands, files and requirements that they name are there, and no others."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import cli
from conformance.commands import spec
from conformance.requirements import copies
from conformance.requirements.budgets import Budget
from conformance.selection.render import render
from conformance.selection.table import load_table
from conformance.session import options
from conformance.session.settings import FLOOR_SECONDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
FOLDERS = "backends|strategies|conformance|corpus|tests|examples|docs|benchmarks|tools"
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}


class Group:
    """Stands for pytest's parser, and notes the options it is told of."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}

    def getgroup(self, name: str, description: str) -> Group:
        return self

    def addoption(self, name: str, **keywords: object) -> None:
        self.options[name] = str(keywords["help"])


@pytest.fixture
def offered() -> dict[str, str]:
    """The suite's options of pytest, with their help."""
    group = Group()
    options.add_options(group)  # type: ignore[arg-type]
    return group.options


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of each row of the table whose first head is `head`."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |")) + 2
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def code_lines() -> Iterator[tuple[Path, str]]:
    """Every line of an indented block of a page, a continued one whole."""
    for path, text in TEXTS.items():
        for line in re.sub(r"\\\n\s+", "", text).splitlines():
            if line.startswith("    "):
                yield path, line.strip()


def test_readme_lists_the_options_that_pytest_offers(offered: dict[str, str]) -> None:
    listed = [re.findall(r"--[\w-]+", row[0])[0] for row in rows(README, "option")]
    assert sorted(listed) == sorted(offered)


def test_readme_and_help_agree_on_values(offered: dict[str, str]) -> None:
    meanings = {re.findall(r"--[\w-]+", row[0])[0]: row[1] for row in rows(README, "option")}
    for budget in Budget:
        assert f"`{budget.value}`" in meanings["--budget"]
    assert f"Default: {FLOOR_SECONDS:g}" in meanings["--deadline"]
    assert all(len(text) > 20 for text in offered.values())


def test_every_option_that_a_page_names_exists(offered: dict[str, str]) -> None:
    known = {*offered, *_command_options()}
    foreign = {
        *("--dist", "--tx", "--max-worker-restart", "--rsyncdir", "--rsyncignore", "--collect-only", "--help"),
        *("--args", "--tool", "--no-deps", "--platform", "--workers", "--times", "--json", "--strict"),
    }
    for path, text in TEXTS.items():
        named = set(re.findall(r"(?<![\w|-])--[a-z][\w-]+", text))
        assert named <= known | foreign, f"{path.name} names {sorted(named - known - foreign)}"


def test_readme_lists_the_commands() -> None:
    listed = set(re.findall(r"^    \.venv/bin/kvconform (\w+)", README, re.MULTILINE))
    assert listed == {command.NAME for command in cli.COMMANDS}


def test_commands_on_every_page_can_be_parsed() -> None:
    """What a page shows of `kvconform` is what its parser takes."""
    found = 0
    for path, line in code_lines():
        shown = re.search(r"(?:bin/kvconform|-m conformance) (\w+.*?)(?:  +#.*)?$", line)
        if shown and not line.startswith(("replay", "Made")):
            found += 1
            try:
                cli.parser().parse_args(shown[1].split())
            except SystemExit:
                pytest.fail(f"{path.name}: {line}")
    assert found > 6


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path, text in TEXTS.items():
        named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE))
        assert named <= targets, f"{path.name} names {sorted(named - targets)}"


def test_files_exist() -> None:
    """Paths of the repository, in code or as targets of links."""
    for path, text in TEXTS.items():
        inline = re.findall(
            r"`((?:backends|strategies|conformance|tests|examples|docs|benchmarks|tools)/[\w./-]*)`", text
        )
        links = [path.parent / link for link in re.findall(r"\]\((?!http|#)([^)#]+)", text)]
        missing = [str(name) for name in (*(ROOT / name for name in inline), *links) if not name.exists()]
        assert not missing, f"{path.name} names {missing}"


def test_specification_is_up_to_date() -> None:
    assert (ROOT / "SPEC.md").read_text(encoding="utf-8") == spec.render(), "run make spec"


def test_selection_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "selection.md").read_text(encoding="utf-8") == render(load_table()), "run make spec"


def test_requirement_ids_are_unique() -> None:
    ids = [requirement.id for requirement in spec.all_requirements()]
    assert len(set(ids)) == len(ids)


def test_every_requirement_is_named_by_a_test() -> None:
    """By the docstring of a test in conformance/ (its id or SURVIVE-* for a group), or the report checks it."""
    named: set[str] = set()
    for path in (ROOT / "conformance").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                ids = re.findall(r"\b[A-Z]+(?:-[A-Z]+)*-(?:\*|[A-Z]+)", ast.get_docstring(node) or "")
                claims = any("mark.claim(" in ast.unparse(mark) for mark in node.decorator_list)
                assert ids or not claims, f"{path.name}: {node.name} names no requirement"
                named.update(ids)
    known = {requirement.id for requirement in spec.all_requirements()}
    report = (ROOT / "conformance" / "report" / "shortfalls.py").read_text(encoding="utf-8")
    named.update(value for name, value in vars(copies).items() if f"req.{name}}}" in report)
    missing = [one for one in known if one not in named and f"{one.partition('-')[0]}-*" not in named]
    assert not missing
    unknown = [one for one in named if one not in known and not one.endswith("-*")]
    assert not unknown


def _command_options() -> set[str]:
    options: set[str] = set()
    for action in cli.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                options.update(*(each.option_strings for each in one._actions))
    return options
