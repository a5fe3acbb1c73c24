"""Copies that take their process down, hang, or leave a mess, for the CPU. Right otherwise.

Most do it only where some size is at least `TRIGGER`, so that there is something to shrink.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import torch

from tests.planted.wrong import _move, _rows

TRIGGER = 100  # bytes
LATER = 0.15  # seconds until what comes later comes; less than a clean process waits after its case
Deed = Callable[[], object]


def _then(deed: Deed, always: bool = False) -> Callable[..., None]:
    """A right copy that does `deed` before it returns, where a size is large enough."""

    def copy(s: torch.Tensor, d: torch.Tensor, n: torch.Tensor, is_src_access_order_any: bool = False) -> None:
        rows = _rows(s, d, n)
        _move(rows)
        if always or any(size >= TRIGGER for *_, size in rows):
            deed()

    copy.__doc__ = deed.__doc__
    return copy


def _segfault() -> None:
    ctypes.memset(8, 0, 1)


def _abort() -> None:
    os.write(2, b"double free or corruption (planted)\n")
    os.abort()


def _loop() -> NoReturn:
    while True:
        pass


def _deadlock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _later() -> None:
    threading.Timer(LATER, _segfault).start()


def _exhaust() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(b"\1") * (32 << 20))


def _print_much() -> None:
    for _ in range(8):
        os.write(1, b"a line that nobody asked for\n" * 36_000)
    os.write(2, b"the last words\n")


def _print_much_and_die() -> None:
    _print_much()
    _segfault()


def _threads() -> None:
    for daemon in (True, False):
        threading.Thread(target=time.sleep, args=(3600,), daemon=daemon).start()


def _close_descriptors() -> None:
    os.closerange(0, 1024)


def _fork() -> None:
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)


class _Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds what can't be pickled")
        self.held = lambda: None


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class _Base(BaseException):
    """Not an Exception."""


def _raising(error: BaseException) -> Deed:
    def deed() -> NoReturn:
        raise error

    return deed


segfault = _then(_segfault)
kills_itself = _then(lambda: os.kill(os.getpid(), signal.SIGKILL))
exits = _then(lambda: os._exit(3))
aborts = _then(_abort)
system_exit = _then(lambda: sys.exit("has had enough"))
loop = _then(_loop)
pause = _then(lambda: ctypes.CDLL(None).pause())
pause_with_lock = _then(lambda: ctypes.PyDLL(None).pause())
deadlock = _then(_deadlock)
crashes_later = _then(_later)
exhausts_memory = _then(_exhaust)
prints_much = _then(_print_much)
prints_much_and_dies = _then(_print_much_and_die)
leaves_threads = _then(_threads)
closes_descriptors = _then(_close_descriptors)
leaves_a_process = _then(_fork)
raises_unpicklable = _then(_raising(_Unpicklable()))
raises_unprintable = _then(_raising(_Unprintable()))
raises_base_exception = _then(_raising(_Base("not an Exception at all")))
raises_keyboard_interrupt = _then(_raising(KeyboardInterrupt("pressed by nobody")))
slow = _then(lambda: time.sleep(2 * LATER), always=True)
brief = _then(lambda: time.sleep(0.05), always=True)
