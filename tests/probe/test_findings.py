"""What probes contradict: outdated and missing rows of the table, choices of what was refuted; nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.contract import Device, Direction, Memory
from backends.selection import BATCH_DMA, TORCH_COPY, TRITON_COPY, Facts
from conformance.probe.answers import NO, UNKNOWN, YES, About, Answer
from conformance.probe.findings import MISSING, OUTDATED, REFUTED, Finding, findings
from conformance.selection.simulated import CUDA, ROCM
from conformance.selection.table import load_table
from conformance.subjects.rules import BUILT_IN, Selector

TABLE = load_table()


def answered(answer: str, backend: str, memory: Memory, direction: Direction = Direction.LOAD) -> Answer:
    return Answer("probed", "may it", answer, "seen", About(backend, direction, memory))


def found(answers: list[Answer], device: Device = CUDA, selector: Selector = BUILT_IN) -> list[Finding]:
    return findings(answers, device, TABLE, selector)


def kernel_always(facts: Facts) -> str:
    """The rule before its fix: whatever the memory."""
    return TRITON_COPY


@pytest.mark.parametrize("memory", [Memory.PAGEABLE, Memory.SHARED, Memory.REGISTERED_PARTLY])
def test_the_table_knows_what_was_measured_on_an_h200(memory: Memory) -> None:
    """A kernel faults on memory that is not registered: no finding."""
    assert not found([answered(NO, TRITON_COPY, memory), answered(YES, TRITON_COPY, Memory.PINNED)])


def test_a_row_that_rules_out_what_works_is_out_of_date_here() -> None:
    """E.g. a driver that copies across the end of a registered range."""
    (finding,) = found([answered(YES, BATCH_DMA, Memory.REGISTERED_PIECES)])
    assert (finding.kind, finding.subject) == (OUTDATED, "dma-across-ranges")
    assert finding.harmless
    assert "row out of date here" in str(finding)


def test_a_captured_batch_call_that_works_is_out_of_date_here() -> None:
    """The row about graph capture is held against the call itself."""
    answer = Answer("batch-capture", "can it", YES, "replayed", About(BATCH_DMA, captured=True))
    assert [finding.subject for finding in found([answer])] == ["dma-captured"]


def test_a_probe_that_contradicts_the_devices_own_facts() -> None:
    """A machine with HMM whose driver does not say so: the row on refuted memory, and the one for lack of a probe."""
    subjects = [finding.subject for finding in found([answered(YES, TRITON_COPY, Memory.PAGEABLE)])]
    assert subjects == ["kernel-refuted-memory", "kernel-unregistered-memory"]


def test_what_fails_and_no_row_rules_out() -> None:
    """The row is missing, and the rule chooses it: two findings, neither harmless."""
    missing, refuted = found([answered(NO, TRITON_COPY, Memory.PINNED)])
    assert (missing.kind, refuted.kind) == (MISSING, REFUTED)
    assert not missing.harmless
    assert refuted.subject == BUILT_IN.name


def test_the_rule_before_its_fix_is_refuted_on_rocm() -> None:
    """The seed case: registered memory on ROCm."""
    answers = [answered(NO, TRITON_COPY, Memory.REGISTERED)]
    assert not found(answers, ROCM)
    (finding,) = found(answers, ROCM, Selector("before", kernel_always))
    assert finding.kind == REFUTED
    assert "chooses triton_copy for a load" in finding.sentence


def test_where_kernels_do_not_run_at_all_the_table_knows() -> None:
    """That is a fact of its own, and rules the kernel out whatever the memory."""
    dead = Answer("kernel-runs", "does it", NO, "no", About(TRITON_COPY, Direction.DEVICE_TO_DEVICE, Memory.DEVICE))
    assert not found([dead, answered(NO, TRITON_COPY, Memory.PINNED)])


def test_what_is_not_known_contradicts_nothing() -> None:
    """Neither do answers that no rule decides by."""
    assert not found([answered(UNKNOWN, TORCH_COPY, Memory.PINNED), Answer("batch-largest", "how many", "1024", "")])
    assert not found([], replace(CUDA, pageable_access=True))
