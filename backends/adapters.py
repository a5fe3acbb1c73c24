"""Foreign copy functions as backends: whatever goes by the name swap_blocks_batch, and the older swap_blocks.

Four contracts share the first name, so arguments are chosen by the signature and never by guess: a flag goes by
keyword, a parameter that nothing here can fill is an error that names it. What is certified is the function itself:
descriptors are handed on unchecked, and what it raises is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from backends import signatures
from backends.contract import Device, Direction, Refused, Support
from backends.descriptors import IntArray, check
from backends.drivers import cpu_stream
from backends.drivers.pointers import current_device, is_device, tensor_at
from backends.running import platform
from backends.signatures import Signature, SignatureError

DECLARATION = "kvconform_support"

_FLAG = "is_src_access_order_any"
_CHUNK = "bytes_per_chunk"
_DIRECTION = "direction"
_MOST_CHUNK = 8192  # bytes; and a power of two, as the Triton copy asks
_LEAST_CHUNK = 8
_DIRECTION_CODES = {(False, True): 0, (True, False): 1, (True, True): 2}  # (source, destination on device), Ascend's
_POINTERS = 3


class CallableBackend:
    """A function with the signature of a descriptor copy; see `from_callable`."""

    def __init__(self, function: Callable[..., Any], name: str, signature: Signature) -> None:
        self.name = name
        self._function = function
        self._flag = _FLAG in signature
        self._chunk = any(p.name == _CHUNK and p.required for p in signature.parameters)
        self._direction = _DIRECTION in signature

    def support(self, device: Device) -> Support:
        """What the function's `kvconform_support` says; without one everything, for it is on trial."""
        declared = _declaration(self._function, device)
        if declared is not None:
            return declared
        if not self._direction:
            return Support()
        if device.platform == "cpu":
            return Support(unavailable=f"{self.name} asks for a direction, and CPU addresses don't tell one")
        return Support(directions=frozenset(Direction) - {Direction.HOST_TO_HOST})

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """Call the function; on a CPU in this thread, when the current stream's earlier work is done."""
        keywords: dict[str, Any] = {}
        if self._flag:
            keywords[_FLAG] = is_src_access_order_any
        if self._chunk:
            keywords[_CHUNK] = _chunk(sizes)
        if self._direction:
            keywords[_DIRECTION] = _direction(self.name, src_ptrs, dst_ptrs, sizes)
        tensors: tuple[Any, ...] = (src_ptrs, dst_ptrs, sizes)
        running = platform()
        if running == "xpu" and not self._flag:  # its own contract has no flag, and unsigned addresses
            tensors = tuple(tensor.view(torch.uint64) if _is_int64(tensor) else tensor for tensor in tensors)
        if running == "cpu":
            cpu_stream.current().synchronize()
        self._function(*tensors, **keywords)

    def path(self) -> str:
        """A foreign function doesn't tell."""
        return f"call of {self.name}"


def from_callable(function: Callable[..., Any], name: str) -> CallableBackend:
    """A backend that calls `function(src_ptrs, dst_ptrs, sizes)`, and by keyword what its signature also has:

    - `is_src_access_order_any`: the caller's flag. Without it on XPU the three tensors are viewed as uint64.
    - `bytes_per_chunk`, if required: the next power of two of the largest size, 8192 at most.
    - `direction` (0 to the device, 1 from it, 2 within it): found from the addresses; host to host is refused.

    The function's attribute `kvconform_support`, a Support or a callable from Device to Support, declares its limits.
    Raises SignatureError for a function that asks for anything else.
    """
    signature = signatures.of(function)
    positional = [parameter for parameter in signature.parameters if parameter.by_position]
    if len(positional) < _POINTERS and not signature.any_position:
        raise SignatureError(
            f"{name} takes {len(positional)} positional arguments; src_ptrs, dst_ptrs, sizes are three"
        )
    pointers = {parameter.name for parameter in positional[:_POINTERS]}
    for parameter in signature.parameters:
        if parameter.name in pointers:
            continue
        known = parameter.name in (_FLAG, _CHUNK, _DIRECTION)
        if parameter.required and not known:
            raise SignatureError(f"{name} needs parameter {parameter.name!r}, which a descriptor copy doesn't have")
        if known and not parameter.by_keyword:
            raise SignatureError(f"{name}: parameter {parameter.name!r} can't be given by keyword")
    return CallableBackend(function, name, signature)


class SwapBlocks:
    """The older `swap_blocks(src, dst, block_size_in_bytes, block_mapping)` as a descriptor copy; see `swap_blocks`."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self._function = function
        self._takes_size = len([p for p in signatures.of(function).parameters if p.required]) > _POINTERS

    def support(self, device: Device) -> Support:
        """What the function's `kvconform_support` says; without one, blocks of one size in pools without padding.

        Where there is a device, one of the two sides has to be on it."""
        declared = _declaration(self._function, device)
        if declared is not None:
            return declared
        host_to_host = {Direction.HOST_TO_HOST} if device.platform != "cpu" else set[Direction]()
        return Support(directions=frozenset(Direction) - host_to_host, uniform_dense=True)

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """Turn addresses into block ids and call the function. Raises Refused unless all sizes are equal and the
        addresses of each side lie on one grid of that size."""
        descriptors = check(src_ptrs, dst_ptrs, sizes)
        if not len(descriptors):
            return
        size = int(descriptors.sizes[0])
        if len(descriptors) != len(sizes) or (descriptors.sizes != size).any():
            raise Refused(f"{self.name} copies blocks of one size; these are {torch.unique(sizes).tolist()[:4]}")
        source, source_ids = self._blocks("source", descriptors.sources, size)
        destination, destination_ids = self._blocks("destination", descriptors.destinations, size)
        mapping = torch.from_numpy(np.stack([source_ids, destination_ids], axis=1))
        if platform() == "cpu":
            cpu_stream.current().synchronize()
        self._function(source, destination, *((size,) if self._takes_size else ()), mapping)

    def path(self) -> str:
        """A foreign function doesn't tell."""
        return f"call of {self.name}"

    def _blocks(self, side: str, addresses: IntArray, size: int) -> tuple[torch.Tensor, IntArray]:
        """A 2-D int8 tensor (blocks, size) from the lowest address on, and the block id of each address."""
        base = int(addresses.min())
        ids, off_grid = np.divmod(addresses - base, size)
        if off_grid.any():
            raise Refused(f"{self.name} copies blocks of a grid; {side} addresses are not multiples of {size} apart")
        device = current_device() if is_device(base) else torch.device("cpu")
        count = int(ids.max()) + 1
        return tensor_at(base, count * size, device).view(torch.int8).view(count, size), ids


def swap_blocks(function: Callable[..., Any], name: str | None = None) -> SwapBlocks:
    """A backend from the older block copy, in one line: `backend = swap_blocks(my_swap_blocks)`.

    `function(src, dst, block_size_in_bytes, block_mapping)`: two 2-D int8 tensors (blocks, bytes of a block) over the
    memory of either side, and a (n, 2) int64 CPU tensor of source and destination block ids. A function of three
    parameters, which takes the size from the tensors, is called without it.
    """
    return SwapBlocks(function, name or str(getattr(function, "__name__", "swap_blocks")))


def _declaration(function: Any, device: Device) -> Support | None:
    declared = getattr(function, DECLARATION, None)
    found = declared(device) if callable(declared) else declared
    if found is None or isinstance(found, Support):
        return found
    raise SignatureError(f"{DECLARATION} gives {type(found).__name__}; a Support is needed")


def _is_int64(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.int64


def _chunk(sizes: Any) -> int:
    if not (_is_int64(sizes) and sizes.device.type == "cpu" and sizes.numel()):
        return _MOST_CHUNK  # nothing to go by: the function shall say what it thinks of such sizes
    largest = max(int(sizes.max()), _LEAST_CHUNK)
    return min(1 << (largest - 1).bit_length(), _MOST_CHUNK)


def _direction(name: str, src_ptrs: Any, dst_ptrs: Any, sizes: Any) -> int:
    """The direction that all entries with bytes to copy have. Malformed descriptors are refused here, since no
    direction can be read from them."""
    descriptors = check(src_ptrs, dst_ptrs, sizes)
    kinds = {(is_device(source), is_device(destination)) for source, destination, _ in descriptors.rows()}
    if len(kinds) > 1:
        raise Refused(f"{name} takes one direction for a batch; this one has {len(kinds)}")
    kind = kinds.pop() if kinds else (False, True)
    if kind not in _DIRECTION_CODES:
        raise Refused(f"{name} has no direction code for host to host")
    return _DIRECTION_CODES[kind]
