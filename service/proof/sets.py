"""Rated replies as they are compared: every row with its item, its rating, and what may disqualify it.

Files are those that the ratings were released in, a rated reply a line, or test files of ours. In the former a line
has `context_id`, `context`, `references`, `system`, `response` and `scores` or `score`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from core.errors import BadInput, NotFound
from core.items import BadItem, parse_item, read_items
from core.records import Item
from core.text import get_tokenizer, normalise
from metrics.base import Floats, Indexes
from service.meta_records import MetaSettings, RatedItems
from service.meta_rows import TakenSet, data_hash
from service.meta_scores import LENGTH_TOKENIZER, length_tokenizer

Mask = NDArray[np.bool_]

TOKENIZER: Final = LENGTH_TOKENIZER  # lengths are counted in its tokens, where texts are not Japanese
NEAR: Final = 0.8  # token Jaccard from which on two texts are nearly the same
_RELEASED: Final = ("context_id", "references", "system", "response")


@dataclass(frozen=True, kw_only=True, eq=False)
class ProofSet:
    """The rated replies of one set, row by row; `notes` say what its file lacks."""

    name: str
    items: tuple[Item, ...]
    item: Indexes  # (rows,)
    systems: tuple[str, ...]
    replies: tuple[str, ...]
    ratings: Floats  # the mean of the annotators
    by_annotator: Floats  # (rows, annotators)
    lengths: Floats
    is_gold: Mask  # rows that rate one of the item's own golds
    data: str
    notes: tuple[str, ...] = ()
    tokenizer: str = TOKENIZER  # what its texts are cut into words by

    @classmethod
    def of(cls, name: str, items: Iterable[Item | BadItem]) -> Self:
        """Take the rated replies; BadInput where a set has no references or nothing that could be correlated."""
        taken = TakenSet.of(RatedItems(name=name, items=list(items)), MetaSettings())
        if not any(item.pair.gold for item in taken.items):
            raise BadInput(f"{name}: no item has a reference", remedy="agreement is measured against references")
        ratings = np.array([np.nanmean(row) for row in taken.ratings])
        replies = tuple(row.reply for row in taken.rows)
        tokenizer = length_tokenizer(replies)
        tokens = get_tokenizer(tokenizer).tokenize_batch(replies)
        return cls(
            name=name,
            items=tuple(taken.items),
            item=np.array([row.item for row in taken.rows], dtype=np.int64),
            systems=tuple(row.system for row in taken.rows),
            replies=replies,
            ratings=ratings,
            by_annotator=taken.ratings,
            lengths=np.array([len(one) for one in tokens], dtype=np.float64),
            is_gold=taken.is_gold,
            data=data_hash(taken.items, taken.rows, taken.ratings),
            notes=tuple(_notes(taken)),
            tokenizer=tokenizer,
        )

    @property
    def fair(self) -> Mask:
        """The rows that do not rate a gold."""
        return ~self.is_gold

    def of_rows(self, wanted: Callable[[int], bool]) -> Mask:
        """The rows for whose number this holds."""
        return np.array([wanted(row) for row in range(len(self.replies))], dtype=np.bool_)

    def without_systems(self, systems: Sequence[str]) -> Mask:
        """The fair rows of all others."""
        return self.fair & self.of_rows(lambda row: self.systems[row] not in systems)

    def only(self, rows: Mask) -> ProofSet:
        """The same with these rows alone; all items stay, with their numbers."""
        places = np.flatnonzero(rows).tolist()
        return replace(
            self,
            item=self.item[rows],
            systems=tuple(self.systems[row] for row in places),
            replies=tuple(self.replies[row] for row in places),
            ratings=self.ratings[rows],
            by_annotator=self.by_annotator[rows],
            lengths=self.lengths[rows],
            is_gold=self.is_gold[rows],
        )

    def with_first_gold(self) -> ProofSet:
        """The same as if each item had come with one reference."""
        items = tuple(
            replace(item, pair=replace(item.pair, references=item.pair.references[:1])) for item in self.items
        )
        return replace(self, items=items)


def _notes(taken: TakenSet) -> Iterator[str]:
    """What the file does not allow to be measured, so that a gap in a table has its reason."""
    annotators = taken.ratings.shape[1]
    if annotators < 2:
        yield "one number a reply: no human row, no spread over annotators"
    systems = {row.system for row in taken.rows}
    if len(systems) < 2:
        yield "one system only: nothing is compared between systems"
    if taken.bad_items:
        first = taken.bad_items[0]  # neither the folder nor the message: it may hold a word of the data
        yield (
            f"{len(taken.bad_items):,} items cannot be used: the first in line {first.line} of "
            f"{Path(first.file).name}, {first.field or 'as a whole'}"
        )
    without = sum(1 for item in taken.items if item.pair.gold is None)
    if without:
        yield f"{without:,} items have no reference of their own"
    silent = sum(1 for item in taken.items if not (item.pair.utterance or "").strip())
    if silent:
        yield f"{silent:,} items have no utterance, so nothing is retrieved for them"


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_sets(folder: Path, names: Sequence[str]) -> list[ProofSet]:
    """The sets of these names in `human/` of a data folder."""
    return [_read_set(folder / "human" / f"{name}.jsonl.gz", name) for name in names]


def _read_set(path: Path, name: str) -> ProofSet:
    """Named in what is wrong with it, for there are several."""
    try:
        return ProofSet.of(name, read_rated(path))
    except BadInput as error:
        known = error.message.startswith(f"{name}:") or path.name in error.message
        raise BadInput(error.message if known else f"{name}: {error.message}", remedy=error.remedy) from error


def read_rated(path: Path) -> list[Item | BadItem]:
    """A file of rated replies as items, one for each context, in the order of the file."""
    if not path.is_file():
        raise NotFound(f"{path} is not there", remedy="--data FOLDER, with human/NAME.jsonl.gz in it")
    with _opened(path) as lines:
        first = next(iter(lines), b"")
    try:
        released = set(_RELEASED) <= set(orjson.loads(first))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise BadInput(f"{path}, line 1 is no JSON object: {error}", remedy="a rated reply a line, or items") from error
    return list(_of_released(path)) if released else list(read_items(path, called=str(path)))


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        yield lines


def _of_released(path: Path) -> Iterator[Item | BadItem]:
    items, lines_of = dict[str, dict[str, Any]](), dict[str, int]()
    with _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            row = _row(path, number, line)
            name = str(row["context_id"])
            lines_of.setdefault(name, number)
            item = items.setdefault(
                name,
                {"turns": row.get("context") or [], "references": row["references"], "replies": {}, "ratings": {}},
            )
            if row["system"] in item["replies"]:
                raise BadInput(
                    f"{path}, line {number}: a second reply of {row['system']!r} in context {name!r}",
                    remedy="one reply a system and context: give several of one system names of their own",
                )
            scores = row.get("scores") or ([] if row.get("score") is None else [row["score"]])
            item["replies"][row["system"]], item["ratings"][row["system"]] = row["response"], scores
    for name, values in items.items():
        yield _item(path, lines_of[name], name, values)


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row: dict[str, Any] = orjson.loads(line)
        missing = [key for key in _RELEASED if key not in row]
    except (orjson.JSONDecodeError, TypeError) as error:
        raise BadInput(f"{path}, line {number} is no JSON object: {error}", remedy="a rated reply a line") from error
    if missing:
        raise BadInput(f"{path}, line {number} has no {missing[0]!r}", remedy=f"every line has {', '.join(_RELEASED)}")
    return row


def _item(path: Path, line: int, name: str, values: Mapping[str, Any]) -> Item | BadItem:
    return parse_item({"id": name, **values}, where=str(path), line=line, fallback_id=name)


# ── what is nearly the same ───────────────────────────────────────────────────────────────────────────────────────


def words_of(texts: Sequence[str], tokenizer: str | None = None) -> list[frozenset[str]]:
    """The different words of each text, normalised; the tokenizer is that of a set, or what suits these texts."""
    cut = get_tokenizer(tokenizer or length_tokenizer(texts))
    return [frozenset(words) for words in cut.tokenize_batch([normalise(one) for one in texts])]


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Token Jaccard: the share of all words of the two that both have."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0
