"""Cases as files: the frozen corpus, with a digest, and folders of saved cases. Draws nothing.

A frozen corpus is JSON Lines: a header, then one case a line. Its digest is that of the case lines' bytes, so two runs
that name one digest ran the same inputs, whatever their versions of Python, Hypothesis or a backend. Which cases are in
it is `freezing`'s concern, which of them a run takes is the run's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from backends.contract import Memory
from strategies.case import Case, CaseError
from strategies.footprint import destination_footprint, source_footprint
from strategies.scope import Scope

FORMAT = 1
MOST_LINE = 16 << 10  # bytes: longer cases are listed by `must_have`, which builds them
FOLDER = Path(__file__).parent.parent / "corpus"  # of a checkout: it is no part of an installed package
PUBLIC = FOLDER / "public"
KINDS = ("cpu", "accelerator")

Named = tuple[str, Case]


class CorpusError(ValueError):
    """A corpus that can't be used: the text names file, line and field."""


@dataclass(frozen=True)
class Header:
    """The first line of a corpus file."""

    kind: str  # which platforms it is for; one of KINDS
    cases: int
    digest: str  # SHA-256 of the bytes behind the header, in hex
    seed: int
    command: str  # that made it
    made_with: str  # versions; for the record only
    format: int = FORMAT


@dataclass(frozen=True)
class Entry:
    """One line: the case as text, since a run needs few of them as cases."""

    id: str
    text: str  # canonical JSON of the case

    @classmethod
    def of(cls, case: Case) -> Entry:
        text = case.dumps()
        return cls(hashlib.blake2b(text.encode(), digest_size=6).hexdigest(), text)

    @property
    def line(self) -> str:
        return f'{{"id":"{self.id}","case":{self.text}}}\n'

    def case(self) -> Case:
        """Raises CaseError for what this version can't read."""
        return Case.from_json(json.loads(self.text))


@dataclass(frozen=True)
class Corpus:
    """A file's header and cases, in its order."""

    path: Path
    header: Header
    entries: tuple[Entry, ...]

    def named(self, entries: Iterable[Entry] | None = None) -> list[Named]:
        """(id, case) of these entries, or of all. Raises CorpusError."""
        return [(entry.id, self._case(entry)) for entry in (self.entries if entries is None else entries)]

    def _case(self, entry: Entry) -> Case:
        try:
            return entry.case()
        except CaseError as error:
            raise CorpusError(f"{self.path}: case {entry.id}: {error}") from error


def kind_of(platform: str) -> str:
    """Which corpus is for this platform."""
    return "cpu" if platform == "cpu" else "accelerator"


def path_of(kind: str) -> Path:
    return FOLDER / f"{kind}.jsonl"


def write(path: Path, cases: Sequence[Case], kind: str, seed: int, command: str, made_with: str) -> Header:
    """Freeze these cases. Raises OSError."""
    lines = "".join(Entry.of(case).line for case in cases)
    header = Header(kind, len(cases), _digest(lines), seed, command, made_with)
    path.write_text(json.dumps(asdict(header)) + "\n" + lines, encoding="utf-8")
    return header


def read(path: Path) -> Corpus:
    """The corpus in a file, its header held against its lines. Raises CorpusError; no case is looked into."""
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}; the frozen corpus comes with a checkout") from error
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 ({error})") from error
    header = _header(path, first)
    if _digest(rest) != header.digest:
        raise CorpusError(
            f"{path}: digest: the header says {header.digest}, the cases have {_digest(rest)}: they were changed"
        )
    entries = tuple(_entry(f"{path}:{number}", line) for number, line in enumerate(rest.splitlines(), 2))
    if len(entries) != header.cases:
        raise CorpusError(f"{path}: cases: the header says {header.cases}, the file has {len(entries)}")
    return Corpus(path, header, entries)


def problems(corpus: Corpus) -> list[str]:
    """What is wrong with the cases themselves, one sentence each: ids, canonical text, length, cases that can't be."""
    found = []
    seen: dict[str, int] = {}
    for number, entry in enumerate(corpus.entries, 2):
        where = f"{corpus.path}:{number}"
        if entry.id in seen:
            found.append(f"{where}: id: {entry.id} is that of line {seen[entry.id]} too")
        seen.setdefault(entry.id, number)
        if len(entry.line) > MOST_LINE:
            found.append(f"{where}: {len(entry.line)} bytes, at most {MOST_LINE}")
        try:
            expected = Entry.of(entry.case())
        except CaseError as error:
            found.append(f"{where}: {error}")
            continue
        if entry.text != expected.text:
            found.append(f"{where}: case: not in canonical form; write it with `kvconform corpus generate`")
        elif entry.id != expected.id:
            found.append(f"{where}: id: {entry.id}, but the case's is {expected.id}")
    return found


@dataclass(frozen=True)
class Folder:
    """The cases in a folder, and what is wrong with files that hold none; a bad file takes no other with it."""

    cases: tuple[Named, ...]
    problems: tuple[str, ...]

    @property
    def digest(self) -> str:
        return _digest("".join(f"{name} {case.dumps()}\n" for name, case in self.cases))


def read_folder(folder: Path) -> Folder:
    """Every *.json (a saved failure, or a bare case) and every *.jsonl (a corpus) of a folder, by name.

    Raises CorpusError for what is no folder."""
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no such folder")
    cases: list[Named] = []
    wrong: list[str] = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.jsonl")]):
        try:
            if path.suffix == ".json":
                cases.append((path.name, Case.load(path)))
            else:
                cases += [(f"{path.name}:{name}", case) for name, case in read(path).named()]
        except (CaseError, CorpusError) as error:
            wrong.append(str(error))
    return Folder(tuple(cases), tuple(wrong))


def on_cpu(case: Case) -> Case:
    """The case where there is nothing to pin or to register: plain memory of the same make stands in for such."""
    twins = {
        Memory.PINNED: Memory.PAGEABLE,
        Memory.REGISTERED: Memory.SHARED,
        Memory.REGISTERED_ANONYMOUS: Memory.PAGEABLE,
        Memory.REGISTERED_PIECES: Memory.SHARED,
        Memory.REGISTERED_PARTLY: Memory.SHARED,
    }
    source, destination = case.source_memory, case.destination_memory
    return replace(
        case, source_memory=twins.get(source, source), destination_memory=twins.get(destination, destination)
    )


def why_left_out(scope: Scope, case: Case) -> str | None:
    """Why the scope's device can't build this case (or its backend is too slow for it), or None.

    What the backend declares unsupported is no reason: refusing it is a verdict."""
    for memory in (case.source_memory, case.destination_memory):
        if memory not in scope.memory:
            return f"{memory.value} memory"
    if case.submission.stream not in scope.streams:
        return f"the {case.submission.stream.value} stream"
    if case.submission.late_source and case.source_memory not in scope.late:
        return f"a late source in {case.source_memory.value} memory"
    if case.submission.late_destination and case.destination_memory not in scope.late:
        return f"a late destination in {case.destination_memory.value} memory"
    if case.descriptors > scope.max_descriptors:
        return f"more than {scope.max_descriptors} descriptors"
    for memory, layout in (
        (case.source_memory, source_footprint(case)),
        (case.destination_memory, destination_footprint(case)),
    ):
        if layout.fence.value != "none" and memory not in scope.fenceable:
            return f"a fence beside {memory.value} memory"
        if layout.sparse and memory not in scope.sparse:
            return f"an arena with holes in {memory.value} memory"
    return None


def _header(path: Path, line: str) -> Header:
    data = _json(f"{path}:1", line)
    if data.get("format") != FORMAT:
        raise CorpusError(f"{path}:1: format: {data.get('format')!r}, this version reads {FORMAT}")
    for one in fields(Header):
        kind = int if one.name in ("cases", "seed", "format") else str
        if not isinstance(data.get(one.name), kind):
            raise CorpusError(f"{path}:1: {one.name}: {data.get(one.name)!r}, must be {kind.__name__}")
    unknown = sorted(set(data) - {one.name for one in fields(Header)})
    if unknown:
        raise CorpusError(f"{path}:1: unknown field {unknown[0]}")
    return Header(**data)


def _entry(where: str, line: str) -> Entry:
    data = _json(where, line)
    if not isinstance(data.get("id"), str) or not isinstance(data.get("case"), dict) or len(data) != 2:
        raise CorpusError(f"{where}: a line holds id, a text, and case, an object, and nothing else")
    return Entry(data["id"], json.dumps(data["case"], sort_keys=True, separators=(",", ":")))


def _json(where: str, line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise CorpusError(f"{where}: not JSON ({error})") from error
    if not isinstance(data, dict):
        raise CorpusError(f"{where}: a JSON object, not {type(data).__name__}")
    return data


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
