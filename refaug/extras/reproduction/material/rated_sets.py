"""Rated sets row by row: each row with its item, its rating, and what may disqualify it.

Files have one of two forms: the released ratings, a rated reply a line, or test files of this project. A released line
has `context_id`, `context`, `references`, `system`, `response` and `scores` or `score`.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self, TypedDict

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.agreement.records import RatedItems
from refaug.agreement.row_scores import LENGTH_TOKENIZER, length_tokenizer
from refaug.agreement.rows import RatedRows, data_hash
from refaug.core.errors import BadInput, NotFound
from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import Floats, Indexes
from refaug.scoring.items import BadItem, parse_item, read_items
from refaug.scoring.settings import MetaSettings

Mask = NDArray[np.bool_]

TOKENIZER: Final = LENGTH_TOKENIZER  # lengths are counted in its tokens, where texts are not Japanese
NEAR: Final = 0.8  # token Jaccard from which two texts count as nearly the same
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
    is_gold: Mask  # rows that rate one of the golds of their item
    data: str
    notes: tuple[str, ...] = ()
    tokenizer: str = TOKENIZER  # splits the texts into words

    @classmethod
    def of(cls, name: str, items: Iterable[Item | BadItem], *, needs_references: bool = True) -> Self:
        """Read the rated replies; raise BadInput where a set has no references or nothing to correlate."""
        rated_replies = RatedRows.of(RatedItems(name=name, items=list(items)), MetaSettings())
        if needs_references and not any(test_item.gold for test_item in rated_replies.items):
            raise BadInput(f"{name}: no item has a reference", remedy="agreement is measured against references")
        ratings = np.array([np.nanmean(row) for row in rated_replies.ratings])
        replies = tuple(row.reply for row in rated_replies.rows)
        tokenizer = length_tokenizer(replies)
        tokens = get_tokenizer(tokenizer).tokenize_batch(replies)
        return cls(
            name=name,
            items=tuple(rated_replies.items),
            item=np.array([row.item for row in rated_replies.rows], dtype=np.int64),
            systems=tuple(row.system for row in rated_replies.rows),
            replies=replies,
            ratings=ratings,
            by_annotator=rated_replies.ratings,
            lengths=np.array([len(words) for words in tokens], dtype=np.float64),
            is_gold=rated_replies.is_gold,
            data=data_hash(rated_replies.items, rated_replies.rows, rated_replies.ratings),
            notes=tuple(_notes(rated_replies)),
            tokenizer=tokenizer,
        )

    @property
    def fair(self) -> Mask:
        """Mark the rows that do not rate a gold."""
        return ~self.is_gold

    def rows_where(self, predicate: Callable[[int], bool]) -> Mask:
        """Mark the rows whose number fulfils a predicate."""
        return np.array([predicate(row) for row in range(len(self.replies))], dtype=np.bool_)

    def without_systems(self, systems: Sequence[str]) -> Mask:
        """Mark the fair rows of all other systems."""
        return self.fair & self.rows_where(lambda row: self.systems[row] not in systems)

    def restricted_to(self, rows: Mask) -> ProofSet:
        """Return the set with these rows alone; all items stay, with their numbers."""
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
        """Return the set with only the first reference of each item."""
        items = tuple(replace(test_item, references=test_item.references[:1]) for test_item in self.items)
        return replace(self, items=items)

    def without_golds(self) -> ProofSet:
        """Return the set without the references of its items; rows that rate a gold stay marked."""
        items = (replace(test_item, references=()) for test_item in self.items)
        return replace(self, items=tuple(items))


def _notes(rated_replies: RatedRows) -> Iterator[str]:
    """Yield what the file does not allow to measure, so that a gap in a table has its reason."""
    annotators = rated_replies.ratings.shape[1]
    if annotators < 2:
        yield "one number a reply: no human row, no spread over annotators"
    systems = {row.system for row in rated_replies.rows}
    if len(systems) < 2:
        yield "one system only: nothing is compared between systems"
    if rated_replies.bad_items:
        first = rated_replies.bad_items[0]  # neither the folder nor the message, which may quote the data
        yield (
            f"{len(rated_replies.bad_items):,} items cannot be used: the first in line {first.line} of "
            f"{Path(first.file).name}, {first.field or 'as a whole'}"
        )
    without = sum(1 for test_item in rated_replies.items if test_item.gold is None)
    if without:
        yield f"{without:,} items have no reference of their own"
    silent = sum(1 for test_item in rated_replies.items if not (test_item.utterance or "").strip())
    if silent:
        yield f"{silent:,} items have no utterance, so nothing is retrieved for them"


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_sets(folder: Path, names: Sequence[str], *, needs_references: bool = True) -> list[ProofSet]:
    """Read the sets of these names from `human/` in a data folder."""
    return [_read_set(folder / "human" / f"{name}.jsonl.gz", name, needs_references) for name in names]


def _read_set(path: Path, name: str, needs_references: bool) -> ProofSet:
    """Read a set; an error names the set, for there are several."""
    try:
        return ProofSet.of(name, read_rated(path), needs_references=needs_references)
    except BadInput as error:
        names_set = error.message.startswith(f"{name}:") or path.name in error.message
        raise BadInput(error.message if names_set else f"{name}: {error.message}", remedy=error.remedy) from error


def read_rated(path: Path) -> list[Item | BadItem]:
    """Read a file of rated replies as items, one for each context, in the order of the file."""
    if not path.is_file():
        raise NotFound(f"{path} is not there", remedy="--data FOLDER, with human/NAME.jsonl.gz in it")
    with _open_lines(path) as lines:
        first = next(iter(lines), b"")
    try:
        released = set(_RELEASED) <= set(orjson.loads(first))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise BadInput(
            f"{path}, line 1 is not a JSON object: {error}", remedy="a rated reply a line, or items"
        ) from error
    return list(_parse_released(path)) if released else list(read_items(path, shown_name=str(path)))


@contextmanager
def _open_lines(path: Path) -> Iterator[Iterable[bytes]]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        yield lines


class _ReleasedItem(TypedDict):
    """An item of a released file, from its lines."""

    turns: list[str]
    references: list[Any]
    replies: dict[str, str]
    ratings: dict[str, list[float]]
    scale: list[float] | None


def _parse_released(path: Path) -> Iterator[Item | BadItem]:
    items, lines_of = dict[str, _ReleasedItem](), dict[str, int]()
    with _open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            row = _row(path, number, line)
            name = str(row["context_id"])
            lines_of.setdefault(name, number)
            record = items.setdefault(
                name,
                {
                    "turns": row.get("context") or [],
                    "references": row["references"],
                    "replies": {},
                    "ratings": {},
                    "scale": row.get("scale"),
                },
            )
            if row["system"] in record["replies"]:
                raise BadInput(
                    f"{path}, line {number}: a second reply of {row['system']!r} in context {name!r}",
                    remedy="one reply a system and context: give several of one system names of their own",
                )
            scores = row.get("scores") or ([] if row.get("score") is None else [row["score"]])
            record["replies"][row["system"]], record["ratings"][row["system"]] = row["response"], scores
    for name, values in items.items():
        yield parse_item({"id": name, **values}, where=str(path), line=lines_of[name], fallback_id=name)


def _row(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        row: Mapping[str, Any] = orjson.loads(line)
        missing = [key for key in _RELEASED if key not in row]
    except (orjson.JSONDecodeError, TypeError) as error:
        raise BadInput(f"{path}, line {number} is not a JSON object: {error}", remedy="a rated reply a line") from error
    if missing:
        raise BadInput(f"{path}, line {number} has no {missing[0]!r}", remedy=f"every line has {', '.join(_RELEASED)}")
    return row


# ── Near duplicates ───────────────────────────────────────────────────────────────────────────────────────────────────


def word_sets(texts: Sequence[str], tokenizer: str | None = None) -> list[frozenset[str]]:
    """Return the different words of each text, normalised.

    The tokenizer is that of a set, or one that suits these texts.
    """
    cut = get_tokenizer(tokenizer or length_tokenizer(texts))
    return [frozenset(words) for words in cut.tokenize_batch([normalise(text) for text in texts])]


def token_jaccard(words: frozenset[str], other_words: frozenset[str]) -> float:
    """Return the token Jaccard: the share of all words of the two that both have."""
    together = len(words | other_words)
    return len(words & other_words) / together if together else 0.0


# ── Groups of rated sets that are no independent evidence: they stand on the same source, or share contexts ───────────
#
# Two sets belong to one group when both are known to be drawn from one corpus, or when they share a context (the same
# utterance with the same gold, normalised); so do sets that a third one links. A group counts once in the mean over
# sets, and its contexts are drawn together.

SOURCES: Final[Mapping[str, str]] = {  # published set → the corpus whose test set its contexts stand in
    "dailydialog_gupta": "DailyDialog",
    "dailydialog_zhao": "DailyDialog",
    "grade_dailydialog": "DailyDialog",
    "holistic_dailydialog": "DailyDialog",
    "predictive_engagement_dd": "DailyDialog",
    "grade_empatheticdialogues": "EmpatheticDialogues",
}


@dataclass(frozen=True, kw_only=True)
class SetGroup:
    """Sets that count as one."""

    name: str
    sets: tuple[str, ...]


def groups_of(sets: Sequence[ProofSet]) -> tuple[SetGroup, ...]:
    """Return the groups in the order of their first sets; a set that shares nothing is a group by itself."""
    contexts = [set(context_keys(rated_set)) for rated_set in sets]
    group_by_place = list(range(len(sets)))
    for place, rated_set in enumerate(sets):
        for earlier in range(place):
            if _same_source(rated_set.name, sets[earlier].name) or contexts[place] & contexts[earlier]:
                old, new = group_by_place[place], group_by_place[earlier]
                group_by_place = [new if group == old else group for group in group_by_place]
    members = [
        [rated_set.name for rated_set, group in zip(sets, group_by_place, strict=True) if group == number]
        for number in dict.fromkeys(group_by_place)
    ]
    return tuple(SetGroup(name=_group_name(names), sets=tuple(names)) for names in members)


def context_numbers(sets: Sequence[ProofSet]) -> dict[str, Indexes]:
    """Return the number of the context of each item, by set: equal numbers, also in other sets, are one context.

    Contexts are numbered in the order of sets and items.
    """
    numbers = dict[tuple[str, ...], int]()
    return {
        rated_set.name: np.array(
            [numbers.setdefault(key, len(numbers)) for key in context_keys(rated_set)], dtype=np.int64
        )
        for rated_set in sets
    }


def context_keys(rated_set: ProofSet) -> list[tuple[str, ...]]:
    """Return what tells the context of each item: its utterance and first gold, normalised.

    Items of one set are never one context, even where they look alike; an item without utterance or gold shares its
    context with no other set.
    """
    occurrences, keys = Counter[tuple[str, ...]](), list[tuple[str, ...]]()
    for test_item in rated_set.items:
        texts = _utterance_and_gold(test_item) or ("", rated_set.name, test_item.id)
        occurrences[texts] += 1
        keys.append((*texts, str(occurrences[texts])))
    return keys


def _utterance_and_gold(test_item: Item) -> tuple[str, ...]:
    """Return both texts, normalised; nothing where one of them is missing."""
    utterance, gold = normalise(test_item.utterance or ""), test_item.gold
    text = normalise(gold.text) if gold is not None else ""
    return (utterance, text) if utterance and text else ()


def _same_source(name: str, other: str) -> bool:
    return name in SOURCES and SOURCES[name] == SOURCES.get(other)


def _group_name(names: Sequence[str]) -> str:
    """Return the only set of a group, or the source of all its sets, or their names."""
    if len(names) == 1:
        return names[0]
    sources = {SOURCES.get(name, name) for name in names}
    return next(iter(sources)) if len(sources) == 1 else " + ".join(names)
