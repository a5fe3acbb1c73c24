"""The Triton copy where the harness does not go: under graph capture."""

from __future__ import annotations

import pytest
import torch

from backends import running
from backends.copies.triton_copy import TritonCopy

PAGE, PAGES = 4096, 64


def test_a_captured_copy_replays_its_own_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies after the capture use descriptors of their own, and the replay copies what the source holds by then."""
    monkeypatch.setattr(running, "_chosen", "cuda")
    host = torch.empty(PAGES, PAGE, dtype=torch.uint8, pin_memory=True).random_()
    device = torch.zeros(PAGES, PAGE, dtype=torch.uint8, device="cuda")
    sizes = torch.full((PAGES,), PAGE)
    pages = torch.arange(PAGES)
    source, forward = host.data_ptr() + pages * PAGE, device.data_ptr() + pages * PAGE
    copy, stream, graph = TritonCopy(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        copy.copy(source, forward, sizes)  # compiles
    stream.synchronize()
    torch.testing.assert_close(device.cpu(), host, rtol=0, atol=0)
    with torch.cuda.graph(graph, stream=stream):
        copy.copy(source, forward.flip(0), sizes)
    with torch.cuda.stream(stream):
        for _ in range(20):
            copy.copy(source, forward, sizes)
    stream.synchronize()
    host.random_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(device.cpu(), host.flip(0), rtol=0, atol=0)
