"""Local sockets in Linux's abstract namespace: no file to leak, no path that can be too long, same user only."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
from multiprocessing.connection import Connection

BACKLOG = 256


class NoLocalSockets(RuntimeError):
    """This operating system has no abstract sockets; the text says what to do."""


def new_address() -> str:
    """An address nobody else has."""
    if not sys.platform.startswith("linux"):
        raise NoLocalSockets(
            f"device processes need Linux (fork and abstract sockets), this is {sys.platform}; use --isolation none"
        )
    return f"\0kvconform-{os.getpid()}-{secrets.token_hex(8)}"


def listen(address: str) -> socket.socket:
    """A listening socket at `address`, not blocking."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> Connection | None:
    """The next connection, or None if there is none or it is another user's."""
    try:
        peer, _ = listener.accept()
    except (BlockingIOError, ConnectionAbortedError):
        return None
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid != os.getuid():
        peer.close()
        return None
    peer.setblocking(True)
    return Connection(peer.detach())


def connect(address: str) -> Connection:
    """Connect to a listener. Raises ConnectionRefusedError if nobody listens."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        peer.connect(address)
    except OSError:
        peer.close()
        raise
    return Connection(peer.detach())
