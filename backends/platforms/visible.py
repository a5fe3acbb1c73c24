"""What variables such as CUDA_VISIBLE_DEVICES leave visible, by reading them; no driver is asked.

For platforms whose driver can't be asked cheaply (ROCm, XPU) and for the CPU's own variable. The rules are the ones
CUDA documents and HIP follows: a list of indices or of device ids (or unique beginnings of them), read up to the first
entry that names no device; an empty list hides everything.
"""

from __future__ import annotations

from collections.abc import Sequence


def visible(value: str | None, ids: Sequence[str]) -> list[int]:
    """The indices of the devices that `value` leaves visible, in its order. `ids` holds the id of each device, as
    "GPU-..." or "" where unknown. None: the variable is not set, so all are. A device named twice hides everything."""
    if value is None:
        return list(range(len(ids)))
    chosen: list[int] = []
    for entry in value.split(","):
        index = _index(entry.strip(), ids)
        if index is None:
            break
        chosen.append(index)
    return chosen if len(set(chosen)) == len(chosen) else []


def _index(entry: str, ids: Sequence[str]) -> int | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < len(ids) else None
    if not entry:
        return None
    named = [index for index, each in enumerate(ids) if each.lower().startswith(entry.lower())]
    return named[0] if len(named) == 1 else None
