"""What is asked of a device, and how each question is answered.

Questions about memory are cases, run through a backend whatever it declares; those about the driver's batch call are
asked of the call itself. Each is answered in a process of its own, so that a fault answers one question only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from backends.contract import Device, Direction, Memory
from backends.selection import BATCH_DMA, TORCH_COPY, TRITON_COPY
from conformance.device.runner import BackendUnavailable, Runner
from conformance.device.task import Task
from conformance.judge.verdict import Kind
from conformance.probe.answers import KERNEL_RUNS, NO, UNKNOWN, YES, About, Answer
from conformance.probe.attempt import attempt, outcome_text
from strategies.case import Case, Pool, Tensor

SMALL = (4, 512)  # pages, bytes
ACROSS = (4, 24576)  # so large that some page lies across the end of a registration, wherever those are
SEAMS = (Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY)
BATCH_SIZES = (1, 16, 1024, 4096, 8192, 65536)  # descriptors; drivers had limits of 4096 and of 8192
TASK_SECONDS = 60.0
NAMES = {TRITON_COPY: "a Triton kernel", BATCH_DMA: "batch_dma", TORCH_COPY: "torch_copy"}


@dataclass(frozen=True)
class Question:
    """One question: `ask` answers it on a device."""

    id: str
    text: str
    ask: Callable[[Runner], Answer]


def questions(device: Device) -> list[Question]:
    """All there is to ask of this device, what kernels can do first."""
    return [
        _case(KERNEL_RUNS, "does a Triton kernel run", TRITON_COPY, Direction.DEVICE_TO_DEVICE, Memory.DEVICE),
        Question("registered-address", "has registered memory one address for host and device", _registered_address),
        *_memory(device, TRITON_COPY),
        *_batch_call(),
        *_memory(device, BATCH_DMA),
        *_memory(device, TORCH_COPY),
    ]


def _memory(device: Device, backend: str) -> Iterator[Question]:
    """Whether a backend reads and writes each kind of host memory that the device has."""
    for kind in (Memory(name) for name in device.memory):
        for direction, verb in ((Direction.LOAD, "read"), (Direction.STORE, "write")):
            if kind.on_device or (kind is Memory.READ_ONLY and verb == "write"):
                continue
            where = f"across the ends of {kind.value} memory" if kind in SEAMS else f"{kind.value} memory"
            name = "kernel" if backend == TRITON_COPY else backend.replace("_", "-")
            text = f"may {NAMES[backend]} {verb} {where}"
            yield _case(f"{name}-{verb}s-{kind.value}", text, backend, direction, kind)


def _case(id: str, text: str, backend: str, direction: Direction, memory: Memory) -> Question:
    case = probe_case(direction, memory)

    def ask(runner: Runner) -> Answer:
        about = About(backend, direction, memory)
        try:
            unavailable = runner.support(backend).unavailable
        except BackendUnavailable as error:
            unavailable = str(error)
        if unavailable:
            return Answer(id, text, UNKNOWN, f"{backend} can't be tried: {unavailable}")
        verdict = attempt(runner, backend, case)
        answer = YES if verdict.kind is Kind.PASSED else UNKNOWN if verdict.kind is Kind.NOT_JUDGED else NO
        return Answer(id, text, answer, outcome_text(verdict), about, case.to_json())

    return Question(id, text, ask)


def probe_case(direction: Direction, memory: Memory) -> Case:
    """A few pages, each to its own place; large ones where registrations end within the memory."""
    count, page = ACROSS if memory in SEAMS else SMALL
    ids = tuple(range(count))
    pool = Pool(blocks=count, stride=page)
    source = Memory.DEVICE if direction.source_on_device else memory
    destination = Memory.DEVICE if direction.destination_on_device else memory
    return Case(direction, source, destination, (Tensor(page, pool, pool, ids, ids),))


def _registered_address(runner: Runner) -> Answer:
    """The device's own facts hold this: it is looked up whenever a device is opened."""
    device, text = runner.device, "has registered memory one address for host and device"
    if device.platform == "cpu":
        return Answer("registered-address", text, YES, "host and device are one address space")
    if Memory.REGISTERED.value not in device.memory:
        return Answer("registered-address", text, UNKNOWN, device.extra.get("not_registered", "no registered memory"))
    same = device.registered_address_is_host_address
    evidence = "the driver gives a registered range " + ("the host's address" if same else "another address")
    return Answer("registered-address", text, YES if same else NO, evidence)


def _batch_call() -> Iterator[Question]:
    for id, text, how, about in (
        ("batch-call", "is there a batch copy call", "plain", None),
        ("batch-attributes", "does it take attributes", "attributes", None),
        ("batch-no-attributes", "does it do without attributes", "no attributes", None),
        ("batch-default-stream", "does it take the legacy default stream", "default stream", None),
        ("batch-zero-size", "does it take a descriptor of size zero", "zero size", None),
        ("batch-capture", "can it be captured into a graph", "capture", About(BATCH_DMA, captured=True)),
    ):
        yield _call(id, text, how, about)
    yield Question("batch-largest", "how many descriptors does it take", _largest)


def _call(id: str, text: str, how: str, about: About | None) -> Question:
    def ask(runner: Runner) -> Answer:
        result = runner.perform_clean(Task("conformance.probe.batch_call:ask", {"how": how}, TASK_SECONDS))
        if result.trouble:
            return Answer(id, text, NO, result.trouble, about)
        answer, evidence = result.value
        return Answer(id, text, answer, evidence, about)

    return Question(id, text, ask)


def _largest(runner: Runner) -> Answer:
    """Each number in a process of its own, up to the first that is not taken."""
    most, evidence = 0, f"{BATCH_SIZES[-1]} is as far as was tried"
    for count in BATCH_SIZES:
        arguments = {"how": "plain", "count": count}
        result = runner.perform_clean(Task("conformance.probe.batch_call:ask", arguments, TASK_SECONDS))
        answer, said = (NO, result.trouble) if result.trouble else result.value
        if answer != YES:
            evidence = f"with {count}: {said}"
            break
        most = count
    text = "how many descriptors does it take"
    return Answer("batch-largest", text, str(most) if most else UNKNOWN, evidence)
