"""CUDA: found without touching a device, opened through torch.cuda and the driver."""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from functools import cache

from backends.contract import DeviceError
from backends.drivers import cuda_memory
from backends.platforms import device_count, torch_build
from backends.platforms.gpu_device import GpuDevice

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


class CudaPlatform:
    """See the module."""

    name = "cuda"

    def missing(self) -> str | None:
        build = torch_build.torch_build()
        reason = torch_build.why_not_built_for("CUDA", build, build.cuda if build else None)
        if reason:
            return reason
        found = _count()
        if isinstance(found, int) and found > 0:
            return None
        shown = os.environ.get(VISIBLE_VARIABLE)
        hidden = "" if shown is None else f"; {VISIBLE_VARIABLE}={shown!r}"
        return f"no visible CUDA device{hidden}" if found == 0 else f"no CUDA device: {found}{hidden}"

    def device_count(self) -> int:
        found = _count()
        return found if isinstance(found, int) else 0

    def visible_env(self) -> str:
        return VISIBLE_VARIABLE

    def preload(self) -> None:
        importlib.import_module("torch")
        with suppress(ImportError):
            importlib.import_module("triton")

    def open(self, index: int) -> GpuDevice:
        import torch

        if torch.version.cuda is None:
            raise DeviceError(f"torch {torch.__version__} was built without CUDA")
        return GpuDevice(self.name, index, torch, cuda_memory.load(), torch.version.cuda)


def _count() -> int | str:
    return _count_under(os.environ.get(VISIBLE_VARIABLE), os.environ.get("CUDA_DEVICE_ORDER"))


@cache
def _count_under(visible: str | None, order: str | None) -> int | str:
    """One answer of the driver for each state of the environment that changes it; the child inherits it."""
    return device_count.count("libcuda.so.1", "cuInit", "cuDeviceGetCount", "cuGetErrorName")


PLATFORM = CudaPlatform()
