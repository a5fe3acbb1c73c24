"""Raw addresses: a tensor over one, and whether one is device or host memory.

Nothing is remembered from call to call: memory is unmapped and mapped again between cases, so an answer kept would be
a wrong answer some day.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

import torch
from torch.utils.dlpack import from_dlpack

from backends.drivers.cuda import cuda_driver
from backends.drivers.hip import hip_runtime
from backends.running import platform

_UNSIGNED = 1  # kDLUInt
_DEVICE_TYPES = {"cpu": 1, "cuda": 2, "rocm": 10, "xpu": 14}  # DLDeviceType; rocm is torch's "cuda" on a ROCm build


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor, with the shape that it points to right behind it: one allocation, freed in one piece."""

    _fields_ = (("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p), ("shape", c_int64))


_libc = ctypes.CDLL(None)
_malloc = _libc.malloc
_malloc.restype, _malloc.argtypes = c_void_p, (c_size_t,)
_free = _libc.free
_free.restype, _free.argtypes = None, (c_void_p,)
_FREE_ADDRESS = ctypes.cast(_free, c_void_p).value

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)
_CAPSULE_NAME = b"dltensor"  # a capsule keeps the pointer, so these bytes must outlive it


def tensor_at(address: int, nbytes: int, device: torch.device) -> torch.Tensor:
    """A uint8 tensor of shape (nbytes,) over the memory at `address`, which it neither owns nor checks.

    `device` is where the memory is: "cpu" for every kind of host memory. The memory must outlive the tensor and its
    views. Raises RuntimeError where torch knows better (on XPU an address that is not device memory).
    """
    kind = "rocm" if device.type == "cuda" and torch.version.hip else device.type
    block = _malloc(ctypes.sizeof(_Managed))
    if not block:
        raise MemoryError("no memory for a tensor header")
    managed = _Managed.from_address(block)
    managed.tensor = _DLTensor(
        data=address % (1 << 64),
        device_type=_DEVICE_TYPES[kind],
        device_id=device.index or 0,
        ndim=1,
        code=_UNSIGNED,
        bits=8,
        lanes=1,
        shape=block + _Managed.shape.offset,
        strides=None,
        byte_offset=0,
    )
    managed.context = None
    managed.deleter = _FREE_ADDRESS  # called by torch with the block's own address, from any thread, without Python
    managed.shape = nbytes
    try:
        tensor: torch.Tensor = from_dlpack(_new_capsule(block, _CAPSULE_NAME, None))
    except BaseException:
        _free(block)  # torch calls the deleter only of what it has taken
        raise
    return tensor


def is_device(address: int) -> bool:
    """Whether `address` lies in memory of the running platform's device; on the CPU platform nothing does."""
    running = platform()
    if running == "cuda":
        driver = cuda_driver()
        driver.make_current(torch.cuda.current_device())
        return driver.is_device(address)
    if running == "rocm":
        return hip_runtime().is_device(address)
    if running == "xpu":
        return _is_xpu_device(address)
    return False


def view(address: int, nbytes: int) -> torch.Tensor:
    """`tensor_at` on whichever device `address` turns out to be: the current one, or the CPU."""
    return tensor_at(address, nbytes, current_device() if is_device(address) else torch.device("cpu"))


def current_device() -> torch.device:
    """The device that the running platform copies on in this thread."""
    running = platform()
    if running in ("cuda", "rocm"):
        return torch.device("cuda", torch.cuda.current_device())
    if running == "xpu":
        return torch.device("xpu", torch.xpu.current_device())
    return torch.device("cpu")


def _is_xpu_device(address: int) -> bool:
    """Torch asks SYCL what an address is whenever it wraps one, and raises for anything but device memory."""
    try:
        tensor_at(address, 1, current_device())
    except RuntimeError:
        return False
    return True
