"""The text of a failure, whole, for each way to fail: most people see nothing else, so a change is deliberate."""

from __future__ import annotations

from pathlib import Path

import pytest
from some_cases import load

from backends.contract import Direction, Memory, Stream, Support
from conformance.device.case_runner import Bench
from conformance.judge.evidence import Evidence, Outcome
from conformance.judge.fill import Images
from conformance.judge.oracle import initial
from conformance.judge.verdict import Verdict, judge
from conformance.record import failures
from conformance.report.explain import brief_text, describe, failure_text, run_lines
from conformance.search.search import Failure
from strategies.case import Case, Fence, Malformed, Pool, Run, Submission, Tensor

PADDED = load(13, source_stride=16, destination_stride=24)
DENSE = load(16)
FILE = Path("reports/one/failures/this.json")


def text(backend: str, case: Case, verdict: Verdict, name: str = "") -> str:
    failure = Failure(case, verdict, name, drawn=7, shrinking=12, seconds=0.52)
    return failure_text(backend, failure, FILE, "fails in a fresh process too")


WRONG = {
    "wrong bytes": (
        "dropped_tail",
        PADDED,
        """\
tests.planted.wrong:dropped_tail breaks BYTES-COPIED: 15 bytes wrong in block 0 (its last 5 of 13 bytes), \
block 1 (its last 5 of 13 bytes), block 3 (its last 5 of 13 bytes)
    expected  76 34 5f 56 >39 54 77 7d 04 b2 b6 f1 a8 d3 83 c0
    found     76 34 5f 56 >ad f1 ec b2 be b2 b6 f1 a8 d3 83 c0   (as before the copy: never written)
case    load, pageable -> device
        page 13 bytes, blocks 2->1, 0->3, 1->0; source: rows of 16 bytes; destination: rows of 24 bytes
        side stream, seed 0
path    call of tests.planted.wrong:dropped_tail
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:dropped_tail""",
    ),
    "padding and guard": (
        "touches_padding",
        PADDED,
        """\
tests.planted.wrong:touches_padding breaks BYTES-UNTOUCHED: 9 bytes changed in padding behind block 0 \
(its first 3 of 11 bytes), padding behind block 1 (its first 3 of 11 bytes), guard band behind block 3 \
(its first 3 of 256 bytes)
    expected  54 77 7d 04 >b2 b6 f1 a8 d3 83 c0 c4 85 b0 d4 17
    found     54 77 7d 04 >6d 38 5c a8 d3 83 c0 c4 85 b0 d4 17   (bytes of the source)
case    load, pageable -> device
        page 13 bytes, blocks 2->1, 0->3, 1->0; source: rows of 16 bytes; destination: rows of 24 bytes
        side stream, seed 0
path    call of tests.planted.wrong:touches_padding
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:touches_padding""",
    ),
    "two requirements": (
        "off_by_one_block",
        load(16, ((0, 1, 2, 3), (0, 1, 2, 3))),
        """\
tests.planted.wrong:off_by_one_block breaks BYTES-COPIED: 16 bytes wrong in block 3 (all 16 bytes)
    expected  5c 48 5d 30 >72 4e 26 39 30 43 48 66 77 73 0a 58
    found     5c 48 5d 30 >ea ab b0 d7 9d d3 81 db b4 8d b9 a8   (as before the copy: never written)
also BYTES-UNTOUCHED: 16 bytes changed in guard band behind block 3 (its first 16 of 256 bytes)
    expected  7f 65 1d 4a >ce d1 94 be ce 89 96 d0 b5 f8 d2 ea
    found     9f ef ea f0 >72 4e 26 39 30 43 48 66 77 73 0a 58   (bytes of source block 3, from byte 0 on)
case    load, pageable -> device
        page 16 bytes, blocks 0->0, 1->1, 2->2, 3->3
        side stream, seed 0
path    call of tests.planted.wrong:off_by_one_block
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:off_by_one_block""",
    ),
    "source": (
        "modifies_source",
        DENSE,
        """\
tests.planted.wrong:modifies_source breaks BYTES-SOURCE: 3 bytes of the source changed in block 0 \
(the first of its 16 bytes), block 1 (the first of its 16 bytes), block 2 (the first of its 16 bytes)
    expected  03 1e 72 5f >5e 63 5b 01 1d 62 09 2a 71 19 25 7f
    found     03 1e 72 5f >00 63 5b 01 1d 62 09 2a 71 19 25 7f   (zeros)
case    load, pageable -> device
        page 16 bytes, blocks 2->1, 0->3, 1->0
        side stream, seed 0
path    call of tests.planted.wrong:modifies_source
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:modifies_source""",
    ),
    "refusal": (
        "undeclared_limit",
        PADDED,
        """\
tests.planted.wrong:undeclared_limit breaks REFUSE-DECLARED: refused a copy that it does not declare unsupported: \
Refused: size 13 is not a multiple of 8
case    load, pageable -> device
        page 13 bytes, blocks 2->1, 0->3, 1->0; source: rows of 16 bytes; destination: rows of 24 bytes
        side stream, seed 0
path    call of tests.planted.wrong:undeclared_limit
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:undeclared_limit""",
    ),
    "malformed": (
        "accepts_negative_sizes",
        load(16, submission=Submission(malformed=Malformed.NEGATIVE_SIZE)),
        """\
tests.planted.wrong:accepts_negative_sizes breaks INPUT-REJECTED: accepted malformed descriptors (negative-size) \
without an error
also INPUT-UNTOUCHED: 32 bytes of the destination were written although the descriptors were malformed (negative-size)
    expected  da de 8f e5 >ce f5 fd aa b1 eb b7 c4 ad f1 ec b2
    found     da de 8f e5 >01 42 78 4b 76 34 5f 56 39 54 77 7d   (bytes of source block 1, from byte 0 on)
case    load, pageable -> device
        page 16 bytes, blocks 2->1, 0->3, 1->0
        side stream, descriptors malformed: negative-size, seed 0
path    call of tests.planted.wrong:accepts_negative_sizes
found   as case 7 of this test; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend tests.planted.wrong:accepts_negative_sizes""",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_text_of_a_planted_failure(what: str, bench: Bench) -> None:
    """The whole text for what a planted fault leaves behind."""
    attribute, case, expected = WRONG[what]
    backend = f"tests.planted.wrong:{attribute}"
    assert text(backend, case, bench.verdict(backend, case)) == expected


def test_text_of_a_death() -> None:
    """The whole text for a process that died, with what it printed, found in a listed example."""
    evidence = Evidence(Outcome.FAULT, "signal SIGSEGV", output="first\nlast words\n")
    assert text("theirs", DENSE, _judged(evidence), name="page-16") == (
        """\
theirs breaks SURVIVE-FAULT: the process that ran the case died: signal SIGSEGV
    printed: first
    printed: last words
case    load, pageable -> device
        page 16 bytes, blocks 2->1, 0->3, 1->0
        side stream, seed 0
found   in the listed example 'page-16'; 12 more runs in 0.5 s to make it small
        fails in a fresh process too
saved   reports/one/failures/this.json
replay  kvconform replay reports/one/failures/this.json --backend theirs"""
    )


def test_sentences_of_what_breaks() -> None:
    """The sentence for a hang, for an error of the device, and for one that shows only afterwards."""
    hang = _judged(Evidence(Outcome.HANG, "no answer within 10.0 s"))
    error = _judged(Evidence(Outcome.DEVICE_ERROR, "launch failed", poisoned="an illegal access (700)"))
    late = _judged(Evidence(Outcome.COMPLETED, poisoned="an illegal access (700)"))
    assert [verdict.findings[0].sentence for verdict in (hang, error, late)] == [
        "the case did not end: no answer within 10.0 s",
        "the device is in error: launch failed (the device says: an illegal access (700))",
        "the copy ended, but the device is in error after it: an illegal access (700)",
    ]


def test_brief_text_names_the_shrunk_failure(tmp_path: Path) -> None:
    """A second failure of the same kind points to the shrunk one, and can be read and replayed by itself."""
    failure = Failure(DENSE, _judged(Evidence(Outcome.FAULT, "signal SIGSEGV")), shrunk=False)
    first = failures.save(tmp_path, "theirs", DENSE, failure.verdict, "a CPU")
    assert brief_text("theirs", failure, FILE, [first, FILE]) == (
        f"""\
theirs breaks SURVIVE-FAULT: the process that ran the case died: signal SIGSEGV
like {first}, so not shrunk again
case    load, pageable -> device
        page 16 bytes, blocks 2->1, 0->3, 1->0
replay  kvconform replay reports/one/failures/this.json --backend theirs"""
    )
    assert "\nthe same case as another test's\n" in brief_text("theirs", failure, first, [first])
    assert "\nnot shrunk: another test makes the like of it small\n" in brief_text("theirs", failure, FILE, [])


def test_one_of_all_tests_makes_a_failure_small(tmp_path: Path) -> None:
    """The first to meet a requirement broken by a backend; another requirement or backend is another matter."""
    fault = _judged(Evidence(Outcome.FAULT, "signal SIGSEGV"))
    hang = _judged(Evidence(Outcome.HANG, "no answer within 10.0 s"))
    asked = [("theirs", fault), ("theirs", fault), ("ours", fault), ("theirs", hang), ("theirs", hang)]
    found = [failures.first_of_its_kind(tmp_path, backend, verdict) for backend, verdict in asked]
    assert found == [True, False, True, True, False]


def test_the_end_of_a_run_shows_the_shrunk_failure(tmp_path: Path) -> None:
    """One block a backend and requirement: the shrunk case whichever file comes first, and how many are like it."""
    verdict = _judged(Evidence(Outcome.FAULT, "signal SIGSEGV"))
    others = [failures.save(tmp_path, "theirs", load(n), verdict, "a CPU", shrunk=False) for n in (13, 17, 18)]
    small = failures.save(tmp_path, "theirs", DENSE, verdict, "a CPU")
    assert failures.save(tmp_path, "theirs", DENSE, verdict, "a CPU", shrunk=False) == small
    assert failures.similar(tmp_path, "theirs", verdict)[0] == small
    assert "\n".join(run_lines([*others, small])) == (
        f"""
theirs breaks SURVIVE-FAULT: the process that ran the case died: signal SIGSEGV
case    load, pageable -> device
        page 16 bytes, blocks 2->1, 0->3, 1->0
        side stream, seed 0
saved   {small}
replay  kvconform replay {small} --backend theirs
3 more like it in {tmp_path}
"""
    )


def test_a_death_on_malformed_descriptors_says_what_was_wanted() -> None:
    """The process died where an error was due: the sentence says so."""
    case = load(16, submission=Submission(malformed=Malformed.NULL_SOURCE))
    verdict = _judged(Evidence(Outcome.FAULT, "signal SIGSEGV"), case)
    assert verdict.findings[0].sentence == (
        "the process that ran the case died: signal SIGSEGV; the contract wants an error here: malformed (null-source)"
    )


def test_description_of_a_case_with_everything() -> None:
    """Every field that is not as usual is told in words, and long lists are cut."""
    chunks = Pool(blocks=12, stride=64, per_chunk=4, chunk_stride=300, origin=5)
    runs = (Run(0, 8, 16, 2, 24, 20), Run(48, 48, 4))
    first = Tensor(60, chunks, Pool(12, 60), tuple(range(9)), tuple(range(9)), runs)
    empty = Tensor(1, Pool(1, 1), Pool(1, 1), (), ())
    submission = Submission(
        Stream.DEFAULT,
        calls=3,
        zero_entries=(0, 4),
        late_source=True,
        late_destination=True,
        reuse_descriptors=True,
    )
    case = Case(
        Direction.STORE,
        Memory.DEVICE,
        Memory.SHARED,
        (first, empty, empty, empty, empty),
        submission,
        source_fence=Fence.AFTER,
        destination_fence=Fence.BEFORE,
        seed=9,
    )
    assert describe(case) == [
        "store, device -> shared, source arena ends at an unmapped page, destination arena begins at an unmapped page",
        "tensor 0: page 60 bytes, blocks 0->0, 1->1, 2->2, 3->3, 4->4, 5->5, ... (9 in all); in pieces: "
        "2 x 16 bytes at 0 (+24) -> 8 (+20), 1 x 4 bytes at 48 (+0) -> 48 (+0); "
        "source: chunks of 4 blocks every 300 bytes, rows of 64 bytes, block 0 at byte 5",
        "tensor 1: page 1 byte, blocks none",
        "tensor 2: page 1 byte, blocks none",
        "and 2 more tensors",
        "default stream, 3 calls, descriptors of size zero at [0, 4], source written late on the stream, "
        "destination in use on the stream until the copy, descriptors zeroed on return, seed 9",
    ]


def _judged(evidence: Evidence, case: Case = DENSE) -> Verdict:
    before = initial(case)
    after = Images(before.source.copy(), before.destination.copy())
    return judge(case, "theirs", Support(), before, after, evidence)
