"""The lines of `--rejects`: what was left out of a log and why."""

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

from refaug.core.files import sync_file
from refaug.core.full_disk import storage_errors
from refaug.logs.ingest.pairing import BlockResult, Reject
from refaug.logs.ingest.reply_trees import UnplacedMessage


class RejectsFile:
    """One file of rejects; publishing the ingest joins all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            self._file = path.open("wb")

    def add(self, source: str, rejects: Iterable[Reject]) -> None:
        """Write one JSON object a line."""
        with storage_errors(self.path):
            self._file.writelines(_as_line(source, reject) for reject in rejects)

    def close(self) -> None:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._file.close()
            sync_file(self.path)

    def abandon(self) -> None:
        """Close a file that will not be used."""
        with suppress(OSError):
            self._file.close()


def _as_line(source: str, reject: Reject) -> bytes:
    fields = {name: content for name, content in asdict(reject).items() if content is not None}
    if "text" in fields:
        fields["text"] = fields["text"][:500].encode("utf-8", "replace").decode()
    if not reject.line:
        del fields["line"]
    return orjson.dumps({"source": source, **fields} if source else fields) + b"\n"


def flooded_messages(block_result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Return messages of trees that came after the first ones of their flood."""
    rows = block_result.rows.select(["line", "root", "id", "text"]).filter(pa.array(over)).to_pylist()
    return [
        Reject(line=row["line"], reason="flood", dialogue=row["root"], position=row["id"], text=row["text"])
        for row in rows
    ]


def flooded_turns(block_result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Return flooded turns in pairs; a pair does not know its line, only its dialogue and position."""
    by_turn: dict[int, Reject] = {}
    hits = np.flatnonzero(over[block_result.turns] | over[block_result.turns - 1])
    for turn, row in zip(block_result.turns[hits], block_result.rows.take(pa.array(hits)).to_pylist(), strict=True):
        for at, back, side in ((int(turn) - 1, 1, "utterance"), (int(turn), 0, "response")):
            if over[at]:
                position = str(int(row["position"]) - back)
                by_turn[at] = Reject(
                    line=0, reason="flood", dialogue=row["dialogue"], position=position, text=row[side]
                )
    return [by_turn[turn] for turn in sorted(by_turn)]


def reject_pair(row: Mapping[str, Any], reason: str, line: int = 0) -> Reject:
    """Return a pair that was left out as a reject."""
    return Reject(line=line, reason=reason, dialogue=row["dialogue"], position=row["position"], text=row["response"])


def reject_unplaced(message: UnplacedMessage) -> Reject:
    """Return a message without a place in a tree as a reject."""
    return Reject(line=message.line, reason=message.reason, position=message.id)
