"""Host memory mapped with intent: fenced on both ends, sparse, shared, huge, write-protected.

Every mapping starts as a `Span`: reserved addresses without memory behind them, so that touching them faults. Windows
of a span are then backed with memory of one kind; what stays unbacked is the fence. Python's own `mmap` can't place
one mapping beside another, hence the C library. Registration with a driver is not done here.

Nothing is left behind: shared memory is a file without a name. Linux only.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from backends.contract import DeviceError
from backends.platforms.memory import numa

PAGE = os.sysconf("SC_PAGE_SIZE")
FENCE = 2 << 20  # bytes of unmapped addresses on either side of a span: more than a kernel's widest stray chunk
SHM = Path("/dev/shm")

_NONE, _READ, _WRITE = 0, 1, 2
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS, _NORESERVE, _HUGETLB = 0x01, 0x02, 0x10, 0x20, 0x4000, 0x40000
_POPULATE_WRITE = 23  # madvise: fault the pages in now, with an error instead of a signal (Linux 5.14)
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap, _mprotect, _madvise = _libc.munmap, _libc.mprotect, _libc.madvise
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_mprotect.argtypes = _madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

Extents = Iterable[tuple[int, int]]


class Span:
    """`nbytes` reserved addresses from `address` (a multiple of `align`), with at least `FENCE` more on either side.

    Nothing may be read or written until a window is backed. Raises DeviceError when the addresses can't be had.
    """

    def __init__(self, nbytes: int, align: int = PAGE) -> None:
        align = max(align, PAGE)
        self.nbytes = round_up(nbytes, PAGE)
        self._length = self.nbytes + 2 * FENCE + align
        self._base = _map(0, self._length, _NONE, _PRIVATE | _ANONYMOUS | _NORESERVE, "reserving addresses")
        self.address = round_up(self._base + FENCE, align)
        self._file: int | None = None

    def back(self, extents: Extents) -> None:
        """Put private anonymous memory, zeroed, behind the windows `extents`: (offset, nbytes), whole pages."""
        for offset, nbytes in extents:
            self._protect(offset, nbytes, _READ | _WRITE)

    def back_shared(self, extents: Extents) -> None:
        """Put shared memory of a nameless tmpfs file behind the windows `extents`, whole pages.

        Raises DeviceError with the bytes needed and free when /dev/shm is too small: touching what it can't hold
        would kill the process."""
        extents = list(extents)
        need = sum(nbytes for _, nbytes in extents)
        _require_shm(need)
        file = self._file = _nameless_file()
        os.ftruncate(file, self.nbytes)
        for offset, nbytes in extents:
            try:
                os.posix_fallocate(file, offset, nbytes)
            except OSError as error:
                raise DeviceError(f"shared memory: {need} bytes not granted by {SHM} ({error.strerror})") from error
            self._map_over(offset, nbytes, _SHARED, "mapping shared memory", file, offset)

    def back_huge(self, extents: Extents) -> None:
        """Put explicit huge pages behind the windows `extents`, whole huge pages at multiples of them.

        Raises DeviceError when the machine has too few free."""
        for offset, nbytes in extents:
            what = f"mapping huge pages ({nbytes} bytes; see HugePages_Free in /proc/meminfo, vm.nr_hugepages)"
            self._map_over(offset, nbytes, _PRIVATE | _ANONYMOUS | _HUGETLB, what)
            self._populate(offset, nbytes, what)

    def back_on_node(self, extents: Extents, node: int) -> None:
        """Put private anonymous memory of one NUMA node behind the windows `extents`, whole pages.

        Raises DeviceError when the kernel won't bind it, or when the node has too little."""
        for offset, nbytes in extents:
            self._protect(offset, nbytes, _READ | _WRITE)
            numa.bind(self.address + offset, nbytes, node)
            self._populate(offset, nbytes, f"memory of NUMA node {node} ({nbytes} bytes)")

    def write_protect(self, extents: Extents, read_only: bool) -> None:
        """Forbid (or allow again) writes to backed windows: a write to a protected page faults."""
        for offset, nbytes in extents:
            self._protect(offset, nbytes, _READ if read_only else _READ | _WRITE)

    def close(self) -> None:
        """Give addresses and memory back. Closing twice does nothing."""
        if self._length:
            _munmap(self._base, self._length)
            self._length = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _populate(self, offset: int, nbytes: int, what: str) -> None:
        """Fault pages in; a kernel that can't do it (before 5.14) lets the first touch show."""
        if _madvise(self.address + offset, nbytes, _POPULATE_WRITE) and ctypes.get_errno() != errno.EINVAL:
            raise DeviceError(f"{what}: {os.strerror(ctypes.get_errno())}")

    def _map_over(self, offset: int, nbytes: int, flags: int, what: str, file: int = -1, at: int = 0) -> None:
        _map(self.address + offset, nbytes, _READ | _WRITE, flags | _FIXED, what, file, at)

    def _protect(self, offset: int, nbytes: int, protection: int) -> None:
        if _mprotect(self.address + offset, nbytes, protection):
            reason = os.strerror(ctypes.get_errno())
            raise DeviceError(f"mprotect of {nbytes} bytes at offset {offset} of a span of {self.nbytes}: {reason}")


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def windows(extents: Extents, granule: int, span: int) -> list[tuple[int, int]]:
    """`extents` (offset, nbytes) rounded out to granules, merged where they touch, ascending.

    Raises ValueError for an extent that is empty or not inside `span` bytes."""
    rounded: list[list[int]] = []
    for offset, nbytes in sorted(extents):
        if nbytes <= 0 or offset < 0 or offset + nbytes > span:
            raise ValueError(f"extent ({offset}, {nbytes}) is not inside a span of {span} bytes")
        start, end = offset // granule * granule, round_up(offset + nbytes, granule)
        if rounded and start <= rounded[-1][1]:
            rounded[-1][1] = max(rounded[-1][1], end)
        else:
            rounded.append([start, end])
    return [(start, end - start) for start, end in rounded]


def huge_page_bytes() -> int:
    """The size of an explicit huge page here, from /proc/meminfo; 0 if the kernel has none."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("Hugepagesize:"):
            return int(line.split()[1]) << 10
    return 0


def _map(address: int, nbytes: int, protection: int, flags: int, what: str, file: int = -1, at: int = 0) -> int:
    mapped = _mmap(address, nbytes, protection, flags, file, at)
    if mapped == _FAILED or mapped is None:
        raise DeviceError(f"{what}: mmap of {nbytes} bytes failed: {os.strerror(ctypes.get_errno())}")
    return int(mapped)


def _require_shm(need: int) -> None:
    if not SHM.is_dir():
        return
    free = os.statvfs(SHM)
    available = free.f_bavail * free.f_frsize
    if need > available:
        raise DeviceError(
            f"{SHM} is too small: {need} bytes needed, {available} free. Remove what fills it, or enlarge it "
            "(docker: --shm-size, mount: -o remount,size=...)"
        )


def _nameless_file() -> int:
    """A file on tmpfs that has no name, or where there is no /dev/shm the kernel's own equivalent."""
    if SHM.is_dir():
        try:
            return os.open(SHM, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DeviceError(f"a file in {SHM} for shared memory: {error.strerror}") from error
    return os.memfd_create("kvconform", os.MFD_CLOEXEC)
