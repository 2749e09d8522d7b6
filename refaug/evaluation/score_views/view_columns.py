"""The replies of a score document as columns: items, scores of every metric, lengths, and the texts of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.base import Floats


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
