"""Memory of another NUMA node: found where there is one, bound by the kernel, told where it can't be had."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest

from backends.contract import DeviceError, Memory
from backends.platforms.memory import host_regions, hostmap, numa
from backends.platforms.memory.host_regions import HostRegions


def machine(root: Path, cpus: dict[int, str], with_memory: str) -> Path:
    """A folder as the kernel shows nodes: processors of each node, and the nodes with memory."""
    for node, text in cpus.items():
        (root / f"node{node}").mkdir()
        (root / f"node{node}" / "cpulist").write_text(f"{text}\n")
    (root / "online").write_text(",".join(map(str, cpus)) + "\n")
    (root / "has_memory").write_text(f"{with_memory}\n")
    return root


@pytest.mark.parametrize(
    ("cpus", "with_memory", "here", "other"),
    [
        ({0: "0-15"}, "0", 3, None),
        ({0: "0-7,16-23", 1: "8-15,24-31"}, "0-1", 17, 1),
        ({0: "0-7,16-23", 1: "8-15,24-31"}, "0-1", 8, 0),
        ({0: "0-15", 1: ""}, "0-1", 0, 1),  # memory without processors
        ({0: "0-15", 1: "16-31"}, "0", 20, 0),  # processors without memory
        ({0: "0", 1: "1", 2: "2"}, "1-2", 2, 1),
    ],
)
def test_another_node_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpus: dict[int, str],
    with_memory: str,
    here: int,
    other: int | None,
) -> None:
    """One that has memory, and is not the one of the processor that the process runs on."""
    monkeypatch.setattr(numa, "_libc", Library(cpu=here))
    assert numa.other_node(machine(tmp_path, cpus, with_memory)) == other


def test_a_kernel_without_nodes_has_no_other(tmp_path: Path) -> None:
    assert numa.other_node(tmp_path) is None


class Library:
    """The C library, as far as it is asked: on processor `cpu`, where mbind ends with `error`."""

    def __init__(self, cpu: int = 0, error: int = 0) -> None:
        self.cpu, self.error = cpu, error
        self.calls: list[tuple[int, int, int, list[int], int]] = []

    def sched_getcpu(self) -> int:
        return self.cpu

    def syscall(self, number: int, address: Any, nbytes: Any, policy: int, mask: Any, most: Any, flags: int) -> int:
        self.calls.append((number, nbytes.value, policy, list(mask), most.value))
        ctypes.set_errno(self.error)
        return -1 if self.error else 0


def test_pages_are_bound_to_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number of the call on this processor, and a mask that holds the node's bit alone."""
    library = Library()
    monkeypatch.setattr(numa, "_libc", library)
    monkeypatch.setattr(numa.platform, "machine", lambda: "aarch64")
    numa.bind(0x7000_0000, 8192, 1)
    numa.bind(0x7000_0000, 8192, 66)
    assert library.calls == [(235, 8192, 2, [2], 65), (235, 8192, 2, [0, 4], 129)]


def test_a_kernel_that_will_not_bind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason and what a container needs; a processor whose call is not known says so too."""
    monkeypatch.setattr(numa, "_libc", Library(error=1))
    with pytest.raises(DeviceError, match=r"mbind of 4096 bytes to NUMA node 1: Operation not permitted"):
        numa.bind(0, 4096, 1)
    monkeypatch.setattr(numa.platform, "machine", lambda: "vax")
    with pytest.raises(DeviceError, match="mbind on vax: the number of that system call is not known"):
        numa.bind(0, 4096, 1)


def test_the_kernel_knows_the_call() -> None:
    """A node that no machine has is refused for that reason, not because the call is another one."""
    span = hostmap.Span(hostmap.PAGE)
    with pytest.raises(DeviceError, match=r"to NUMA node 1023: (Invalid argument|Operation not permitted)"):
        span.back_on_node([(0, hostmap.PAGE)], 1023)
    span.close()


def test_a_region_of_another_node_works_or_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed exactly where one is granted. With the node of this process in the other's place a region is granted
    wherever the kernel binds at all, and holds what is written."""
    regions = HostRegions()
    if Memory.OTHER_NODE not in host_regions.granted():
        with pytest.raises(DeviceError, match="NUMA node"):
            regions.map(Memory.OTHER_NODE, 1)
    calls: list[int] = []
    monkeypatch.setattr(numa, "other_node", lambda: 0)
    monkeypatch.setattr(numa, "bind", lambda address, nbytes, node: calls.append(node))
    region = regions.map(Memory.OTHER_NODE, 3 * hostmap.PAGE)
    ctypes.memset(region.address, 7, region.nbytes)
    assert ctypes.string_at(region.address + region.nbytes - 1, 1) == b"\x07"
    assert calls == [0]
    assert region.nbytes == 3 * os.sysconf("SC_PAGE_SIZE")
    regions.close()
