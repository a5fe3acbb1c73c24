"""What the CUDA batch copy says to the driver, on a stand-in for the driver."""

from __future__ import annotations

import pytest
import torch
from fake_drivers import CONTEXT, SIDE, FakeCuda

from backends.contract import DeviceError
from backends.copies.batch_dma.cuda import CudaBatch
from backends.descriptors import Descriptors, check
from backends.drivers.cuda import CudaDriver

STREAM = 0xABC0


def batch(library: FakeCuda, stream: int = STREAM, device: int = 0) -> CudaBatch:
    return CudaBatch(CudaDriver(library), lambda: (stream, device))


def three(*, hole: bool = False) -> Descriptors:
    """Three entries; with a hole, an entry of size zero lies before them."""
    zero = [0] * hole
    return check(*map(torch.tensor, ([*zero, 100, 200, 300], [*zero, 1000, 2000, 3000], [*zero, 1, 2, 3])))


ARRAYS = ([1000, 2000, 3000], [100, 200, 300], [1, 2, 3])


@pytest.mark.parametrize(
    ("version", "asked", "arguments"),
    [(13000, 13000, 8), (13010, 13000, 8), (12090, 12080, 9), (12080, 12080, 9)],
)
def test_form_follows_the_driver_version(version: int, asked: int, arguments: int) -> None:
    """A driver asked for a form newer than itself would hand out an older one, so the version decides."""
    library = FakeCuda(version)
    assert batch(library).submit(three(), False) == f"cuMemcpyBatchAsync/{arguments}"
    assert library.named("entry") == [(b"cuMemcpyBatchAsync", asked, 0)]
    assert library.named("batch") == [(*ARRAYS, (1, 0, 0), [0], STREAM)]


@pytest.mark.parametrize("version", [13000, 12080])
def test_access_order(version: int) -> None:
    """ANY is 3, STREAM is 1; one set of attributes for the whole batch."""
    library = FakeCuda(version)
    batch(library).submit(three(), True)
    assert library.named("batch") == [(*ARRAYS, (3, 0, 0), [0], STREAM)]


@pytest.mark.parametrize("legacy", [0, 1])
def test_legacy_stream_is_forked_and_joined(legacy: int) -> None:
    """The side stream waits for the legacy one, takes the batch, and is waited for; it is made once a device."""
    library = FakeCuda(13000)
    copier = batch(library, legacy)
    assert copier.submit(three(), False) == "cuMemcpyBatchAsync/8 on a side stream"
    copier.submit(three(), False)
    assert library.named("stream") == [(1,)]
    assert [call for call in library.calls if call[0] in ("record", "wait", "batch")] == 2 * [
        ("record", 0xE1, legacy),
        ("wait", SIDE, 0xE1, 0),
        ("batch", *ARRAYS, (1, 0, 0), [0], SIDE),
        ("record", 0xE2, SIDE),
        ("wait", legacy, 0xE2, 0),
    ]


def test_legacy_stream_is_joined_after_an_error() -> None:
    """Part of the batch may be under way."""
    library = FakeCuda(13000)
    library.codes["batch"] = 1
    with pytest.raises(DeviceError, match="INVALID_VALUE"):
        batch(library, 0).submit(three(), False)
    assert library.calls[-1] == ("wait", 0, 0xE2, 0)


def test_old_driver_gets_a_checked_loop() -> None:
    """Each copy by itself, on the legacy stream too."""
    library = FakeCuda(12070)
    assert batch(library, 0).submit(three(), False) == "loop of cuMemcpyAsync"
    assert library.named("copy") == [(1000, 100, 1, 0), (2000, 200, 2, 0), (3000, 300, 3, 0)]
    library.codes["copy"] = 700
    with pytest.raises(DeviceError) as caught:
        batch(library).submit(three(hole=True), False)
    assert str(caught.value) == (
        "cuMemcpyAsync, descriptor 1 (1 bytes from 0x64 to 0x3e8): CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    )


def test_graph_capture_takes_the_loop() -> None:
    """The batch call fails under capture."""
    library = FakeCuda(13000)
    library.capture_status = 1
    assert batch(library).submit(three(), False) == "loop of cuMemcpyAsync (graph capture)"
    assert len(library.named("copy")) == 3


def test_error_names_the_descriptor_where_the_driver_does() -> None:
    """failIdx counts the entries handed over; the text counts the caller's."""
    library = FakeCuda(12080)
    library.codes["batch"], library.fail_index = 1, 2
    with pytest.raises(DeviceError) as caught:
        batch(library).submit(three(hole=True), False)
    assert str(caught.value) == (
        "cuMemcpyBatchAsync, descriptor 3 (3 bytes from 0x12c to 0xbb8): CUDA_ERROR_INVALID_VALUE (1)"
    )


def test_error_without_an_index() -> None:
    """The form of CUDA 13 doesn't tell which."""
    library = FakeCuda(13000)
    library.codes["batch"] = 1
    with pytest.raises(DeviceError, match=r"^cuMemcpyBatchAsync, 3 descriptors: CUDA_ERROR_INVALID_VALUE \(1\)$"):
        batch(library).submit(three(), False)


def test_primary_context_is_made_current_once() -> None:
    """Retained once a device, set only where another is current."""
    library = FakeCuda(13000)
    copier = batch(library, device=2)
    copier.submit(three(), False)
    copier.submit(three(), False)
    assert library.named("retain") == [(2,)]
    assert library.named("set current") == [(CONTEXT + 2,)]


def test_unknown_address_is_host_memory() -> None:
    """Error 1 is the driver's word for memory it doesn't know; any other error is an error."""
    library = FakeCuda(13000)
    driver = CudaDriver(library)
    assert driver.is_device(4096)
    assert library.named("attribute") == [(2, 4096)]
    library.codes["attribute"] = 1
    assert not driver.is_device(4096)
    library.codes["attribute"] = 700
    with pytest.raises(DeviceError, match="cuPointerGetAttribute of 0x1000: CUDA_ERROR_ILLEGAL_ADDRESS"):
        driver.is_device(4096)
