"""A Triton kernel that reads and writes raw addresses: compiled on CUDA and ROCm, interpreted on a CPU.

The kernel dereferences host memory, so that memory must have an address on the device; `support` says which kinds do.
Descriptors are copied to a staging buffer of this backend's own before the call returns.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from backends import cpu_stream
from backends.contract import REGISTERED_MEMORY, Device, Memory, Support
from backends.descriptors import Descriptors, IntArray, check
from backends.pointers import current_device, is_device
from backends.running import platform
from backends.triton_shapes import Shape, default_shape

if TYPE_CHECKING:
    from backends.triton_kernel import Launch

_PINNED = frozenset({Memory.DEVICE, Memory.PINNED})
_PAGEABLE = frozenset({Memory.PAGEABLE, Memory.SHARED, Memory.READ_ONLY})
_INTERPRETER_COST = 10

# The interpreter patches triton.language for the whole process while a kernel runs.
_interpreter = threading.Lock()


class TritonCopy:
    """The descriptor copy by kernel; see `backends.contract.Backend`."""

    name = "triton_copy"

    def __init__(self, to_device: Shape | None = None, to_host: Shape | None = None) -> None:
        """Launch shapes by where the destination is; None takes the platform's."""
        self._to_device, self._to_host = to_device, to_host
        self._staging: dict[int, Staging] = {}
        self._path = "nothing copied yet"

    def support(self, device: Device) -> Support:
        """Device memory, and the host memory that a kernel may dereference on `device`."""
        interpreted = device.platform == "cpu"
        unavailable = _why_unavailable(interpreted)
        if interpreted:
            return Support(relative_cost=_INTERPRETER_COST, unavailable=unavailable)
        memory = _PINNED
        if device.registered_address_is_host_address:
            memory |= REGISTERED_MEMORY
        if device.pageable_access:
            memory |= _PAGEABLE
        return Support(memory=memory, unavailable=unavailable)

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """See `backends.contract.Backend.copy`. Stream order is always kept, so `is_src_access_order_any` is moot."""
        descriptors = check(src_ptrs, dst_ptrs, sizes)
        self._path = "empty batch"
        if not len(descriptors):
            return
        running = platform()
        kernel = _kernel(running == "cpu")
        shape = self._shape(running, descriptors)
        launches = kernel.plan(descriptors, shape.chunk)
        if running == "cpu":
            tables = [launch.table() for launch in launches]
            cpu_stream.current().submit(lambda: _interpret(kernel, launches, tables, shape))
            self._path = "Triton kernel, interpreted"
        else:
            for launch in launches:
                self._launch(kernel, launch, shape, running)
            self._path = "Triton kernel"
        if any(launch.alignment == 1 for launch in launches):
            self._path += ", bytes" if len(launches) == 1 else ", words and bytes"

    def path(self) -> str:
        """Whether the latest copy was interpreted, and whether it went by words or bytes."""
        return self._path

    def _shape(self, running: str, descriptors: Descriptors) -> Shape:
        on_device = running != "cpu" and is_device(int(descriptors.destinations[0]))
        chosen = self._to_device if on_device else self._to_host
        return chosen or default_shape(running, on_device)

    def _launch(self, kernel: ModuleType, launch: Launch, shape: Shape, running: str) -> None:
        device = current_device()
        accelerator = torch.xpu if running == "xpu" else torch.cuda
        staging = self._staging.setdefault(device.index, Staging(accelerator, _pinned))
        with staging.lock:
            words = 3 * launch.count
            buffer = staging.take(words)
            launch.write_table(buffer.array)
            table = buffer.words
            if shape.table_on_device or running != "cuda":  # elsewhere pinned memory may have another address there
                table = table[:words].to(device, non_blocking=True)
            kernel.run(launch, table.data_ptr(), shape)
            staging.give_back(buffer)


@dataclass(eq=False)
class Buffer:
    """Pinned memory for one launch's descriptors."""

    words: torch.Tensor
    array: IntArray  # the same memory
    event: Any = None  # recorded behind the launch that reads them; None before the first


class Staging:
    """A ring of pinned buffers of one device, made at the first launch. A buffer is used again only when the launch
    that read it is through."""

    SLOTS = 8
    LEAST_WORDS = 3 * 1024

    def __init__(self, accelerator: Any, pinned: Callable[[int], torch.Tensor]) -> None:
        """`accelerator`: torch.cuda or torch.xpu; `pinned(n)`: a pinned tensor of n int64."""
        self.lock = threading.Lock()
        self._accelerator = accelerator
        self._pinned = pinned
        self._ring: deque[Buffer] = deque()
        self._captured: list[Buffer] = []  # a graph reads them at every replay, so they are never used again

    def take(self, words: int) -> Buffer:
        """A buffer of at least so many int64 words that nothing reads any more."""
        if self._capturing():
            return self._new(words)
        if not self._ring:
            self._ring.extend(self._new(self.LEAST_WORDS) for _ in range(self.SLOTS))
        buffer = self._ring.popleft()
        if buffer.event is not None:
            buffer.event.synchronize()
        return buffer if len(buffer.words) >= words else self._new(words)

    def give_back(self, buffer: Buffer) -> None:
        """To be called when the launch that reads `buffer` is enqueued on the current stream."""
        if self._capturing():
            self._captured.append(buffer)
            return
        buffer.event = buffer.event or self._accelerator.Event()
        buffer.event.record()
        self._ring.append(buffer)

    def _new(self, words: int) -> Buffer:
        size = max(self.LEAST_WORDS, 1 << (words - 1).bit_length())
        tensor = self._pinned(size)
        return Buffer(tensor, tensor.numpy())

    def _capturing(self) -> bool:
        asks = getattr(self._accelerator, "is_current_stream_capturing", None)
        return asks is not None and bool(asks())


def _pinned(words: int) -> torch.Tensor:
    return torch.empty(words, dtype=torch.int64, pin_memory=True)


def _interpret(kernel: ModuleType, launches: list[Launch], tables: list[IntArray], shape: Shape) -> None:
    with _interpreter:
        for launch, table in zip(launches, tables, strict=True):
            kernel.run(launch, table.ctypes.data, shape)


def _kernel(interpreted: bool) -> ModuleType:
    """The module with the kernel, loaded on first use. Raises RuntimeError with what to do where it can't be used."""
    reason = _why_unavailable(interpreted)
    if reason:
        raise RuntimeError(f"triton_copy: {reason}")
    return import_module("backends.triton_kernel")


def _why_unavailable(interpreted: bool) -> str | None:
    """Triton decides when it is imported whether it interprets, so the choice is made here, just before."""
    if interpreted and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    try:
        kernel: Any = import_module("backends.triton_kernel")
    except ImportError as error:
        return f"Triton can't be imported: {error}"
    if interpreted and kernel.COMPILED:
        return "Triton was imported as a compiler, but a CPU needs its interpreter; set TRITON_INTERPRET=1 before"
    if not interpreted and not kernel.COMPILED:
        return "Triton was imported as an interpreter, which can't reach device memory; unset TRITON_INTERPRET"
    return None
