"""A score document on the disk, so written that a view of it opens without reading it.

scores.json          the document, as `refaug score --json --details` prints it, in one line
scores.head.json     the document without its long lists, and what these are; written last
scores.starts.npy    where the entries of the long lists begin in scores.json, list after list
scores.columns.npy   (metrics, replies) scores
scores.places.npy    (replies,) of the item of each reply
scores.lengths.npy   (replies,) characters
scores.texts         what a search looks at: id, reply and utterance of every reply, without case
scores.ends.npy      (replies,) where each of these texts ends
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
from refaug.core.errors import Corrupt
from refaug.core.files import read_json, with_checksum, write_aside, write_json
from refaug.metrics.base import Floats
from refaug.scoring.score_files.score_document import ANY, LONG_PARTS
from refaug.scoring.score_files.score_file import ScoreFile
from refaug.scoring.score_files.stored_lists import EntryIds, StoredEntries, StoredList, StoredRows
from refaug.scoring.score_views.score_view import ScoreView, SearchedTexts


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
        if any(_fits(path, long) for long in LONG_PARTS):
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


def _fits(path: _Path, long: tuple[str, ...]) -> bool:
    return len(path) == len(long) and _begins(path, long)


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
