"""What was left out of a log and why: the lines of `--rejects`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from core.files import storage_errors, sync_file
from core.pairing import BlockResult, Reject
from core.trees import LeftOut


class RejectsFile:
    """One more file of rejects; they are put together when the ingest is published."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            self._file = path.open("wb")

    def add(self, source: str, rejects: Iterable[Reject]) -> None:
        """One JSON object a line."""
        with storage_errors(self.path):
            self._file.writelines(_as_line(source, reject) for reject in rejects)

    def close(self) -> None:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._file.close()
            sync_file(self.path)

    def abandon(self) -> None:
        """Let go of a file that nobody will name."""
        with suppress(OSError):
            self._file.close()


def _as_line(source: str, reject: Reject) -> bytes:
    found = {name: value for name, value in asdict(reject).items() if value is not None}
    if "text" in found:
        found["text"] = found["text"][:500].encode("utf-8", "replace").decode()
    if not reject.line:
        del found["line"]
    return orjson.dumps({"source": source, **found} if source else found) + b"\n"


def flooded_messages(result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Messages of trees that came after the first of their flood."""
    rows = result.rows.select(["line", "root", "id", "text"]).filter(pa.array(over)).to_pylist()
    return [
        Reject(line=row["line"], reason="flood", dialogue=row["root"], position=row["id"], text=row["text"])
        for row in rows
    ]


def flooded_turns(result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Flooded turns of which a pair was made; a pair does not know its line, its dialogue and position do."""
    found: dict[int, Reject] = {}
    hits = np.flatnonzero(over[result.turns] | over[result.turns - 1])
    for turn, row in zip(result.turns[hits], result.rows.take(pa.array(hits)).to_pylist(), strict=True):
        for at, back, side in ((int(turn) - 1, 1, "utterance"), (int(turn), 0, "response")):
            if over[at]:
                position = str(int(row["position"]) - back)
                found[at] = Reject(line=0, reason="flood", dialogue=row["dialogue"], position=position, text=row[side])
    return [found[turn] for turn in sorted(found)]


def as_reject(row: Mapping[str, Any], reason: str, line: int = 0) -> Reject:
    """A pair that was left out."""
    return Reject(line=line, reason=reason, dialogue=row["dialogue"], position=row["position"], text=row["response"])


def misplaced(message: LeftOut) -> Reject:
    """A message that has no place in a tree."""
    return Reject(line=message.line, reason=message.reason, position=message.id)
