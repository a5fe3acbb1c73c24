"""The reference copy: one tensor view and one `copy_` a descriptor, on any platform that torch knows.

Slow and boring on purpose. Others are measured and checked against what this does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.contract import Device, Memory, Support
from backends.descriptors import Descriptors, check
from backends.drivers import cpu_stream
from backends.drivers.pointers import current_device, tensor_at, view
from backends.running import platform

if TYPE_CHECKING:
    import torch

RELATIVE_COST = 4  # one descriptor takes 26 us on an H200, so a case of thousands takes a tenth of a second


class TorchCopy:
    """`copy_(non_blocking=True)` of one view a descriptor on the current stream; see `backends.contract.Backend`."""

    name = "torch_copy"

    def support(self, device: Device) -> Support:
        """All but copies across the end of a registered range, which drivers of GPUs refuse."""
        if device.platform == "cpu":
            return Support()
        memory = frozenset(Memory) - {Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY}
        return Support(memory=memory, relative_cost=RELATIVE_COST)

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """See `backends.contract.Backend.copy`. Stream order is always kept, so `is_src_access_order_any` is moot."""
        descriptors = check(src_ptrs, dst_ptrs, sizes)
        if platform() == "cpu":
            cpu_stream.current().submit(lambda: _copy_on_host(descriptors))
        else:
            copy_views(descriptors)

    def path(self) -> str:
        """Always the same."""
        return "copy_ of views"


def copy_views(descriptors: Descriptors) -> None:
    """One `copy_` a descriptor on the accelerator's current stream.

    Torch copies between two host tensors at once, on the calling thread. Such entries wait for the stream first, so
    that what they read and overwrite is what the stream left there.
    """
    waited = False
    for source, destination, size in descriptors.rows():
        from_view, to_view = view(source, size), view(destination, size)
        if not waited and from_view.device.type == to_view.device.type == "cpu":
            _wait_for_current_stream()
            waited = True
        to_view.copy_(from_view, non_blocking=True)


def _copy_on_host(descriptors: Descriptors) -> None:
    cpu = current_device()
    for source, destination, size in descriptors.rows():
        tensor_at(destination, size, cpu).copy_(tensor_at(source, size, cpu))


def _wait_for_current_stream() -> None:
    import torch

    stream = torch.xpu.current_stream() if platform() == "xpu" else torch.cuda.current_stream()
    stream.synchronize()
