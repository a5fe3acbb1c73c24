"""A backend to start from. It copies on the CPU only, so it runs anywhere; your driver's call goes into `_enqueue`.

The suite asks three things of a backend: what it can't do (`support`), the copy itself, and which path it took.
"""

from __future__ import annotations

import ctypes

import torch

from backends.contract import Device, Refused, Support
from backends.descriptors import Descriptors, check
from backends.drivers import cpu_stream

WORD = 8  # bytes: an example of a limit


class AcmeCopy:
    """Copies whole words."""

    name = "acme_copy"

    def support(self, device: Device) -> Support:
        """What can't be done on `device`. Everything that is not declared here is tried, and must work."""
        if device.platform != "cpu":
            return Support(unavailable=f"the template copies on the CPU only, this is {device.platform}")
        return Support(size_multiple=WORD)

    def copy(
        self,
        src_ptrs: torch.Tensor,
        dst_ptrs: torch.Tensor,
        sizes: torch.Tensor,
        is_src_access_order_any: bool = False,
    ) -> None:
        """Check, refuse what is declared unsupported, then enqueue. Nothing is written before both are done."""
        descriptors = check(src_ptrs, dst_ptrs, sizes)
        off = descriptors.sizes[descriptors.sizes % WORD != 0]
        if len(off):
            raise Refused(f"size {off[0]} is not a multiple of {WORD}")
        self._enqueue(descriptors)  # they are a copy: the caller may overwrite its tensors once this returns

    def path(self) -> str:
        """The path that the latest `copy` took; where you have several, say which."""
        return "memmove"

    def _enqueue(self, descriptors: Descriptors) -> None:
        """Copy on the current stream, after what is on it already, without waiting for it."""

        def work() -> None:
            for source, destination, size in descriptors.rows():
                ctypes.memmove(destination, source, size)

        cpu_stream.current().submit(work)
