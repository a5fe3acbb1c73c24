"""Finding platforms without importing torch or touching a device, and saying in words what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace

import pytest

from backends import platforms
from backends.contract import DeviceError
from backends.platforms import PlatformError, cuda, device_count, rocm, torch_build, xpu
from backends.platforms.contract import Platform
from backends.platforms.torch_build import TorchBuild
from backends.platforms.visible import visible

GPUS = ["GPU-aa11", "GPU-aa22", "GPU-bb33"]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of this machine decides a test, and no remembered answer does."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        monkeypatch.delenv(name, raising=False)
    cuda._count_under.cache_clear()
    yield
    cuda._count_under.cache_clear()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that torch is built for something, or (without a version) missing."""

    def pretend(version: str | None = "2.11.0", **toolkits: str) -> None:
        build = TorchBuild(version, **toolkits) if version else None
        monkeypatch.setattr(torch_build, "torch_build", lambda: build)

    return pretend


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("0,-1,1", [0]),
        ("0,3,1", [0]),
        ("0,0", []),
        ("GPU-bb33", [2]),
        ("GPU-b", [2]),
        ("gpu-AA22,0", [1, 0]),
        ("GPU-aa", []),
        ("GPU-zz", []),
        ("0,,1", [0]),
        ("all", []),
    ],
)
def test_visible_devices(value: str | None, expected: list[int]) -> None:
    """Indices and ids, up to the first entry that names no device; ambiguous ids name none."""
    assert visible(value, GPUS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n"
            "hip: Optional[str] = None\nxpu: Optional[str] = None\n",
            TorchBuild("2.11.0+cu130", cuda="13.0"),
        ),
        ("__version__ = '2.9.1+rocm6.4'\ncuda = None\nhip = '6.4.4'\n", TorchBuild("2.9.1+rocm6.4", hip="6.4.4")),
        ("__version__ = '2.11.0+xpu'\nxpu = '20250200'\n", TorchBuild("2.11.0+xpu", xpu="20250200")),
        ("cuda = '13.0'\n", None),
        ("def broken(:\n", None),
    ],
    ids=["cuda", "rocm", "xpu", "no version", "not python"],
)
def test_torchs_version_file_is_read_not_run(tmp_path: Path, text: str, expected: TorchBuild | None) -> None:
    """Toolkits are found in the file as torch writes it; a file that is something else gives none."""
    path = tmp_path / "version.py"
    path.write_text(text)
    assert torch_build.read_version_file(path) == expected


def test_a_missing_version_file_is_no_torch(tmp_path: Path) -> None:
    """A torch folder without its version file counts as no torch."""
    assert torch_build.read_version_file(tmp_path / "version.py") is None


@pytest.mark.parametrize(("name", "toolkit"), [("cuda", "CUDA"), ("rocm", "ROCm"), ("xpu", "XPU")])
def test_missing_says_no_torch_or_the_wrong_torch(name: str, toolkit: str, built: Callable[..., None]) -> None:
    """The two commonest reasons in plain words."""
    platform = platforms.load(name)
    built(None)
    assert platform.missing() == "torch is not installed"
    built("2.11.0+cpu")
    assert platform.missing() == f"torch 2.11.0+cpu was built without {toolkit}"


@pytest.mark.parametrize(
    ("answer", "shown", "missing", "count"),
    [
        (2, None, None, 2),
        (1, "GPU-aa11", None, 1),
        (0, "-1", "no visible CUDA device; CUDA_VISIBLE_DEVICES='-1'", 0),
        ("no driver (gone)", None, "no CUDA device: no driver (gone)", 0),
        (
            "CUDA_ERROR_NO_DEVICE (100) from the driver",
            "",
            "no CUDA device: CUDA_ERROR_NO_DEVICE (100) from the driver; CUDA_VISIBLE_DEVICES=''",
            0,
        ),
    ],
)
def test_cuda_is_what_its_driver_answers(
    monkeypatch: pytest.MonkeyPatch,
    built: Callable[..., None],
    answer: int | str,
    shown: str | None,
    missing: str | None,
    count: int,
) -> None:
    """The driver counts, since it alone applies the variable exactly; a reason of its own is passed on."""
    built(cuda="13.0")
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    monkeypatch.setattr(device_count, "count", lambda *names: answer)
    assert cuda.PLATFORM.missing() == missing
    assert cuda.PLATFORM.device_count() == count


def test_the_driver_is_asked_once_for_each_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is remembered until the variable changes."""
    asked: list[str | None] = []

    def answer(*names: str) -> int:
        asked.append(os.environ.get("CUDA_VISIBLE_DEVICES"))
        return 1

    monkeypatch.setattr(device_count, "count", answer)
    for value in ("0", "0", "1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert cuda.PLATFORM.device_count() == 1
    assert asked == ["0", "1"]


def test_a_library_that_is_not_there_is_said_by_the_child() -> None:
    """A real child process, a library that no machine has."""
    assert "no driver (libinvented.so" in str(device_count.count("libinvented.so", "a", "b", "c"))


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (SimpleNamespace(returncode=0, stdout="3\n", stderr=""), 3),
        (SimpleNamespace(returncode=1, stdout="", stderr="noise\nno driver (x)\n"), "no driver (x)"),
        (SimpleNamespace(returncode=-11, stdout="", stderr=""), "asking lib ended with exit code -11"),
    ],
    ids=["counted", "said", "crashed"],
)
def test_answers_of_the_child(monkeypatch: pytest.MonkeyPatch, done: SimpleNamespace, expected: int | str) -> None:
    """A number, the last line it said, or how it died."""
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    assert device_count.count("lib", "a", "b", "c") == expected


def test_a_child_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that never answers is a reason too."""

    def hang(command: list[str], timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert device_count.count("lib", "a", "b", "c") == "lib did not answer within 60 seconds"


@pytest.fixture
def amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: Callable[..., None]) -> None:
    """A machine with a CPU node and twelve GPUs, the last of which this container may not see."""
    built(hip="6.4")
    for node in range(13):
        folder = tmp_path / str(node)
        folder.mkdir()
        (folder / "gpu_id").write_text("0\n" if node == 0 else f"{1000 + node}\n")
        (folder / "properties").write_text(f"cpu_cores_count 0\nunique_id {0xABC0 + node}\n")
    (tmp_path / "12" / "gpu_id").unlink()
    monkeypatch.setattr(rocm, "TOPOLOGY", tmp_path)
    monkeypatch.setattr(rocm, "DRIVER", tmp_path)


@pytest.mark.usefixtures("amd")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 11),
        ({"HIP_VISIBLE_DEVICES": "0,10"}, 2),
        ({"HIP_VISIBLE_DEVICES": ""}, 0),
        ({"HIP_VISIBLE_DEVICES": "-1"}, 0),
        ({"CUDA_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2", "HIP_VISIBLE_DEVICES": "0"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "2,3,4"}, 3),
        ({"ROCR_VISIBLE_DEVICES": "2,3,4", "HIP_VISIBLE_DEVICES": "2,3"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "GPU-000000000000abc2"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "GPU-000000000000abc0"}, 0),
    ],
    ids=str,
)
def test_rocm_counts_what_both_variables_leave(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: int
) -> None:
    """ROCr's variable filters first, HIP's (or CUDA's in its place) chooses among those left."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rocm.PLATFORM.device_count() == expected
    said = rocm.PLATFORM.missing()
    assert said is None if expected else said is not None
    if said:
        assert all(f"{name}={value!r}" in said for name, value in variables.items())
        assert "11 on this machine" in said


def test_rocm_without_its_driver(monkeypatch: pytest.MonkeyPatch, built: Callable[..., None], tmp_path: Path) -> None:
    """The device file is the sign of the driver."""
    built(hip="6.4")
    monkeypatch.setattr(rocm, "DRIVER", tmp_path / "kfd")
    assert rocm.PLATFORM.missing() == f"no ROCm driver: {tmp_path / 'kfd'} does not exist"


@pytest.mark.parametrize(
    ("mask", "expected"), [(None, 2), ("", 2), ("1", 1), ("0,1", 2), ("0.0,0.1", 2), ("0,0", 1), ("7", 0)]
)
def test_xpu_counts_cards_and_mask(
    monkeypatch: pytest.MonkeyPatch, built: Callable[..., None], tmp_path: Path, mask: str | None, expected: int
) -> None:
    """Cards made by Intel, as far as the mask names them; other vendors' cards don't count."""
    built(xpu="20250200")
    monkeypatch.setattr(xpu, "CARDS", tmp_path)
    assert xpu.PLATFORM.missing() == f"no XPU device: {tmp_path} lists no GPU made by Intel"
    for number, vendor in enumerate(("0x8086", "0x10de", "0x8086")):
        device = tmp_path / f"renderD{128 + number}" / "device"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
    if mask is not None:
        monkeypatch.setenv("ZE_AFFINITY_MASK", mask)
    assert xpu.PLATFORM.device_count() == expected
    assert xpu.PLATFORM.missing() == (None if expected else f"no visible XPU device; ZE_AFFINITY_MASK={mask!r}")


@pytest.mark.parametrize("name", ["cuda", "rocm"])
def test_opening_needs_the_right_torch(name: str) -> None:
    """On a machine whose torch is not built for the platform, opening says so at once."""
    build = torch_build.torch_build()
    if getattr(build, {"cuda": "cuda", "rocm": "hip"}[name]):
        pytest.skip(f"torch is built for {name} here")
    with pytest.raises(DeviceError, match="was built without"):
        platforms.load(name).open(0)


@pytest.mark.parametrize("name", platforms.BUILT_IN)
def test_built_in_platforms_fit_the_protocol(name: str) -> None:
    """Each is loaded by name and names its variable."""
    platform: Platform = platforms.load(name)
    assert platform.name == name
    assert platform.visible_env()


@pytest.mark.parametrize(("present", "expected"), [({"rocm", "xpu"}, "rocm"), ({"xpu"}, "xpu"), (set(), "cpu")])
def test_the_best_platform_is_the_first_that_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, present: set[str], expected: str
) -> None:
    """CUDA before ROCm before XPU, and the CPU whatever happens."""
    for module in (cuda, rocm, xpu):
        answer = None if module.PLATFORM.name in present else "missing"
        monkeypatch.setattr(type(module.PLATFORM), "missing", lambda self, answer=answer: answer)
    assert platforms.best() == expected


class Toy:
    """A platform of another package, as far as the protocol goes."""

    name = "toy"

    def missing(self) -> None: ...
    def device_count(self) -> int:
        return 1

    def visible_env(self) -> str:
        return "TOY_VISIBLE_DEVICES"

    def preload(self) -> None: ...
    def open(self, index: int) -> None: ...


def test_platforms_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point may name an instance, a class or a function; what does not fit is told with its origin."""
    half = SimpleNamespace(name="toy", open=Toy.open)
    module = SimpleNamespace(Toy=Toy, instance=Toy(), make=lambda: Toy(), half=half)
    monkeypatch.setitem(sys.modules, "toy_module", module)  # type: ignore[arg-type]

    def declare(name: str, value: str) -> None:
        found = EntryPoints([EntryPoint(name, value, platforms.GROUP)])
        monkeypatch.setattr(platforms, "entry_points", lambda group: found)

    for value in ("toy_module:Toy", "toy_module:instance", "toy_module:make"):
        declare("toy", value)
        assert platforms.names() == ("cuda", "rocm", "xpu", "cpu", "toy")
        assert isinstance(platforms.load("toy"), Toy)
    declare("toy", "toy_module:half")
    with pytest.raises(PlatformError, match=r"'toy_module:half'.* is not a Platform: missing, device_count"):
        platforms.load("toy")
    declare("toy", "toy_module:gone")
    with pytest.raises(PlatformError, match="can't be loaded: AttributeError"):
        platforms.load("toy")
    declare("other", "toy_module:Toy")
    with pytest.raises(PlatformError, match="calls itself 'toy'"):
        platforms.load("other")


def test_an_unknown_platform_lists_the_known_ones() -> None:
    """A typing error is answered with the names and with how others are added."""
    with pytest.raises(PlatformError, match=r"'cudda' is unknown; known: cuda, rocm, xpu, cpu.*kvconform\.platforms"):
        platforms.load("cudda")


def test_looking_imports_no_torch_and_starts_no_thread() -> None:
    """Whoever only asks what is there stays light and safe to fork."""
    program = (
        "import sys, threading; from backends import platforms\n"
        "[(p.missing(), p.device_count(), p.visible_env()) for p in map(platforms.load, platforms.names())]\n"
        "platforms.best()\n"
        "sys.exit('torch' in sys.modules or threading.active_count() > 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
