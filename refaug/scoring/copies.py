"""Replies that copy the utterance: the cheapest way to share words with every good answer.

A reply is a copy if it equals the utterance, normalised, or nearly equals it by the rule that excludes near-duplicates
from retrieval: at least 5 words in both, and nine tenths of all their different words in common. Where a gold of the
item is such a copy itself, people have answered so, and no reply to it counts as one.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import UNSPACED, normalise, normalised_words, words_of_all

NEAR: Final = 0.9  # share of all different words that two texts have in common, as in retrieval
NEAR_WORDS: Final = 5  # that both texts have at least


@dataclass(frozen=True, kw_only=True, eq=False)
class UtteranceTable:
    """The utterances of many items as hashes of their texts and words, small enough for sets held in memory."""

    keys: NDArray[np.uint64]  # (items,) of the normalised utterance
    starts: NDArray[np.int64]  # (items + 1,) where the words of each utterance begin
    words: NDArray[np.uint32]  # the different words of each utterance
    counts: NDArray[np.int32]  # (items,) how many words an utterance has, repeats included; 0: no reply is a copy

    @classmethod
    def of(cls, items: Iterable[Item]) -> Self:
        """Read the utterances of items."""
        builder = UtteranceTableBuilder()
        for test_item in items:
            builder.add(test_item)
        return cls(**builder.columns())

    @property
    def bytes(self) -> int:
        """The memory of the table."""
        return self.keys.nbytes + self.starts.nbytes + self.words.nbytes + self.counts.nbytes

    def copies(self, replies: Sequence[str | None], places: Sequence[int]) -> list[int]:
        """Return which replies copy the utterances of the items in these places; −1 is the place of no item."""
        at = np.array(places, dtype=np.int64)
        counts = np.where(at >= 0, self.counts[at], 0).tolist()  # the place of no item has the words of any
        firsts, lasts = self.starts[at].tolist(), self.starts[at + 1].tolist()
        copies = list[int]()
        rows = zip(replies, words_of_all(replies), counts, firsts, lasts, strict=True)
        for row, (reply, words, count, first, last) in enumerate(rows):
            if reply is None or not count:
                continue
            pieces = words if reply.isascii() else _pieces(words)
            size = len(pieces)
            if size == count and _key(" ".join(words)) == self.keys.item(places[row]):
                copies.append(row)
            elif size >= NEAR_WORDS <= count and size >= NEAR * (last - first):  # most have too few words
                distinct = set(pieces)
                is_as_long = NEAR * len(distinct) <= last - first <= len(distinct) / NEAR
                if is_as_long and _are_near_words(distinct, set(self.words[first:last].tolist())):
                    copies.append(row)
        return copies


class UtteranceTableBuilder:
    """Collects the columns of a table from items that are read one by one."""

    def __init__(self) -> None:
        self._keys, self._starts, self._words, self._counts = array("Q"), array("q", [0]), array("I"), array("i")

    def add(self, test_item: Item) -> None:
        """Add the utterance of the next item."""
        key, distinct, count = _fingerprint(test_item)
        self._keys.append(key)
        self._words.extend(distinct)
        self._starts.append(len(self._words))
        self._counts.append(count)

    @property
    def bytes(self) -> int:
        """The memory of the columns so far."""
        columns = (self._keys, self._starts, self._words, self._counts)
        return sum(len(column) * column.itemsize for column in columns)

    def columns(self) -> dict[str, Any]:
        """Return the columns so far."""
        return {
            "keys": np.array(self._keys, dtype=np.uint64),
            "starts": np.array(self._starts, dtype=np.int64),
            "words": np.array(self._words, dtype=np.uint32),
            "counts": np.array(self._counts, dtype=np.int32),
        }


@dataclass(frozen=True, kw_only=True)
class CopiedReplies:
    """The replies of one system that copy the utterance."""

    rows: tuple[int, ...]  # their places among the replies of the system
    items: tuple[str, ...]  # the ids of the items that they answer

    def as_json(self) -> dict[str, Any]:
        """Return rows and ids."""
        return {"rows": list(self.rows), "items": list(self.items)}


def find_copies(
    table: UtteranceTable, places: Sequence[int], ids: Sequence[str], replies: Mapping[str, Sequence[str | None]]
) -> dict[str, CopiedReplies]:
    """Return the copies of every system that has any; row i answers the item `ids[i]`, in place `places[i]` or −1."""
    copies = dict[str, CopiedReplies]()
    for system, listed in replies.items():
        if rows := table.copies(listed, places):
            copies[system] = CopiedReplies(rows=tuple(rows), items=tuple(ids[row] for row in rows))
    return copies


def copied_by(test_item: Item) -> list[str]:
    """Return the systems whose reply to the item copies the utterance."""
    text = normalise(test_item.utterance or "")
    if not text:
        return []
    words = _pieces(text.split())
    distinct = set(words)
    return [
        system
        for system, reply in test_item.replies.items()
        if _is_copy_of(reply, text, len(words), distinct) and not _has_copied_gold(test_item, text, words)
    ]


def _is_copy_of(reply: str, text: str, count: int, distinct: set[str]) -> bool:
    """Say whether a reply equals a normalised text of so many words, or is near it."""
    words = normalised_words(reply)
    pieces = words if reply.isascii() else _pieces(words)
    if len(pieces) == count and " ".join(words) == text:
        return True
    if len(pieces) < NEAR_WORDS or count < NEAR_WORDS:
        return False
    return _are_near(set(pieces), distinct)


def _has_copied_gold(test_item: Item, text: str, words: Sequence[str]) -> bool:
    """Say whether a gold equals the normalised utterance, or is near it."""
    distinct = set(words)
    for reference in test_item.references:
        if reference.source is Origin.GOLD:
            gold = normalise(reference.text)
            gold_words = _pieces(gold.split())
            is_long = min(len(words), len(gold_words)) >= NEAR_WORDS
            if gold == text or (is_long and _are_near(set(gold_words), distinct)):
                return True
    return False


def copies_json(copies: Mapping[str, CopiedReplies]) -> dict[str, Any]:
    """Return the part of an answer about copies, which is not there where no reply is one."""
    return {"copies": {system: copied.as_json() for system, copied in copies.items()}} if copies else {}


def copy_warning(copies: Mapping[str, CopiedReplies]) -> Iterator[str]:
    """Warn of the copies of each system."""
    if copies:
        listed = ", ".join(f"{system} ({len(copied.rows):,})" for system, copied in copies.items())
        yield f"replies that repeat the utterance: {listed}; what they score says nothing of answers"


def reference_copy_warning(items: Sequence[Item], systems: Iterable[str]) -> Iterator[str]:
    """Warn of bots whose replies are references of their items: both were retrieved from the same texts."""
    counts = {system: sum(_is_reference(test_item, system) for test_item in items) for system in systems}
    if any(counts.values()):
        listed = ", ".join(f"{system} ({count:,})" for system, count in counts.items() if count)
        yield f"replies that are retrieved references of their items: {listed}; take both from different logs"


def _is_reference(test_item: Item, system: str) -> bool:
    """Say whether the reply equals a retrieved reference of positive weight, normalised."""
    reply = normalise(test_item.replies.get(system, ""))
    return bool(reply) and any(
        reply == normalise(reference.text)
        for reference in test_item.references
        if reference.source is Origin.RETRIEVED and (reference.weight or 0) > 0
    )


def _fingerprint(test_item: Item) -> tuple[int, list[int], int]:
    """Return the hash of the utterance, those of its different words, and the number of its words."""
    text = normalise(test_item.utterance or "")
    words = _pieces(text.split())
    if _has_copied_gold(test_item, text, words):
        return 0, [], 0
    return (_key(text) if text else 0), sorted({_word_hash(word) for word in words}), len(words)


def _are_near(words: AbstractSet[object], other_words: AbstractSet[object]) -> bool:
    return len(words & other_words) >= NEAR * len(words | other_words)


def _are_near_words(words: set[str], other_words: set[int]) -> bool:
    """Say whether words are near hashed ones; most texts have too many other words among their first ones."""
    hashes, other = set[int](), 0
    for word in words:
        word_hash = _word_hash(word)
        hashes.add(word_hash)
        if word_hash not in other_words:
            other += 1
            if other > len(words) * (1 / NEAR - 1) + 1:
                return False
    return _are_near(hashes, other_words)


def _pieces(words: list[str]) -> list[str]:
    """Return the words of a normalised text; a script without spaces has its characters for words."""
    if not UNSPACED.search(" ".join(words)):
        return words
    return [piece for word in words for piece in (word if UNSPACED.search(word) else (word,))]


def _word_hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _key(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1
