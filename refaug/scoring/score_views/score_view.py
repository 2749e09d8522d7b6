"""A score document whose replies are columns: systems, ids, scores of every metric, texts.

The place of a reply never changes: systems in the order of the document, and the replies of each in its order.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypedDict, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import read_json, with_checksum, write_aside, write_json
from refaug.core.processes.kept import cached_property
from refaug.metrics.base import Floats
from refaug.metrics.embeddings.recommended import PARTS
from refaug.metrics.statistics.resampling import holm
from refaug.scoring.comparison.scored_system import SystemRun
from refaug.scoring.score_files.score_document import ANY, LONG_PARTS
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.score_files.stored_lists import EntryIds, StoredEntries, StoredList, StoredRows
from refaug.tables.reports.html_page import BINS, ends_of


class SearchedTexts:
    """The texts of all replies without case, one after the other on the disk."""

    def __init__(self, content: mmap.mmap, ends: NDArray[np.int64]) -> None:
        self._content, self._ends = content, ends

    def with_text(self, text: str) -> NDArray[np.bool_]:
        """Return which replies have a text, without case, in their id, reply or utterance."""
        sought = text.casefold().encode("utf-8", "surrogatepass")
        has_text = np.zeros(len(self._ends), dtype=np.bool_)
        begin = self._content.find(sought, 1) if sought else -1
        while begin >= 0:
            place = int(np.searchsorted(self._ends, begin, side="right"))
            if begin + len(sought) < self._ends[place]:  # before the end of its line, not over it
                has_text[place] = True
                begin = self._content.find(sought, int(self._ends[place]))
            else:
                begin = self._content.find(sought, begin + 1)
        return has_text


@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """A score document, its systems and its replies; what grows with the replies lies on the disk, ids apart."""

    file: ScoreFile
    systems: tuple[str, ...]
    system_places: NDArray[np.int32]  # (replies,) of the system of each reply
    ids: tuple[str, ...]  # of the item of each reply
    item_places: NDArray[np.int32]  # (replies,) equal for replies to one item
    scores: Floats  # (metrics, replies), on the scale of the document; NaN where there is none
    lengths: NDArray[np.int32]  # (replies,) characters
    texts: SearchedTexts

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The place of the first reply of each system."""
        places = np.searchsorted(self.system_places, np.arange(len(self.systems)))
        return tuple(int(place) for place in places)

    def item(self, place: int) -> Mapping[str, Any]:
        """Return the item of a reply as JSON; empty where the document has no details."""
        details = self.file.details
        return {} if details is None else details.row(self.ids[place])

    def system(self, place: int) -> str:
        """Return the system of a reply."""
        return self.systems[int(self.system_places[place])]

    def reply(self, place: int) -> str:
        """Return the text of a reply; empty where the document has no texts."""
        replies = self.item(place).get("replies")
        return str(replies.get(self.system(place), "")) if isinstance(replies, dict) else ""

    def utterance(self, place: int) -> str:
        """Return what is replied to; empty where that is not known."""
        test_item = self.item(place)
        turns = test_item.get("turns") or [test_item.get("utterance") or ""]
        return str(turns[-1])

    def row(self, metric: int, place: int) -> Mapping[str, Any]:
        """Return what the document says of a reply under a metric; nothing where the metric has no such system."""
        name = self.system(place)
        system = self.metric(metric).systems.get(name)
        if system is None:
            return {}
        rows, number = system.get("replies", []), place - self.begins[int(self.system_places[place])]
        if isinstance(rows, StoredRows):
            row: Mapping[str, Any] = rows[number]
            return row
        return SystemRun(file=self.file, place=metric, name=name).rows.get(self.ids[place], {})

    def places_of_item(self, place: int) -> list[int]:
        """Return the places of all replies to the item of a reply."""
        places: list[int] = np.flatnonzero(self.item_places == self.item_places[place]).tolist()
        return places

    def metric(self, place: int) -> StoredScores:
        """Return the scores of a metric; Usage where there is none at this place."""
        if not 0 <= place < len(self.file.scores):
            raise Usage(
                f"there is no metric {place}", remedy=f"from 0 to {len(self.file.scores) - 1}, in the summary's order"
            )
        return self.file.scores[place]

    def scores_of(self, place: int) -> Floats:
        """Return the scores of all replies by a metric."""
        scores: Floats = self.scores[place]
        return scores

    def direction(self, place: int) -> float:
        """Return 1 where higher scores of a metric are better, else -1."""
        return 1.0 if self.metric(place).document.get("higher_is_better") is not False else -1.0

    def system_place(self, name: str) -> int:
        """Return the place of a system; Usage names those that there are."""
        if name not in self.systems:
            raise Usage(f"there is no system {name[:60]!r}", remedy=f"one of {', '.join(self.systems[:20])}")
        return self.systems.index(name)

    def disagreement(self, first: int, second: int) -> Floats:
        """Return how far the ranks of each reply by two metrics lie apart, as shares of the ranked replies.

        The directions of the metrics count, ties share a rank, and NaN is where one of the two has no score.
        """
        scores = np.stack([self.scores[first] * self.direction(first), self.scores[second] * self.direction(second)])
        is_ranked = ~np.isnan(scores).any(axis=0)
        differences = np.full(len(self), np.nan)
        if is_ranked.sum() > 1:
            ranks = [_mean_ranks(row[is_ranked]) for row in scores]
            differences[is_ranked] = np.abs(ranks[0] - ranks[1]) / (is_ranked.sum() - 1)
        elif is_ranked.any():
            differences[is_ranked] = 0.0
        return differences


def _mean_ranks(scores: Floats) -> Floats:
    """Return the ranks from 0; equal scores have the mean of their ranks."""
    _, groups, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts + 1) / 2)[groups]
    return ranks


# ── The summary of a score document: systems with intervals, differences and whether they are shown, histograms ───────

_SHOWN_BAD_ROWS: Final = 100
_SHOWN_WARNINGS: Final = 100
_OF_SYSTEM: Final = (
    "corpus",
    "interval",
    "mean",
    "mean_interval",
    "interval_note",
    "scored",
    "unscored",
    "unscored_by_reason",
)


def summary_json(view: ScoreView) -> dict[str, object]:
    """Return what a page shows first; nothing in it grows with the number of replies."""
    document = view.file.document
    problems = list(document.get("problems") or [])
    return {
        "systems": list(view.systems),
        "items": document.get("items", 0),
        "replies": len(view),
        "data": document.get("data"),
        "resampling": document.get("resampling") or {},
        "metrics": [_metric_json(view, place) for place in range(len(view.file.scores))],
        "bad_rows": [
            {
                "file": bad.get("file"),
                "line": bad.get("line"),
                "item": bad.get("id"),
                "field": bad.get("field"),
                "message": bad.get("message"),
            }
            for bad in problems[:_SHOWN_BAD_ROWS]
        ],
        "more_bad_rows": max(0, len(problems) - _SHOWN_BAD_ROWS),
        "warnings": list(document.get("warnings") or [])[:_SHOWN_WARNINGS],
        "copies": document.get("copies") or {},
        "reply_provenance": document.get("reply_provenance") or {},
    }


def _metric_json(view: ScoreView, place: int) -> dict[str, object]:
    stored = view.metric(place)
    return {
        "metric": stored.name,
        "signature": stored.short_signature or stored.signature.short,
        "signature_full": stored.document.get("signature_full"),
        "scale": stored.scale,
        "higher_is_better": stored.document.get("higher_is_better") is not False,
        "systems": [
            {
                "system": name,
                **{field: system[field] for field in _OF_SYSTEM if field in system},
                **_parts_json(stored, system),
            }
            for name, system in stored.systems.items()
        ],
        "comparisons": _comparisons_json(view, stored),
        "histogram": _histogram_json(view, place),
    }


def _parts_json(stored: StoredScores, system: Mapping[str, Any]) -> dict[str, object]:
    """Return the means of the parts of the recommended metric over the replies of a system; nothing for others."""
    parts = system.get("parts") or {}
    is_recommended = stored.name.partition(":")[0] == "refaug-1"
    return {"parts": {part: parts.get(part) for part in PARTS}} if is_recommended else {}


def _comparisons_json(view: ScoreView, stored: StoredScores) -> list[dict[str, object]]:
    """Return the differences from the baseline; a difference is shown where p, by Holm's correction, is small."""
    compared = stored.document.get("comparisons") or {}
    confidence = float((view.file.document.get("resampling") or {}).get("confidence", 0.95))
    p_values = holm([figures.get("p_randomisation") for figures in compared.values()])
    corrected = dict(zip(compared, p_values, strict=True))
    return [
        {
            "system": name,
            "baseline": view.file.baseline,
            **figures,
            "p_holm": corrected[name],
            "is_shown": None if (p := corrected[name]) is None else p < 1 - confidence,
        }
        for name, figures in compared.items()
    ]


def _histogram_json(view: ScoreView, place: int) -> dict[str, object]:
    """Return how often the scores of each system fall into equal bins that all systems share."""
    by_system = [view.scores[place][view.system_places == system] for system in range(len(view.systems))]
    low, high = ends_of(by_system)
    return {
        "low": low,
        "high": high,
        "bins": BINS,
        "systems": [
            {
                "system": name,
                "counts": np.histogram(scores[~np.isnan(scores)], bins=BINS, range=(low, high))[0].tolist(),
                "missing": int(np.isnan(scores).sum()),
            }
            for name, scores in zip(view.systems, by_system, strict=True)
        ],
    }


@dataclass(frozen=True, kw_only=True)
class ViewColumns:
    """Columns in the order of the document: system after system, and the replies of each in its order."""

    systems: list[str]
    counts: list[int]  # of replies of each system
    ids: list[str]  # of items: those that the document has first, in its order
    item_places: NDArray[np.int32]  # (replies,) in `ids`
    scores: Floats  # (metrics, replies); NaN where there is none
    lengths: NDArray[np.int32]  # (replies,) characters
    aligned: list[tuple[int, str]]  # metrics and systems whose replies are those of the first metric, in its order
    items: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the columns of a document; one without details has no texts."""
        items = (document.get("details") or {}).get("items") or []
        scored = document["scores"]
        replies_of = {name: system.get("replies") or [] for name, system in scored[0]["systems"].items()}
        places = {str(row["id"]): place for place, row in enumerate(items)}
        ids = [str(row["id"]) for row in items]
        item_places = list[int]()
        for rows in replies_of.values():
            for row in rows:
                if row["id"] not in places:
                    places[row["id"]] = len(ids)
                    ids.append(row["id"])
                item_places.append(places[row["id"]])
        counts = [len(rows) for rows in replies_of.values()]
        begins = dict(zip(replies_of, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
        scores, aligned = np.full((len(scored), len(item_places)), np.nan), list[tuple[int, str]]()
        for metric, entry in enumerate(scored):
            for name in set(entry["systems"]) & set(replies_of):
                rows, own = entry["systems"][name].get("replies") or [], [row["id"] for row in replies_of[name]]
                by_id = {row["id"]: np.nan if row.get("score") is None else row["score"] for row in rows}
                scores[metric, begins[name] : begins[name] + len(own)] = [by_id.get(item_id, np.nan) for item_id in own]
                if [row["id"] for row in rows] == own:
                    aligned.append((metric, name))
        texts = [_reply_in(items, place, name) for name, place in _each(replies_of, counts, item_places)]
        return cls(
            systems=list(replies_of),
            counts=counts,
            ids=ids,
            item_places=np.array(item_places, dtype=np.int32),
            scores=scores,
            lengths=np.fromiter(map(len, texts), dtype=np.int32, count=len(texts)),
            aligned=sorted(aligned),
            items=items,
        )

    def write_texts(self, file: BinaryIO) -> NDArray[np.int64]:
        """Write what a search looks at, without case, and return where each text ends."""
        ends, size = np.empty(len(self.item_places), dtype=np.int64), file.write(b"\n")
        names = [name for name, count in zip(self.systems, self.counts, strict=True) for _ in range(count)]
        for place, (name, item_place) in enumerate(zip(names, self.item_places.tolist(), strict=True)):
            reply, utterance = _reply_in(self.items, item_place, name), _utterance_in(self.items, item_place)
            text = "\n".join((self.ids[item_place], reply, utterance)).casefold().encode("utf-8", "surrogatepass")
            file.write(text + b"\n")
            size += len(text) + 1
            ends[place] = size
        return ends


def _each(
    replies_of: Mapping[str, Sequence[object]], counts: Sequence[int], item_places: Sequence[int]
) -> list[tuple[str, int]]:
    """Return the system and the item of every reply."""
    names = [name for name, count in zip(replies_of, counts, strict=True) for _ in range(count)]
    return list(zip(names, item_places, strict=True))


def _reply_in(items: Sequence[Mapping[str, Any]], place: int, system: str) -> str:
    replies = items[place].get("replies") if place < len(items) else None
    return str(replies.get(system, "")) if isinstance(replies, Mapping) else ""


def _utterance_in(items: Sequence[Mapping[str, Any]], place: int) -> str:
    if place >= len(items):
        return ""
    turns = items[place].get("turns") or [items[place].get("utterance") or ""]
    return str(turns[-1])


SCORES: Final = "scores.json"
_HEAD, _STARTS, _COLUMNS = "scores.head.json", "scores.starts.npy", "scores.columns.npy"
_PLACES, _LENGTHS, _TEXTS, _ENDS = "scores.places.npy", "scores.lengths.npy", "scores.texts", "scores.ends.npy"
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_Path = tuple[str | int, ...]


# ── Writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _LongPart(TypedDict):
    """A long list of the document, whose entries stand in the file alone."""

    path: list[Any]
    count: int
    names: list[str] | None


class _ViewHead(TypedDict):
    """The document without its long lists, and what they are about."""

    document: dict[str, object]
    lists: list[_LongPart]
    systems: list[str]
    counts: list[int]
    ids: list[str]
    aligned: list[tuple[int, str]]


@dataclass
class _DocumentWriter:
    """JSON that is written piece by piece, with the places of the entries of long lists."""

    file: BinaryIO
    size: int = 0
    starts: list[NDArray[np.int64]] = field(default_factory=list)
    lists: list[_LongPart] = field(default_factory=list)

    def write(self, content: Any, path: _Path = ()) -> Any:
        """Write a part of a document; return it without its long lists."""
        if any(len(path) == len(long) and _begins(path, long) for long in LONG_PARTS):
            return self._write_long(content, path)
        if not any(_begins(path, long) for long in LONG_PARTS) or not isinstance(content, Mapping | list | tuple):
            self._put(orjson.dumps(content, option=_OPTIONS))
            return content
        if isinstance(content, Mapping):
            return self._write_object(content, path)
        self._put(b"[")
        written = [self._write_after(place, entry, (*path, place)) for place, entry in enumerate(content)]
        self._put(b"]")
        return written

    def _write_object(self, content: Mapping[str, Any], path: _Path) -> dict[str, object]:
        written = dict[str, object]()
        self._put(b"{")
        for place, (name, part) in enumerate(content.items()):
            self._put((b"," if place else b"") + orjson.dumps(name) + b":")
            written[name] = self.write(part, (*path, name))
        self._put(b"}")
        return written

    def _write_after(self, place: int, entry: Any, path: _Path) -> Any:
        if place:
            self._put(b",")
        return self.write(entry, path)

    def _write_long(self, content: Mapping[str, Any] | Sequence[Any], path: _Path) -> Any:
        names = list(content) if isinstance(content, Mapping) else None
        starts = np.empty(len(content) + 1, dtype=np.int64)
        self._put(b"[" if names is None else b"{")
        for place, entry in enumerate(content if names is None else content.values()):  # type: ignore[union-attr]
            name = b"" if names is None else orjson.dumps(names[place]) + b":"
            self._put((b"," if place else b"") + name)
            starts[place] = self.size
            self._put(orjson.dumps(entry, option=_OPTIONS))
        starts[-1] = self.size + 1
        self._put(b"]" if names is None else b"}")
        self.starts.append(starts)
        self.lists.append({"path": list(path), "count": len(content), "names": names})
        return [] if names is None else {}

    def _put(self, piece: bytes) -> None:
        self.file.write(piece)
        self.size += len(piece)


def _begins(path: _Path, long: tuple[str, ...]) -> bool:
    return all(name in (ANY, step) for step, name in zip(path, long, strict=False)) and len(path) <= len(long)


def write_view(document: Mapping[str, Any], folder: Path) -> None:
    """Write a sealed score document into a folder, with what a view of it needs."""
    with write_aside(folder / SCORES) as file:
        writer = _DocumentWriter(file)
        head = writer.write(document)
        file.write(b"\n")
    columns = ViewColumns.of(document)
    with write_aside(folder / _TEXTS) as file:
        ends = columns.write_texts(file)
    write_array(folder / _STARTS, np.concatenate(writer.starts) if writer.starts else np.zeros(0, dtype=np.int64))
    write_array(folder / _COLUMNS, columns.scores)
    write_array(folder / _PLACES, columns.item_places)
    write_array(folder / _LENGTHS, columns.lengths)
    write_array(folder / _ENDS, ends)
    about = {"systems": columns.systems, "counts": columns.counts, "ids": columns.ids, "aligned": columns.aligned}
    write_json(folder / _HEAD, with_checksum({"document": head, "lists": writer.lists, **about}))


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def open_view(folder: Path, shown_name: str) -> ScoreView:
    """Open the view of a document; Corrupt where its files do not belong together."""
    head = cast("_ViewHead", read_json(folder / _HEAD))
    content = _mapped(folder / SCORES)
    starts, scores = _array(folder / _STARTS), _array(folder / _COLUMNS)
    item_places, lengths, ends = (_array(folder / name) for name in (_PLACES, _LENGTHS, _ENDS))
    ids, counts = EntryIds(head["ids"]), [int(count) for count in head["counts"]]
    texts = _mapped(folder / _TEXTS)
    _require_fitting(folder, starts, len(content), [len(item_places), len(lengths), len(ends), scores.shape[1]])
    _require_fitting(folder, ends, len(texts) + 1, [sum(counts), len(ends)])
    if len(item_places) and not 0 <= int(item_places.min()) <= int(item_places.max()) < max(1, len(ids)):
        raise _unfitting(folder)
    ids_of_replies = [ids[place] for place in item_places.tolist()]
    begins = dict(zip(head["systems"], np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
    ids_of_system = {
        name: EntryIds(ids_of_replies[begins[name] : begins[name] + count])
        for name, count in zip(head["systems"], counts, strict=True)
    }
    aligned = {(metric, name) for metric, name in head["aligned"]}
    begin = 0
    for described in head["lists"]:
        part = starts[begin : begin + described["count"] + 1]
        begin += described["count"] + 1
        path = described["path"]
        listed: StoredList | StoredEntries
        if path[-1] == "replies" and (path[1], path[3]) in aligned:
            metric, name = path[1], path[3]
            own = slice(begins[name], begins[name] + described["count"])
            listed = StoredRows(content, part, ids_of_system[name], scores[metric, own])
        elif path == ["details", "items"]:
            listed = StoredRows(content, part, EntryIds(head["ids"][: described["count"]]))
        else:
            listed = StoredList(content, part)
            if described["names"] is not None:
                listed = StoredEntries(listed, described["names"])
        _put_into(head["document"], path, listed)
    file = ScoreFile.of_stored(head["document"], shown_name)
    return ScoreView(
        file=file,
        systems=tuple(head["systems"]),
        system_places=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        ids=tuple(ids_of_replies),
        item_places=item_places,
        scores=scores,
        lengths=lengths,
        texts=SearchedTexts(texts, ends),
    )


def _put_into(document: Any, path: Sequence[Any], listed: object) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = listed


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _array(path: Path) -> NDArray[Any]:
    """Map an array; one without entries cannot be mapped, and is read."""
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array if array.nbytes < mmap.PAGESIZE else np.load(path, mmap_mode="r", allow_pickle=False)


def _require_fitting(folder: Path, places: NDArray[Any], size: int, counts: Sequence[int]) -> None:
    """Refuse places that are outside of a file, and columns of unequal lengths."""
    if len(set(counts)) > 1 or (len(places) and not 0 <= int(places.min()) <= int(places.max()) <= size):
        raise _unfitting(folder)


def _unfitting(folder: Path) -> Corrupt:
    return Corrupt(f"{folder}: its files do not belong together", remedy="restore it from a backup, or score again")
