"""Scopes to draw from: machines with and without an accelerator, backends with each kind of limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backends.contract import Device, Direction, Memory, Stream, Support
from strategies.case import Case, Run
from strategies.footprint import destination_footprint, source_footprint
from strategies.scope import Scope

ACCELERATOR = Device(
    platform="cuda",
    index=0,
    name="a GPU",
    driver="1",
    runtime="1",
    torch="2",
    triton="3",
    memory=tuple(kind.value for kind in Memory),
    streams=tuple(kind.value for kind in Stream),
    pageable_access=False,
    registered_address_is_host_address=True,
    batch_api="cuMemcpyBatchAsync/8",
    fences=True,
)
CPU = replace(
    ACCELERATOR,
    platform="cpu",
    memory=("device", "pageable", "shared", "read-only", "huge-pages"),
    streams=("side",),
    pageable_access=True,
)
XPU = replace(ACCELERATOR, platform="xpu", memory=("device", "pinned", "pageable"), streams=("side",), fences=False)

LOADS_AND_STORES = frozenset({Direction.LOAD, Direction.STORE})
KERNEL = Support(
    directions=LOADS_AND_STORES,
    memory=frozenset({Memory.DEVICE, Memory.PINNED, Memory.REGISTERED}),
    size_multiple=8,
    address_multiple=8,
)
DMA = Support(zero_sizes=False, streams=frozenset({Stream.SIDE, Stream.PER_THREAD}), max_descriptors=4096)
OLD_SWAP = Support(uniform_dense=True, zero_sizes=False)
AWKWARD = Support(
    size_multiple=24,
    address_multiple=16,
    max_bytes=100_000,
    max_descriptors=700,
    stream_order=False,
    reuse_descriptors=False,
)

SCOPES: dict[str, Scope] = {
    "accelerator": Scope.of(ACCELERATOR, Support()),
    "accelerator-kernel": Scope.of(ACCELERATOR, KERNEL),
    "accelerator-dma": Scope.of(ACCELERATOR, DMA),
    "accelerator-old-swap": Scope.of(ACCELERATOR, OLD_SWAP),
    "accelerator-awkward": Scope.of(ACCELERATOR, AWKWARD),
    "accelerator-whole-pages": Scope.of(ACCELERATOR, Support(size_multiple=4096, address_multiple=4096)),
    "accelerator-dense-units": Scope.of(
        ACCELERATOR, Support(uniform_dense=True, size_multiple=16, address_multiple=128)
    ),
    "one-descriptor": Scope.of(ACCELERATOR, Support(max_descriptors=1)),
    "loads-only": Scope.of(ACCELERATOR, Support(directions=frozenset({Direction.LOAD}))),
    "cpu": Scope.of(CPU, Support()),
    "cpu-interpreter": Scope.of(CPU, replace(KERNEL, memory=frozenset(Memory), relative_cost=200)),
    "xpu": Scope.of(XPU, Support()),
    "small-budget": Scope.of(CPU, Support(max_bytes=3), budget_bytes=1 << 18),
}


def descriptors(case: Case) -> Iterator[tuple[int, int, int]]:
    """(source, destination, size) of every copied piece, as offsets in the two arenas: plain loops, one by one."""
    bases = zip(case.tensors, source_footprint(case).bases, destination_footprint(case).bases, strict=True)
    for tensor, source_base, destination_base in bases:
        for source, destination in zip(tensor.sources, tensor.destinations, strict=True):
            source_at = source_base + tensor.source.offset(source)
            destination_at = destination_base + tensor.destination.offset(destination)
            for run in tensor.runs or (Run(0, 0, tensor.page_bytes),):
                for piece in range(run.count):
                    yield (
                        source_at + run.source + piece * run.source_step,
                        destination_at + run.destination + piece * run.destination_step,
                        run.nbytes,
                    )
