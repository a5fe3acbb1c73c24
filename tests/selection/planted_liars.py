"""Backends that copy right but say another path than they take, for --backend on a GPU. Each is to be found out."""

from __future__ import annotations

from typing import Any

from backends.contract import Backend, Device, Memory, Support
from backends.copies.batch_dma import BatchDma
from backends.copies.torch_copy import TorchCopy
from backends.copies.triton_copy import TritonCopy

EASY = frozenset({Memory.DEVICE, Memory.PINNED})


class Liar:
    """Copies as `does`, and says `says`."""

    name = "liar"
    says = ""
    does: type[Backend]

    def __init__(self) -> None:
        self._real = self.does()

    def support(self, device: Device) -> Support:
        """Memory that each of them can copy."""
        return Support(memory=EASY & frozenset(map(Memory, device.memory)))

    def copy(self, src_ptrs: Any, dst_ptrs: Any, sizes: Any, is_src_access_order_any: bool = False) -> None:
        self._real.copy(src_ptrs, dst_ptrs, sizes, is_src_access_order_any=is_src_access_order_any)

    def path(self) -> str:
        return self.says


class BatchThatIsAKernel(Liar):
    says, does = "cuMemcpyBatchAsync/8", TritonCopy


class BatchThatLoops(Liar):
    says, does = "cuMemcpyBatchAsync/8", TorchCopy


class KernelThatCopies(Liar):
    says, does = "Triton kernel", BatchDma


class CopiesThatAreAKernel(Liar):
    says, does = "copy_ of views", TritonCopy


class Honest(Liar):
    says, does = "Triton kernel", TritonCopy
