"""A score document whose replies are columns: systems, ids, scores of every metric, texts.

The place of a reply never changes: systems in the order of the document, and the replies of each in its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.evaluation.comparison.scored_system import SystemRun
from refaug.evaluation.score_files.score_file import ScoreFile, StoredScores
from refaug.metrics.base import Floats


@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """A score document, its systems and its replies."""

    file: ScoreFile
    systems: tuple[str, ...]
    system_places: NDArray[np.int32]  # (replies,) of the system of each reply
    ids: tuple[str, ...]  # of the item of each reply
    scores: Floats  # (metrics, replies), on the scale of the document; NaN where there is none

    @classmethod
    def of(cls, document: Mapping[str, Any], shown_name: str) -> Self:
        """Return the view of a document that `refaug score --json` wrote."""
        file = ScoreFile.of(document, shown_name)
        systems = tuple(file.scores[0].systems)
        rows = [list(SystemRun(file=file, place=0, name=name).rows) for name in systems]
        counts = [len(ids) for ids in rows]
        scores = np.full((len(file.scores), sum(counts)), np.nan)
        for place, stored in enumerate(file.scores):
            begin = 0
            for name, ids in zip(systems, rows, strict=True):
                if name in stored.systems:
                    scores[place, begin : begin + len(ids)] = SystemRun(file=file, place=place, name=name).scores(ids)
                begin += len(ids)
        return cls(
            file=file,
            systems=systems,
            system_places=np.repeat(np.arange(len(systems), dtype=np.int32), counts),
            ids=tuple(name for ids in rows for name in ids),
            scores=scores,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """The items of the document by id, as JSON; empty where it has no details."""
        details = self.file.details
        return {} if details is None else {str(row.get("id")): row for row in details.document["items"]}

    @cached_property
    def searched_texts(self) -> list[str]:
        """What a search looks at, without case: id, reply and utterance of every reply."""
        return [
            "\n".join((name, self.reply(place), self.utterance(place))).casefold()
            for place, name in enumerate(self.ids)
        ]

    def system(self, place: int) -> str:
        """Return the system of a reply."""
        return self.systems[int(self.system_places[place])]

    def reply(self, place: int) -> str:
        """Return the text of a reply; empty where the document has no texts."""
        replies = self.items.get(self.ids[place], {}).get("replies")
        return str(replies.get(self.system(place), "")) if isinstance(replies, dict) else ""

    def utterance(self, place: int) -> str:
        """Return what is replied to; empty where that is not known."""
        test_item = self.items.get(self.ids[place], {})
        turns = test_item.get("turns") or [test_item.get("utterance") or ""]
        return str(turns[-1])

    def row(self, metric: int, place: int) -> Mapping[str, Any]:
        """Return what the document says of a reply under a metric; nothing where the metric has no such system."""
        name = self.system(place)
        if name not in self.metric(metric).systems:
            return {}
        return self.rows_of(metric, name).get(self.ids[place], {})

    def rows_of(self, metric: int, system: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the replies of a system under a metric, by the ids of their items."""
        key = (metric, system)
        if key not in self._runs:
            self._runs[key] = SystemRun(file=self.file, place=metric, name=system)
        return self._runs[key].rows

    @cached_property
    def _runs(self) -> dict[tuple[int, str], SystemRun]:
        return {}

    def metric(self, place: int) -> StoredScores:
        """Return the scores of a metric; Usage where there is none at this place."""
        if not 0 <= place < len(self.file.scores):
            raise Usage(
                f"there is no metric {place}", remedy=f"from 0 to {len(self.file.scores) - 1}, in the summary's order"
            )
        return self.file.scores[place]

    def scores_of(self, place: int) -> Floats:
        """Return the scores of all replies by a metric."""
        scores: Floats = self.scores[place]
        return scores

    def direction(self, place: int) -> float:
        """Return 1 where higher scores of a metric are better, else -1."""
        return 1.0 if self.metric(place).document.get("higher_is_better") is not False else -1.0

    def system_place(self, name: str) -> int:
        """Return the place of a system; Usage names those that there are."""
        if name not in self.systems:
            raise Usage(f"there is no system {name[:60]!r}", remedy=f"one of {', '.join(self.systems[:20])}")
        return self.systems.index(name)

    def disagreement(self, first: int, second: int) -> Floats:
        """Return how far the ranks of each reply by two metrics lie apart, as shares of the ranked replies.

        The directions of the metrics count, ties share a rank, and NaN is where one of the two has no score.
        """
        scores = np.stack([self.scores[first] * self.direction(first), self.scores[second] * self.direction(second)])
        is_ranked = ~np.isnan(scores).any(axis=0)
        differences = np.full(len(self), np.nan)
        if is_ranked.sum() > 1:
            ranks = [_mean_ranks(row[is_ranked]) for row in scores]
            differences[is_ranked] = np.abs(ranks[0] - ranks[1]) / (is_ranked.sum() - 1)
        elif is_ranked.any():
            differences[is_ranked] = 0.0
        return differences


def _mean_ranks(scores: Floats) -> Floats:
    """Return the ranks from 0; equal scores have the mean of their ranks."""
    _, groups, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts + 1) / 2)[groups]
    return ranks
