"""A metric bound to a frozen set, with the references of all items prepared block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.cases import NO_REPLY, Reply, references_for, score_prepared, score_replies
from refaug.metrics.base import Floats, Indexes, Metric, Prepared, Problem, References
from refaug.metrics.signature import Signature

UNKNOWN_ITEM: Final = Problem("unknown_item", "the set has no item of this id")
BLOCK: Final = 4_096  # items whose references are prepared together: keeps the working memory small


class Block(NamedTuple):
    """The prepared references of some items of a set, and the problems of those that cannot be scored."""

    prepared: Prepared
    problems: Mapping[int, Problem]  # by place in the block


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldMetric:
    """A metric bound to a whole set, with the prepared references of all its items.

    One that asks models has no blocks: each request binds it to its own replies.
    """

    metric: Metric
    signature: Signature
    references: str  # a hash of the references and weights that the metric looks at
    blocks: Sequence[Block]
    lengths: Floats  # of the references of each item of the set

    def score_replies(
        self, replies: Sequence[str | None], places: Sequence[int], progress: Progress | None = None
    ) -> tuple[Floats, dict[int, Problem]]:
        """Score the i-th reply against the references of the item at the i-th place; −1 is an unknown item."""
        if len(self.blocks) == 1 and not self.blocks[0].problems and min(places, default=0) >= 0:
            texts = [reply for reply in replies if reply is not None]
            if len(texts) == len(replies):
                return self._score_block(0, texts, np.array(places, dtype=np.int64), progress)
        statistics = np.full((len(replies), len(self.metric.columns)), np.nan)
        problems, rows_of = dict[int, Problem](), dict[int, list[int]]()
        for row, (reply, place) in enumerate(zip(replies, places, strict=True)):
            if (problem := self._problem(reply, place)) is not None:
                problems[row] = problem
            else:
                rows_of.setdefault(place // BLOCK, []).append(row)
        for number, rows in rows_of.items():
            texts = [text for row in rows if (text := replies[row]) is not None]
            statistics[rows], unscored = self._score_block(
                number, texts, np.array([places[row] for row in rows], np.int64), progress
            )
            problems |= {rows[at]: problem for at, problem in unscored.items()}
        return statistics, dict(sorted(problems.items()))

    def _score_block(
        self, number: int, replies: Sequence[str], places: Indexes, progress: Progress | None
    ) -> tuple[Floats, dict[int, Problem]]:
        prepared, first = self.blocks[number].prepared, number * BLOCK
        lengths = self.lengths[:, first : first + prepared.items]
        return score_prepared(self.metric, prepared, lengths, replies, places - first, progress)

    def _problem(self, reply: str | None, place: int) -> Problem | None:
        if place < 0:
            return UNKNOWN_ITEM
        return NO_REPLY if reply is None else self.blocks[place // BLOCK].problems.get(place % BLOCK)


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedMetric:
    """A metric that asks models, bound to them and to the replies of one request."""

    metric: Metric
    signature: Signature
    references: str  # as those of the held metric
    replies: Sequence[Reply]
    chosen: Sequence[References | Problem]  # by reply

    def score_replies(
        self, replies: Sequence[str | None], places: Sequence[int], progress: Progress | None = None
    ) -> tuple[Floats, dict[int, Problem]]:
        """Score the replies of the request, which the metric is bound to."""
        assert len(replies) == len(places) == len(self.replies), "the metric is bound to these replies"
        return score_replies(self.metric, self.replies, self.chosen, progress)


def references_of(metric: Metric, set_item: Item) -> References | Problem:
    """Return what a metric looks at in an item."""
    return references_for(metric, set_item.references, set_item.turns)
