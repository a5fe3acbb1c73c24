"""Measuring: repeated until stable, resumed, and honest about what breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.audit import measurements
from conformance.audit.grid import Point
from conformance.audit.measurements import FILE, MeasurementsError, Visit, begin, load, record, resume
from conformance.audit.survey import MOST_ROUNDS, Survey
from conformance.audit.timing import LIMIT
from conformance.commands import audit as command
from conformance.device.direct import DirectRunner
from conformance.device.task import Result, Task
from tests.audit.made_up import SETTING

POINTS = (Point("load", 512, 16), Point("store", 512, 16))


class MadeUp:
    """A runner whose times are given: the n-th measurement of a point takes `times(n)` microseconds."""

    def __init__(self, times: Any, breaks: Sequence[str] = ()) -> None:
        self._times, self._breaks = times, breaks
        self.measured: list[tuple[Point, tuple[str, ...]]] = []

    def perform(self, task: Task) -> Result:
        point, names = Point.from_json(task.arguments["point"]), tuple(task.arguments["backends"])
        if set(names) & set(self._breaks):
            return Result(fault="signal SIGSEGV")
        number = sum(point == each for each, _ in self.measured)
        self.measured.append((point, names))
        return Result({"times": dict.fromkeys([*names, LIMIT], self._times(number)), "turns": 3, "failed": {}})


def survey(runner: MadeUp, folder: Path, seconds: float = 60.0) -> Survey:
    return Survey(runner, POINTS, begin(folder, SETTING), folder, seconds)  # type: ignore[arg-type]


def test_two_visits_that_agree_are_enough(tmp_path: Path) -> None:
    """Each point twice, and not in one go."""
    runner = MadeUp(lambda number: 100.0)
    assert survey(runner, tmp_path / "a").run()
    assert len(runner.measured) == 4
    assert {point for point, _ in runner.measured[:2]} == set(POINTS)
    assert all(load(tmp_path / "a").stable(point) for point in POINTS)


def test_what_does_not_come_again_is_repeated_then_marked(tmp_path: Path) -> None:
    """No longer than a given number of rounds."""
    runner = MadeUp(lambda number: 100.0 * (1 + number % 2))
    work = survey(runner, tmp_path / "a")
    assert work.run()
    assert len(runner.measured) == MOST_ROUNDS * len(POINTS)
    assert measurements.unstable(work.found, POINTS) == list(POINTS)


def test_it_ends_when_the_time_is_out(tmp_path: Path) -> None:
    """And says that it did."""
    assert not survey(MadeUp(lambda number: 100.0), tmp_path / "a", seconds=0.0).run()


def test_a_backend_that_breaks_the_process_is_left_out(tmp_path: Path) -> None:
    """Found by trying each alone; the others go on."""
    work = survey(MadeUp(lambda number: 100.0, breaks=["triton_copy"]), tmp_path / "a")
    assert work.run()
    for point in POINTS:
        assert work.found.failed(point) == {"triton_copy": "signal SIGSEGV"}
        assert list(work.found.contestants(point)) == ["batch_dma"]
        assert work.found.stable(point)


def test_measurements_survive_their_audit(tmp_path: Path) -> None:
    """A line that was cut off when it was killed is left out."""
    begin(tmp_path / "a", SETTING)
    record(tmp_path / "a", POINTS[0], Visit({"batch_dma": 1.5, LIMIT: 1.0}, 3))
    with (tmp_path / "a" / FILE).open("a") as file:
        file.write('{"point": {"direction": "lo')
    found = resume(tmp_path / "a", SETTING)
    assert found.visits == {POINTS[0]: [Visit({"batch_dma": 1.5, LIMIT: 1.0}, 3)]}


def test_a_cut_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    """What is appended after a resume is read again."""
    folder = tmp_path / "a"
    begin(folder, SETTING)
    with (folder / FILE).open("a") as file:
        file.write('{"point": {"direction": "lo')
    resume(folder, SETTING)
    record(folder, POINTS[0], Visit({LIMIT: 1.0}, 3))
    assert list(load(folder).visits) == [POINTS[0]]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (replace(SETTING, memory="shared"), "memory pinned, not shared"),
        (replace(SETTING, backends=("x",)), "backends"),
        (replace(SETTING, device=replace(SETTING.device, name="another")), "name simulated NVIDIA H200, not another"),
    ],
)
def test_measurements_of_something_else_are_not_added_to(tmp_path: Path, other: Any, says: str) -> None:
    """Another device, driver, memory or set of backends."""
    begin(tmp_path / "a", SETTING)
    with pytest.raises(MeasurementsError, match=says):
        resume(tmp_path / "a", other)
    with pytest.raises(MeasurementsError, match="exists"):
        begin(tmp_path / "a", other)


@pytest.mark.parametrize("text", ["", "not JSON\n", '{"format": 99}\n', "[]\n", '{"format": 1}\n'])
def test_a_file_that_holds_no_measurements(tmp_path: Path, text: str) -> None:
    """Named, in one line."""
    (tmp_path / FILE).write_text(text)
    with pytest.raises(MeasurementsError, match=FILE):
        load(tmp_path)


@pytest.fixture(scope="module")
def runner() -> Iterator[DirectRunner]:
    direct = DirectRunner("cpu", 0)
    yield direct
    direct.close()


def timed(runner: DirectRunner, *backends: str, direction: str = "load") -> dict[str, Any]:
    arguments = {
        "point": Point(direction, 520, 5).to_json(),
        "backends": backends,
        "memory": "shared",
        "seconds": 0.01,
        "seed": 3,
    }
    result = runner.perform(Task("conformance.audit.timing:measure", arguments))
    assert not result.trouble
    value: dict[str, Any] = result.value
    return value


@pytest.mark.parametrize("direction", ["load", "store"])
def test_times_on_a_cpu(runner: DirectRunner, direction: str) -> None:
    """Microseconds of every contestant and of the limit."""
    found = timed(runner, "batch_dma", "torch_copy", direction=direction)
    assert set(found["times"]) == {"batch_dma", "torch_copy", LIMIT}
    assert all(1 < time < 1e6 for time in found["times"].values())
    assert found["turns"] >= 3
    assert found["failed"] == {}


def test_what_copies_wrong_is_not_timed(runner: DirectRunner) -> None:
    """Nor what raises; both are named."""
    names = [f"{__name__}:{name}" for name in ("skips_the_last", "raises")]
    found = timed(runner, "batch_dma", *names)
    assert set(found["times"]) == {"batch_dma", LIMIT}
    assert found["failed"] == {
        names[0]: "it leaves wrong bytes, so it is not timed",
        names[1]: "RuntimeError: out of copies",
    }


@pytest.fixture
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "grid", lambda platform: POINTS)


COMMAND = ("audit", "--platform", "cpu", "--isolation", "none", "--backend", "batch_dma", "--minutes", "0.02")


@pytest.mark.usefixtures("small_grid")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, rule, summary and page; resumed; compared with itself."""
    folder = tmp_path / "audit"
    assert cli.main([*COMMAND, "--output", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "batch_dma" in out
    assert json.loads((folder / "rule.json").read_text()) == {"performance": []}
    summary = json.loads((folder / "summary.json").read_text())
    assert [(each["direction"], each["best"]) for each in summary["points"]] == [
        ("load", "batch_dma"),
        ("store", "batch_dma"),
    ]
    html = (folder / "audit.html").read_text()
    assert "What the rule loses" in html
    assert "http" not in html.replace("http-equiv", "")
    before = len((folder / FILE).read_text().splitlines())
    again = [*COMMAND, "--output", str(folder), "--resume", "--against", str(folder)]
    assert cli.main(again) == 0
    assert cli.main(["audit", "--show", str(folder), "--against", str(folder)]) == 0
    assert "the same winners at every point" in capsys.readouterr().out
    assert len((folder / FILE).read_text().splitlines()) >= before


@pytest.mark.usefixtures("small_grid")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--minutes", "0"],
        ["--minutes", "61"],
        ["--resume"],
        ["--against", "/no/such/folder"],
        ["--show", "/no/such/folder"],
        ["--selector", "nobody"],
        ["--backend", "nobody"],
        ["--memory", "pinned"],
        ["--device", "9"],
        ["--output", "/proc/nowhere"],
    ],
)
def test_bad_input_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With exit status 2."""
    assert cli.main([*COMMAND, *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def skips_the_last(src: Any, dst: Any, sizes: Any, is_src_access_order_any: bool = False) -> None:
    from backends.copies.torch_copy import TorchCopy

    TorchCopy().copy(src[:-1], dst[:-1], sizes[:-1])


def raises(src: Any, dst: Any, sizes: Any, is_src_access_order_any: bool = False) -> None:
    raise RuntimeError("out of copies")
