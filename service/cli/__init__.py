"""The command line: one file per noun, each flags → dataclass → one call. `start` is where `refaug` begins."""

from __future__ import annotations

import sys
from importlib import import_module

_INTERRUPTED = 5  # core.errors.Interrupted, which is not there yet


def start() -> int:
    """Run the command; one that is interrupted while its libraries load ends as at any later moment."""
    try:
        run = import_module("service.cli.main").main
    except KeyboardInterrupt:
        print("error [interrupted]: interrupted", file=sys.stderr)
        return _INTERRUPTED
    code: int = run()
    return code
