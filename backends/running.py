"""Which platform this process copies on: cuda, rocm, xpu or cpu.

Backends have one code path a platform and ask here which one applies. A process that opens a device says so with
`use_platform`; otherwise the answer is what torch was built for and finds on this machine. Nothing here initialises a
device.
"""

from __future__ import annotations

from functools import cache

_chosen: str | None = None


def use_platform(name: str | None) -> None:
    """Copy on this platform from now on, whatever else the machine has (a CPU run on a machine with a GPU, say).

    None returns to what torch finds."""
    global _chosen
    _chosen = name


def platform() -> str:
    """The platform in use."""
    return _chosen or _found()


@cache
def _found() -> str:
    import torch

    if torch.cuda.is_available():
        return "rocm" if torch.version.hip else "cuda"
    if torch.xpu.is_available():
        return "xpu"
    return "cpu"
