"""Options of pytest-xdist under which tests are lost when a worker dies: named, with the reason, before the run.

Seen with pytest-xdist 3.8. Nothing is forbidden here; a run that lost tests is no pass anyway, since the report counts.
"""

from __future__ import annotations

import pytest

_DIST = {
    "loadgroup": "after the death of a worker the run hangs without a report",
    "loadfile": "after the death of a worker its test is run again and the rest of that file is dropped",
    "loadscope": "after the death of a worker its test is run again and the rest of that scope is dropped",
}
_NO_RESTART = "a worker that dies is not replaced, and the tests it had left are dropped without a word"


def warnings(config: pytest.Config) -> list[str]:
    """One sentence an option in effect that can lose tests."""
    found = []
    dist = config.getoption("dist", "no")
    if dist in _DIST:
        found.append(f"warning: --dist {dist}: {_DIST[dist]}; use --dist load or worksteal")
    if str(config.getoption("maxworkerrestart", None)) == "0":
        found.append(f"warning: --max-worker-restart=0: {_NO_RESTART}; leave it out, or allow some")
    return found
