"""Stand-ins for driver libraries: they note each call in Python values, and fail where a test says so."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from backends.copies.batch_dma.cuda import Attributes

_P, _N = c_void_p, c_size_t
_PROTOTYPES = {
    8: ctypes.CFUNCTYPE(c_int, _P, _P, _P, _N, _P, _P, _N, _P),
    9: ctypes.CFUNCTYPE(c_int, _P, _P, _P, _N, _P, _P, _N, _P, _P),
}
CONTEXT = 0xC0
SIDE = 0x51DE


def words(address: int | None, count: int) -> list[int]:
    """`count` size_t at `address`."""
    return list((c_size_t * count).from_address(address or 0)) if count else []


class FakeLibrary:
    """Notes calls as (name, ...) in `calls`; `codes` gives a call's return code, else 0."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.codes: dict[str, int] = {}
        self.fail_index: int | None = None  # what a failing batch call reports

    def note(self, name: str, *values: Any) -> int:
        """Note a call and give its return code."""
        self.calls.append((name, *values))
        return self.codes.get(name, 0)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of that name."""
        return [call[1:] for call in self.calls if call[0] == name]

    def note_batch(self, name: str, arrays: tuple[Any, ...], count: int, how: tuple[Any, ...], stream: Any) -> int:
        """`how`: addresses of attributes, of their indices, their number, and of failIdx (0: the form without)."""
        attributes, indices, number, failed = how
        first = Attributes.from_address(attributes) if number else None
        self.note(
            name,
            *(words(array, count) for array in arrays),
            None if first is None else (first.source_access_order, first.flags, first.source_hint.type),
            words(indices, number),
            stream or 0,
        )
        if failed and self.fail_index is not None:
            c_size_t.from_address(failed).value = self.fail_index
        return self.codes.get(name, 0)


class FakeCuda(FakeLibrary):
    """A CUDA driver of `version` whose batch call has the form that the version asks for; 0: it has none."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self._version = version
        self.capture_status = 0
        self.context = 0
        self._events = 0xE0
        self._entries = {
            arguments: _PROTOTYPES[arguments](lambda *given, n=arguments: self._batch(n, given)) for arguments in (8, 9)
        }

    def _batch(self, arguments: int, given: tuple[Any, ...]) -> int:
        assert len(given) == arguments
        *arrays, count, attributes, indices, number = given[:7]
        failed = given[7] if arguments == 9 else 0
        return self.note_batch("batch", tuple(arrays), count, (attributes, indices, number, failed), given[-1])

    def cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = self._version
        return 0

    def cuGetProcAddress_v2(self, symbol: Any, out: Any, version: Any, flags: Any, status: Any) -> int:
        self.note("entry", symbol.value, version.value, flags.value)
        assert version.value <= self._version
        entry = self._entries[8 if version.value >= 13000 else 9]
        out._obj.value = ctypes.cast(entry, c_void_p).value
        status._obj.value = 0
        return 0

    def cuGetErrorName(self, code: Any, out: Any) -> int:
        out._obj.value = {1: b"CUDA_ERROR_INVALID_VALUE", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS"}.get(code.value)
        return 0

    def cuDevicePrimaryCtxRetain(self, out: Any, device: Any) -> int:
        out._obj.value = CONTEXT + device.value
        return self.note("retain", device.value)

    def cuCtxGetCurrent(self, out: Any) -> int:
        out._obj.value = self.context
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.context = context.value
        return self.note("set current", context.value)

    def cuStreamIsCapturing(self, stream: Any, out: Any) -> int:
        out._obj.value = self.capture_status
        return 0

    def cuMemcpyAsync(self, destination: Any, source: Any, size: Any, stream: Any) -> int:
        return self.note("copy", destination.value, source.value, size.value, stream.value or 0)

    def cuStreamCreate(self, out: Any, flags: Any) -> int:
        out._obj.value = SIDE
        return self.note("stream", flags.value)

    def cuEventCreate(self, out: Any, flags: Any) -> int:
        self._events += 1
        out._obj.value = self._events
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        return self.note("record", event.value, stream.value or 0)

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        return self.note("wait", stream.value or 0, event.value, flags.value)

    def cuPointerGetAttribute(self, out: Any, attribute: Any, address: Any) -> int:
        self.note("attribute", attribute.value, address.value)
        out._obj.value = 2
        return self.codes.get("attribute", 0)


class FakeHip(FakeLibrary):
    """A HIP runtime of `version` with the batch call."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self._version = version
        self.memory_type = 2

    def hipRuntimeGetVersion(self, out: Any) -> int:
        out._obj.value = self._version
        return 0

    def hipSetDevice(self, device: Any) -> int:
        return self.note("set device", device.value)

    def hipMemcpyAsync(self, destination: Any, source: Any, size: Any, kind: Any, stream: Any) -> int:
        return self.note("copy", destination.value, source.value, size.value, kind.value, stream.value or 0)

    def hipMemcpyBatchAsync(self, *given: Any) -> int:
        *arrays, count, attributes, indices, number, failed, stream = given
        how = (
            ctypes.addressof(attributes._obj) if attributes else 0,
            ctypes.addressof(indices._obj) if indices else 0,
            number.value,
            ctypes.addressof(failed._obj),
        )
        return self.note_batch("batch", tuple(array.value for array in arrays), count.value, how, stream.value)

    def hipPointerGetAttributes(self, out: Any, address: Any) -> int:
        out._obj.type = self.memory_type
        return self.note("attributes", address.value)

    def hipGetLastError(self) -> int:
        return self.note("last error")


def _hip_error_name(code: Any) -> bytes | None:
    return {1: b"hipErrorInvalidValue", 801: b"hipErrorNotSupported"}.get(code.value)


FakeHip.hipGetErrorName = staticmethod(_hip_error_name)  # type: ignore[attr-defined]
