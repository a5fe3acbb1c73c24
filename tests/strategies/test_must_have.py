"""The must-have list reaches every required cell of every axis, under every scope, by stable names."""

from __future__ import annotations

import hashlib
import re

import pytest
from some_scopes import SCOPES

from strategies.axes import AXES, required
from strategies.case import Fence
from strategies.coverage import Coverage
from strategies.footprint import destination_footprint, source_footprint
from strategies.must_have import must_have
from strategies.request import ask
from strategies.scope import Scope

EVERY_SCOPE = pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)


@EVERY_SCOPE
def test_every_required_cell_is_reached(scope: Scope) -> None:
    coverage = Coverage()
    for _, case in must_have(scope):
        coverage.add(case)
    assert coverage.missing(scope) == []


@EVERY_SCOPE
def test_cases_are_within_the_scope_and_its_budget(scope: Scope) -> None:
    for name, case in must_have(scope):
        assert scope.why_not(ask(case)) is None, name
        for memory, fence, side in (
            (case.source_memory, case.source_fence, source_footprint(case)),
            (case.destination_memory, case.destination_fence, destination_footprint(case)),
        ):
            assert memory in scope.memory, name
            assert fence is Fence.NONE or memory in scope.fenceable, name
            assert not side.sparse or memory in scope.sparse, name
            assert side.image_bytes <= scope.budget_bytes, name
        assert not case.submission.late_source or case.source_memory in scope.late, name
        assert not case.submission.late_destination or case.destination_memory in scope.late, name
        assert not case.submission.reuse_descriptors or scope.support.reuse_descriptors, name
        assert case.descriptors <= scope.most_descriptors, name


@EVERY_SCOPE
def test_names_are_unique_and_readable(scope: Scope) -> None:
    names = [name for name, _ in must_have(scope)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_the_list_is_the_same_each_time() -> None:
    text = "\n".join(f"{name} {case.dumps()}" for name, case in must_have(SCOPES["cpu-interpreter"]))
    pinned = "1e07e9720b462c28"
    changed = "a changed must-have list is a changed certification: pin the new digest on purpose"
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == pinned, changed


@pytest.mark.parametrize(
    "name",
    [
        "route-load-pinned-to-device",
        "route-store-device-to-registered-partly",
        "stream-default-store",
        "page-28671-edge-load",
        "page-28672-edge-store",
        "page-8193-edge-load",
        "page-37376-real-store",
        "count-15-load",
        "count-16-load",
        "count-65537-load",
        "mapping-false-run-source-load",
        "mapping-swap-store",
        "chunk-destination-of-16-skip-15-count-18",
        "pieces-planes-of-3-heads",
        "fence-after-source-pageable",
        "far-address-4-gib-half-below-both-load",
        "far-block-2147483648-destination-store",
        "submit-late-load-pinned-calls-1",
        "submit-zeros-everywhere-store",
        "groups-middle-empty-load",
    ],
)
def test_known_names_stay(name: str) -> None:
    assert name in dict(must_have(SCOPES["accelerator"]))


def test_requirements_follow_the_scope() -> None:
    everything, kernel, swap = (
        required(SCOPES[name]) for name in ("accelerator", "accelerator-kernel", "accelerator-old-swap")
    )
    assert list(everything) == [axis.name for axis in AXES]
    assert everything["size residue"] == tuple(map(str, range(16)))
    assert kernel["size residue"] == kernel["source residue"] == ("0", "8")
    assert "28672" in kernel["page bytes"]
    assert "28671" not in kernel["page bytes"]
    assert swap["groups"] == ("one",)
    assert swap["zero entries"] == ("none",)
    assert required(SCOPES["xpu"])["source offset"] == ("low",)


def test_the_blind_spots_of_other_suites_are_required() -> None:
    assert len(required(SCOPES["accelerator"])["blind spot"]) == 9
