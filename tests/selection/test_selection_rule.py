"""The built-in rule: the published numbers, the seed case, explicit choices, and what it says to people."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given

from backends.contract import Direction, Memory, Stream
from backends.selection import (
    BACKENDS,
    BATCH_DMA,
    TORCH_COPY,
    TRITON_COPY,
    ChoiceError,
    Facts,
    FactsError,
    choose,
    zero_copy_on,
)
from conformance.selection.simulated import CPU, CUDA, KERNEL_LOAD, ROCM, ROCM_REGISTERED_LOAD, XPU
from strategies.draw.facts import facts


@pytest.mark.parametrize(
    ("pages", "backend", "chunk"),
    [
        ((512,), TRITON_COPY, 512),
        ((520,), TRITON_COPY, 1024),
        ((4096,), TRITON_COPY, 4096),
        ((4104,), TRITON_COPY, 8192),
        ((8192,), TRITON_COPY, 8192),
        ((8200,), TRITON_COPY, 8192),
        ((28664,), TRITON_COPY, 8192),
        ((28671,), BATCH_DMA, None),  # below the threshold, but odd
        ((28672,), BATCH_DMA, None),
        ((28673,), BATCH_DMA, None),
        ((8, 28672), BATCH_DMA, None),
        ((8, 12), BATCH_DMA, None),
        ((8, 520), TRITON_COPY, 1024),
        ((), BATCH_DMA, None),
    ],
    ids=str,
)
def test_published_page_sizes(pages: tuple[int, ...], backend: str, chunk: int | None) -> None:
    """The thresholds of vLLM 0.33, written out as numbers."""
    choice = choose(replace(KERNEL_LOAD, page_sizes=pages))
    assert (choice.backend, choice.bytes_per_chunk) == (backend, chunk)


@pytest.mark.parametrize(
    ("count", "backend"), [(0, BATCH_DMA), (15, BATCH_DMA), (16, TRITON_COPY), (None, TRITON_COPY)]
)
def test_published_number_of_descriptors(count: int | None, backend: str) -> None:
    """Fewer than 16 go to batch DMA; where the number isn't known, it does not speak against the kernel."""
    assert choose(replace(KERNEL_LOAD, descriptors=count)).backend == backend


def test_loads_from_registered_memory_on_rocm_use_batch_dma() -> None:
    """The case that the published fix is about, whether or not a probe has said that a kernel may read there."""
    for zero_copy in (False, None, True):
        assert choose(replace(ROCM_REGISTERED_LOAD, zero_copy=zero_copy)).backend == BATCH_DMA


@pytest.mark.parametrize(
    ("changes", "backend"),
    [
        ({"zero_copy": False}, BATCH_DMA),  # pinned by name, not by nature: what was probed wins
        ({"captured": True}, TRITON_COPY),
        ({"captured": True, "descriptors": 15}, TORCH_COPY),
        ({"captured": True, "direction": Direction.STORE}, TORCH_COPY),
        ({"batch_api": None, "direction": Direction.STORE}, TORCH_COPY),
        ({"stream": Stream.DEFAULT, "direction": Direction.STORE}, BATCH_DMA),
        ({"platform": "cpu"}, BATCH_DMA),
        ({"platform": "cpu", "batch_api": None}, TORCH_COPY),
        ({"platform": "a-new-vendor"}, TORCH_COPY),
        ({"fragment_sizes": (12,), "kernel_any_size": False}, BATCH_DMA),
        ({"fragment_sizes": (12,), "kernel_any_size": True}, TRITON_COPY),
        ({"address_multiple": 4, "kernel_any_size": False}, BATCH_DMA),
        ({"direction": Direction.HOST_TO_HOST}, BATCH_DMA),
        ({"direction": Direction.DEVICE_TO_DEVICE, "host_memory": Memory.DEVICE}, BATCH_DMA),
        ({"host_memory": Memory.REGISTERED_PIECES, "direction": Direction.STORE}, TRITON_COPY),  # only a kernel can
    ],
    ids=str,
)
def test_safety_and_what_is_left(changes: dict[str, object], backend: str) -> None:
    """Facts that rule a path out, and the one that is taken then."""
    assert choose(replace(KERNEL_LOAD, **changes)).backend == backend  # type: ignore[arg-type]


def test_a_copy_that_nothing_can_make_is_refused() -> None:
    """Half registered memory: the driver refuses to cross the registration's end, and a kernel faults behind it."""
    with pytest.raises(ChoiceError, match="no backend can make this copy: not batch_dma: the driver refuses"):
        choose(replace(KERNEL_LOAD, host_memory=Memory.REGISTERED_PARTLY, zero_copy=False))


@given(facts())
def test_explicit_choice_is_met_or_raises(drawn: Facts) -> None:
    """Never another backend, and each error has a reason."""
    for name in (*BACKENDS, "nvlink"):
        try:
            choice = choose(replace(drawn, explicit=name))
        except ChoiceError as error:
            text = str(error)
        else:
            assert choice.backend == name
            continue
        assert name in text
        assert len(text) > 40


def test_explicit_choice_says_why_not() -> None:
    """The text of the error, as a user sees it."""
    with pytest.raises(ChoiceError) as caught:
        choose(replace(KERNEL_LOAD, explicit=TRITON_COPY, zero_copy=False))
    assert str(caught.value) == (
        "triton_copy was asked for by name and can't make this copy: "
        "a kernel was found not to be able to dereference this host memory"
    )
    with pytest.raises(ChoiceError, match="'nvlink' is not a backend this rule chooses from; known: batch_dma, "):
        choose(replace(KERNEL_LOAD, explicit="nvlink"))


@given(facts())
def test_facts_survive_json(drawn: Facts) -> None:
    """A failing selection can be put into a report and replayed."""
    assert Facts.from_json(drawn.to_json()) == drawn


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"host_memory": Memory.DEVICE}, "host_memory: device does not fit direction load"),
        ({"page_sizes": (8, 0)}, r"page_sizes: \[0\], may be 1 byte or more"),
        ({"descriptors": -1}, "descriptors: -1, may be 0 or more"),
        ({"address_multiple": 12}, "address_multiple: 12, may be a power of two"),
        ({"direction": Direction.STORE, "host_memory": Memory.READ_ONLY}, "a store can't write read-only memory"),
        ({"platform": ""}, "platform: empty"),
    ],
    ids=str,
)
def test_impossible_facts_are_refused(changes: dict[str, object], text: str) -> None:
    """What contradicts itself is no fact."""
    with pytest.raises(FactsError, match=text):
        replace(KERNEL_LOAD, **changes)  # type: ignore[arg-type]


def test_json_that_is_no_facts_is_refused() -> None:
    """An unknown field or direction is named."""
    with pytest.raises(FactsError, match="unexpected keyword argument 'colour'"):
        Facts.from_json({**KERNEL_LOAD.to_json(), "colour": "red"})
    with pytest.raises(FactsError, match="'sideways' is not a valid Direction"):
        Facts.from_json({**KERNEL_LOAD.to_json(), "direction": "sideways"})


def test_zero_copy_on_probed_devices() -> None:
    """What follows from a device's probed facts, and what stays unknown."""
    assert zero_copy_on(CUDA, Memory.REGISTERED) is True
    assert zero_copy_on(CUDA, Memory.PAGEABLE) is False
    assert zero_copy_on(replace(CUDA, pageable_access=True), Memory.PAGEABLE) is True
    assert zero_copy_on(CUDA, Memory.REGISTERED_PARTLY) is False
    assert zero_copy_on(ROCM, Memory.PINNED) is True
    assert zero_copy_on(ROCM, Memory.REGISTERED) is False
    assert zero_copy_on(XPU, Memory.PINNED) is None
    assert zero_copy_on(CPU, Memory.SHARED) is True
    assert zero_copy_on(CUDA, Memory.DEVICE) is None


def test_choosing_needs_no_torch() -> None:
    """A process that only draws and judges can ask the rule."""
    modules = "backends.selection, strategies.draw.facts, conformance.selection.properties"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
