"""Devices as facts, for judging a rule on platforms that are not at hand: what a probe found, or what was reported.

Only `cuda` (one H200) and `cpu` were measured; `rocm` and `xpu` are put together from public reports. A selector that
does not look at a fact is judged with what the device of its platform would have answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backends.contract import HOST_MEMORY, Device, Direction, Memory, Stream
from backends.selection import Facts, facts_on, zero_copy_on

_EVERYTHING = tuple(memory.value for memory in (Memory.DEVICE, *sorted(HOST_MEMORY)))

CUDA = Device(
    platform="cuda",
    index=0,
    name="simulated NVIDIA H200",
    driver="580.159",
    runtime="13.0",
    torch="2.11.0",
    triton="3.6.0",
    memory=_EVERYTHING,
    streams=tuple(stream.value for stream in Stream),
    pageable_access=False,
    registered_address_is_host_address=True,
    batch_api="cuMemcpyBatchAsync/8",
)
ROCM = replace(
    CUDA,
    platform="rocm",
    name="simulated AMD MI300X",
    driver="reported",
    runtime="7.1",
    registered_address_is_host_address=False,
    batch_api="hipMemcpyBatchAsync/9",
)
XPU = replace(
    CUDA,
    platform="xpu",
    name="simulated Intel GPU",
    driver="reported",
    runtime="reported",
    registered_address_is_host_address=False,
    batch_api="swap_blocks_batch/3",
)
CPU = replace(
    CUDA,
    platform="cpu",
    name="simulated CPU",
    driver="measured",
    runtime="none",
    pageable_access=True,
    batch_api="process_vm_readv",
)
DEVICES: Mapping[str, Device] = {device.platform: device for device in (CUDA, ROCM, XPU, CPU)}


def zero_copy(platform: str, memory: Memory) -> bool | None:
    """What a probe of that platform finds about a kernel and this host memory; None where nobody knows."""
    return zero_copy_on(DEVICES[platform], memory) if platform in DEVICES else None


def batch_api(platform: str) -> str | None:
    """The batch copy call of that platform; None where nobody knows one."""
    return DEVICES[platform].batch_api if platform in DEVICES else None


def _load_of_small_pages(device: Device, memory: Memory) -> Facts:
    return facts_on(device, direction=Direction.LOAD, host_memory=memory, page_sizes=(512,), descriptors=64)


KERNEL_LOAD = _load_of_small_pages(CUDA, Memory.PINNED)
"""The plainest copy that the kernel is for."""

ROCM_REGISTERED_LOAD = _load_of_small_pages(ROCM, Memory.REGISTERED)
"""From a registered mapping on ROCm, Triton at hand: through the kernel it faulted (vllm-project/vllm#49843)."""

SEEDS: Mapping[str, Facts] = {"KERNEL_LOAD": KERNEL_LOAD, "ROCM_REGISTERED_LOAD": ROCM_REGISTERED_LOAD}
