"""The common parts of metrics of single references: an item's references, the pairs to score, and their best or mean.

Such a metric scores a reply against one text. Every distinct pair of a reply and a text is scored once, however many
items share the text, and a row is computed from its pairs alone.
"""

from __future__ import annotations

import functools
import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import MissingPart
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from refaug.metrics.words.bleu import tokenizer_and_case

# ── Libraries ─────────────────────────────────────────────────────────────────────────────────────────────────────


def import_library(module: str, *, package: str, metric: str) -> ModuleType:
    """Import a library that only some metrics need; MissingPart tells how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPart(
            f"{metric} needs the package {package}, which cannot be imported: {error}", remedy=f"pip install {package}"
        ) from error


def package_version(package: str) -> dict[str, str]:
    """Return the package's part of the full signature."""
    from importlib import metadata  # noqa: PLC0415  which imports a library for mails

    try:
        return {package: metadata.version(package)}
    except metadata.PackageNotFoundError:  # on the path without metadata
        return {package: "unknown"}


# ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def porter() -> Callable[[str], str]:
    """Return Porter's stemmer of nltk without its lower-casing, which the settings of metrics determine."""
    stemmer = import_library("nltk.stem.porter", package="nltk", metric="Porter's stemmer").PorterStemmer()

    @functools.lru_cache(maxsize=2**16)
    def stem(word: str) -> str:
        return str(stemmer.stem(word, to_lowercase=False))

    return stem


class MetricTokenizer:
    """Splits texts into tokens by the settings of a metric: tokenizer, case and stems."""

    def __init__(self, metric: str, settings: Mapping[str, str], *, stem_from: int = 0) -> None:
        self.tokenizer: Tokenizer
        self.tokenizer, self._lower_case, case = tokenizer_and_case(metric, settings)
        self._stem = porter() if settings.get("stem") == "yes" else None
        self._stem_from = stem_from
        self.settings = {"case": case, "tok": self.tokenizer.name}

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts."""
        tokens = self.tokenizer.tokenize_batch([text.lower() for text in texts] if self._lower_case else texts)
        stem, least = self._stem, self._stem_from
        if stem is None:
            return tokens
        return [[stem(word) if len(word) >= least else word for word in words] for words in tokens]

    def versions(self) -> dict[str, str]:
        """Return the parts of the full signature of the tokenizer and the stemmer."""
        return {"tokenizer": self.tokenizer.version, **(package_version("nltk") if self._stem else {})}


# ── References ────────────────────────────────────────────────────────────────────────────────────────────────────


class DistinctTexts(NamedTuple):
    """Texts without repetition, and the number of each original text among them."""

    texts: list[str]
    numbers: Indexes

    @classmethod
    def of(cls, texts: Sequence[str]) -> DistinctTexts:
        """Number the texts in the order in which they first occur."""
        number_of: dict[str, int] = {}
        numbers = [number_of.setdefault(text, len(number_of)) for text in texts]
        return cls(list(number_of), np.array(numbers, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class PreparedTexts(Prepared):
    """The references that items are scored against; `read` is what the metric stores of every distinct text.

    Those of item i are `numbers[offsets[i]:offsets[i + 1]]`, without unusable texts such as empty ones.
    """

    read: Any
    offsets: Indexes
    numbers: Indexes


def prepare_texts(
    references: Sequence[References],
    *,
    gold_only: bool,
    read: Callable[[list[str]], Any],
    usable: Callable[[Any], NDArray[np.bool_]],
    unusable: Problem = NO_REFERENCE,
) -> PreparedTexts:
    """Read every distinct text of the references once; `unusable` is the problem of an item without a usable text.

    Where all references of an item are empty, that is its problem, whatever the metric.
    """
    chosen = [_select_texts(of_item, gold_only=gold_only) for of_item in references]
    distinct = DistinctTexts.of([text for texts in chosen for text in texts])
    content = read(distinct.texts)
    item_of = np.repeat(np.arange(len(references), dtype=np.int64), [len(texts) for texts in chosen])
    is_used = np.asarray(usable(content), dtype=np.bool_)[distinct.numbers]
    counts = np.bincount(item_of[is_used], minlength=len(references))
    return PreparedTexts(
        items=len(references),
        problems={
            place: NO_GOLD
            if gold_only and references[place].gold < 0
            else unusable
            if any(map(str.strip, chosen[place]))
            else NO_REFERENCE
            for place in np.flatnonzero(counts == 0).tolist()
        },
        read=content,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        numbers=distinct.numbers[is_used],
    )


def _select_texts(references: References, *, gold_only: bool) -> tuple[str, ...]:
    if not gold_only:
        return references.texts
    return references.texts[references.gold : references.gold + 1] if references.gold >= 0 else ()


def non_empty(texts: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Return which token lists have any tokens."""
    return np.fromiter(map(bool, texts), dtype=np.bool_, count=len(texts))


# ── Pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class TextPairs(NamedTuple):
    """The pairs of reply and reference of each row, row after row; `place` is the distinct pair of each."""

    reply: Indexes  # (distinct pairs,)
    reference: Indexes  # (distinct pairs,) the number of a text
    place: Indexes  # (pairs,)
    counts: Indexes  # (rows,)

    @classmethod
    def of(cls, offsets: Indexes, numbers: Indexes, reply_places: Indexes, item_places: Indexes) -> TextPairs:
        """Pair each row's reply with the references of its item."""
        counts = np.diff(offsets)[item_places]
        which = ranges(offsets[item_places], counts)
        texts = int(numbers.max(initial=-1)) + 1
        keys, place = np.unique(np.repeat(reply_places, counts) * texts + numbers[which], return_inverse=True)
        pair_reply, pair_reference = np.divmod(keys, max(texts, 1))
        return cls(pair_reply, pair_reference, place.reshape(-1).astype(np.int64), counts)

    def combine(self, values: Floats, how: str) -> Floats:
        """Return the best or mean of the distinct pairs' values for each row; NaN for a row without pairs."""
        combine = np.maximum if how == "best" else np.add
        of_pairs = values[self.place]
        if how == "mean":  # in order of size, so that the order of the references cannot change the last bit
            of_pairs = of_pairs[np.lexsort((of_pairs, np.repeat(np.arange(len(self.counts)), self.counts)))]
        has_any = self.counts > 0
        out = np.full(len(self.counts), np.nan)
        if has_any.any():
            starts = np.cumsum(self.counts) - self.counts
            out[has_any] = combine.reduceat(of_pairs, starts[has_any])
        return out / self.counts.clip(1) if how == "mean" else out


def ranges(starts: Indexes, counts: Indexes) -> Indexes:
    """Return every `start … start + count − 1`, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


TOO_LONG: Final = Problem("too_long", "reply and reference are too long to compare every word of one with all others")


class SingleReferenceMetric(MeanMetric):
    """A metric of a reply and one text; with several references, `multi` takes the best or the mean."""

    def choose_references(self, settings: Mapping[str, str]) -> None:
        """Set the parameters about several references."""
        self.gold_only = settings["refs"] == "gold"
        self.multiple = settings["multi"]

    @abstractmethod
    def read(self, texts: list[str]) -> Any:
        """Read texts, both replies and references."""

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Return which texts can be a reference: by default those with tokens."""
        return non_empty(read)

    @abstractmethod
    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return the score of each pair; NaN where it has none."""

    def unusable(self) -> Problem:
        """Return the problem of an item without a usable reference."""
        return NO_REFERENCE

    def read_references(self, texts: list[str]) -> Any:
        """Read references; by default like `read`."""
        return self.read(texts)

    def prepare(self, references: Sequence[References]) -> PreparedTexts:
        """Read every distinct text once."""
        return prepare_texts(
            references,
            gold_only=self.gold_only,
            read=self.read_references,
            usable=self.usable,
            unusable=self.unusable(),
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row."""
        assert isinstance(prepared, PreparedTexts)
        distinct = DistinctTexts.of(replies)
        pairs = TextPairs.of(prepared.offsets, prepared.numbers, distinct.numbers[reply_places], item_places)
        values = self.pair_values(self.read(distinct.texts), prepared.read, pairs.reply, pairs.reference)
        return self.rows(pairs.combine(values, self.multiple))
