"""`refaug-client`, the command: `main` runs it, `parser` describes its arguments."""

from __future__ import annotations

from .entry import exit_code, main, parser

__all__ = ["exit_code", "main", "parser"]
