"""What metrics of single references share: which references an item has, the pairs to score, the best or mean of them.

Such a metric says what a reply is worth beside one text. Every distinct pair of a reply and a text is scored once,
however many items share the text, and a row is made of its pairs alone.
"""

from __future__ import annotations

import functools
import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import MissingPart
from core.text import Tokenizer
from metrics.base import NO_GOLD, NO_REFERENCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from metrics.bleu import tokenizer_and_case

# ── libraries ─────────────────────────────────────────────────────────────────────────────────────────────────────


def imported(module: str, *, package: str, metric: str) -> ModuleType:
    """Import a library that only some metrics need, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPart(
            f"{metric} needs the package {package}, which cannot be imported: {error}", remedy=f"pip install {package}"
        ) from error


def with_version(package: str) -> dict[str, str]:
    """The package's part of the full signature."""
    try:
        return {package: installed_version(package)}
    except PackageNotFoundError:  # put on the path by hand, without metadata
        return {package: "unknown"}


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def porter() -> Callable[[str], str]:
    """Porter's stemmer as nltk has it, without its lower-casing: what case is left is the settings' to say."""
    stemmer = imported("nltk.stem.porter", package="nltk", metric="Porter's stemmer").PorterStemmer()

    @functools.lru_cache(maxsize=2**16)
    def stem(word: str) -> str:
        return str(stemmer.stem(word, to_lowercase=False))

    return stem


class Words:
    """Texts to tokens as the settings of a metric say: tokenizer, case and, where asked for, stems."""

    def __init__(self, metric: str, settings: Mapping[str, str], *, stem_from: int = 0) -> None:
        self.tokenizer: Tokenizer
        self.tokenizer, self._lower_case, case = tokenizer_and_case(metric, settings)
        self._stem = porter() if settings.get("stem") == "yes" else None
        self._stem_from = stem_from
        self.settings = {"case": case, "tok": self.tokenizer.name}

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of many texts."""
        tokens = self.tokenizer.tokenize_batch([text.lower() for text in texts] if self._lower_case else texts)
        stem, least = self._stem, self._stem_from
        if stem is None:
            return tokens
        return [[stem(word) if len(word) >= least else word for word in one] for one in tokens]

    def versions(self) -> dict[str, str]:
        """The tokenizer's part of the full signature, and the stemmer's."""
        return {"tokenizer": self.tokenizer.version, **(with_version("nltk") if self._stem else {})}


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────


class Distinct(NamedTuple):
    """Texts without repetition, and which of them each of the texts given is."""

    texts: list[str]
    numbers: Indexes

    @classmethod
    def of(cls, texts: Sequence[str]) -> Distinct:
        """Number them in the order in which they first come."""
        number_of: dict[str, int] = {}
        numbers = [number_of.setdefault(text, len(number_of)) for text in texts]
        return cls(list(number_of), np.array(numbers, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class PreparedTexts(Prepared):
    """The references that items are scored against; `read` is what the metric keeps of every distinct text.

    Those of item i are `numbers[offsets[i]:offsets[i + 1]]`; texts that are of no use, empty ones say, are not there.
    """

    read: Any
    offsets: Indexes
    numbers: Indexes


def prepared_texts(
    references: Sequence[References],
    *,
    gold_only: bool,
    read: Callable[[list[str]], Any],
    usable: Callable[[Any], NDArray[np.bool_]],
    unusable: Problem = NO_REFERENCE,
) -> PreparedTexts:
    """Read every distinct text of the references once; `unusable` is what is wrong with an item none of which is left.

    Where its references are all empty, that is what is wrong, whatever the metric.
    """
    chosen = [_chosen(one, gold_only=gold_only) for one in references]
    distinct = Distinct.of([text for texts in chosen for text in texts])
    content = read(distinct.texts)
    item_of = np.repeat(np.arange(len(references), dtype=np.int64), [len(texts) for texts in chosen])
    kept = np.asarray(usable(content), dtype=np.bool_)[distinct.numbers]
    counts = np.bincount(item_of[kept], minlength=len(references))
    return PreparedTexts(
        items=len(references),
        problems={
            item: NO_GOLD
            if gold_only and references[item].gold < 0
            else unusable
            if any(map(str.strip, chosen[item]))
            else NO_REFERENCE
            for item in np.flatnonzero(counts == 0).tolist()
        },
        read=content,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        numbers=distinct.numbers[kept],
    )


def _chosen(references: References, *, gold_only: bool) -> tuple[str, ...]:
    if not gold_only:
        return references.texts
    return references.texts[references.gold : references.gold + 1] if references.gold >= 0 else ()


def non_empty(texts: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Which token lists have any tokens."""
    return np.fromiter(map(bool, texts), dtype=np.bool_, count=len(texts))


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pairs(NamedTuple):
    """The pairs of reply and reference that rows are made of, row after row; `place` is which distinct pair each is."""

    reply: Indexes  # (distinct pairs,)
    reference: Indexes  # (distinct pairs,) the number of a text
    place: Indexes  # (pairs,)
    counts: Indexes  # (rows,)

    @classmethod
    def of(cls, offsets: Indexes, numbers: Indexes, reply: Indexes, item: Indexes) -> Pairs:
        """Pair each row's reply with the references of its item."""
        counts = np.diff(offsets)[item]
        which = ranges(offsets[item], counts)
        texts = int(numbers.max(initial=-1)) + 1
        keys, place = np.unique(np.repeat(reply, counts) * texts + numbers[which], return_inverse=True)
        pair_reply, pair_reference = np.divmod(keys, max(texts, 1))
        return cls(pair_reply, pair_reference, place.reshape(-1).astype(np.int64), counts)

    def combined(self, values: Floats, how: str) -> Floats:
        """The best or mean of the distinct pairs' values for each row; NaN for a row without pairs."""
        combine = np.maximum if how == "best" else np.add
        taken = values[self.place]
        if how == "mean":  # in order of size, so that the order of the references cannot change the last bit
            taken = taken[np.lexsort((taken, np.repeat(np.arange(len(self.counts)), self.counts)))]
        has_any = self.counts > 0
        out = np.full(len(self.counts), np.nan)
        if has_any.any():
            starts = np.cumsum(self.counts) - self.counts
            out[has_any] = combine.reduceat(taken, starts[has_any])
        return out / self.counts.clip(1) if how == "mean" else out


def ranges(starts: Indexes, counts: Indexes) -> Indexes:
    """Every `start … start + count − 1`, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


TOO_LONG: Final = Problem("too_long", "reply and reference are too long to compare every word of one with all others")


class SingleReferenceMetric(MeanMetric):
    """A metric of a reply and one text; several references make `multi` = the best or the mean of them."""

    def choose_references(self, settings: Mapping[str, str]) -> None:
        """Take over what the settings say about several references."""
        self.gold_only = settings["refs"] == "gold"
        self.multiple = settings["multi"]

    @abstractmethod
    def read(self, texts: list[str]) -> Any:
        """Take texts apart, replies and references alike."""

    @abstractmethod
    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Which texts can be a reference."""

    @abstractmethod
    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """The score of each pair; NaN where it has none."""

    def unusable(self) -> Problem:
        """What is wrong with an item none of whose references is usable."""
        return NO_REFERENCE

    def read_references(self, texts: list[str]) -> Any:
        """The same as `read`, where references are not taken apart in a way of their own."""
        return self.read(texts)

    def prepare(self, references: Sequence[References]) -> PreparedTexts:
        """Read every distinct text once."""
        return prepared_texts(
            references,
            gold_only=self.gold_only,
            read=self.read_references,
            usable=self.usable,
            unusable=self.unusable(),
        )

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """A score and a count for each row."""
        assert isinstance(prepared, PreparedTexts)
        distinct = Distinct.of(replies)
        pairs = Pairs.of(prepared.offsets, prepared.numbers, distinct.numbers[reply], item)
        values = self.pair_values(self.read(distinct.texts), prepared.read, pairs.reply, pairs.reference)
        return self.rows(pairs.combined(values, self.multiple))
