"""How the beginning of conversations is named: `empty`, `file:FILE` or `log:NAME`."""

from __future__ import annotations

from typing import Final

from refaug.core.errors import Usage

EMPTY: Final = "empty"
FILE: Final = "file"
LOG: Final = "log"


def parse_start(start: str) -> tuple[str, str]:
    """Return the kind of a beginning, and its file or log; Usage for anything else."""
    kind, _, source = start.partition(":")
    if start == EMPTY or (kind in (FILE, LOG) and source):
        return kind, source
    raise Usage(
        f"{start[:80]!r} is no beginning",
        remedy="empty, file:FILE with an utterance a line, or log:NAME",
        field="start",
    )
