"""The images of a case in memory that worker and device process share: an anonymous file, so nothing can leak."""

from __future__ import annotations

import mmap
import os

import numpy as np

from conformance.oracle import Images

ALIGN = 4096


def new_file(nbytes: int) -> int:
    """The descriptor of an anonymous shared-memory file of `nbytes`."""
    descriptor = os.memfd_create("kvconform-images", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, nbytes)
    return descriptor


def capacity(source_bytes: int, destination_bytes: int) -> int:
    """The bytes that a buffer for both images needs."""
    return _aligned(source_bytes) + destination_bytes


def views(buffer: mmap.mmap, source_bytes: int, destination_bytes: int) -> Images:
    """Both images as arrays over the buffer."""
    source = np.frombuffer(buffer, np.uint8, source_bytes)
    return Images(source, np.frombuffer(buffer, np.uint8, destination_bytes, _aligned(source_bytes)))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN
