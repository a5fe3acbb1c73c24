"""Selectors under test: right ones pass however they are written, and each planted fault is found and shrinks small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from backends.contract import Direction, Memory
from backends.selection import BACKENDS, Choice, ChoiceError, Facts, choose
from conformance.requirements import rules as ids
from conformance.selection import properties
from conformance.selection.properties import CLAIMS, MANDATORY, disagreements
from conformance.selection.simulated import KERNEL_LOAD, ROCM_REGISTERED_LOAD, SEEDS
from conformance.selection.table import load_table
from conformance.subjects import rules, vllm
from conformance.subjects.rules import BUILT_IN, Selector, SelectorError, as_selector, load_selector
from strategies.draw.facts import HOST_KINDS, SOME_BATCH_CALL, facts

OWN = load_table()
GATE = 1000  # drawn facts; a planted fault must be found among them
GATE_SETTINGS = settings(
    max_examples=GATE,
    database=None,
    derandomize=True,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LOAD = Facts(
    platform="cuda",
    direction=Direction.LOAD,
    host_memory=Memory.PINNED,
    page_sizes=(512,),
    triton_present=True,
    batch_api=SOME_BATCH_CALL,
)
"""What every failure shrinks to, but for the facts that matter."""


def by_table_walk(known: Facts) -> Choice:
    """The same rule, written another way: what each path needs first, then one test for the kernel."""
    described = known.platform in {"cuda", "rocm", "xpu", "cpu"}
    seams = known.platform != "cpu" and known.host_memory in (Memory.REGISTERED_PIECES, Memory.REGISTERED_PARTLY)
    locked = known.host_memory.name in (
        "PINNED",
        "REGISTERED",
        "REGISTERED_ANONYMOUS",
        "REGISTERED_PIECES",
        "HUGE",
        "OTHER_NODE",
    )
    reach = known.zero_copy
    if known.host_memory is Memory.DEVICE:
        reach = True
    elif reach is None:
        reach = {
            "cuda": locked,
            "rocm": known.host_memory is Memory.PINNED,
            "cpu": True,
        }.get(known.platform, False)
    whole = known.kernel_any_size or not (
        any(size & 7 for size in known.fragment_sizes or known.page_sizes)
        or (known.address_multiple is not None and known.address_multiple < 8)
    )
    runs = known.triton_present and known.triton_usable is not False and (described or known.triton_usable is True)
    can = {
        "batch_dma": described and known.batch_api is not None and not known.captured and not seams,
        "torch_copy": not seams,
        "triton_copy": bool(known.page_sizes) and whole and reach and runs,
    }
    small = bool(known.page_sizes) and all(size < 28672 and size & 7 == 0 for size in known.page_sizes)
    many = known.descriptors is None or known.descriptors >= 16
    suits = known.platform == "cuda" and known.direction is Direction.LOAD and locked and small and many
    order = ["batch_dma", "torch_copy", "triton_copy"]
    order.sort(key=lambda name: name != ("torch_copy" if not described else "triton_copy" if suits else "batch_dma"))
    if known.explicit is not None:
        order = [known.explicit]
    for name in order:
        if can.get(name):
            largest = max(known.page_sizes, default=0)
            chunk = next((1 << bit for bit in range(13) if 1 << bit >= largest), 8192)
            return Choice(name, chunk if name == "triton_copy" else None, "because")
    raise ChoiceError(f"none of {order} can")


def with_facts(change: Callable[[Facts], dict[str, Any]]) -> Selector:
    """The built-in rule, misreading facts."""
    return Selector("planted", lambda known: choose(replace(known, **change(known))))


def pages(change: Callable[[int], int]) -> Selector:
    """The built-in rule, misreading page sizes."""
    return with_facts(lambda known: {"page_sizes": tuple(change(size) for size in known.page_sizes)})


def swapped(known: Facts) -> dict[str, Any]:
    other = {Direction.LOAD: Direction.STORE, Direction.STORE: Direction.LOAD}
    return {} if known.host_memory is Memory.READ_ONLY else {"direction": other.get(known.direction, known.direction)}


def falls_back(known: Facts) -> Choice:
    try:
        return choose(known)
    except ChoiceError:
        return choose(replace(known, explicit=None))


def uncapped(known: Facts) -> Choice:
    choice = choose(known)
    largest = max(known.page_sizes, default=1)
    return replace(choice, bytes_per_chunk=choice.bytes_per_chunk and 1 << (largest - 1).bit_length())


def doubled(known: Facts) -> Choice:
    choice = choose(known)
    largest = max(known.page_sizes, default=1)
    return replace(choice, bytes_per_chunk=choice.bytes_per_chunk and min(8192, 1 << largest.bit_length()))


def last_call_wins(memory: list[Choice], known: Facts) -> Choice:
    memory.append(choose(known))
    return memory[-2] if len(memory) > 1 else memory[-1]


PLANTED: dict[str, tuple[Selector, str, set[str]]] = {
    "more than 28 KiB instead of 28 KiB or more": (
        pages(lambda size: 28664 if size == 28672 else size),
        ids.TABLE,
        {"page_sizes"},
    ),
    "threshold a word too low": (pages(lambda size: 28672 if size == 28664 else size), ids.BOUNDARY, set()),
    "direction swapped": (with_facts(swapped), ids.TABLE, set()),
    "stores through the kernel, loads not": (with_facts(swapped), ids.DIRECTIONS, set()),
    "ROCm taken for CUDA": (
        with_facts(lambda known: {"platform": known.platform.replace("rocm", "cuda")}),
        ids.TABLE,
        {"platform"},
    ),
    "a new vendor taken for CUDA": (
        with_facts(lambda known: {"platform": known.platform.replace("a-new-vendor", "cuda")}),
        ids.TABLE,
        {"platform"},
    ),
    "an explicit choice falls back in silence": (Selector("planted", falls_back), ids.EXPLICIT, set()),
    "fewer than 17 descriptors": (
        with_facts(lambda known: {"descriptors": 15} if known.descriptors == 16 else {}),
        ids.TABLE,
        {"descriptors"},
    ),
    "fewer than 15 descriptors": (
        with_facts(lambda known: {"descriptors": 16} if known.descriptors == 15 else {}),
        ids.TABLE,
        {"descriptors"},
    ),
    "odd pages not looked at": (pages(lambda size: -(-size // 8) * 8), ids.TABLE, {"page_sizes"}),
    "chunk not capped": (Selector("planted", uncapped), ids.TABLE, {"page_sizes"}),
    "chunk doubled at powers of two": (Selector("planted", doubled), ids.TABLE, set()),
    "only the first page looked at": (
        with_facts(lambda known: {"page_sizes": known.page_sizes[:1]}),
        ids.TABLE,
        {"page_sizes"},
    ),
    "order of pages matters": (
        with_facts(lambda known: {"page_sizes": known.page_sizes[:1]}),
        ids.STABLE,
        {"page_sizes"},
    ),
    "what was probed not looked at": (with_facts(lambda known: {"zero_copy": None}), ids.SAFETY, {"zero_copy"}),
    "odd fragments not looked at": (
        with_facts(lambda known: {"fragment_sizes": ()}),
        ids.SAFETY,
        {"fragment_sizes"},
    ),
    "capture not looked at": (with_facts(lambda known: {"captured": False}), ids.SAFETY, {"captured"}),
    "no batch call taken for one": (
        with_facts(lambda known: {"batch_api": known.batch_api or "some/8"}),
        ids.SAFETY,
        {"batch_api"},
    ),
    "pageable memory taken for pinned": (
        with_facts(lambda known: {"host_memory": Memory.PINNED} if known.host_memory is Memory.PAGEABLE else {}),
        ids.SAFETY,
        {"host_memory"},
    ),
    "an answer that is none": (Selector("planted", lambda known: "dma"), ids.TABLE, set()),
    "an error instead of an answer": (Selector("planted", lambda known: choose(known).reason[9999]), ids.TABLE, set()),
}
"""Selector, the claim that finds it, and the facts that the smallest failure can't do without."""
TAKES_TWO = {"capture not looked at", "no batch call taken for one"}  # and a reason not to use the kernel


def smallest(claim_id: str, selector: Selector) -> Facts:
    """The smallest facts on which the claim fails. Raises hypothesis.errors.NoSuchExample if the gate finds none."""
    return find(
        facts(), lambda drawn: bool(disagreements(CLAIMS[claim_id], selector, drawn, OWN)), settings=GATE_SETTINGS
    )


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_found_and_shrinks(fault: str) -> None:
    """Within the examples of a gate, down to the facts that matter; all others are as usual."""
    selector, claim_id, matter = PLANTED[fault]
    found = smallest(claim_id, selector)
    unusual = {field.name for field in fields(Facts) if getattr(found, field.name) != getattr(LOAD, field.name)}
    assert matter <= unusual
    assert len(unusual - matter) <= (3 if fault in TAKES_TWO else 0), unusual
    assert len(found.page_sizes) <= 2
    assert len(found.fragment_sizes) <= 1


@pytest.mark.parametrize("selector", [BUILT_IN, Selector("another", by_table_walk)], ids=lambda one: one.name)
@pytest.mark.parametrize("claim", MANDATORY, ids=lambda claim: claim.id)
@settings(parent=GATE_SETTINGS, max_examples=150)
@given(drawn=facts())
def test_right_selectors_pass(claim: properties.Claim, selector: Selector, drawn: Facts) -> None:
    """The built-in rule, and an equivalent that shares no code with it."""
    assert disagreements(claim, selector, drawn, OWN) == []


def test_unstable_selector_is_found() -> None:
    """An answer that depends on the call before."""
    selector = Selector("planted", partial(last_call_wins, []))
    found = [disagreements(CLAIMS[ids.STABLE], selector, seed, OWN) for seed in (*SEEDS.values(), *SEEDS.values())]
    assert "asked again" in str(found)


def test_sentences_are_for_people() -> None:
    """The texts, word by word."""
    selector = PLANTED["ROCm taken for CUDA"][0]
    assert disagreements(CLAIMS[ids.TABLE], selector, replace(LOAD, platform="rocm", zero_copy=True), OWN) == [
        "SELECT-TABLE: planted: a load of 512-byte pages from pinned memory on rocm (a kernel may dereference the host "
        "memory; a-batch-call/8): expected batch_dma, got triton_copy with chunks of 512 bytes; row rocm (policy): The "
        "offload region is a registered mapping, whose address on the device is another one; loads through the kernel "
        "faulted. [vllm-project/vllm#49843]"
    ]
    selector = PLANTED["an explicit choice falls back in silence"][0]
    assert disagreements(CLAIMS[ids.EXPLICIT], selector, LOAD, OWN) == [
        "SELECT-EXPLICIT: planted: a load of 512-byte pages from pinned memory on cuda (no_such_backend asked for by "
        "name; a-batch-call/8): expected a refusal (ChoiceError), got triton_copy with chunks of 512 bytes; "
        "no_such_backend is not a backend, and nothing may be taken in its place"
    ]
    selector = PLANTED["stores through the kernel, loads not"][0]
    assert disagreements(CLAIMS[ids.DIRECTIONS], selector, LOAD, OWN) == [
        "SELECT-DIRECTIONS: planted: a load of 512-byte pages from pinned memory on cuda (a-batch-call/8) goes to "
        "batch_dma, the store of the same pages to triton_copy with chunks of 512 bytes; expected triton_copy and "
        "batch_dma; row store (policy): Stores are bound by the link, which the copy engine fills by itself; a kernel "
        "that writes over PCIe from too many programs collapses. [vllm-project/vllm#42212]"
    ]


def test_directions_may_not_part_where_no_row_says_so() -> None:
    """A store that goes another way than the load, on a platform where the table has one way for both."""
    parting = Selector("parting", lambda known: "batch_dma" if known.direction is Direction.LOAD else "torch_copy")
    (found,) = disagreements(CLAIMS[ids.DIRECTIONS], parting, replace(LOAD, platform="xpu"), OWN)
    assert "goes to batch_dma, the store of the same pages to torch_copy; expected batch_dma for both; row xpu" in found


def vllm_like(*, rocm_fixed: bool, knows_pinned: bool) -> Any:
    """A module with the interface of vLLM's worker, its rule told in this project's words."""
    module: Any = ModuleType("worker")
    module.ops = SimpleNamespace(swap_blocks_batch=lambda *_, **__: None)
    module.current_platform = SimpleNamespace(is_xpu=lambda: False, is_rocm=lambda: False, device_name="cuda")
    module.HAS_TRITON = True

    def kernel(*_: Any, bytes_per_chunk: int) -> None:
        raise AssertionError("a selection copies nothing")

    def rule(refs_by_group: Any, gpu_to_cpu: bool, host_memory_is_pinned: bool = True) -> Any:
        platform = module.current_platform
        sizes = [ref.page_size_bytes for group in refs_by_group for ref in group]
        unfit = gpu_to_cpu or not host_memory_is_pinned or not module.HAS_TRITON
        unfit = unfit or platform.is_xpu() or (rocm_fixed and platform.is_rocm())
        if unfit or not sizes or max(sizes) >= 28 * 1024 or any(size % 8 for size in sizes):
            return module.ops.swap_blocks_batch
        return partial(kernel, bytes_per_chunk=min(1 << (max(sizes) - 1).bit_length(), 8192))

    def older_rule(kv_cache_groups_data_refs: Any, gpu_to_cpu: bool) -> Any:
        return rule(kv_cache_groups_data_refs, gpu_to_cpu)

    module._select_swap_blocks_fn = rule if knows_pinned else older_rule
    return module


NEWER = vllm.vllm_selector(vllm_like(rocm_fixed=True, knows_pinned=True), fewest_descriptors=16)
PRE_FIX = vllm.vllm_selector(vllm_like(rocm_fixed=False, knows_pinned=False), name="vLLM before the ROCm fix")
IN_ITS_DOMAIN = facts(
    platforms=sorted(vllm.PLATFORMS),
    directions=sorted(vllm.DIRECTIONS),
    memory=[kind for kind in HOST_KINDS if kind in vllm.MEMORY],
)


@pytest.mark.parametrize("claim", MANDATORY, ids=lambda claim: claim.id)
@settings(parent=GATE_SETTINGS, max_examples=100)
@given(drawn=IN_ITS_DOMAIN)
def test_published_rule_passes_where_it_is_meant_to_be_used(claim: properties.Claim, drawn: Facts) -> None:
    """vLLM's rule with the ROCm fix agrees with the table on what it looks at."""
    assert NEWER.outside(drawn) is None
    assert disagreements(claim, NEWER, drawn, OWN) == []


def test_rule_before_the_rocm_fix_is_unsafe() -> None:
    """The seed case: on ROCm the registered mapping has another address on the device."""
    assert disagreements(CLAIMS[ids.SAFETY], PRE_FIX, ROCM_REGISTERED_LOAD, OWN) == [
        "SELECT-SAFETY: vLLM before the ROCm fix: a load of 512-byte pages from registered memory on rocm (a kernel "
        "can not dereference the host memory; hipMemcpyBatchAsync/9): expected anything but triton_copy, got "
        "triton_copy with chunks of 512 bytes, which is unsafe; row kernel-refuted-memory (safety): A probe found that "
        "a kernel can't dereference this host memory: an illegal access, after which the context is dead for good."
    ]
    (found,) = disagreements(CLAIMS[ids.TABLE], PRE_FIX, ROCM_REGISTERED_LOAD, OWN)
    assert "expected batch_dma, got triton_copy with chunks of 512 bytes; row rocm (policy)" in found
    assert disagreements(CLAIMS[ids.SAFETY], NEWER, ROCM_REGISTERED_LOAD, OWN) == []


def test_rule_before_the_rocm_fix_is_found_unsafe_by_drawing() -> None:
    """Without knowing the seed case: any registered memory on ROCm will do."""
    rocm = facts(platforms=["rocm"], directions=sorted(vllm.DIRECTIONS), memory=[Memory.PINNED, Memory.REGISTERED])
    failing = find(
        rocm, lambda drawn: bool(disagreements(CLAIMS[ids.SAFETY], PRE_FIX, drawn, OWN)), settings=GATE_SETTINGS
    )
    assert failing == replace(LOAD, platform="rocm", host_memory=Memory.REGISTERED)


def test_blind_spots_are_found() -> None:
    """Odd fragments under even pages: the published rule does not look at fragments, and says so only when asked."""
    odd = replace(KERNEL_LOAD, fragment_sizes=(12,), kernel_any_size=False)
    assert disagreements(CLAIMS[ids.SAFETY], NEWER, odd, OWN) == []
    (found,) = disagreements(CLAIMS[ids.BLIND_SPOT], NEWER, odd, OWN)
    assert "row kernel-odd-fragment (safety)" in found
    assert disagreements(CLAIMS[ids.BLIND_SPOT], BUILT_IN, odd, OWN) == []


def test_claims_that_do_not_apply_say_so() -> None:
    """vLLM's rule takes no explicit choice, and is not meant for every platform."""
    assert CLAIMS[ids.EXPLICIT].not_for(NEWER) == "vllm does not look at explicit"
    assert CLAIMS[ids.EXPLICIT].not_for(BUILT_IN) is None
    assert NEWER.outside(replace(LOAD, platform="cpu")) == "vllm is not meant for cpu"
    assert NEWER.outside(replace(LOAD, direction=Direction.HOST_TO_HOST)) == "vllm is not meant for host-to-host copies"
    pieces = replace(LOAD, host_memory=Memory.REGISTERED_PIECES)
    assert NEWER.outside(pieces) == "vllm is not meant for registered-pieces memory"


def test_platform_is_put_back() -> None:
    """Also when the rule raises, and where the name wasn't there before."""
    module: Any = vllm_like(rocm_fixed=True, knows_pinned=True)
    platform = module.current_platform
    with vllm.pretend(module, "xpu", False):
        assert (module.current_platform.is_xpu(), module.current_platform.is_cuda_alike()) == (True, False)
        assert (module.current_platform.device_name, module.HAS_TRITON) == ("cuda", False)
    assert (module.current_platform, module.HAS_TRITON) == (platform, True)
    module._select_swap_blocks_fn = lambda refs, gpu_to_cpu: 1 // 0
    assert vllm.vllm_selector(module).ask(LOAD).broke == "ZeroDivisionError: integer division or modulo by zero"
    assert (module.current_platform, module.HAS_TRITON) == (platform, True)
    empty = ModuleType("empty")
    with vllm.pretend(empty, "rocm", True):
        pass
    assert not hasattr(empty, "HAS_TRITON")


def test_unknown_vllm_interfaces_are_refused() -> None:
    """A module without the function, another signature, another result."""
    module: Any = ModuleType("worker")
    with pytest.raises(SelectorError, match="worker has no _select_swap_blocks_fn"):
        vllm.vllm_selector(module)
    module._select_swap_blocks_fn = lambda refs, gpu_to_cpu, moon: None
    with pytest.raises(SelectorError, match=r"_select_swap_blocks_fn\(refs, gpu_to_cpu, moon\) is not a signature"):
        vllm.vllm_selector(module)
    module._select_swap_blocks_fn = lambda refs, gpu_to_cpu: 7
    module.ops = SimpleNamespace(swap_blocks_batch=None)
    assert "returned 7: neither the batch op" in str(vllm.vllm_selector(module).ask(LOAD))


def test_selectors_are_loaded_by_path() -> None:
    """The form package.module:callable; what can't be loaded is said in a sentence."""
    loaded = load_selector("backends.selection:choose")
    assert loaded.ask(LOAD).backend in BACKENDS
    assert load_selector("conformance.subjects.rules:BUILT_IN") is BUILT_IN
    for path, text in {
        "backends.selection": "is not of the form package.module:callable",
        "no_such_package.rule:choose": "no_such_package.rule can't be imported",
        "backends.selection:chose": "backends.selection has no chose",
        "backends.selection:WORD": "backends.selection:WORD is a int; a selector is a callable that takes Facts",
    }.items():
        with pytest.raises(SelectorError, match=text):
            load_selector(path)
    with pytest.raises(SelectorError, match="sees 'moon', which is not a fact"):
        Selector("wrong", choose, frozenset({"moon"}))


def test_installed_selectors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the entry point group, by name."""
    point = SimpleNamespace(name="mine", value="mine.rule:choose", load=lambda: choose)
    monkeypatch.setattr(rules, "entry_points", lambda group: [point] if group == "kvconform.selectors" else [])
    assert rules.installed_selectors() == {"mine": as_selector("mine.rule:choose", choose)}


def test_selectors_that_return_names_are_judged_by_name() -> None:
    """A bare name has no chunk to compare."""
    by_name = Selector("by-name", lambda known: choose(known).backend)
    assert disagreements(CLAIMS[ids.TABLE], by_name, LOAD, OWN) == []
    silent = Selector("silent", lambda known: _refuse_silently(known))
    found = disagreements(CLAIMS[ids.EXPLICIT], silent, LOAD, OWN)
    assert "which is right, but gave no reason" in found[0]


def _refuse_silently(known: Facts) -> Choice:
    try:
        return choose(known)
    except ChoiceError:
        raise ChoiceError from None


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (Unprintable(), "Unprintable (its text can't be printed)"),
    ],
)
def test_a_rule_that_ends_or_can_not_be_told_is_a_finding(raised: BaseException, says: str) -> None:
    """Whatever it raises, the suite goes on; so it does with an answer that can't be printed."""

    def broken(facts: Facts) -> str:
        raise raised

    assert Selector("broken", broken).ask(LOAD).broke == says
    odd = Selector("odd", lambda facts: Unprintable()).ask(LOAD)  # type: ignore[arg-type, return-value]
    assert (odd.broke or "").startswith("a Unprintable that can't be printed, which is neither a Choice")


@pytest.mark.parametrize("source", ["raise ValueError('not today')", "import sys; sys.exit(3)", "def ("])
def test_a_module_that_fails_to_import_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """In one sentence, whatever its import raises."""
    (tmp_path / "broken_rule.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SelectorError, match=r"broken_rule:rule: importing broken_rule failed: [A-Z]"):
        load_selector("broken_rule:rule")
