"""The case that is running, on disk: it survives the device process, the worker and the server.

One file a device process, mapped shared; its blocks are allocated ahead, so that a full disk is an error at the start
and never a SIGBUS in the middle. Two slots, so that the request before the running one can be named too.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

SLOT_BYTES = 4 << 20
_HEAD = struct.Struct("<iiqddii")  # running slot or -1, serial, ticket, begun, deadline, length of slot 0, of slot 1
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
    serial: int


class Journal:
    """One journal file. Raises OSError when it can't be made (full disk, unwritable folder)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size = _FIRST + 2 * SLOT_BYTES
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        if not any(self._map[: _HEAD.size]):
            _HEAD.pack_into(self._map, 0, -1, 0, 0, 0.0, 0.0, 0, 0)

    def begin(self, worker: str, ticket: int, text: str, deadline_seconds: float) -> None:
        """Note that a request begins. `text` beyond the slot's size is cut."""
        _, serial, _, _, _, *lengths = _HEAD.unpack_from(self._map)
        slot = (serial + 1) % 2
        data = text.encode()[:SLOT_BYTES]
        start = _FIRST + slot * SLOT_BYTES
        self._map[start : start + len(data)] = data
        lengths[slot] = len(data)
        _WORKER.pack_into(self._map, 128, worker.encode()[:64])
        now = time.monotonic()
        _HEAD.pack_into(self._map, 0, slot, serial + 1, ticket, now, now + deadline_seconds, *lengths)

    def end(self) -> None:
        """Note that the request ended."""
        struct.pack_into("<i", self._map, 0, -1)

    def overdue(self) -> bool:
        """Whether a request is running past its deadline."""
        slot, _, _, _, deadline, _, _ = _HEAD.unpack_from(self._map)
        return bool(slot >= 0 and time.monotonic() > deadline)

    def read(self) -> Entry:
        """What the journal holds now."""
        slot, serial, ticket, begun, deadline, *lengths = _HEAD.unpack_from(self._map)
        latest = serial % 2
        worker = _WORKER.unpack_from(self._map, 128)[0].rstrip(b"\0").decode(errors="replace")
        texts = [
            self._map[_FIRST + i * SLOT_BYTES : _FIRST + i * SLOT_BYTES + lengths[i]].decode(errors="replace")
            for i in range(2)
        ]
        return Entry(slot >= 0, worker, ticket, begun, deadline, texts[latest], texts[1 - latest], serial)

    def clear(self) -> None:
        """Forget everything: a new process begins."""
        _HEAD.pack_into(self._map, 0, -1, 0, 0, 0.0, 0.0, 0, 0)

    def close(self) -> None:
        self._map.close()
