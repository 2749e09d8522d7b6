"""The interface of a metric: texts in, statistics that can be added, scores out.

Scoring has three steps, and only the first two ever see text:

    prepared = metric.prepare(references)                                       once for a set of references
    rows = metric.statistics(replies, prepared, reply_places, item_places)      one row a reply, whatever the batch
    metric.values(rows, Level.REPLY)                                            a score for each reply
    metric.values(rows.sum(axis=0), Level.CORPUS)                               the score of all of them together

So a corpus is scored by adding rows, and an interval by adding them again in other proportions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.tokenizer_base import Tokenizer
from refaug.metrics.costs import lengths_of, lengths_of_replies
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import ModelKind

Floats = NDArray[np.float64]
Indexes = NDArray[np.int64]


class Level(StrEnum):
    """What a score is the score of."""

    REPLY = "reply"
    SYSTEM = "system"  # the mean of its reply scores
    CORPUS = "corpus"  # all replies together, from the sums of their statistics


@dataclass(frozen=True, slots=True)
class References:
    """The references that a reply is scored against, with their weights."""

    texts: tuple[str, ...]
    weights: tuple[float, ...]
    gold: int = 0  # the place of the gold; -1 where there is none
    utterance: str | None = None  # the utterance that they answer, only for metrics that look at it
    beside: References | None = None  # the references of the second part of a metric of two parts
    components: tuple[References | Problem, ...] = ()  # those of each component of a combination

    @property
    def read_texts(self) -> tuple[str, ...]:
        """All texts that a metric may read, the utterance among them: its cost depends on their lengths."""
        beside = () if self.beside is None else self.beside.read_texts
        return (*self.texts, *beside, *((self.utterance,) if self.utterance else ()))

    @classmethod
    def unweighted(cls, texts: Sequence[str]) -> References:
        """Return references of weight 1, of which the first is the gold."""
        return cls(tuple(texts), (1.0,) * len(texts))

    def select(self, places: Sequence[int]) -> References:
        """Return the references in these places; the gold stays the gold, if it is among them."""
        gold = places.index(self.gold) if self.gold in places else -1
        texts, weights = tuple(self.texts[at] for at in places), tuple(self.weights[at] for at in places)
        removed = set(self.texts) - set(texts)
        beside = self.beside.without(removed) if self.beside is not None else None
        components = tuple(
            component.without(removed) if isinstance(component, References) else component
            for component in self.components
        )
        return References(texts, weights, gold, self.utterance, beside, components)

    def without(self, texts: Collection[str]) -> References:
        """Return the references whose texts are none of these."""
        return self.select([at for at, text in enumerate(self.texts) if text not in texts])


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an item or reply has no score; programs rely on the code, which never changes its meaning."""

    code: str
    message: str


NO_REFERENCE = Problem("no_reference", "none of its references has any tokens")
NO_POSITIVE_WEIGHT = Problem("no_positive_weight", "none of its references has a positive weight")
TRAINED_ON = Problem("trained_on", "the adem was fitted to its context, or to this reply in it")
NO_GOLD = Problem("no_gold", "it has no gold reference, which this metric needs")
NO_UTTERANCE = Problem("no_utterance", "it has no utterance, which this metric needs")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Prepared references of a set; each metric has a subclass."""

    items: int
    problems: Mapping[int, Problem] = field(default_factory=dict)  # by item that cannot be scored


class Metric(ABC):
    """A metric with its settings; it has no state, so that all threads may share it."""

    info: MetricInfo
    settings: Mapping[str, str]  # every key of the signature with its value, in order
    columns: tuple[str, ...]
    turns: int = 1  # how many of the last turns before the reply `utterance` of its references holds
    turn_separator: str = " "  # what stands between them
    components: tuple[Metric, ...] = ()  # the metrics that a combination adds, each with its own references

    @property
    def is_shared(self) -> bool:
        """Whether one object serves all requests: its settings name no files, and it remembers nothing."""
        return False

    @property
    def looks_at_set(self) -> bool:
        """Whether a score depends on what it is scored together with, as on an idf; it then gets all items at once."""
        own = type(self)
        return own.for_set is not Metric.for_set or own.for_replies is not Metric.for_replies

    @property
    def computes_in_batches(self) -> bool:
        """Whether the last bits of a row depend on the rows beside it, as where a model reads many texts at once."""
        return self.info.asks_model or self.info.asks(ModelKind.ENCODER)

    def lengths(self, rows: Sequence[Sequence[str]]) -> Floats:
        """Measure texts for `cost` (3, rows): `costs.lengths_of` the texts of each row."""
        return lengths_of(rows, counts_words=self.info.cost.counts_shifts)

    def reply_lengths(self, replies: Sequence[str]) -> Floats:
        """Measure replies for `cost`, a row each."""
        return lengths_of_replies(replies, counts_words=self.info.cost.counts_shifts)

    def reading_cost(self, references: Floats) -> Floats:
        """Return an upper bound of the units of work of preparing each item's references (refaug.metrics.costs)."""
        return self.info.cost.reading(references)

    @property
    def questions(self) -> int:
        """How often a judge is asked about each reply, where one is, apart from further samples of its answers."""
        return 1

    def cost(self, replies: Floats, references: Floats) -> Floats:
        """Return an upper bound of the units of work of each reply beside prepared references, from lengths alone."""
        return self.info.cost.units(replies, references)

    def is_within(self, units: float, replies: Sequence[str], references: Floats) -> bool:
        """Whether replies surely take no more than these units of work, whatever item each is of."""
        return self.info.cost.is_within(units, replies, references)

    @abstractmethod
    def prepare(self, references: Sequence[References]) -> Prepared:
        """Prepare references, one entry an item; problems of items are noted and never raised."""

    @abstractmethod
    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return row i for `replies[reply_places[i]]` and the item `item_places[i]`; NaN where there is no score."""

    @abstractmethod
    def values(self, sums: Floats, level: Level) -> Floats:
        """Return the score of every row of sums: (…, columns) → (…)."""

    def parts(self, sums: Floats, level: Level) -> dict[str, object]:
        """Return the parts of the score of one row, so that people can check it."""
        del level
        return dict(zip(self.columns, sums.tolist(), strict=True))

    def versions(self) -> Mapping[str, str]:
        """Return libraries, tokenizers and models that can change the score, for the full signature."""
        return {}

    def credits(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return which n-grams are credited to which reference, with what weight; None for metrics without n-grams."""
        del reply, references
        return None

    def matches(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return which word of a reply resembles which word of each reference; None where no words are compared."""
        del reply, references
        return None

    def words_of(self, reply: str) -> list[str] | None:
        """Return the words that credits and matches are about, in order; None for metrics without either."""
        del reply
        return None

    def combination(self, reply: str, references: References, row: Floats) -> dict[str, object] | None:
        """Return how the parts of a reply's score combine, from its statistics; None for metrics of one part."""
        del reply, references, row
        return None

    def likenesses(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return how like a reply is to each reference as a whole, and whether it counts; None where words do."""
        del reply, references
        return None

    def counted_references(self, reply: str, references: References) -> Sequence[int] | None:
        """Return the places of references without which the score may differ; None where it may without any."""
        del reply, references
        return None

    def reasons(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return what a judge gave as its reasons, which no score depends on; None for metrics without a judge."""
        del reply, references
        return None

    def undefined(self) -> Problem:
        """Return the meaning of a row of NaN."""
        return Problem("undefined", f"{self.info.name} is not defined for this reply and these references")

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why a reply to the item in this place has no score."""
        del reply
        return prepared.problems.get(item_place) or self.undefined()

    def with_bound(self, bind: Callable[[Sequence[Metric]], list[Metric]]) -> Metric:
        """Return the metric with the members that it lists bound to their models; most metrics list none."""
        del bind
        return self

    def for_set(self, references: Sequence[References]) -> Metric:
        """Return the metric for a set with these references, an entry an item; most metrics return themselves.

        A metric with an idf computes it here and names it in `versions`, so that a score depends neither on the other
        replies nor on the batch.
        """
        del references
        return self

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Metric:
        """Return the metric for exactly these replies, the i-th to the references `item_places[i]`.

        Most metrics return themselves; it is another metric only where a score depends on the replies that are scored
        together, and then the settings tell.
        """
        del replies, references, item_places
        return self

    def require_found_by(self, vectors: str) -> None:
        """Raise Usage for references that were found by vectors with which the metric would not be itself."""
        del vectors

    def require_passport(self) -> None:  # noqa: B027  most metrics need none
        """Raise NotAllowed for a judge of which no passport says what it is worth; others need none."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the scores so far."""
        return ()

    def remarks_on(self, sums: Floats) -> tuple[str, ...]:
        """Return warnings of what the sums over all scored replies tell of their meaning."""
        del sums
        return ()

    @property
    def name(self) -> str:
        """The name in specifications."""
        return self.info.name

    def value_of_sums(self, sums: Floats) -> Floats:
        """Return the corpus score of sums, for resampling."""
        return self.values(sums, Level.CORPUS)


class MeanMetric(Metric):
    """A metric whose corpus score is the mean of its reply scores."""

    columns: tuple[str, ...] = ("total", "replies")

    def values(self, sums: Floats, level: Level) -> Floats:
        """Return the mean of the added scores."""
        del level
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])

    def rows(self, values: Floats) -> Floats:
        """Return statistics from a score for each row; NaN where there is none."""
        return np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=-1)


def tokenizer_versions(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the tokenizer's part of the full signature."""
    return {"tokenizer": tokenizer.version}
