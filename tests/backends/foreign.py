"""Copy functions with the signatures in use, as other projects would have them. Copies are done at once, by ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from backends.contract import Backend, Device, Support
from backends.copies.torch_copy import TorchCopy

calls: list[tuple[str, Any]] = []


def _move(src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
    for source, destination, size in zip(src.tolist(), dst.tolist(), sizes.tolist(), strict=True):
        ctypes.memmove(destination, source, size)


def with_flag(
    src_ptrs: torch.Tensor, dst_ptrs: torch.Tensor, sizes: torch.Tensor, is_src_access_order_any: bool = False
) -> None:
    """vLLM's."""
    calls.append(("flag", is_src_access_order_any))
    _move(src_ptrs, dst_ptrs, sizes)


def three(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """XPU's."""
    calls.append(("dtype", a.dtype))
    _move(a, b, c)


def with_chunk(
    src: torch.Tensor,
    dst: torch.Tensor,
    n: torch.Tensor,
    is_src_access_order_any: bool = False,
    *,
    bytes_per_chunk: int,
) -> None:
    """vLLM's Triton copy."""
    calls.append(("chunk", bytes_per_chunk))
    _move(src, dst, n)


def with_optional_chunk(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor, bytes_per_chunk: int = 4) -> None:
    """A default is the function's own choice."""
    calls.append(("chunk", bytes_per_chunk))


def with_direction(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, direction: int) -> None:
    """Ascend's."""
    calls.append(("direction", direction))


def with_stream(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor, stream: int) -> None:
    """Nobody's."""


def flag_by_position(a: Any, b: Any, c: Any, is_src_access_order_any: bool, /) -> None:
    """Can't be called safely."""


def two(a: Any, b: Any) -> None:
    """Too few."""


def anything(*args: Any, **kwargs: Any) -> None:
    """A wrapper without a signature of its own."""
    calls.append(("anything", (len(args), kwargs)))
    _move(*args)


def fails(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor) -> None:
    """Raises from the call."""
    raise ArithmeticError("no luck")


def declared(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor) -> None:
    """Declares a limit."""


declared.kvconform_support = Support(size_multiple=8)  # type: ignore[attr-defined]


def declared_by_device(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor) -> None:
    """Declares a limit of a device."""


def _limits(device: Device) -> Support:
    return Support(max_descriptors=7 if device.platform == "cpu" else None)


declared_by_device.kvconform_support = _limits  # type: ignore[attr-defined]


def declared_wrong(src: torch.Tensor, dst: torch.Tensor, n: torch.Tensor) -> None:
    """Declares something else."""


declared_wrong.kvconform_support = {"size_multiple": 8}  # type: ignore[attr-defined]


def swap(src: torch.Tensor, dst: torch.Tensor, block_size_in_bytes: int, block_mapping: torch.Tensor) -> None:
    """The older copy, on one size."""
    assert src.shape[1] == dst.shape[1] == block_size_in_bytes
    swap_without_size(src, dst, block_mapping)


def swap_without_size(src: torch.Tensor, dst: torch.Tensor, block_mapping: torch.Tensor) -> None:
    """The older copy where the tensors tell the size."""
    assert block_mapping.dtype is torch.int64
    assert block_mapping.device.type == "cpu"
    calls.append(("swap", (tuple(src.shape), tuple(dst.shape), block_mapping.tolist())))
    for source, destination in block_mapping.tolist():
        dst[destination] = src[source]


class Complete(TorchCopy):
    """A Backend by class."""

    name = "complete"


complete: Backend = Complete()


class Nameless:
    """All of a Backend but its name."""

    def support(self, device: Device) -> Support:
        return Support()

    def copy(self, *args: Any) -> None: ...

    def path(self) -> str:
        return ""


class Unrelated:
    """Not a backend at all."""


number = 3
