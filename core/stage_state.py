"""How far a staged ingest is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import Corrupt
from core.files import read_json


@dataclass(slots=True)
class StageState:
    """How far a staged ingest is; all that resuming needs beside the files that it names."""

    unit: int = 0  # index of the unit in work
    blocks: int = 0  # blocks of it that are in finished parts, or carried
    steps: int = 0  # how often this was saved while reading: names the flood and carry files that belong to it
    carried: str = ""  # what the carried rows are: those of the last block that came after the last finished part
    messages: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    message_parts: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)  # one a unit
    pairs: list[int] = field(default_factory=list)  # one a unit, trees not counted
    tree_counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rejects: int = 0  # number of finished rejects files
    phase: str = "read"  # then "messages" or "joined", "distinct"

    @classmethod
    def read(cls, path: Path) -> StageState | None:
        """What `save` wrote; None where there is nothing to go on from."""
        try:
            return cls(**read_json(path))  # type: ignore[arg-type]
        except (FileNotFoundError, Corrupt, TypeError):
            return None

    def unit_of(self, row: int) -> int | None:
        """Which unit a staged pair came from, by its number among all of them; None for one from a tree."""
        ends = np.cumsum(self.pairs)
        return int(np.searchsorted(ends, row, side="right")) if len(ends) and row < ends[-1] else None
