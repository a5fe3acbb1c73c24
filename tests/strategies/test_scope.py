"""A scope is made of a device and a declaration, and says so when nothing is left to draw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from some_scopes import ACCELERATOR, CPU, SCOPES, XPU

from backends.contract import Direction, Memory, Stream, Support
from strategies.draw.cases import cases
from strategies.must_have import must_have
from strategies.scope import MOST_DESCRIPTORS, PLAINEST, Scope, ScopeError

WRITTEN_ON_STREAM = {Memory.DEVICE, Memory.PINNED, Memory.REGISTERED, Memory.REGISTERED_ANONYMOUS}


def test_an_accelerator_fences_all_but_pinned_and_is_late_where_wholly_registered() -> None:
    scope = Scope.of(ACCELERATOR, Support())
    assert scope.fenceable == scope.sparse == frozenset(Memory) - {Memory.PINNED}
    assert scope.late == WRITTEN_ON_STREAM


def test_a_cpu_is_late_in_any_memory_that_can_be_written() -> None:
    scope = Scope.of(CPU, Support())
    assert scope.late == {Memory.DEVICE, Memory.PAGEABLE, Memory.SHARED, Memory.HUGE}


@pytest.mark.parametrize("device", [XPU, replace(ACCELERATOR, fences=False)])
def test_without_fences_nothing_is_fenced_or_sparse(device: object) -> None:
    scope = Scope.of(device, Support())  # type: ignore[arg-type]
    assert not scope.fenceable
    assert not scope.sparse


def test_a_slow_backend_gets_fewer_descriptors() -> None:
    assert Scope.of(CPU, Support()).max_descriptors == MOST_DESCRIPTORS
    assert Scope.of(CPU, Support(relative_cost=50)).max_descriptors == MOST_DESCRIPTORS // 50
    assert Scope.of(CPU, Support(relative_cost=1 << 20)).max_descriptors == 64
    assert Scope.of(CPU, Support(relative_cost=50), max_descriptors=7).most_descriptors == 7


def test_every_kind_of_memory_has_its_place_in_the_order() -> None:
    assert sorted(PLAINEST) == sorted(Memory)


def test_the_plainest_route_comes_first() -> None:
    assert SCOPES["accelerator"].routes[0] == (Direction.LOAD, Memory.PINNED, Memory.DEVICE)
    assert all(destination is not Memory.READ_ONLY for _, _, destination in SCOPES["accelerator"].routes)
    assert SCOPES["loads-only"].returning == ()


@pytest.mark.parametrize(
    ("support", "says"),
    [
        (Support(unavailable="no such library"), "the backend can't run here: no such library"),
        (Support(directions=frozenset()), "no direction is left"),
        (Support(memory=frozenset({Memory.PINNED}), directions=frozenset({Direction.LOAD})), "no direction is left"),
        (
            Support(streams=frozenset({Stream.DEFAULT})),
            "no stream is left: the device has side, the backend takes default",
        ),
        (Support(size_multiple=4096, max_bytes=4000), "no size is left: multiples of 4096, at most 4000 bytes"),
        (Support(max_descriptors=0), "no descriptor may be copied"),
    ],
)
def test_a_scope_that_leaves_nothing_says_why(support: Support, says: str) -> None:
    with pytest.raises(ScopeError, match=says):
        cases(Scope.of(CPU, support))


def test_must_have_says_so_too() -> None:
    with pytest.raises(ScopeError, match="can't run here"):
        must_have(Scope.of(CPU, Support(unavailable="no such library")))
