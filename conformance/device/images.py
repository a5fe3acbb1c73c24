"""A case's images and descriptors in memory that worker and device process share: an anonymous file."""

from __future__ import annotations

import mmap
import os

import numpy as np

from conformance.execution.descriptors import Descriptors
from conformance.judge.fill import Images

ALIGN = 4096


LEAST_BYTES = 1 << 20


class SharedImages:
    """A worker's buffer for both images of a case, grown when a case needs more."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.nbytes = 0
        self._map: mmap.mmap | None = None
        self._older: list[int] = []  # descriptors kept open, so that no new file takes the number of an old one

    def room(self, source_bytes: int, destination_bytes: int, descriptors: int) -> tuple[Images, Descriptors]:
        """Both images and the descriptors as arrays over the buffer, contents arbitrary."""
        needed = _aligned(source_bytes) + _aligned(destination_bytes) + 3 * 8 * descriptors
        if self._map is None or self.nbytes < needed:
            if self.descriptor >= 0:
                self._older.append(self.descriptor)
            self.nbytes = max(LEAST_BYTES, 1 << (needed - 1).bit_length())
            self.descriptor = os.memfd_create("kvconform-images", os.MFD_CLOEXEC)
            os.ftruncate(self.descriptor, self.nbytes)
            self._map = mmap.mmap(self.descriptor, self.nbytes)
        return views(self._map, source_bytes, destination_bytes, descriptors)


def views(buffer: mmap.mmap, source_bytes: int, destination_bytes: int, descriptors: int) -> tuple[Images, Descriptors]:
    """Both images and the descriptors as arrays over a mapped buffer."""
    source = np.frombuffer(buffer, np.uint8, source_bytes)
    at = _aligned(source_bytes)
    destination = np.frombuffer(buffer, np.uint8, destination_bytes, at)
    at += _aligned(destination_bytes)
    columns = np.frombuffer(buffer, np.int64, 3 * descriptors, at).reshape(3, descriptors)
    return Images(source, destination), Descriptors(columns[0], columns[1], columns[2])


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN
