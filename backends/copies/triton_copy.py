"""A Triton kernel that reads and writes raw addresses: compiled on CUDA and ROCm, interpreted on a CPU.

The kernel dereferences host memory, so that memory must have an address on the device; `support` says which kinds do.
The checked descriptors go to the device in one copy of their own before the kernel.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from backends.contract import REGISTERED_MEMORY, Device, Memory, Support
from backends.copies.triton_shapes import Shape, default_shape
from backends.descriptors import Descriptors, IntArray, check
from backends.drivers import cpu_stream
from backends.drivers.pointers import is_device
from backends.running import platform

if TYPE_CHECKING:
    from backends.copies.triton_kernel import Launch

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
        self._captured: list[torch.Tensor] = []  # a graph reads them at every replay
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
            cpu_stream.current().submit(lambda: _interpret(kernel, launches, shape))
            self._path = "Triton kernel, interpreted"
        else:
            for launch in launches:
                kernel.run(launch, self._upload(launch.table, running).data_ptr(), shape)
            self._path = "Triton kernel"
        if launches[-1].alignment == 1:
            self._path += ", bytes" if len(launches) == 1 else ", words and bytes"

    def path(self) -> str:
        """Whether the latest copy was interpreted, and whether it went by words or bytes."""
        return self._path

    def _shape(self, running: str, descriptors: Descriptors) -> Shape:
        into_device, into_host = self._to_device or default_shape(running), self._to_host or default_shape(running)
        if into_device == into_host or running == "cpu":
            return into_host
        return into_device if is_device(int(descriptors.destinations[0])) else into_host

    def _upload(self, table: IntArray, running: str) -> torch.Tensor:
        """The table on the device, once the current stream gets there. Torch's allocators keep its memory, there and
        where it is read from, until the stream is through with it."""
        words = torch.from_numpy(table)
        if running != "xpu" and torch.cuda.is_current_stream_capturing():
            words = words.pin_memory()
            self._captured.append(words)
        elif running != "cuda":  # CUDA has read pageable memory when an asynchronous copy from it returns
            words = words.pin_memory()
        return words.to("xpu" if running == "xpu" else "cuda", non_blocking=True)


def _interpret(kernel: ModuleType, launches: list[Launch], shape: Shape) -> None:
    with _interpreter:
        for launch in launches:
            kernel.run(launch, launch.table.ctypes.data, shape)


@cache
def _kernel(interpreted: bool) -> ModuleType:
    """The module with the kernel, loaded on first use. Raises RuntimeError with what to do where it can't be used."""
    reason = _why_unavailable(interpreted)
    if reason:
        raise RuntimeError(f"triton_copy: {reason}")
    return import_module("backends.copies.triton_kernel")


def _why_unavailable(interpreted: bool) -> str | None:
    """Triton decides when it is imported whether it interprets, so the choice is made here, just before."""
    if interpreted and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    try:
        kernel: Any = import_module("backends.copies.triton_kernel")
    except ImportError as error:
        return f"Triton can't be imported: {error}"
    if interpreted and kernel.COMPILED:
        return "Triton was imported as a compiler, but a CPU needs its interpreter; set TRITON_INTERPRET=1 before"
    if not interpreted and not kernel.COMPILED:
        return "Triton was imported as an interpreter, which can't reach device memory; unset TRITON_INTERPRET"
    return None
