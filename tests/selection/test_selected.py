"""The rule at work on a device: right choices count as held, each planted fault is found, and counts add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backends.contract import Direction, Memory, Stream, Support
from conformance.claims.claim import Claim
from conformance.claims.execution_path import Path as Way
from conformance.claims.execution_path import (
    Seen,
    claimed,
    contradiction,
    sampled,
    seen_in,
    takes_its_path,
    takes_the_chosen_path,
)
from conformance.claims.rule import SelectorClaim, about_choice, facts_of, host_memory, plain_case, union
from conformance.claims.session import Run
from conformance.device.task import Result, Task
from conformance.judge.verdict import Finding, Kind, Verdict
from conformance.probe.attempt import attempt
from conformance.record import counts as tally
from conformance.record.counts import Key
from conformance.record.settings import RunSettings
from conformance.requirements import copies as req
from conformance.requirements.budgets import CHOSEN, CHOSEN_TAKEN, FACTS, TAKEN, ClaimKind
from conformance.selection.simulated import CPU, CUDA
from conformance.session.settings import decide, make_folders
from conformance.subjects.rules import Selector
from strategies.scope import Scope
from tests.selection import planted_rules

RULES = "tests.selection.planted_rules"
ELSEWHERE = Selector("elsewhere", planted_rules.right, platforms=frozenset({"cuda"}))
Opened = Callable[[str, ClaimKind], SelectorClaim]


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """Claims about a rule, in this process; the runs are closed afterwards."""
    runs: list[Run] = []

    def open_claim(selector: str, kind: ClaimKind) -> SelectorClaim:
        settings = _settings(tmp_path / selector.replace(":", "-"), selector)
        runs.append(Run(settings, "main"))
        return SelectorClaim.of(Claim(runs[-1], kind, "selector", 0))

    yield open_claim
    for run in runs:
        run.close()


def _settings(report: Path, selector: str) -> RunSettings:
    settings = decide(
        platform="cpu",
        backends=("batch_dma",),
        budget="smoke",
        report=str(report),
        seed=5,
        isolation="none",
        floor_seconds=10.0,
        address="",
        root=report,
        selector=selector,
    )
    make_folders(settings)
    return settings


def counts(claim: SelectorClaim, requirement: str) -> tally.Count:
    return tally.read(claim.run.settings.work)[Key(claim.backend, requirement)]


@pytest.mark.parametrize("name", ["built-in", f"{RULES}:right"])
def test_a_right_rule_holds(opened: Opened, name: str) -> None:
    """Every planned case ran, and was booked under the rule's name."""
    claim = opened(name, CHOSEN)
    claim.copies_right()
    count = counts(claim, req.CHOSEN)
    assert claim.backend == f"selector:{name}"
    assert count.planned == count.drawn == count.passed > 15


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("refuses_stores", "the rule refused a store of"),
        ("fails_on_many", "the rule failed for a"),
    ],
)
def test_a_wrong_rule_is_found(opened: Opened, rule: str, says: str) -> None:
    """With the facts in words, the smallest case saved, and how to run it again."""
    claim = opened(f"{RULES}:{rule}", CHOSEN)
    with pytest.raises(pytest.fail.Exception) as failed:
        claim.copies_right()
    text = str(failed.value)
    assert f"selector:{RULES}:{rule} breaks SELECT-CHOSEN-COPIES: {says}" in text
    assert "kvconform probe --case" in text
    assert counts(claim, req.CHOSEN).failed == 1
    assert len(list(Path(claim.run.settings.report, "failures").glob("*.json"))) == 1


def test_a_rule_for_other_platforms_is_not_judged_here(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test says so, and nothing was planned, so that the run can still be whole."""
    monkeypatch.setattr("tests.selection.planted_rules.elsewhere", ELSEWHERE, raising=False)
    claim = opened(f"{RULES}:elsewhere", CHOSEN)
    with pytest.raises(pytest.skip.Exception, match="does not apply here: elsewhere is not meant for cpu"):
        claim.copies_right()
    assert counts(claim, req.CHOSEN).planned == 0


def test_choosing_what_the_backend_refuses_is_found(opened: Opened) -> None:
    """A declared refusal is none of the backend's faults, but the rule's."""
    claim = opened("built-in", CHOSEN)
    claim.load_supports()
    claim.supports["batch_dma"] = Support(unavailable="the copy engine is on holiday")
    verdict = claim.verdict(plain_case(Direction.LOAD, Memory.SHARED, Memory.DEVICE, 512, 4))
    assert verdict.findings[0].requirement == req.CHOSEN
    assert "the rule chose batch_dma for a load of 512-byte pages from shared memory on cpu" in str(verdict.findings)
    assert "on holiday" in verdict.findings[0].sentence


@pytest.mark.parametrize("kind", [Kind.FAULT, Kind.WRONG, Kind.HANG, Kind.POISONED])
def test_what_goes_wrong_is_laid_to_the_choice(kind: Kind) -> None:
    """Whatever it is, as one finding that names the first one's requirement."""
    broken = Verdict(kind, "batch_dma", (req.FAULT,), (Finding(req.FAULT, "signal SIGSEGV"),))
    verdict = about_choice(broken, "the rule chose batch_dma for it")
    assert verdict.checked == (req.CHOSEN,)
    assert [finding.requirement for finding in verdict.findings] == [req.CHOSEN]
    assert verdict.findings[0].sentence == "the rule chose batch_dma for it: signal SIGSEGV (SURVIVE-FAULT)"
    assert verdict.kind is kind


def test_a_refusal_by_the_chosen_backend_is_an_error() -> None:
    """And a case that could not be built is not judged."""
    refused = about_choice(Verdict(Kind.REFUSED, "batch_dma", text="no stores"), "it chose batch_dma")
    assert (refused.kind, refused.findings[0].sentence) == (
        Kind.ERROR,
        "it chose batch_dma, which refuses it: no stores",
    )
    assert not about_choice(Verdict(Kind.NOT_JUDGED, "batch_dma", (req.COPIED,)), "").checked


def test_a_refusal_that_the_table_shares_counts_as_refused(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can copy across the end of a registration that a kernel can't reach either."""
    claim = opened("built-in", CHOSEN)
    claim.load_supports()
    nobody = facts_of(plain_case(Direction.LOAD, Memory.REGISTERED_PARTLY, Memory.DEVICE, 512, 64), CUDA)
    monkeypatch.setattr(SelectorClaim, "facts", lambda self, case: nobody)
    case = plain_case(Direction.LOAD, Memory.SHARED, Memory.DEVICE, 512, 64)
    verdict = claim.verdict(case)
    assert verdict.kind is Kind.REFUSED
    claim.count(case, verdict)
    assert counts(claim, req.CHOSEN).refused == 1


def test_drawn_facts_hold_and_are_counted(opened: Opened) -> None:
    """Each claim once for each draw."""
    claim = opened("built-in", FACTS)
    claim.agrees_with_table()
    for requirement in FACTS.requirements:
        count = counts(claim, requirement)
        assert count.planned == count.drawn == count.passed == 30


def test_drawn_facts_find_the_rule_before_its_fix(opened: Opened) -> None:
    """Shrunk, and counted once."""
    claim = opened(f"{RULES}:before_the_fix", FACTS)
    with pytest.raises(pytest.fail.Exception) as failed:
        claim.agrees_with_table()
    text = str(failed.value)
    assert f"{RULES}:before_the_fix: a load of " in text
    assert len(text.splitlines()) <= 5
    assert sum(counts(claim, requirement).failed for requirement in FACTS.requirements) == 1


def test_boundaries_are_found_off_by_one(opened: Opened) -> None:
    """By some claim or other."""
    with pytest.raises(pytest.fail.Exception, match="28672"):
        opened(f"{RULES}:off_by_one", FACTS).agrees_with_table()


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (Memory.PINNED, Memory.PAGEABLE, Memory.PAGEABLE),
        (Memory.SHARED, Memory.PINNED, Memory.SHARED),
        (Memory.PINNED, Memory.REGISTERED_PIECES, Memory.REGISTERED_PIECES),
        (Memory.PAGEABLE, Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY),
        (Memory.REGISTERED_PARTLY, Memory.PINNED, Memory.REGISTERED_PARTLY),
        (Memory.PINNED, Memory.PINNED, Memory.PINNED),
    ],
)
def test_host_to_host_goes_by_the_side_that_less_can_be_done_with(
    source: Memory, destination: Memory, expected: Memory
) -> None:
    """A choice knows one kind of memory only."""
    case = plain_case(Direction.HOST_TO_HOST, source, destination, 512, 4)
    assert host_memory(case, CUDA) is expected


def test_facts_of_a_case() -> None:
    """Sizes, counts and addresses are those that are submitted."""
    case = plain_case(Direction.STORE, Memory.DEVICE, Memory.PINNED, 24, 3)
    known = facts_of(case, CUDA)
    assert (known.direction, known.host_memory) == (Direction.STORE, Memory.PINNED)
    assert (known.page_sizes, known.fragment_sizes, known.descriptors) == ((24,), (24,), 3)
    assert (known.address_multiple, known.zero_copy, known.triton_usable) == (8, True, None)


def test_limits_of_the_union() -> None:
    """What one of them can do can be drawn; kinds of memory are always open."""
    some = Support(memory=frozenset({Memory.DEVICE}), max_descriptors=16, streams=frozenset({Stream.SIDE}))
    other = Support(size_multiple=8, max_descriptors=64, zero_sizes=False, streams=frozenset({Stream.DEFAULT}))
    both = union([some, other])
    assert (both.max_descriptors, both.size_multiple, both.zero_sizes) == (64, 1, True)
    assert both.memory == frozenset(Memory)
    assert both.streams == {Stream.SIDE, Stream.DEFAULT}
    assert union([some, Support()]).max_descriptors is None


# --- the path taken --------------------------------------------------------------------------------------------------

LOAD_COPY = "Memcpy HtoD (Pinned -> Device)"


def profile(*events: tuple[str, str], said: str) -> Seen:
    """What is seen in a profile of (device, name) events."""
    return seen_in([SimpleNamespace(name=n, device_type=SimpleNamespace(name=d)) for d, n in events], said)


KERNEL = profile(("CPU", "cuLaunchKernelEx"), ("CUDA", "_copy_tiles"), ("CUDA", LOAD_COPY), said="Triton kernel")
BATCH = profile(*[("CUDA", LOAD_COPY)] * 64, said="cuMemcpyBatchAsync/8")
LOOP = profile(*[("CPU", "aten::copy_"), ("CPU", "cudaMemcpyAsync"), ("CUDA", LOAD_COPY)] * 64, said="copy_ of views")


@pytest.mark.parametrize(
    ("seen", "chosen"),
    [(KERNEL, "triton_copy"), (BATCH, "batch_dma"), (LOOP, "torch_copy"), (replace(BATCH, said="call of x:y"), None)],
)
def test_an_honest_path(seen: Seen, chosen: str | None) -> None:
    """Nothing to say, whether or not a rule chose it."""
    assert contradiction(seen, 64) is None
    assert contradiction(seen, 64, chosen) is None


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (
            replace(KERNEL, said="cuMemcpyBatchAsync/8"),
            "which is a batch call, but the device shows kernels _copy_tiles",
        ),
        (replace(LOOP, said="cuMemcpyBatchAsync/8"), "64 x aten::copy_"),
        (replace(BATCH, said="Triton kernel"), "no kernel, 64 copies"),
        (replace(KERNEL, said="copy_ of views"), "kernels _copy_tiles"),
        (replace(BATCH, said="empty batch"), "which is nothing"),
        (Seen(said="cuMemcpyBatchAsync/8"), "no kernel, 0 copies"),
    ],
)
def test_a_path_that_was_not_taken_is_found_out(seen: Seen, says: str) -> None:
    """A batch call that is a kernel or a loop, a kernel that copies, copies that are a kernel."""
    assert says in (contradiction(seen, 64) or "")


def test_the_rules_choice_is_held_to_it() -> None:
    """A copy that falls back in silence."""
    assert "the rule chose triton_copy" in (contradiction(BATCH, 64, "triton_copy") or "")


def test_memset_is_no_kernel_and_a_plain_data_form() -> None:
    """What is seen travels from the device process as JSON."""
    seen = profile(("CUDA", "Memset (Device)"), ("CUDA", LOAD_COPY), said="loop of cuMemcpyAsync")
    assert not seen.kernels
    data = {"kernels": [], "copies": [LOAD_COPY], "calls": {}, "said": "loop of cuMemcpyAsync", "trouble": ""}
    assert Seen.from_json(data) == seen
    assert claimed(seen.said) is Way.COPIES


def test_on_a_cpu_it_says_that_nothing_can_be_observed(opened: Opened) -> None:
    """And plans nothing, which is booked."""
    claim = opened("built-in", TAKEN)
    with pytest.raises(pytest.skip.Exception, match="not observable here: on cpu"):
        takes_its_path(Claim(claim.run, claim.kind, "batch_dma", 0))
    assert tally.read(claim.run.settings.work)[Key("batch_dma", req.TAKEN)] == tally.Count()


def test_samples_are_loads_and_stores_for_both_engines() -> None:
    """By seed, and never more than asked for."""
    scope = Scope.of(CPU, Support())
    cases = sampled(scope, 6, 1)
    assert len(cases) == 6
    assert {(case.direction, case.tensors[0].page_bytes) for case in cases[:4]} == {
        (direction, page) for direction in (Direction.LOAD, Direction.STORE) for page in (512, 32768)
    }
    assert cases == sampled(scope, 6, 1) != sampled(scope, 6, 2)


@pytest.mark.parametrize("name", ["BatchThatIsAKernel", "BatchThatLoops", "KernelThatCopies", "CopiesThatAreAKernel"])
def test_liars_copy_right(opened: Opened, name: str) -> None:
    """So that nothing but the path gives them away. Whether it does takes a GPU."""
    claim = opened("built-in", CHOSEN)
    case = plain_case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, 512, 4)
    verdict = attempt(claim.bench.runner, f"tests.selection.planted_liars:{name}", case)
    assert verdict.kind is Kind.PASSED


class FakeProfile:
    """Shows a kernel, whatever ran."""

    def __init__(self, activities: object) -> None:
        self.activities = activities

    def __enter__(self) -> FakeProfile:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def events(self) -> list[object]:
        return [SimpleNamespace(name="_copy_tiles", device_type=SimpleNamespace(name="CUDA"))]


def test_copies_are_observed_in_the_device_process(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two executions, from the call to the end of the device's work; what it says and shows."""
    monkeypatch.setattr("torch.profiler.profile", FakeProfile)
    case = plain_case(Direction.LOAD, Memory.PAGEABLE, Memory.DEVICE, 512, 64)
    runner = opened("built-in", CHOSEN).bench.runner
    names = ("BatchThatIsAKernel", "Honest")
    pairs = [(f"tests.selection.planted_liars:{name}", case.to_json()) for name in names]
    result = runner.perform(Task("conformance.claims.execution_path:observe", {"pairs": pairs}))
    liar, honest = map(Seen.from_json, result.value)
    assert liar.kernels == honest.kernels == ("_copy_tiles",)
    assert "which is a batch call, but the device shows kernels _copy_tiles" in str(contradiction(liar, 64))
    assert contradiction(honest, 64) is None


def observed(monkeypatch: pytest.MonkeyPatch, *seen: Seen, trouble: str = "") -> None:
    """Let the profiler have seen this: first of torch's copy, then over and over."""

    def perform(self: object, task: Task) -> Result:
        pairs = task.arguments["pairs"]
        return Result(None if trouble else [asdict(seen[min(i, len(seen) - 1)]) for i in range(len(pairs))], trouble)

    monkeypatch.setattr("conformance.device.direct.DirectRunner.perform_clean", perform)
    monkeypatch.setattr("conformance.claims.execution_path.why_not_observable", lambda platform: None)


def test_an_honest_backend_holds(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy counted."""
    observed(monkeypatch, LOOP, BATCH)
    claim = opened("built-in", TAKEN)
    takes_its_path(Claim(claim.run, TAKEN, "batch_dma", 0))
    count = tally.read(claim.run.settings.work)[Key("batch_dma", req.TAKEN)]
    assert count.planned == count.drawn == count.passed == 6


def test_a_liar_fails(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it says and what was seen."""
    observed(monkeypatch, LOOP, replace(KERNEL, said="cuMemcpyBatchAsync/8"))
    claim = opened("built-in", TAKEN)
    with pytest.raises(pytest.fail.Exception, match="batch_dma breaks SELECT-PATH-TAKEN"):
        takes_its_path(Claim(claim.run, TAKEN, "batch_dma", 0))
    assert tally.read(claim.run.settings.work)[Key("batch_dma", req.TAKEN)].failed == 6


def test_the_rules_choice_is_compared_too(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the rule chooses batch_dma, which is no kernel."""
    observed(monkeypatch, LOOP, KERNEL)
    with pytest.raises(pytest.fail.Exception, match="the rule chose batch_dma, which is a batch call"):
        takes_the_chosen_path(opened("built-in", CHOSEN_TAKEN))


def test_a_profiler_that_shows_nothing_is_no_evidence(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even torch's own copy; and a profile that fails is a failure."""
    claim = opened("built-in", TAKEN)
    observed(monkeypatch, Seen(said="copy_ of views"))
    with pytest.raises(pytest.skip.Exception, match="does not show a copy that torch makes"):
        takes_its_path(Claim(claim.run, TAKEN, "batch_dma", 0))
    observed(monkeypatch, trouble="RuntimeError: no CUPTI")
    with pytest.raises(pytest.fail.Exception, match="no CUPTI"):
        takes_its_path(Claim(claim.run, TAKEN, "batch_dma", 0))
