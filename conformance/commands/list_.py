"""List platforms, devices and backends: what is here, what each supports, and why something is not to be had."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backends import platforms, registry
from backends.contract import Device, DeviceError, Direction, Memory, Stream, Support
from backends.platforms import PlatformError
from conformance.commands import CommandError
from conformance.commands.machine import Machine, add_machine_arguments, machine
from conformance.device.runner import BackendUnavailable

NAME = "list"
HELP = "platforms, devices and backends: what is here and what it supports"


@dataclass(frozen=True)
class PlatformState:
    """Whether a platform can be used here."""

    name: str
    missing: str | None
    devices: int

    def line(self, chosen: str) -> str:
        """One line for a person."""
        state = f"not here: {self.missing}" if self.missing else f"{self.devices} device{'s'[: self.devices != 1]}"
        return f"  {self.name:8} {state}{'  (listed below)' if self.name == chosen else ''}"


@dataclass(frozen=True)
class BackendState:
    """What a backend declares on the first device, or why it can't be loaded."""

    name: str
    support: Support | None
    missing: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_machine_arguments(parser)
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help="only this backend, or package.module:attribute; repeatable (default: every known one)",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the lists. Raises CommandError for a platform or a named backend that can't be had."""
    known = [platform_state(name) for name in platforms.names()]
    with machine(args.platform, args.isolation) as here:
        devices = [here.runner(index).device for index in here.devices]
        backends = [backend_state(here, name) for name in args.backend or registry.names()]
        for state in backends:
            if args.backend and state.support is None:
                raise CommandError(f"--backend: {state.missing}")
        if args.json:
            print(json.dumps(as_json(known, here.platform, devices, backends), indent=1))
        else:
            print("\n".join(lines(known, here.platform, devices, backends)))
    return 0


def platform_state(name: str) -> PlatformState:
    """Ask a platform whether it can be used; nothing heavy is imported."""
    try:
        platform = platforms.load(name)
    except PlatformError as error:
        return PlatformState(name, str(error), 0)
    missing = platform.missing()
    try:
        return PlatformState(name, missing, 0 if missing else platform.device_count())
    except DeviceError as error:
        return PlatformState(name, str(error), 0)


def backend_state(here: Machine, name: str) -> BackendState:
    """Ask a backend what it declares on the first device."""
    try:
        support = here.runner(here.devices[0]).support(name)
    except BackendUnavailable as error:
        return BackendState(name, None, str(error))
    return BackendState(name, support, support.unavailable)


def as_json(
    known: list[PlatformState], chosen: str, devices: list[Device], backends: list[BackendState]
) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "platforms": [state.__dict__ for state in known],
        "platform": chosen,
        "devices": [device.to_json() for device in devices],
        "backends": [
            {"name": state.name, "missing": state.missing, "support": state.support and state.support.to_json()}
            for state in backends
        ],
    }


def lines(known: list[PlatformState], chosen: str, devices: list[Device], backends: list[BackendState]) -> list[str]:
    """Everything for a person."""
    text = ["platforms", *(state.line(chosen) for state in known), "", f"devices of {chosen}"]
    for device in devices:
        text += _device(device)
    text += ["", f"backends on device {devices[0].index}; what is not listed as a limit, each declares to copy"]
    for state in backends:
        text += _backend(state, devices[0])
    return text


def limits(support: Support, device: Device) -> list[str]:
    """What a backend declares that it can't do, of what this device has."""
    found = []
    for what, all_values, mine in (
        ("no copies", [direction.value for direction in Direction], {d.value for d in support.directions}),
        ("no memory that is", _known(device.memory, Memory), {m.value for m in support.memory}),
        ("no stream", _known(device.streams, Stream), {s.value for s in support.streams}),
    ):
        lacking = [value for value in all_values if value not in mine]
        if lacking:
            found.append(f"{what} {', '.join(lacking)}")
    if support.size_multiple > 1:
        found.append(f"sizes that are multiples of {support.size_multiple} only")
    if support.address_multiple > 1:
        found.append(f"addresses that are multiples of {support.address_multiple} only")
    if support.max_descriptors is not None:
        found.append(f"at most {support.max_descriptors} descriptors")
    if support.max_bytes is not None:
        found.append(f"at most {support.max_bytes} bytes a descriptor")
    for allowed, text in (
        (support.zero_sizes, "no descriptors of size zero"),
        (not support.uniform_dense, "one size a batch, at multiples of that size"),
        (support.stream_order, "no source or destination that is still being written on the stream"),
        (support.reuse_descriptors, "descriptors stay untouched until the copy has ended"),
    ):
        if not allowed:
            found.append(text)
    return found


def _known(values: Iterable[str], kind: type[Memory] | type[Stream]) -> list[str]:
    """In the order in which the contract names them."""
    return [member.value for member in kind if member.value in values]


def _device(device: Device) -> list[str]:
    reads = "yes" if device.pageable_access else "no"
    return [
        f"  {device.index}  {device.name}",
        f"     driver {device.driver}, runtime {device.runtime}",
        f"     torch {device.torch}, triton {device.triton or 'none'}",
        f"     memory: {', '.join(device.memory)}",
        f"     streams: {', '.join(device.streams)}",
        f"     batch copy call: {device.batch_api or 'none'}; kernels read pageable memory: {reads}; "
        f"arenas with fences: {'yes' if device.fences else 'no'}",
        *(f"     {name}: {value}" for name, value in sorted(device.extra.items())),
    ]


def _backend(state: BackendState, device: Device) -> list[str]:
    if state.missing or state.support is None:
        return [f"  {state.name}", f"     not here: {state.missing}"]
    declared = limits(state.support, device)
    cost = state.support.relative_cost
    return [
        f"  {state.name}",
        *(f"     {limit}" for limit in declared or ["no limits"]),
        *([f"     slow: a budget holds {cost} times fewer cases"] if cost > 1 else []),
    ]
