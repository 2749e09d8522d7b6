"""What a metric is: texts in, statistics that can be added, numbers out.

Scoring has three steps, and only the first two ever see text:

    prepared = metric.prepare(references)                          once for a set of references
    rows = metric.statistics(replies, prepared, reply, item)       one row a reply, whatever else is in the batch
    metric.values(rows, Level.REPLY)                               a score each
    metric.values(rows.sum(axis=0), Level.CORPUS)                  the score of all of them together

So a corpus is scored by adding rows, and an interval by adding them again in another mixture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.text import Tokenizer
from metrics.catalogue import MetricInfo

Floats = NDArray[np.float64]
Indexes = NDArray[np.int64]


class Level(StrEnum):
    """What a score is the score of."""

    REPLY = "reply"
    SYSTEM = "system"  # the mean of its reply scores
    CORPUS = "corpus"  # all replies together, from the sums of their statistics


@dataclass(frozen=True, slots=True)
class References:
    """The references that a reply is scored against and what each is worth; `gold` is the gold's place, -1: none."""

    texts: tuple[str, ...]
    weights: tuple[float, ...]
    gold: int = 0
    utterance: str | None = None  # what they answer; only where a metric looks at it
    beside: References | None = None  # what the second part of a metric of two parts looks at

    @classmethod
    def unweighted(cls, texts: Sequence[str]) -> References:
        """References that are all as good as the gold, which comes first."""
        return cls(tuple(texts), (1.0,) * len(texts))

    def kept(self, places: Sequence[int]) -> References:
        """Those in these places; the gold is still the gold, unless it is not among them."""
        gold = places.index(self.gold) if self.gold in places else -1
        texts, weights = tuple(self.texts[at] for at in places), tuple(self.weights[at] for at in places)
        beside = self.beside.without(set(self.texts) - set(texts)) if self.beside is not None else None
        return References(texts, weights, gold, self.utterance, beside)

    def without(self, texts: Collection[str]) -> References:
        """All that are none of these texts."""
        return self.kept([at for at, text in enumerate(self.texts) if text not in texts])


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an item or reply has no score; the code is for programs and never changes its meaning."""

    code: str
    message: str


NO_REFERENCE = Problem("no_reference", "none of its references has any tokens")
NO_POSITIVE_WEIGHT = Problem("no_positive_weight", "none of its references has a positive weight")
NO_GOLD = Problem("no_gold", "it has no gold reference, which this metric needs")
NO_UTTERANCE = Problem("no_utterance", "it has no utterance, which this metric needs")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A set of references, taken apart once; each metric has its own kind."""

    items: int
    problems: Mapping[int, Problem] = field(default_factory=dict)  # items that cannot be scored, and why


class Metric(ABC):
    """One metric with its settings; it holds no state, so that one may serve all threads."""

    info: MetricInfo
    settings: Mapping[str, str]  # every key of the signature with its value, in order
    columns: tuple[str, ...]
    turns: int = 1  # of the dialogue before the reply, the last ones: what `utterance` of its references holds

    @abstractmethod
    def prepare(self, references: Sequence[References]) -> Prepared:
        """Take references apart, one entry an item; what is wrong with an item is noted, never raised."""

    @abstractmethod
    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """Row i is about `replies[reply[i]]` and the item `item[i]`; a row of NaN has no score (see `undefined`)."""

    @abstractmethod
    def values(self, sums: Floats, level: Level) -> Floats:
        """The score of every row of sums (…, columns) → (…)."""

    def parts(self, sums: Floats, level: Level) -> dict[str, Any]:
        """What the score of one row was made of, for people who want to check it."""
        del level
        return dict(zip(self.columns, sums.tolist(), strict=True))

    def versions(self) -> Mapping[str, str]:
        """Libraries, tokenizers and models that can change the number: they go into the full signature."""
        return {}

    def credited(self, reply: str, references: References) -> list[dict[str, Any]] | None:
        """What was credited to which reference, with what weight, for metrics that match n-grams; else None."""
        del reply, references
        return None

    def undefined(self) -> Problem:
        """What a row of NaN means."""
        return Problem("undefined", f"{self.info.name} is not defined for this reply and these references")

    def for_set(self, references: Sequence[References]) -> Metric:
        """The metric for a set with these references, an entry an item; another one only where scores depend on it.

        A metric with an idf takes it from here and names it in `versions`, so that a score depends neither on which
        replies there are nor on the batch it came in.
        """
        del references
        return self

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item: Indexes) -> Metric:
        """The metric for exactly these replies, the i-th to the references `item[i]`; for most it is the same one.

        Another one where a score depends on which replies are scored together, and then its settings say so.
        """
        del replies, references, item
        return self

    def remarks(self) -> tuple[str, ...]:
        """What makes the scores given so far mean something else than one may think."""
        return ()

    @property
    def name(self) -> str:
        """The name in specifications."""
        return self.info.name

    def value_of_sums(self, sums: Floats) -> Floats:
        """The corpus score of sums: what resampling calls."""
        return self.values(sums, Level.CORPUS)


class MeanMetric(Metric):
    """A metric whose corpus score is the mean of its reply scores."""

    columns: tuple[str, ...] = ("total", "replies")

    def values(self, sums: Floats, level: Level) -> Floats:
        """The mean of what was added."""
        del level
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])

    def rows(self, values: Floats) -> Floats:
        """Statistics out of a score for each row; NaN where there is none."""
        return np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=-1)


def tokenizer_versions(tokenizer: Tokenizer) -> dict[str, str]:
    """The tokenizer's part of the full signature."""
    return {"tokenizer": tokenizer.version}
