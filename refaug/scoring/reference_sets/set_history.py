"""The history of a frozen set: the scores against it that were recorded, in a file that only grows.

`<id>.history` beside the set has a JSON object a line, with a checksum in each. Writers append under a lock, and whole
lines reach the disk before the lock ends; what a killed writer left of a line is skipped, and the next one begins anew.
An entry has the scores of replies and the sums behind them in packed form, so that runs are compared item by item
later: scores against one set are always of the same items in the same order.
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from refaug.core.errors import BadInput, Corrupt, NoAccess, RefaugError, Usage
from refaug.core.files import CHECKSUM, lock_file, require_checksum, storage_errors, sync_folder, with_checksum
from refaug.core.version import VERSION
from refaug.metrics.base import Floats
from refaug.metrics.signature import Signature
from refaug.scoring.reference_sets.reference_set import ReferenceSet
from refaug.scoring.scores import Evaluation, MetricScores, ReplyForm

HISTORY_SUFFIX: Final = ".history"
FORMAT_VERSION: Final = 1
_LONGEST_NAME: Final = 100
_MOST_COLUMNS: Final = 1_000
_LONGEST_LINE: Final = 256 * 1024 * 1024
_LOCK: Final = ".history-lock"


@dataclass(frozen=True, kw_only=True)
class HistoryEntries:
    """The entries of a history in the order of their recording, and how many lines are damaged."""

    entries: tuple[Mapping[str, Any], ...]
    damaged: int


@dataclass(frozen=True)
class SetHistory:
    """The history of one set."""

    reference_set: ReferenceSet

    @property
    def path(self) -> Path:
        """The file, which is there once something was recorded."""
        return self.reference_set.path.parent / f"{self.reference_set.id}{HISTORY_SUFFIX}"

    def record(self, name: str, evaluation: Evaluation) -> Mapping[str, Any]:
        """Append the scores of a run under a name, and return the entry."""
        entry = with_checksum(
            {
                "format_version": FORMAT_VERSION,
                "name": require_run_name(name),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "refaug": VERSION,
                "set": self.reference_set.id,
                "data": evaluation.data,
                "replies": evaluation.replies,
                "items": evaluation.items,
                "resampling": evaluation.settings.resampling(),
                "scores": [_packed(scores) for scores in evaluation.scores],
            }
        )
        self._append([orjson.dumps(entry, option=orjson.OPT_SERIALIZE_NUMPY)])
        return entry

    def read(self) -> HistoryEntries:
        """Read all entries; a line that is cut off or changed is counted and skipped."""
        filled = [line for line in self._content().split(b"\n") if line]
        entries = [entry for line in filled if (entry := self._entry(line)) is not None]
        return HistoryEntries(entries=tuple(entries), damaged=len(filled) - len(entries))

    def lines(self) -> list[bytes]:
        """Return the whole lines, for a transfer to another home."""
        return [line for line in self._content().split(b"\n") if self._entry(line) is not None]

    def merge(self, lines: Sequence[bytes]) -> int:
        """Append the lines of a transferred history that are not here, and return their number; all are checked."""
        for number, line in enumerate(lines, start=1):
            if self._entry(line) is None:
                raise BadInput(f"line {number} of the history is not an entry of the set {self.reference_set.id}")
        here = set(self.lines())
        new = [line for line in dict.fromkeys(lines) if line not in here]
        if new:
            self._append(new)
        return len(new)

    def _entry(self, line: bytes) -> Mapping[str, Any] | None:
        return _entry_of(line, self.reference_set.id, self.reference_set.manifest.items)

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise NoAccess(f"{self.path}: {error.strerror}") from error

    def _append(self, lines: Iterable[bytes]) -> None:
        folder = self.path.parent
        with lock_file(folder / _LOCK), storage_errors(self.path), self.path.open("a+b") as file:
            is_new = file.seek(0, os.SEEK_END) == 0
            if not is_new:
                file.seek(-1, os.SEEK_END)
            is_torn = not is_new and file.read(1) != b"\n"
            file.write((b"\n" if is_torn else b"") + b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
            if is_new:
                sync_folder(folder)


def require_run_name(name: str) -> str:
    """Return the name of a run; Usage where it is empty, long or not printable."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Usage(f"{name!r} is not a name for a run", remedy=f"printable, at most {_LONGEST_NAME} characters")
    return name


def _entry_of(line: bytes, set_id: str, items: int) -> Mapping[str, Any] | None:
    """Return the entry of a line, or None where it is none of this set, is cut off, or was changed.

    A history from elsewhere may hold anything under a checksum that fits, so the form of all that is read is checked.
    """
    if not line or len(line) > _LONGEST_LINE:
        return None
    try:
        entry = orjson.loads(line)
        if not isinstance(entry, dict) or entry.get("set") != set_id or entry.get("format_version") != FORMAT_VERSION:
            return None
        if CHECKSUM not in entry or not _is_entry(entry, items):
            return None
        require_checksum(Path(HISTORY_SUFFIX), entry)
    except (orjson.JSONDecodeError, Corrupt):
        return None
    return entry


def _is_entry(entry: Mapping[str, Any], items: int) -> bool:
    """Whether an entry has every field that tables and tests read, in its form."""
    texts = [entry.get(field) for field in ("name", "at", "refaug", "data", "replies")]
    if not all(isinstance(text, str) and text.isprintable() and len(text) <= _LONGEST_NAME for text in texts):
        return False
    count, scores = entry.get("items"), entry.get("scores")
    if type(count) is not int or not 0 < count <= items or not isinstance(entry.get("resampling"), dict):
        return False
    return isinstance(scores, list) and bool(scores) and all(map(_is_scores, scores))


def _is_scores(scores: object) -> bool:
    if not isinstance(scores, dict) or not isinstance(scores.get("metric"), str):
        return False
    columns, systems = scores.get("columns"), scores.get("systems")
    if not isinstance(columns, list) or not 0 < len(columns) <= _MOST_COLUMNS:
        return False
    if not all(isinstance(column, str) for column in columns) or not isinstance(systems, dict) or not systems:
        return False
    return _is_signature(scores.get("signature_full")) and all(map(_is_system, systems.values()))


def _is_signature(line: object) -> bool:
    try:
        return isinstance(line, str) and bool(Signature.parse(line))
    except RefaugError:
        return False


def _is_system(figures: object) -> bool:
    if not isinstance(figures, dict) or not {"corpus", "interval"} <= figures.keys():
        return False
    interval = figures["interval"]
    bounds = [] if interval is None else interval
    if not isinstance(bounds, list) or len(bounds) not in (0, 2) or (interval is not None and not bounds):
        return False
    numbers = [*bounds, *([] if figures["corpus"] is None else [figures["corpus"]])]
    counts = [figures.get("scored"), figures.get("unscored")]
    packed = [figures.get("packed_scores"), figures.get("packed_sums")]
    return (
        all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
        and all(type(number) is int for number in counts)
        and all(isinstance(text, str) for text in packed)
    )


# ── Packed scores ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _packed(scores: MetricScores) -> dict[str, Any]:
    """Return the scores of a metric with those of replies, and their sums, as packed arrays."""
    document = scores.as_json(ReplyForm.NONE)
    return {
        **document,
        "columns": list(scores.metric.columns),
        "systems": {
            name: {
                **{field: part for field, part in document["systems"][name].items() if field != "parts"},
                "packed_scores": _pack(np.array(list(map(_number, system.each_score())))),
                "packed_sums": _pack(system.statistics),
            }
            for name, system in scores.systems.items()
        },
    }


def _number(score: float | None) -> float:
    return np.nan if score is None else score


def _pack(numbers: Floats) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(numbers, dtype="<f8").tobytes(), 6)).decode("ascii")


def unpack(text: str, columns: int, count: int) -> Floats:
    """Return a packed array (count, columns); Corrupt where it is none of this shape."""
    expected = 8 * columns * count
    try:
        unpacked = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), expected + 1)
    except (zlib.error, binascii.Error, ValueError) as error:
        raise Corrupt(f"packed scores cannot be read: {error}", remedy="restore the history from a backup") from error
    if len(unpacked) != expected:
        raise Corrupt("packed scores are of other items", remedy="restore the history from a backup")
    return np.frombuffer(unpacked, dtype="<f8").reshape(count, columns).astype(np.float64)


def score_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as the document of a score file with sums; the ids of items are their places in the set."""
    count = entry["items"]
    scores, sums = list[dict[str, Any]](), list[dict[str, Any]]()
    for packed in entry["scores"]:
        columns, systems = packed["columns"], dict[str, Any]()
        rows_by_system = dict[str, Any]()
        for name, system in packed["systems"].items():
            of_replies = unpack(system["packed_scores"], 1, count)[:, 0]
            rows = unpack(system["packed_sums"], len(columns), count)
            listed = [None if np.isnan(score) else float(score) for score in of_replies]
            plain = {field: part for field, part in system.items() if not field.startswith("packed_")}
            systems[name] = {**plain, "replies": [{"id": str(at), "score": score} for at, score in enumerate(listed)]}
            rows_by_system[name] = [None if np.isnan(row).any() else row.tolist() for row in rows]
        scores.append({**{field: part for field, part in packed.items() if field != "columns"}, "systems": systems})
        sums.append({"columns": columns, "systems": rows_by_system})
    fields = {field: entry[field] for field in ("set", "data", "items", "resampling")}
    return {**fields, "scores": scores, "details": {"items": [], "sums": sums}}
