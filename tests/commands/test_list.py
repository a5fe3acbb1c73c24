"""`kvconform list`: what is here, what is not and why, for a person and for a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.contract import Device, Direction, Memory, Support
from conformance.commands.list_ import limits, platform_state

Run = Callable[..., Any]

DEVICE = Device(
    platform="cuda",
    index=0,
    name="some",
    driver="1",
    runtime="1",
    torch="2",
    triton=None,
    memory=("device", "pinned", "shared"),
    streams=("side", "default"),
    pageable_access=False,
    registered_address_is_host_address=True,
    batch_api=None,
)


def test_text_names_platforms_devices_and_backends(kvconform: Run) -> None:
    ended = kvconform("list", "--platform", "cpu", "--isolation", "none")
    assert ended.status == 0
    for line in (
        "platforms",
        "devices of cpu",
        "backends on device 0",
        "  torch_copy",
        "  batch_dma",
        "     no limits",
    ):
        assert line in ended.out
    assert "  cpu      1 device  (listed below)" in ended.out


def test_json_holds_the_same(kvconform: Run) -> None:
    ended = kvconform("list", "--platform", "cpu", "--isolation", "none", "--json", "--backend", "torch_copy")
    data = json.loads(ended.out)
    assert data["platform"] == "cpu"
    assert {state["name"] for state in data["platforms"]} >= {"cuda", "rocm", "xpu", "cpu"}
    assert Device.from_json(data["devices"][0]).platform == "cpu"
    (backend,) = data["backends"]
    assert Support.from_json(backend["support"]) == Support()


@pytest.mark.parametrize(
    ("name", "says"),
    [("no.module:there", "No module named 'no'"), ("nosuch", "no backend is called 'nosuch'")],
)
def test_a_named_backend_that_cannot_be_had_is_status_2(kvconform: Run, name: str, says: str) -> None:
    ended = kvconform("list", "--platform", "cpu", "--isolation", "none", "--backend", name)
    assert (ended.status, ended.out) == (2, "")
    assert says in ended.err


def test_a_platform_whose_variable_is_wrong_says_so(kvconform: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own line of the list, and where it is the one that is asked for."""
    monkeypatch.setenv("KVCONFORM_CPU_DEVICES", "x")
    assert "KVCONFORM_CPU_DEVICES='x'" in str(platform_state("cpu").missing)
    ended = kvconform("list", "--platform", "cpu", "--isolation", "none")
    assert ended.status == 2
    assert ended.err.startswith("kvconform list: KVCONFORM_CPU_DEVICES='x' is not a number of devices")


def test_devices_of_several_are_all_listed(kvconform: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVCONFORM_CPU_DEVICES", "2")
    ended = kvconform("list", "--platform", "cpu", "--isolation", "none", "--backend", "torch_copy")
    assert "2 devices" in ended.out
    assert ended.out.count("driver") == 2


def test_through_device_processes(kvconform: Run) -> None:
    assert "devices of cpu" in kvconform("list", "--platform", "cpu", "--backend", "torch_copy").out


def test_no_limits() -> None:
    assert limits(Support(), DEVICE) == []


@pytest.mark.parametrize(
    ("support", "text"),
    [
        (Support(directions=frozenset({Direction.LOAD})), "no copies store, device-to-device, host-to-host"),
        (Support(memory=frozenset({Memory.DEVICE, Memory.PINNED})), "no memory that is shared"),
        (Support(streams=frozenset()), "no stream side, default"),
        (Support(size_multiple=8), "sizes that are multiples of 8 only"),
        (Support(address_multiple=16), "addresses that are multiples of 16 only"),
        (Support(max_descriptors=9), "at most 9 descriptors"),
        (Support(max_bytes=9), "at most 9 bytes a descriptor"),
        (Support(zero_sizes=False), "no descriptors of size zero"),
        (Support(uniform_dense=True), "one size a batch, at multiples of that size"),
        (Support(stream_order=False), "no source or destination that is still being written on the stream"),
        (Support(reuse_descriptors=False), "descriptors stay untouched until the copy has ended"),
    ],
)
def test_each_limit_is_named(support: Support, text: str) -> None:
    assert limits(support, DEVICE) == [text]


def test_memory_that_the_device_lacks_is_no_limit() -> None:
    support = Support(memory=frozenset(Memory) - {Memory.HUGE})
    assert limits(support, replace(DEVICE, memory=("device", "pinned"))) == []
