"""NUMA nodes: which have memory, which one this process runs on, and binding pages to another one. Linux only.

The C library has no call for it and libnuma is rarely installed, hence the system call by number.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from backends.contract import DeviceError

NODES = Path("/sys/devices/system/node")
_MBIND = {"x86_64": 237, "aarch64": 235, "riscv64": 235, "ppc64le": 259, "s390x": 268}  # asm/unistd.h
_BIND = 2  # MPOL_BIND: from these nodes or not at all

_libc = ctypes.CDLL(None, use_errno=True)


def other_node(root: Path = NODES) -> int | None:
    """A node with memory that is not the one this process runs on just now, or None if there is none.

    Memory that nobody bound comes from the node of the one who touches it first, so that with this one both sides of a
    link between nodes are met, whichever the device is on."""
    here = _node_of(_libc.sched_getcpu(), root)
    return next((node for node in _numbers(root / "has_memory") if node != here), None)


def bind(address: int, nbytes: int, node: int) -> None:
    """Let whole pages that nobody touched yet come from `node` alone. Raises DeviceError if the kernel won't."""
    number = _MBIND.get(platform.machine())
    if number is None:
        raise DeviceError(f"mbind on {platform.machine()}: the number of that system call is not known here")
    bits = ctypes.sizeof(ctypes.c_ulong) * 8
    mask = (ctypes.c_ulong * (node // bits + 1))()
    mask[node // bits] = 1 << node % bits
    most = ctypes.c_ulong(len(mask) * bits + 1)  # the kernel reads one bit less
    if _libc.syscall(number, ctypes.c_void_p(address), ctypes.c_ulong(nbytes), _BIND, mask, most, 0):
        reason = os.strerror(ctypes.get_errno())
        raise DeviceError(f"mbind of {nbytes} bytes to NUMA node {node}: {reason} (a container needs CAP_SYS_NICE)")


def _node_of(cpu: int, root: Path) -> int | None:
    nodes = (node for node in _numbers(root / "online") if cpu in _numbers(root / f"node{node}" / "cpulist"))
    return next(nodes, None)


def _numbers(path: Path) -> list[int]:
    """The numbers of a list as the kernel writes it, "0-3,8"; none where the file is missing or empty."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return []
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
