"""A GPU that is not there: a stand-in for the driver's library over real host memory, and one for torch.

The library keeps the driver's books (reservations, mappings, registrations) and refuses what breaks their rules with
error 1, as the real one does. Enqueued copies wait for `synchronize`. It says nothing about how a real driver behaves
beyond that.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch as real_torch

from backends.contract import DeviceError
from backends.drivers.memory import SIGNATURES
from backends.platforms.memory.hostmap import Span

GRANULE = 64 << 10
INVALID, OUT_OF_MEMORY = 1, 2


class FakeLibrary:
    """Functions named by `symbols` (role -> name), as ctypes would offer them."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self.reservations: dict[int, tuple[Span, int]] = {}
        self.handles: dict[int, int] = {}
        self.maps: dict[int, tuple[int, int]] = {}
        self.allowed: set[int] = set()
        self.registered: dict[int, int] = {}
        self.outside: dict[int, int] = {}  # device memory that torch allocated
        self.failing: dict[str, int] = {}  # role -> code
        self.queue: list[tuple[int, int, int, int]] = []  # destination, source, bytes, stream
        self.alias = 0  # what device addresses of registered memory are off by
        self.version = 13000
        self._number = itertools.count(1)
        for role in SIGNATURES:
            setattr(self, symbols[role], self._function(role))

    @property
    def empty(self) -> bool:
        """Whether everything was given back."""
        return not (self.reservations or self.handles or self.maps or self.registered)

    def _function(self, role: str) -> Any:
        act = getattr(self, f"_{role}")

        def call(*arguments: Any) -> int:
            if len(arguments) != len(SIGNATURES[role]):
                raise TypeError(f"{role}: {len(arguments)} arguments")
            return self.failing.get(role) or act(*arguments) or 0

        return call

    def _reserve(self, out: Any, nbytes: int, align: int, at: int, flags: int) -> int | None:
        try:
            span = Span(nbytes, GRANULE)
        except DeviceError:
            return OUT_OF_MEMORY
        self.reservations[span.address] = span, nbytes
        out._obj.value = span.address
        return None

    def _free_addresses(self, address: int, nbytes: int) -> int | None:
        span, reserved = self.reservations.get(address, (None, 0))
        if span is None or nbytes != reserved or any(address <= at < address + nbytes for at in self.maps):
            return INVALID
        del self.reservations[address]
        span.close()
        return None

    def _create(self, out: Any, nbytes: int, properties: Any, flags: int) -> int | None:
        wanted = properties._obj
        if nbytes % GRANULE or (wanted.type, wanted.location.type, wanted.location.id) != (1, 1, 0):
            return INVALID
        out._obj.value = next(self._number)
        self.handles[out._obj.value] = nbytes
        return None

    def _release(self, handle: int) -> int | None:
        return None if self.handles.pop(handle, 0) else INVALID

    def _map(self, address: int, nbytes: int, offset: int, handle: int, flags: int) -> int | None:
        if address % GRANULE or self.handles.get(handle) != nbytes:
            return INVALID
        for base, (span, reserved) in self.reservations.items():
            if base <= address and address + nbytes <= base + reserved:
                span.back([(address - base, nbytes)])
                self.maps[address] = nbytes, handle
                return None
        return INVALID

    def _unmap(self, address: int, nbytes: int) -> int | None:
        return None if self.maps.pop(address, (0, 0))[0] == nbytes else INVALID

    def _set_access(self, address: int, nbytes: int, access: Any, count: int) -> int | None:
        if self.maps.get(address, (0, 0))[0] != nbytes or access._obj.flags != 3 or count != 1:
            return INVALID
        self.allowed.add(address)
        return None

    def _granularity(self, out: Any, properties: Any, option: int) -> None:
        out._obj.value = GRANULE

    def _register(self, address: int, nbytes: int, flags: int) -> int | None:
        if address % 4096 or nbytes % 4096 or address in self.registered:
            return INVALID
        self.registered[address] = nbytes
        return None

    def _unregister(self, address: int) -> int | None:
        return None if self.registered.pop(address, 0) else INVALID

    def _device_pointer(self, out: Any, address: int, flags: int) -> int | None:
        out._obj.value = address + self.alias
        return None if address in self.registered else INVALID

    def _to_device(self, address: int, host: int, nbytes: int) -> int | None:
        return self._move(address, host, nbytes) if self._on_device(address, nbytes) else INVALID

    def _to_host(self, host: int, address: int, nbytes: int) -> int | None:
        return self._move(host, address, nbytes) if self._on_device(address, nbytes) else INVALID

    def _to_device_async(self, address: int, host: int, nbytes: int, stream: int) -> int | None:
        if not self._on_device(address, nbytes):
            return INVALID
        self.queue.append((address, host, nbytes, stream))
        return None

    def _to_host_async(self, host: int, address: int, nbytes: int, stream: int) -> int | None:
        if not self._on_device(address, nbytes):
            return INVALID
        self.queue.append((host, address, nbytes, stream))
        return None

    def _synchronize(self) -> None:
        self.finish(lambda stream: True)

    def finish(self, which: Callable[[int], bool]) -> None:
        """Do what is enqueued on the streams for which `which` is true."""
        waiting, self.queue = self.queue, []
        for destination, source, nbytes, stream in waiting:
            if which(stream):
                self._move(destination, source, nbytes)
            else:
                self.queue.append((destination, source, nbytes, stream))

    def _attribute(self, out: Any, attribute: int, device: int) -> None:
        out._obj.value = 0

    def _driver_version(self, out: Any) -> None:
        out._obj.value = self.version

    def _on_device(self, address: int, nbytes: int) -> bool:
        known = {at: size for at, (size, _) in self.maps.items() if at in self.allowed} | self.outside
        return any(at <= address and address + nbytes <= at + size for at, size in known.items())

    @staticmethod
    def _move(destination: int, source: int, nbytes: int) -> None:
        ctypes.memmove(destination, source, nbytes)


class FakeCuda(FakeLibrary):
    """What only CUDA's driver offers."""

    form: str | None = "cuMemcpyBatchAsync"

    def __init__(self, symbols: Mapping[str, str]) -> None:
        super().__init__(symbols)
        self.asked: list[tuple[bytes, int]] = []
        self.cuGetErrorName = lambda code, out: self._say(out, {1: b"CUDA_ERROR_INVALID_VALUE"}.get(code))
        self.cuGetErrorString = lambda code, out: self._say(out, {1: b"invalid argument"}.get(code))
        self.cuGetProcAddress_v2 = lambda *arguments: self._find(*arguments)

    def _find(self, symbol: bytes, out: Any, version: int, flags: int, status: Any) -> int:
        self.asked.append((symbol, version))
        out._obj.value = 0x1000 if self.form else None
        return 0

    @staticmethod
    def _say(out: Any, text: bytes | None) -> int:
        out._obj.value = text
        return 0


class FakeHip(FakeLibrary):
    """What only HIP's runtime offers."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        super().__init__(symbols)
        self.last = 0
        self.hipGetErrorName = lambda code: {1: b"hipErrorInvalidValue"}.get(code, b"hipErrorUnknown")
        self.hipGetErrorString = lambda code: {1: b"invalid argument"}.get(code, b"unknown error")
        self.hipGetLastError = lambda: self.last


class FakeTorch:
    """The corners of torch that an opened GPU uses. Its device memory is host memory that the library is told of."""

    uint8 = real_torch.uint8
    __version__ = "2.11.0+fake"

    def __init__(self, library: FakeLibrary) -> None:
        self.library = library
        self.slept: list[int] = []
        self.handles = itertools.count(0x5EED)
        self.current = SimpleNamespace(cuda_stream=0)
        self.cuda = SimpleNamespace(
            set_device=lambda index: None,
            synchronize=lambda index: None,
            Stream=lambda index: self._new_stream(),
            default_stream=lambda index: SimpleNamespace(cuda_stream=0),
            ExternalStream=lambda handle, device: SimpleNamespace(cuda_stream=handle),
            current_stream=lambda index: self.current,
            stream=self._stream,
            Event=lambda enable_timing: SimpleNamespace(
                record=lambda: None, synchronize=lambda: None, elapsed_time=lambda end: 1.0
            ),
            _sleep=self.slept.append,
            get_device_properties=lambda index: SimpleNamespace(
                name="Fake GPU", major=9, minor=0, uuid="GPU-1234", total_memory=1 << 30
            ),
        )

    def _new_stream(self) -> SimpleNamespace:
        handle = next(self.handles)
        return SimpleNamespace(
            cuda_stream=handle, synchronize=lambda: self.library.finish(lambda stream: stream == handle)
        )

    def empty(self, nbytes: int, dtype: Any = None, device: str | None = None, pin_memory: bool = False) -> Any:
        tensor = real_torch.empty(nbytes, dtype=dtype or self.uint8)
        if device:
            self.library.outside[tensor.data_ptr()] = nbytes
        return tensor

    @contextmanager
    def _stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before
