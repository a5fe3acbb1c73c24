"""Winners, regret and advice, on numbers made up so that the answer is known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from backends.selection import Facts
from conformance.audit.advice import advised_rows
from conformance.audit.grid import MOST_BYTES, Point, grid, host_memory, size_text
from conformance.audit.judgement import changes, judge, other_winners, regret
from conformance.audit.measurements import Visit
from conformance.audit.text import advice_lines, cell_text, change_lines, regret_lines, summary_lines
from conformance.audit.timing import LIMIT
from conformance.selection.simulated import CPU, CUDA
from conformance.selection.table import TABLE, load_table, read_table
from conformance.subjects.rules import BUILT_IN, Selector
from tests.audit.made_up import Times, measured

SMALL_LOAD, LARGE_LOAD = Point("load", 512, 64), Point("load", 65536, 64)
SMALL_STORE = Point("store", 512, 64)


def test_who_wins_and_what_the_rule_loses() -> None:
    """The built-in rule takes the kernel for small loads and the copy engine for all else."""
    times: Times = {SMALL_LOAD: (50, 20), LARGE_LOAD: (30, 20), SMALL_STORE: (90, 15)}
    small, large, store = judge(measured(times), times, BUILT_IN)
    assert (small.best, small.chosen, small.regret, small.ratio) == ("triton_copy", "triton_copy", 1.0, 2.0)
    assert (large.chosen, large.regret) == ("batch_dma", 1.5)
    assert store.regret == 6.0
    lost = regret([small, large, store])
    assert (lost.points, lost.worst, lost.where, lost.better) == (3, 6.0, SMALL_STORE, 2)
    assert lost.mean == pytest.approx(9 ** (1 / 3))


def test_within_the_dead_band_all_are_equal() -> None:
    """So the rule loses nothing there."""
    (judged,) = judge(measured({LARGE_LOAD: (20.9, 20)}), [LARGE_LOAD], BUILT_IN)
    assert judged.equals == ("triton_copy", "batch_dma")
    assert judged.regret == 1.0
    assert cell_text(judged) == "triton_copy= 2.00"


def test_what_is_not_stable_is_marked() -> None:
    """A second visit that takes longer."""
    (judged,) = judge(measured({LARGE_LOAD: (40, 20)}, again=1.2), [LARGE_LOAD], BUILT_IN)
    assert not judged.stable
    assert cell_text(judged) == "triton_copy 2.00 !2.0 ~"
    assert regret_lines([judged], "built-in")[-1] == "no point was stable: this says nothing about the selection table"


def test_a_choice_that_was_not_timed_is_no_regret() -> None:
    """Nor does it count in the average."""

    def torch(facts: Facts) -> str:
        return "torch_copy"

    (judged,) = judge(measured({LARGE_LOAD: (40, 20)}), [LARGE_LOAD], Selector("torch", torch))
    assert judged.regret is None
    assert regret([judged]).points == 0
    assert cell_text(judged).endswith("?")
    assert regret_lines([judged], "torch") == ["torch chooses nothing that was timed"]


def test_a_backend_that_failed_once_is_out() -> None:
    """At that point; and the text says why."""
    found = measured({LARGE_LOAD: (40, 20)})
    found.add(LARGE_LOAD, Visit({"batch_dma": 40, LIMIT: 10}, 9, {"triton_copy": "it leaves wrong bytes"}))
    (judged,) = judge(found, [LARGE_LOAD], BUILT_IN)
    assert judged.best == "batch_dma"
    assert any(
        line == "not timed: triton_copy at load of 64 x 64 KiB: it leaves wrong bytes"
        for line in summary_lines(found, [judged], "built-in")
    )


def everywhere(better: Any) -> Times:
    """The grid of a GPU, the kernel twice as fast where `better(point)`, half as fast elsewhere."""
    return {point: (20, 10) if better(point) else (10, 20) for point in grid("cuda")}


def advice(times: Times, again: float = 1.0) -> list[dict[str, Any]]:
    found = measured(times, again=again)
    return advised_rows(found, judge(found, times, BUILT_IN), load_table())


def right_here(facts_point: Point) -> bool:
    """What the published rule does on CUDA."""
    return facts_point.direction == "load" and facts_point.page < 28672


def test_where_the_table_is_right_nothing_is_advised() -> None:
    """On a device like the one it was tuned on."""
    rows = advice(everywhere(right_here))
    assert rows == []
    assert advice_lines(rows) == ["at no stable point is anything faster than what the selection table chooses"]


def test_rows_cover_what_is_better_and_nothing_else() -> None:
    """Medium loads and small stores, as on an H200: two rectangles, readable as rows of the table."""

    def better(point: Point) -> bool:
        medium = point.direction == "load" and point.page <= 65536
        return medium or (point.direction == "store" and point.page <= 16384 and point.count >= 256)

    rows = advice(everywhere(better))
    assert [(row["choice"], row["when"]["largest_page"], row["when"]["descriptors"]) for row in rows] == [
        ("triton_copy", "28672 to 65536", "16 to 4096"),
        ("triton_copy", "512 to 16384", "256 to 4096"),
    ]
    assert [row["times_faster"] for row in rows] == [2.0, 2.0]
    data = json.loads(TABLE.read_text())
    table = read_table({**data, "performance": rows})
    for point in grid("cuda"):
        facts = point.facts(CUDA, host_memory(CUDA))
        chosen = next(iter(table.advice(facts)), None)
        assert (chosen.backend if chosen else table.answer(facts).backend) == (
            "triton_copy" if better(point) else "batch_dma"
        ), point


def test_a_region_of_any_shape_is_covered() -> None:
    """An L takes two rectangles."""
    rows = advice(everywhere(lambda p: right_here(p) or (p.direction == "store" and (p.page == 512 or p.count == 16))))
    assert len(rows) == 2


def test_unstable_points_advise_nothing() -> None:
    """A threshold drawn from noise is worse than the published one."""
    assert advice(everywhere(lambda point: True), again=1.3) == []


def test_what_safety_rules_out_is_never_advised() -> None:
    """However fast it was, here for memory that a kernel can't dereference."""
    times = everywhere(lambda point: True)
    found = measured(times)
    found.setting = replace(found.setting, memory="pageable")
    assert advised_rows(found, judge(found, times, BUILT_IN), load_table()) == []


def test_two_audits_compared() -> None:
    """Times by contestant, and points with other winners; equal ones are no change."""
    old = measured({SMALL_LOAD: (50, 20), LARGE_LOAD: (20, 20.5)})
    new = measured({SMALL_LOAD: (10, 20), LARGE_LOAD: (20.5, 20)})
    dma, limit, kernel = sorted(changes(old, new), key=lambda change: change.name)
    assert (dma.least, dma.most, dma.points) == (0.2, 1.025, 2)
    assert (limit.mean, kernel.points) == (1.0, 2)
    points = [SMALL_LOAD, LARGE_LOAD]
    winners = other_winners(judge(old, points, BUILT_IN), judge(new, points, BUILT_IN))
    assert winners == [SMALL_LOAD]
    assert change_lines(changes(old, new), winners)[-1] == "other winners at 1 points: load of 64 x 512 B"


def test_grids_are_bounded() -> None:
    """A copy fits in a small part of any device; both directions are there."""
    for platform in ("cuda", "cpu"):
        points = grid(platform)
        assert len(set(points)) == len(points)
        assert max(point.nbytes for point in points) <= MOST_BYTES
        assert {point.direction for point in points} == {"load", "store"}
    assert host_memory(replace(CPU, memory=("device", "shared", "pageable"))).value == "shared"
    assert [size_text(size) for size in (512, 28672, 1 << 20, 1000)] == ["512 B", "28 KiB", "1 MiB", "1000 B"]
