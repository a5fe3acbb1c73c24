"""ROCm: found in the kernel's topology files, opened through torch.cuda (which is HIP there) and the HIP runtime.

Written against the documentation of ROCm 6 and 7; not run on a device.
"""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from pathlib import Path

from backends.contract import DeviceError
from backends.drivers import hip_memory
from backends.platforms import torch_build
from backends.platforms.gpu_device import GpuDevice
from backends.platforms.visible import visible

VISIBLE_VARIABLE = "HIP_VISIBLE_DEVICES"
DRIVER = Path("/dev/kfd")
TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


class RocmPlatform:
    """See the module."""

    name = "rocm"

    def missing(self) -> str | None:
        build = torch_build.torch_build()
        reason = torch_build.why_not_built_for("ROCm", build, build.hip if build else None)
        if reason:
            return reason
        if not DRIVER.exists():
            return f"no ROCm driver: {DRIVER} does not exist"
        if self.device_count() == 0:
            return f"no visible ROCm device ({len(_device_ids())} on this machine; {_said()})"
        return None

    def device_count(self) -> int:
        """ROCr hides devices first; HIP's own variable, or CUDA's in its place, chooses among those left."""
        ids = _device_ids()
        left = [ids[index] for index in visible(os.environ.get("ROCR_VISIBLE_DEVICES"), ids)]
        chosen = os.environ.get(VISIBLE_VARIABLE, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return len(visible(chosen, left))

    def visible_env(self) -> str:
        return VISIBLE_VARIABLE

    def preload(self) -> None:
        importlib.import_module("torch")
        with suppress(ImportError):
            importlib.import_module("triton")

    def open(self, index: int) -> GpuDevice:
        import torch

        if torch.version.hip is None:
            raise DeviceError(f"torch {torch.__version__} was built without ROCm")
        return GpuDevice(self.name, index, torch, hip_memory.load(), torch.version.hip)


def _device_ids() -> list[str]:
    """The ids of the GPUs in the kernel's order, as the variables name them. CPUs are nodes too, without a gpu_id."""
    nodes = sorted((node for node in TOPOLOGY.glob("*") if node.name.isdecimal()), key=lambda node: int(node.name))
    return [f"GPU-{_unique_id(node):016x}" for node in nodes if _is_gpu(node)]


def _is_gpu(node: Path) -> bool:
    try:
        return int((node / "gpu_id").read_text(encoding="ascii")) != 0
    except (OSError, ValueError):  # a container may not show every device
        return False


def _unique_id(node: Path) -> int:
    with suppress(OSError, ValueError):
        for line in (node / "properties").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "unique_id":
                return int(value)
    return 0


def _said() -> str:
    names = ("ROCR_VISIBLE_DEVICES", VISIBLE_VARIABLE, "CUDA_VISIBLE_DEVICES")
    said = [f"{name}={os.environ[name]!r}" for name in names if name in os.environ]
    return ", ".join(said) or "no variable hides any"


PLATFORM = RocmPlatform()
