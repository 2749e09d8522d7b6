"""The folder in which an ingest is prepared, with its state.

The state is written after every part; it and the parts it names are all that resuming needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from refaug.core import files
from refaug.core.errors import Corrupt
from refaug.core.progress import Progress
from refaug.logs.ingest.order import IngestOrder, Unit
from refaug.logs.ingest.pairing import Reject, RejectsFile
from refaug.logs.manifest import LogManifest, part_name, software
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.logs.part_files import PartsWriter
from refaug.logs.store import STAGE

PART_BYTES: Final = 96 << 20  # of text and numbers; a part is also how much work a kill can lose
_STATE: Final = "state.json"


@dataclass(slots=True)
class StageState:
    """The state of a staged ingest: with the files it names, everything needed to resume."""

    unit: int = 0  # index of the current unit
    blocks: int = 0  # blocks of it that are in finished parts, or carried
    steps: int = 0  # how often this was saved while reading; names the flood and carry files that belong to it
    carried: str = ""  # the kind of the carried rows: those of the last block after the last finished part
    messages: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    message_parts: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)  # one a unit
    pairs: list[int] = field(default_factory=list)  # one a unit, without trees
    tree_counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rejects: int = 0  # number of finished rejects files
    phase: str = "read"  # then "messages" or "joined", "distinct"

    @classmethod
    def read(cls, path: Path) -> StageState | None:
        """Read what `save` wrote; None if there is nothing to resume."""
        try:
            return cls(**files.read_json(path))  # type: ignore[arg-type]
        except (FileNotFoundError, Corrupt, TypeError):
            return None

    def unit_of(self, row: int) -> int | None:
        """Return the unit of a staged pair by its number among all pairs; None for one from a tree."""
        ends = np.cumsum(self.pairs)
        return int(np.searchsorted(ends, row, side="right")) if len(ends) and row < ends[-1] else None


class Stage:
    """The folder in which an ingest is prepared; the steps of the ingest work in it, one after the other."""

    def __init__(self, log: Path, order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> None:
        self.log, self.order, self.units, self.manifest = log, order, units, manifest
        self.key = _stage_key(order, units, manifest)
        self.folder = log / f"{STAGE}{self.key}"
        for other in log.glob(f"{STAGE}*"):
            if other != self.folder:
                files.remove_tree(other)  # of a run with other sources or settings
        state = StageState.read(self.folder / _STATE)
        self.state = state or StageState()
        self.resumed = state is not None and self._is_whole()
        if not self.resumed:
            self.state = StageState()
            files.remove_tree(self.folder)
        files.make_folder(self.folder)

    def _is_whole(self) -> bool:
        """Return whether every file that the state names exists; parts may already have their final names."""
        state = self.state
        needed = [self.folder / f"rejects-{number:05}.jsonl" for number in range(state.rejects)]
        if state.phase == "read":
            needed.append(self.folder / f"flood-{state.steps:05}")
        if state.carried:
            needed.append(self.folder / f"carry-{state.steps:05}")
        sized = [(part, [staged, final]) for part, staged, final in self.part_paths()]
        if state.phase in ("read", "messages"):
            sized += [(part, [self.folder / part["file"]]) for part in state.message_parts]
        return all(path.exists() for path in needed) and all(
            any(path.exists() and path.stat().st_size == part["size"] for path in paths) for part, paths in sized
        )

    def part_paths(self) -> list[tuple[dict[str, Any], Path, Path]]:
        """Return every part with rows, with its staged path and its final one."""
        filled = [part for part in self.state.parts if part["pairs"]]
        first = self.manifest.first_free_part()
        return [(p, self.folder / p["file"], self.log / part_name(n)) for n, p in enumerate(filled, first)]

    def save(self) -> None:
        """Write the state: from here on this much is done."""
        files.write_json(self.folder / _STATE, asdict(self.state))

    def warn(self, message: str, progress: Progress) -> None:
        """Show a problem, and note it for the report."""
        self.state.problems.append(message)
        progress.warn(message)

    def parts_writer(self, kind: str, schema: pa.Schema = PAIR_SCHEMA) -> PartsWriter:
        """Return a writer of staged parts of a kind (messages, pairs), which counts on from the parts in the state."""
        parts = self.state.message_parts if kind == "messages" else self.state.parts
        return PartsWriter(self.folder, kind, first=len(parts), part_bytes=PART_BYTES, schema=schema)

    def next_rejects(self) -> RejectsFile:
        """Return a file for rejects, which counts once the state says so."""
        return RejectsFile(self.folder / f"rejects-{self.state.rejects:05}.jsonl")

    def write_rejects(self, rejects: Iterable[tuple[str, Reject]]) -> None:
        """Write rejects, each with the name of its source, into a further file."""
        file = self.next_rejects()
        try:
            for source, reject in rejects:
                file.add(source, (reject,))
            file.close()
        finally:
            file.abandon()
        self.state.rejects += 1


def _stage_key(order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> str:
    """Return the name of a staging folder: the same key, the same outcome."""
    inputs = {
        "settings": order.settings(),
        "sources": [[source.sha256 for source in unit.sources] + [unit.context] for unit in units],
        "names": [unit.name for unit in units],
        "rejects": order.rejects is not None,
        "stop_on_error": order.stop_on_error,
        "block_bytes": order.block_bytes,  # the state counts in blocks
        "erased": asdict(manifest.erased),
        "parts": [part.sha256 for part in manifest.parts],
        "software": software(),
    }
    return hashlib.sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
