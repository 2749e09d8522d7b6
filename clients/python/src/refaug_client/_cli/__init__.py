"""The command `refaug-client`.

The main names:

- `main`: runs the command
- `parser`: describes its arguments
- `exit_code`: the exit code of an error.
"""

from __future__ import annotations

from .entry import exit_code, main, parser

__all__ = ["exit_code", "main", "parser"]
