"""Which backend copies a batch: from what a caller knows to one choice with its reason.

A short sequence of rules over plain facts, first match wins. It probes nothing: what a device can do comes in as
facts (`facts_on` takes them from a probed `Device`), and what is not known counts as not possible where a wrong guess
would crash or corrupt. It does not measure speed either; its thresholds are the published ones (vLLM 0.33, from
vllm-project/vllm#42212 and #49843, tuned on one H100). The table in `conformance/selection/` holds it to account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from backends.contract import REGISTERED_MEMORY, Device, Direction, Memory, Stream

BATCH_DMA = "batch_dma"
TRITON_COPY = "triton_copy"
TORCH_COPY = "torch_copy"
BACKENDS = (BATCH_DMA, TRITON_COPY, TORCH_COPY)
FALLBACKS = (BATCH_DMA, TORCH_COPY, TRITON_COPY)  # tried in this order where the one preferred can't make the copy

DESCRIBED_PLATFORMS = frozenset({"cuda", "rocm", "xpu", "cpu"})
LARGE_PAGE = 28 * 1024  # bytes; from here on the copy engine is taken to be as fast as a kernel
WORD = 8  # bytes; the kernel copies whole words
MOST_CHUNK = 8192  # bytes that one program of the kernel copies at a time
FEWEST_DESCRIPTORS = 16  # below, a kernel launch costs more than it saves

PINNED_MEMORY = REGISTERED_MEMORY | {Memory.PINNED}  # all of it is page-locked; REGISTERED_PARTLY is not
ACROSS_RANGES = frozenset({Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY})  # copies run over a registration's end


class FactsError(ValueError):
    """Facts that contradict each other or can't be. The text names the fact."""


class ChoiceError(ValueError):
    """An explicit choice that can't be met (another backend is never taken instead), or a copy that no backend can
    make. The text says why."""


@dataclass(frozen=True)
class Facts:
    """What a caller knows about a copy before choosing who makes it. `None` always means: not known.

    Raises FactsError for sizes and counts that can't be, and for host memory that does not fit the direction.
    """

    platform: str  # "cuda", "rocm", "xpu", "cpu", or a vendor's own name
    direction: Direction
    host_memory: Memory  # of a host-to-host copy the side that is less reachable; DEVICE when no side is on the host
    page_sizes: tuple[int, ...]  # un-padded page bytes of the tensors; empty: no tensors, or not known
    triton_present: bool  # Triton can be imported
    batch_api: str | None  # the batch copy call, as in Device.batch_api; None: there is none
    triton_usable: bool | None = None  # a Triton kernel ran on this device
    zero_copy: bool | None = None  # a kernel may dereference all of this host memory at its host address
    kernel_any_size: bool = False  # the kernel also copies what is not a multiple of 8 bytes; the published one doesn't
    fragment_sizes: tuple[int, ...] = ()  # bytes of the copies actually submitted; empty: not known
    descriptors: int | None = None  # copies in the batch
    address_multiple: int | None = None  # largest power of two that divides every address
    stream: Stream = Stream.SIDE  # changes no choice: batch_dma serves the legacy stream through one of its own
    captured: bool = False  # the stream is being captured into a graph
    explicit: str | None = None  # a backend that the user asked for by name

    def __post_init__(self) -> None:
        _require(bool(self.platform), "platform: empty; name the platform or the vendor")
        device_only = self.direction is Direction.DEVICE_TO_DEVICE
        _require(
            self.host_memory.on_device == device_only,
            f"host_memory: {self.host_memory.value} does not fit direction {self.direction.value}",
        )
        written = self.direction is Direction.STORE and self.host_memory is Memory.READ_ONLY
        _require(not written, "host_memory: a store can't write read-only memory")
        for name in ("page_sizes", "fragment_sizes"):
            wrong = [size for size in getattr(self, name) if size < 1]
            _require(not wrong, f"{name}: {wrong[:1]}, may be 1 byte or more")
        count = self.descriptors
        _require(count is None or count >= 0, f"descriptors: {count}, may be 0 or more")
        multiple = self.address_multiple
        _require(
            multiple is None or (multiple >= 1 and multiple & (multiple - 1) == 0),
            f"address_multiple: {multiple}, may be a power of two",
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        data = asdict(self)
        for name in ("direction", "host_memory", "stream"):
            data[name] = data[name].value
        return {**data, "page_sizes": list(self.page_sizes), "fragment_sizes": list(self.fragment_sizes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Facts:
        """The inverse of `to_json`. Raises FactsError for unknown fields and values that can't be."""
        try:
            return cls(
                **{
                    **data,
                    "direction": Direction(data["direction"]),
                    "host_memory": Memory(data["host_memory"]),
                    "stream": Stream(data.get("stream", Stream.SIDE.value)),
                    "page_sizes": tuple(data["page_sizes"]),
                    "fragment_sizes": tuple(data.get("fragment_sizes", ())),
                }
            )
        except FactsError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise FactsError(f"not facts of a selection: {error}") from error


@dataclass(frozen=True)
class Choice:
    """The backend chosen, how it is to be called, and why it is this one."""

    backend: str
    bytes_per_chunk: int | None  # of triton_copy: a power of two; None for the others
    reason: str


class Rule(NamedTuple):
    """One line of a decision: when it holds, this is the reason."""

    holds: Callable[[Facts], bool]
    reason: str


def _across_ranges(facts: Facts) -> bool:
    return facts.platform != "cpu" and facts.host_memory in ACROSS_RANGES


CANNOT: Mapping[str, tuple[Rule, ...]] = {
    TORCH_COPY: (Rule(_across_ranges, "the driver refuses a copy across the end of a registered range"),),
    BATCH_DMA: (
        Rule(
            lambda facts: facts.platform not in DESCRIBED_PLATFORMS,
            "batch_dma has no implementation for this platform",
        ),
        Rule(lambda facts: facts.batch_api is None, "no batch copy call was found on this device"),
        Rule(
            lambda facts: facts.captured,
            "a batch copy call can't be captured into a graph (cuMemcpyBatchAsync fails with error 900)",
        ),
        Rule(_across_ranges, "the driver refuses a copy across the end of a registered range"),
    ),
    TRITON_COPY: (
        Rule(lambda facts: not facts.triton_present, "Triton can't be imported"),
        Rule(lambda facts: facts.triton_usable is False, "a Triton kernel was found not to run on this device"),
        Rule(
            lambda facts: facts.platform not in DESCRIBED_PLATFORMS and facts.triton_usable is None,
            "nobody has shown that a Triton kernel runs on this platform",
        ),
        Rule(
            lambda facts: not facts.host_memory.on_device and facts.zero_copy is False,
            "a kernel was found not to be able to dereference this host memory",
        ),
        Rule(
            lambda facts: facts.zero_copy is None and not _dereferenceable_unprobed(facts),
            "whether a kernel may dereference this host memory is not known, and a wrong guess kills the context",
        ),
        Rule(lambda facts: not facts.page_sizes, "no page sizes are known, so the chunk can't be computed"),
        Rule(
            lambda facts: not facts.kernel_any_size and _odd(facts.fragment_sizes or facts.page_sizes),
            f"a copy is not a multiple of {WORD} bytes: the kernel would leave its tail out",
        ),
        Rule(
            lambda facts: not facts.kernel_any_size and (facts.address_multiple or WORD) % WORD != 0,
            f"an address is not a multiple of {WORD}: a misaligned access kills the context",
        ),
    ),
}

TAKE_BATCH_DMA: tuple[Rule, ...] = (
    Rule(
        lambda facts: facts.direction in (Direction.DEVICE_TO_DEVICE, Direction.HOST_TO_HOST),
        "the published rule is about loads and stores; the batch call takes this direction too",
    ),
    Rule(lambda facts: facts.direction is Direction.STORE, "stores go through the copy engine"),
    Rule(lambda facts: facts.host_memory not in PINNED_MEMORY, "the host memory is not pinned"),
    Rule(lambda facts: not facts.triton_present, "Triton can't be imported"),
    Rule(lambda facts: facts.platform == "cpu", "on a CPU Triton is its interpreter, which is for tests"),
    Rule(lambda facts: facts.platform == "xpu", "on XPU a kernel can't dereference a host address"),
    Rule(lambda facts: facts.platform == "rocm", "on ROCm registered memory has another address on the device"),
    Rule(lambda facts: not facts.page_sizes, "no page sizes are known"),
    Rule(
        lambda facts: max(facts.page_sizes) >= LARGE_PAGE,
        f"the largest page is {LARGE_PAGE} bytes or more: the copy engine is fast enough",
    ),
    Rule(lambda facts: _odd(facts.page_sizes), f"a page is not a multiple of {WORD} bytes"),
    Rule(
        lambda facts: facts.descriptors is not None and facts.descriptors < FEWEST_DESCRIPTORS,
        f"fewer than {FEWEST_DESCRIPTORS} descriptors: a kernel launch does not pay",
    ),
)


def choose(facts: Facts) -> Choice:
    """The backend for this copy.

    Raises ChoiceError if `facts.explicit` names one that can't make it, or if none can."""
    if facts.explicit is not None:
        return _as_asked(facts, facts.explicit)
    preferred, reason = _preferred(facts)
    reasons = [reason]
    for backend in (preferred, *(other for other in FALLBACKS if other != preferred)):
        obstacle = why_not(backend, facts)
        if obstacle is None:
            return _choice(backend, facts, "; ".join(reasons))
        reasons.append(f"not {backend}: {obstacle}")
    raise ChoiceError(f"no backend can make this copy: {'; '.join(reasons[1:])}")


def why_not(backend: str, facts: Facts) -> str | None:
    """Why `backend` can't make this copy, as far as the facts tell; None if nothing speaks against it.

    Raises ChoiceError for a name that is not in BACKENDS."""
    if backend not in CANNOT:
        raise ChoiceError(f"{backend!r} is not a backend this rule chooses from; known: {', '.join(BACKENDS)}")
    return _first(CANNOT[backend], facts)


def chunk_bytes(page_sizes: tuple[int, ...]) -> int:
    """Bytes one program copies at a time: the next power of two of the largest page, at most 8192."""
    return min(1 << (max(page_sizes) - 1).bit_length(), MOST_CHUNK)


def facts_on(
    device: Device,
    *,
    direction: Direction,
    host_memory: Memory,
    page_sizes: tuple[int, ...],
    fragment_sizes: tuple[int, ...] = (),
    descriptors: int | None = None,
    address_multiple: int | None = None,
    kernel_any_size: bool = True,
    stream: Stream = Stream.SIDE,
    captured: bool = False,
    explicit: str | None = None,
) -> Facts:
    """The facts of one copy on a probed device, for this project's own backends (whose kernel copies any size)."""
    return Facts(
        platform=device.platform,
        direction=direction,
        host_memory=host_memory,
        page_sizes=page_sizes,
        triton_present=device.triton is not None,
        batch_api=device.batch_api,
        zero_copy=zero_copy_on(device, host_memory),
        fragment_sizes=fragment_sizes,
        descriptors=descriptors,
        address_multiple=address_multiple,
        kernel_any_size=kernel_any_size,
        stream=stream,
        captured=captured,
        explicit=explicit,
    )


def zero_copy_on(device: Device, memory: Memory) -> bool | None:
    """Whether a kernel on `device` may dereference all of `memory` at its host address; None if the probe can't tell.

    Pinned memory: measured on CUDA, publicly reported for ROCm (one address for host and device)."""
    if memory.on_device:
        return None
    if device.pageable_access:
        return True
    if memory not in PINNED_MEMORY:
        return False
    if device.platform not in ("cuda", "rocm"):
        return None
    return True if memory is Memory.PINNED else device.registered_address_is_host_address


def _as_asked(facts: Facts, backend: str) -> Choice:
    obstacle = why_not(backend, facts)
    if obstacle is not None:
        raise ChoiceError(f"{backend} was asked for by name and can't make this copy: {obstacle}")
    return _choice(backend, facts, "asked for by name")


def _preferred(facts: Facts) -> tuple[str, str]:
    """The backend to try first, and why."""
    if facts.platform not in DESCRIBED_PLATFORMS:
        return TORCH_COPY, f"nobody has described the platform {facts.platform}, where torch's own copy is safest"
    reason = _first(TAKE_BATCH_DMA, facts)
    return (BATCH_DMA, reason) if reason else (TRITON_COPY, "many small pages that a kernel may dereference")


def _choice(backend: str, facts: Facts, reason: str) -> Choice:
    return Choice(backend, chunk_bytes(facts.page_sizes) if backend == TRITON_COPY else None, reason)


def _first(rules: tuple[Rule, ...], facts: Facts) -> str | None:
    return next((rule.reason for rule in rules if rule.holds(facts)), None)


def _dereferenceable_unprobed(facts: Facts) -> bool:
    """Host memory that a kernel may dereference by all that was measured or reported, though nobody probed it here."""
    if facts.host_memory.on_device or facts.platform == "cpu":
        return True
    if facts.platform == "cuda":
        return facts.host_memory in PINNED_MEMORY
    return facts.platform == "rocm" and facts.host_memory is Memory.PINNED


def _odd(sizes: tuple[int, ...]) -> bool:
    return any(size % WORD for size in sizes)


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise FactsError(text)
