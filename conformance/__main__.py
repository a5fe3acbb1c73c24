"""`python -m conformance` is `kvconform`, for a checkout that is not installed."""

from __future__ import annotations

import sys

from conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
