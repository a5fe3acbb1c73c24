"""Counts and journals: what a process wrote survives it, adds up, and is cut rather than lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.record.counts import COLUMNS, ROWS, Count, Key, Tally, read
from conformance.record.journal import SLOT_BYTES, Journal

KEYS = [Key(backend, requirement) for backend in ("one", "another:copy") for requirement in ("A", "B")]


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(COLUMNS), st.integers(1, 1000))))
def test_sums_are_those_of_all_processes(counted: list[tuple[Key, str, int]]) -> None:
    """However counts are spread over processes, reading gives their sums."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tallies = [Tally(folder, f"gw{i}") for i in range(3)]
        wanted: dict[Key, Count] = {}
        for number, (key, column, amount) in enumerate(counted):
            tallies[number % 3].count(key, column, amount)
            row = wanted.setdefault(key, Count())
            setattr(row, column, getattr(row, column) + amount)
        assert read(folder) == wanted


def test_open_is_what_was_never_judged() -> None:
    """Cases drawn and not judged are those whose worker died."""
    assert Count(planned=9, drawn=8, passed=3, failed=1, refused=2, not_judged=1).open == 1
    assert Count(drawn=4, passed=4).open == 0


def killed(script: str, folder: Path) -> None:
    """Run a script with the folder as its argument, and kill it with SIGKILL once it says it is ready."""
    command = [sys.executable, "-c", script, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()


def test_counts_survive_sigkill(tmp_path: Path) -> None:
    """What was counted before a SIGKILL is there after it."""
    killed(
        "import sys, time\nfrom pathlib import Path\nfrom conformance.record.counts import Key, Tally\n"
        "tally = Tally(Path(sys.argv[1]), 'gw0')\n"
        "for _ in range(1000): tally.count(Key('one', 'A'), 'drawn')\n"
        "tally.count(Key('one', 'A'), 'passed', 999)\nprint('ready', flush=True)\ntime.sleep(60)",
        tmp_path,
    )
    assert read(tmp_path) == {Key("one", "A"): Count(drawn=1000, passed=999)}
    assert read(tmp_path)[Key("one", "A")].open == 1


def test_rows_are_enough(tmp_path: Path) -> None:
    """Every row there is room for is counted apart; one more is an error, not another's count."""
    tally = Tally(tmp_path, "gw0")
    for number in range(ROWS):
        tally.count(Key("one", str(number)), "drawn")
    with pytest.raises(IndexError):
        tally.count(Key("one", "one too many"), "drawn")
    assert len(read(tmp_path)) >= ROWS


def test_tally_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """No folder is an error at the start."""
    with pytest.raises(OSError, match="No such file"):
        Tally(tmp_path / "nowhere", "gw0")


def test_journal_survives_sigkill(tmp_path: Path) -> None:
    """The running case and the one before are named after a SIGKILL."""
    killed(
        "import sys, time\nfrom pathlib import Path\nfrom conformance.record.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]) / 'j')\n"
        "journal.begin('gw0', 1, 'first', 5.0)\njournal.end()\njournal.begin('gw1', 7, 'second', 5.0)\n"
        "print('ready', flush=True)\ntime.sleep(60)",
        tmp_path,
    )
    entry = Journal(tmp_path / "j").read()
    assert (entry.running, entry.worker, entry.ticket) == (True, "gw1", 7)
    assert (entry.text, entry.previous) == ("second", "first")
    assert (entry.cases, entry.others) == (2, 0)


def test_journal_names_what_ran_last(tmp_path: Path) -> None:
    """After its end a case is the latest one, and nothing runs."""
    journal = Journal(tmp_path / "j")
    assert not journal.read().running
    for number in range(5):
        journal.begin("gw0", number, f"case {number}", 5.0)
        assert journal.read().running
        journal.end()
    entry = journal.read()
    assert (entry.running, entry.text, entry.previous, entry.cases) == (False, "case 4", "case 3", 5)


def test_other_requests_do_not_take_a_cases_place(tmp_path: Path) -> None:
    """While a backend is loaded, the case before it is still the previous one, and afterwards the latest."""
    journal = Journal(tmp_path / "j")
    journal.begin("gw0", 1, "the case", 5.0)
    journal.end()
    journal.begin("gw0", 0, "loading", 5.0, case=False)
    entry = journal.read()
    assert (entry.running, entry.text, entry.previous) == (True, "loading", "the case")
    journal.end()
    assert journal.read().text == "the case"
    journal.begin("gw0", 2, "the next case", 5.0)
    assert (journal.read().text, journal.read().previous) == ("the next case", "the case")
    assert (journal.read().cases, journal.read().others) == (2, 1)


def test_long_text_is_cut(tmp_path: Path) -> None:
    """A text longer than its slot keeps its beginning, and leaves the other slot alone."""
    journal = Journal(tmp_path / "j")
    journal.begin("gw0", 1, "short", 5.0)
    journal.begin("gw0", 2, "x" * (SLOT_BYTES + 1000), 5.0)
    entry = journal.read()
    assert entry.text == "x" * SLOT_BYTES
    assert entry.previous == "short"


def test_overdue(tmp_path: Path) -> None:
    """A request is overdue when it runs past its deadline, and not once it has ended."""
    journal = Journal(tmp_path / "j")
    assert not journal.overdue()
    journal.begin("gw0", 1, "late", -1.0)
    assert journal.overdue()
    journal.end()
    assert not journal.overdue()
    journal.begin("gw0", 2, "in time", 60.0)
    assert not journal.overdue()


def test_cleared_journal_is_a_new_one(tmp_path: Path) -> None:
    """A new process's journal says nothing of the one before."""
    journal = Journal(tmp_path / "j")
    journal.begin("gw0", 1, "old", 5.0)
    journal.clear()
    entry = Journal(tmp_path / "j").read()
    assert (entry.running, entry.text, entry.previous, entry.cases, entry.others) == (False, "", "", 0, 0)
