"""The table: one answer for everything, no row without effect, and each way to spoil it is caught in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from backends.selection import Facts
from conformance.requirements.rules import PERFORMANCE, SAFETY, TABLE
from conformance.selection import totality
from conformance.selection.__main__ import PAGE, main
from conformance.selection.conditions import PROPERTIES, TableError
from conformance.selection.properties import CLAIMS, disagreements
from conformance.selection.render import render
from conformance.selection.simulated import KERNEL_LOAD
from conformance.selection.table import TABLE as TABLE_FILE
from conformance.selection.table import load_table, read_table
from conformance.selection.totality import problems, situations
from conformance.subjects.rules import BUILT_IN
from strategies.draw.facts import facts

OWN = load_table()
SITUATIONS = situations(OWN)
Spoil = Callable[[dict[str, Any]], object]


def spoilt(spoil: Spoil) -> dict[str, Any]:
    """The table's JSON with one thing changed."""
    data: dict[str, Any] = json.loads(TABLE_FILE.read_text(encoding="utf-8"))
    spoil(data)
    return data


def row(data: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of that id."""
    rows = [*data["safety"], *data["policy"], *data["performance"]]
    found: dict[str, Any] = next(row for row in rows if row["id"] == name)
    return found


def test_own_table_is_total_and_every_row_is_needed() -> None:
    """Every combination has an answer; every row decides somewhere."""
    assert problems(OWN) == []
    assert {s.winner.id for s in SITUATIONS if s.winner} == {r.id for r in OWN.policy}


def test_all_combinations_are_counted() -> None:
    """Folding loses none: the situations' counts add up to the product of the axes."""
    assert sum(situation.combinations for situation in SITUATIONS) == totality.combinations(OWN)
    assert totality.combinations(OWN) == prod(len(changes) for _, changes in totality._axes(OWN)) > 10**9


@given(facts())
def test_drawn_facts_fall_into_an_enumerated_situation(drawn: Facts) -> None:
    """The representatives stand for all facts: none that is drawn is decided by rows in a way they don't know."""
    known = {(s.winner, frozenset(s.ruled_out.values()), s.backend) for s in SITUATIONS}
    ruled_out = OWN.ruled_out(drawn)
    winner = next(r for r in OWN.policy if r.matches(drawn))
    assert (winner, frozenset(ruled_out.values()), OWN.chosen(winner, ruled_out)) in known


def test_each_situation_is_what_its_example_says() -> None:
    """The proof and the answer are separate code; on each situation's example they agree."""
    for situation in SITUATIONS:
        answer = OWN.answer(situation.facts)
        proven = (situation.winner, situation.backend, situation.ruled_out)
        assert (answer.row, answer.backend, answer.ruled_out) == proven


def test_page_is_up_to_date() -> None:
    """docs/selection.md is what the table renders to; `python -m conformance.selection render` makes it so."""
    assert PAGE.read_text(encoding="utf-8") == render(OWN)


def test_every_property_is_explained_and_every_row_rendered() -> None:
    """Nothing of the table is missing on the page."""
    page = render(OWN)
    assert all(f"`{name}`" in page for name in PROPERTIES)
    assert all(r.id in page and r.reason in page for r in OWN.rows)


def test_hole_is_found() -> None:
    """A table whose last row is gone does not answer the plainest load."""
    found = problems(read_table(spoilt(lambda data: data["policy"].pop())))
    assert "a hole: no row answers a load of 8-byte pages from pinned memory on cuda (cuMemcpyBatchAsync/8)" in found[0]
    assert "end the policy rows with one that always matches" in found[0]


def test_shadowed_row_is_found() -> None:
    """A row behind one that always matches, and a row whose conditions another covers."""

    def swap(data: dict[str, Any]) -> None:
        rows = data["policy"]
        rows[-1], rows[-2] = rows[-2], rows[-1]

    (found,) = problems(read_table(spoilt(swap)))
    assert found.startswith("row few-descriptors (policy): For fewer than 16 copies")
    assert "is shadowed: wherever it matches," in found
    assert "row small-pages" in found

    def widen(data: dict[str, Any]) -> None:
        row(data, "kernel-does-not-run")["when"] = {"triton_usable": ["no", "unknown"]}

    found = problems(read_table(spoilt(widen)))[0]
    assert found.startswith("row kernel-untried-platform (safety)")
    assert found.endswith(
        "is never needed: wherever it matches, row kernel-does-not-run or row kernel-no-triton rules triton_copy out "
        "before it"
    )


def test_row_that_can_not_match_or_not_be_followed_is_found() -> None:
    """Conditions that exclude each other, and a choice that safety never allows."""
    impossible = {"direction": "device-to-device", "host_memory": "pinned"}
    found = problems(read_table(spoilt(lambda data: row(data, "not-pinned").update(when=impossible))))
    assert any(text.endswith("can never match: its conditions do not hold together") for text in found)
    found = problems(read_table(spoilt(lambda data: row(data, "no-triton").update(choice="triton_copy"))))
    assert [text.splitlines()[-1].strip() for text in found] == [
        "is never followed: wherever it wins, row kernel-no-triton rules triton_copy out"
    ]


def test_advice_that_is_unsafe_or_nothing_new_is_found() -> None:
    """A performance row has to be about something that may be chosen and is not."""
    slow = spoilt(lambda data: row(data, "h200-load-few-pages").update(when={"platform": "cuda", "direction": "store"}))
    assert problems(read_table(slow))[0].endswith(
        "advises nothing new: wherever it may, the policy rows choose batch_dma already"
    )
    unsafe = spoilt(lambda data: row(data, "h200-store-small-pages")["when"].update(zero_copy="no"))
    assert problems(read_table(unsafe))[0].endswith("row kernel-refuted-memory rules triton_copy out")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda data: row(data, "rocm").update(colour="red"),
            "row rocm (policy) has an unknown field 'colour'; known: id, choice, when, reason, reference",
        ),
        (lambda data: row(data, "rocm").pop("reason"), "row rocm (policy) lacks the field 'reason'"),
        (lambda data: row(data, "rocm").update(reason=" "), "row rocm (policy) reason: empty"),
        (
            lambda data: row(data, "rocm").update(choice="magic"),
            "row rocm (policy) choice: 'magic'; it may be batch_dma, triton_copy, torch_copy",
        ),
        (
            lambda data: row(data, "rocm").update(when={"moon": "full"}),
            "row rocm (policy) when: unknown property 'moon'; known: platform, ",
        ),
        (
            lambda data: row(data, "rocm").update(when={"platform": "amd"}),
            "row rocm (policy) when: platform: 'amd' is not a term; it may be cuda, rocm, xpu, cpu, other",
        ),
        (
            lambda data: row(data, "large-page").update(when={"largest_page": "over 28672"}),
            "row large-page (policy) when: largest_page: 'over 28672' is not a term; it may be none, at least N, ",
        ),
        (lambda data: row(data, "rocm").update(when={"platform": []}), "platform: an empty list holds for nothing"),
        (lambda data: row(data, "rocm").update(reference="PR 49843"), "it is owner/repository#number"),
        (lambda data: row(data, "rocm").update(id="xpu"), "row xpu: the id is taken twice"),
        (lambda data: row(data, "rocm").pop("id"), "row 8 of policy, which has no id, lacks the field 'id'"),
        (lambda data: row(data, "h200-load-few-pages").update(times_faster=0.7), "advice is about more than 1"),
        (lambda data: data.update(chunk="largest page"), "chunk: 'largest page'; it is 'next power of two"),
        (lambda data: data["fallbacks"].pop(), "it lists each of batch_dma, triton_copy, torch_copy once"),
        (lambda data: data.update(policy={}), "policy: a list of rows, not dict"),
        (lambda data: data["policy"].append("rocm"), "row 14 of policy, which has no id, is not an object but str"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_malformed_table_is_refused(spoil: Spoil, text: str) -> None:
    """The error names the row, and what it may hold."""
    with pytest.raises(TableError) as caught:
        read_table(spoilt(spoil))
    assert text in str(caught.value)


def test_wrong_safety_row_is_caught() -> None:
    """A row that rules out too much disagrees with the rule, and the sentence says which row and why."""
    wrong = read_table(spoilt(lambda data: row(data, "kernel-refuted-memory")["when"].update(zero_copy=["yes", "no"])))
    (found,) = disagreements(CLAIMS[TABLE], BUILT_IN, KERNEL_LOAD, wrong)
    assert "expected batch_dma, got triton_copy with chunks of 512 bytes; row small-pages (policy)" in found
    assert "triton_copy is ruled out by row kernel-refuted-memory (safety): A probe found that" in found
    assert "which is unsafe" in disagreements(CLAIMS[SAFETY], BUILT_IN, KERNEL_LOAD, wrong)[0]


def test_wrong_policy_row_is_caught() -> None:
    """A threshold one off shows at the boundary."""
    wrong = read_table(spoilt(lambda data: row(data, "large-page").update(when={"largest_page": "at least 28680"})))
    found = disagreements(CLAIMS["SELECT-BOUNDARY"], BUILT_IN, KERNEL_LOAD, wrong)
    assert found[0].startswith(
        "SELECT-BOUNDARY: backends.selection:choose: a load of 28672-byte pages from pinned memory on cuda (64 desc"
    )
    assert "expected triton_copy with chunks of 8192 bytes, got batch_dma; row small-pages (policy)" in found[0]


def test_wrong_performance_row_is_caught() -> None:
    """Advice against what measurements say shows as a row that advises nothing new."""
    wrong = read_table(spoilt(lambda data: row(data, "h200-load-medium-pages").update(choice="batch_dma")))
    assert problems(wrong) != []


def test_advice_is_given_where_it_is_safe() -> None:
    """SELECT-PERFORMANCE names device, factor and row; where the kernel is ruled out there is no advice."""
    medium = Facts.from_json({**KERNEL_LOAD.to_json(), "page_sizes": [32768]})
    (found,) = disagreements(CLAIMS[PERFORMANCE], BUILT_IN, medium, OWN)
    assert "got batch_dma, but triton_copy was 1.2 times as fast on NVIDIA H200; row h200-load-medium-pages" in found
    refuted = Facts.from_json({**medium.to_json(), "zero_copy": False})
    assert disagreements(CLAIMS[PERFORMANCE], BUILT_IN, refuted, OWN) == []


def test_unreadable_tables_name_the_file(tmp_path: Path) -> None:
    """A missing file and a broken one."""
    with pytest.raises(TableError, match=r"none\.json: No such file"):
        load_table(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(TableError, match=r"broken\.json: not JSON"):
        load_table(broken)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """render writes the page; check proves the table, or prints what is wrong and fails."""
    page = tmp_path / "page.md"
    assert main(["render", "--page", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == render(OWN)
    assert main(["check"]) == 0
    assert "combinations, every row needed" in capsys.readouterr().out
    holed = tmp_path / "table.json"
    holed.write_text(json.dumps(spoilt(lambda data: data["policy"].pop())), encoding="utf-8")
    assert main(["check", "--table", str(holed)]) == 1
    assert "a hole" in capsys.readouterr().out
