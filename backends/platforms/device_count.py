"""How many devices a driver shows, asked in a short-lived child process.

Asking the driver itself honours whatever hides devices from it, but initialises it, and a process with an initialised
driver can't fork device processes any more. So a bare child asks and ends; this one stays as it was.
"""

from __future__ import annotations

import subprocess
import sys

SECONDS = 60  # for one answer; initialising the driver of an eight-GPU machine takes a few

_PROGRAM = """
import ctypes, sys
library, initialise, get_count, get_name = sys.argv[1:]
try:
    driver = ctypes.CDLL(library)
except OSError as error:
    sys.exit(f"no driver ({error})")
count, name = ctypes.c_int(), ctypes.c_char_p()
code = getattr(driver, initialise)(0) or getattr(driver, get_count)(ctypes.byref(count))
if code:
    getattr(driver, get_name)(code, ctypes.byref(name))
    sys.exit(f"{(name.value or b'error').decode()} ({code}) from the driver")
print(count.value)
"""


def count(library: str, initialise: str, get_count: str, get_name: str) -> int | str:
    """The number of devices, or in words why the driver gives none.

    `initialise(0)`, `get_count(int *)` and `get_name(code, char **)` are the names of functions in `library`."""
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, library, initialise, get_count, get_name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{library} did not answer within {SECONDS} seconds"
    if done.returncode == 0 and done.stdout.strip().isdecimal():
        return int(done.stdout)
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"asking {library} ended with exit code {done.returncode}"
