"""The driver's batch copy: all descriptors in one call, moved by copy engines.

One module a platform, loaded when the platform in use is known. What each does where the call is missing, and on
streams that the driver doesn't take, is said in its own docstring and by `path`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from backends.contract import Device, Support
from backends.descriptors import Descriptors, check
from backends.running import platform

if TYPE_CHECKING:
    import torch

_MODULES = {"cuda": "cuda", "rocm": "hip", "xpu": "xpu", "cpu": "cpu"}


class Engine(Protocol):
    """One platform's way to submit a batch."""

    def support(self, device: Device) -> Support:
        """What it can do on `device`."""
        ...

    def submit(self, descriptors: Descriptors, order_any: bool) -> str:
        """Enqueue a batch of one entry or more on the current stream. Returns the path taken."""
        ...


class BatchDma:
    """The batch copy of the platform in use; see `backends.contract.Backend`."""

    name = "batch_dma"

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._path = "nothing copied yet"

    def support(self, device: Device) -> Support:
        """What the platform's batch copy can do."""
        return self._engine(device.platform).support(device)

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """See `backends.contract.Backend.copy`. Raises DeviceError with the driver's error."""
        descriptors = check(src_ptrs, dst_ptrs, sizes)
        self._path = "empty batch"
        if len(descriptors):
            self._path = self._engine(platform()).submit(descriptors, is_src_access_order_any)

    def path(self) -> str:
        """The driver call of the latest copy."""
        return self._path

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            if name not in _MODULES:
                raise LookupError(f"batch_dma has no code for platform {name!r}; it knows {', '.join(_MODULES)}")
            engine: Engine = import_module(f"backends.copies.batch_dma.{_MODULES[name]}").engine()
            self._engines[name] = engine
        return self._engines[name]
