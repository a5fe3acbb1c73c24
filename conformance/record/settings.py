"""The effective options of a run, as data: what every worker is handed and every report shows.

Which they are is decided in `conformance.session.settings`; nothing here looks at the machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

WORK = "kvconform-work"  # a name of our own: the folder is removed when the run ends
SETTINGS_FILE = "settings.json"


@dataclass(frozen=True)
class RunSettings:
    """Plain data, JSON both ways."""

    platform: str
    devices: tuple[int, ...]
    backends: tuple[str, ...]
    chosen_backends: bool  # named by the user, so that one which can't run is a failure
    budget: str
    report: str  # folder
    seed: int
    isolation: str  # "process" or "none"
    address: str  # of the server of device processes; "" with isolation none
    floor_seconds: float  # the shortest deadline of a case
    database: str  # folder of Hypothesis's database, or "" for none
    elsewhere: bool = False  # a worker on another host than the run's
    selector: str = "built-in"  # the selection rule under test, as named by the user
    corpus: tuple[str, ...] = ()  # folders of cases that are run first

    @property
    def work(self) -> Path:
        """Where a run keeps what it needs while it runs: journals, counts, deaths."""
        return Path(self.report) / WORK

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> RunSettings:
        data = json.loads(text)
        lists = {name: tuple(data.get(name, ())) for name in ("devices", "backends", "corpus")}
        return cls(**{**data, **lists})
