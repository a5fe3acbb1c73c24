"""A module that ends the process that imports it."""

from __future__ import annotations

import os

os.write(2, b"no such luck (planted)\n")
os.abort()
