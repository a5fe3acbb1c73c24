"""Corpus files: written and read back, and each way in which one can be damaged named by file, line and field."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.contract import Device, Direction, Memory, Stream, Support
from strategies.case import Case, Fence, Pool, Submission, Tensor
from strategies.corpus import (
    CorpusError,
    Entry,
    kind_of,
    on_cpu,
    problems,
    read,
    read_folder,
    why_left_out,
    write,
)
from strategies.scope import Scope

POOL = Pool(4, 64)
TENSOR = Tensor(64, POOL, POOL, (0, 2), (1, 3))
PLAIN = Case(Direction.LOAD, Memory.PINNED, Memory.DEVICE, (TENSOR,))
CASES = [replace(PLAIN, seed=seed) for seed in range(5)]
GPU = Device(
    platform="cuda",
    index=0,
    name="a GPU",
    driver="1",
    runtime="1",
    torch="2",
    triton="3",
    memory=("device", "pinned", "shared"),
    streams=("side",),
    pageable_access=False,
    registered_address_is_host_address=True,
    batch_api=None,
    fences=True,
)
LATE = "a late source in shared memory"
SCOPE = Scope.of(GPU, Support(), max_descriptors=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "some.jsonl"
    write(found, CASES, "cpu", 7, "a command", "versions")
    return found


def test_what_was_written_is_read_back(path: Path) -> None:
    corpus = read(path)
    assert (corpus.header.cases, corpus.header.kind, corpus.header.seed) == (5, "cpu", 7)
    assert [case for _, case in corpus.named()] == CASES
    assert problems(corpus) == []


def test_the_digest_is_that_of_the_cases_alone(path: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", CASES, "accelerator", 8, "another", "other versions")
    assert other.digest == read(path).header.digest
    assert write(tmp_path / "fewer.jsonl", CASES[1:], "cpu", 7, "a", "v").digest != other.digest


def test_an_id_is_the_cases_own_and_stays() -> None:
    """Pinned: an id that moved would orphan every note that names one."""
    assert Entry.of(PLAIN).id == "b4cdef87b9e2"


def edit(path: Path, number: int, change: Callable[[dict[str, Any]], None], *, honest: bool = False) -> None:
    """Change one line; with `honest`, the header's digest too, as an editor who knows it would."""
    lines = path.read_text().splitlines(keepends=True)
    data = json.loads(lines[number - 1])
    change(data)
    lines[number - 1] = json.dumps(data, separators=(",", ":")) + "\n"
    path.write_text("".join(lines))
    if honest:
        digest = hashlib.sha256("".join(lines[1:]).encode()).hexdigest()
        edit(path, 1, lambda header: header.update(digest=digest))


def test_a_changed_case_is_noticed(path: Path) -> None:
    edit(path, 3, lambda line: line["case"].update(seed=99))
    with pytest.raises(CorpusError, match=r"some.jsonl: digest: the header says \w+, the cases have \w+: .* changed"):
        read(path)


def test_a_lost_case_is_noticed_even_with_a_new_digest(path: Path) -> None:
    edit(path, 1, lambda header: header.update(cases=6))
    with pytest.raises(CorpusError, match="cases: the header says 6, the file has 5"):
        read(path)


def test_an_id_that_is_not_the_cases_own(path: Path) -> None:
    edit(path, 3, lambda line: line.update(id="0" * 12), honest=True)
    assert [problem.split(".jsonl:")[1][:5] for problem in problems(read(path))] == ["3: id"]


def test_a_case_that_can_not_be(path: Path) -> None:
    edit(path, 4, lambda line: line["case"]["tensors"][0].update(page_bytes=0), honest=True)
    [problem] = problems(read(path))
    assert "some.jsonl:4: tensors[0].page_bytes: 0, may be 1 or more" in problem
    with pytest.raises(CorpusError, match=r"some.jsonl: case \w+: tensors\[0\].page_bytes"):
        read(path).named()


def test_a_case_that_is_there_twice(tmp_path: Path) -> None:
    write(tmp_path / "twice.jsonl", [PLAIN, PLAIN], "cpu", 0, "", "")
    assert "is that of line 2 too" in problems(read(tmp_path / "twice.jsonl"))[0]


def test_a_long_line(tmp_path: Path) -> None:
    many = tuple(range(4000))
    case = replace(PLAIN, tensors=(Tensor(1, Pool(4000, 1), Pool(4000, 1), many, many),))
    write(tmp_path / "long.jsonl", [case], "cpu", 0, "", "")
    assert "bytes, at most 16384" in problems(read(tmp_path / "long.jsonl"))[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header: header.update(format=2), "format: 2, this version reads 1"),
        (lambda header: header.update(cases="5"), "cases: '5', must be int"),
        (lambda header: header.pop("digest"), "digest: None, must be str"),
        (lambda header: header.update(more=1), "unknown field more"),
    ],
)
def test_a_header_that_is_none(path: Path, change: Callable[[dict[str, Any]], None], said: str) -> None:
    edit(path, 1, change)
    with pytest.raises(CorpusError, match=f"some.jsonl:1: {said}"):
        read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "not JSON"), ("{", "not JSON"), ("[]\n", "a JSON object, not list"), ("\xff", "not UTF-8")],
)
def test_a_file_that_is_no_corpus(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=said):
        read(tmp_path / "bad.jsonl")


def test_a_line_that_is_no_case(path: Path) -> None:
    edit(path, 2, lambda line: line.pop("id"), honest=True)
    with pytest.raises(CorpusError, match=r"some.jsonl:2: a line holds id, a text, and case"):
        read(path)


def test_a_missing_file_says_where_a_corpus_comes_from(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none.jsonl: No such file or directory; the frozen corpus comes with"):
        read(tmp_path / "none.jsonl")


def test_a_bad_file_in_a_folder_takes_no_other_with_it(path: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.json").write_text(PLAIN.dumps())
    (tmp_path / "saved.json").write_text(json.dumps({"backend": "x", "case": CASES[1].to_json()}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "strange.json").write_text(json.dumps({**PLAIN.to_json(), "direction": "up"}))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "notes.txt").write_text("not ours")
    folder = read_folder(tmp_path)
    assert [name.split(":")[0] for name, _ in folder.cases] == ["bare.json", "saved.json", *["some.jsonl"] * 5]
    broken, empty, strange = folder.problems
    assert "broken.json: not JSON" in broken
    assert "empty.jsonl:1: not JSON" in empty
    assert "strange.json: case.direction: 'up'" in strange


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such folder"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"source_memory": Memory.PAGEABLE}, "pageable memory"),
        ({"submission": Submission(Stream.DEFAULT)}, "the default stream"),
        (
            {"source_memory": Memory.SHARED, "submission": Submission(late_source=True)},
            "a late source in shared memory",
        ),
        ({"source_fence": Fence.AFTER}, "a fence beside pinned memory"),
        ({"source_memory": Memory.SHARED, "source_fence": Fence.AFTER}, None),
        ({"destination_fence": Fence.BEFORE}, None),
        ({"tensors": (replace(TENSOR, source=Pool(1 << 30, 64)),)}, "an arena with holes in pinned memory"),
        ({"tensors": (replace(TENSOR, destination=Pool(1 << 30, 64)),)}, None),
        ({"submission": Submission(zero_entries=(0,) * 99)}, "more than 100 descriptors"),
    ],
)
def test_what_a_device_can_not_build_is_left_out(change: dict[str, Any], why: str | None) -> None:
    assert why_left_out(SCOPE, replace(PLAIN, **change)) == why


def test_what_a_backend_declares_unsupported_is_not_left_out() -> None:
    support = Support(memory=frozenset({Memory.DEVICE, Memory.SHARED}), size_multiple=48)
    assert why_left_out(Scope.of(GPU, support), PLAIN) is None


def test_a_cpu_takes_plain_memory_for_pinned_and_registered() -> None:
    assert on_cpu(PLAIN) == replace(PLAIN, source_memory=Memory.PAGEABLE)
    store = replace(
        PLAIN, direction=Direction.STORE, source_memory=Memory.DEVICE, destination_memory=Memory.REGISTERED_PIECES
    )
    assert on_cpu(store) == replace(store, destination_memory=Memory.SHARED)
    assert kind_of("cpu") == "cpu"
    assert kind_of("a vendor's") == "accelerator"
