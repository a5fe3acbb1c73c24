"""The case that is running, on disk: it survives the device process, the worker and the server.

One file a device process, mapped shared; its blocks are allocated ahead, so that a full disk is an error at the start
and never a SIGBUS in the middle. Two slots, so that the case before the running one can be named too, and a third for
requests that are no case, so that they don't take its place.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

SLOT_BYTES = 4 << 20
# running slot or -1, cases begun, ticket, begun, deadline, lengths of the three slots, other requests begun
_HEAD = struct.Struct("<iiqddiiii")
_BESIDE = 2  # the slot of requests that are no case
_SLOTS = (SLOT_BYTES, SLOT_BYTES, 64 << 10)
_RUNNING = struct.Struct("<i")  # the first field of the head
_WORKER = struct.Struct("<64s")
_FIRST = 256


@dataclass(frozen=True)
class Entry:
    """What a journal holds."""

    running: bool
    worker: str
    ticket: int
    begun: float  # monotonic seconds
    deadline: float  # monotonic seconds
    text: str
    previous: str
    cases: int  # begun
    others: int  # other requests begun


class Journal:
    """One journal file. Raises OSError when it can't be made (full disk, unwritable folder)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size = _FIRST + sum(_SLOTS)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        if not any(self._map[: _HEAD.size]):
            self.clear()

    def begin(self, worker: str, ticket: int, text: str, deadline_seconds: float, case: bool = True) -> None:
        """Note that a request begins. `text` beyond the slot's size is cut."""
        _, cases, _, _, _, *lengths, others = _HEAD.unpack_from(self._map)
        cases, others = cases + case, others + (not case)
        slot = cases % 2 if case else _BESIDE
        data = text.encode()[: _SLOTS[slot]]
        start = _FIRST + slot * SLOT_BYTES
        self._map[start : start + len(data)] = data
        lengths[slot] = len(data)
        _WORKER.pack_into(self._map, 128, worker.encode()[:64])
        now = time.monotonic()
        head = _HEAD.pack(slot, cases, ticket, now, now + deadline_seconds, *lengths, others)
        self._map[_RUNNING.size : _HEAD.size] = head[_RUNNING.size :]
        self._map[: _RUNNING.size] = head[: _RUNNING.size]  # last: who sees it running sees its deadline

    def end(self) -> None:
        """Note that the request ended."""
        self._map[: _RUNNING.size] = _RUNNING.pack(-1)

    def overdue(self) -> bool:
        """Whether a request is running past its deadline."""
        slot, _, _, _, deadline, *_ = _HEAD.unpack_from(self._map)
        return bool(slot >= 0 and time.monotonic() > deadline)

    def read(self) -> Entry:
        """What the journal holds now."""
        slot, cases, ticket, begun, deadline, *lengths, others = _HEAD.unpack_from(self._map)
        worker = _WORKER.unpack_from(self._map, 128)[0].rstrip(b"\0").decode(errors="replace")
        texts = [
            self._map[_FIRST + i * SLOT_BYTES : _FIRST + i * SLOT_BYTES + lengths[i]].decode(errors="replace")
            for i in range(3)
        ]
        latest, before = texts[cases % 2], texts[1 - cases % 2]
        text, previous = (texts[_BESIDE], latest) if slot == _BESIDE else (latest, before)
        return Entry(slot >= 0, worker, ticket, begun, deadline, text, previous, cases, others)

    def clear(self) -> None:
        """Forget everything: a new process begins."""
        _HEAD.pack_into(self._map, 0, -1, 0, 0, 0.0, 0.0, 0, 0, 0, 0)

    def close(self) -> None:
        self._map.close()
