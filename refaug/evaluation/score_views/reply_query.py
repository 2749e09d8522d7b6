"""Which replies of a score document are listed, in which order; and the points of two metrics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.evaluation.score_views.score_view import ScoreView
from refaug.metrics.base import Floats

_SAMPLE_SEED: Final = 1


class ReplyOrder(StrEnum):
    """What replies are sorted by."""

    PLACE = "place"
    SCORE = "score"
    OTHER = "other"
    DISAGREEMENT = "disagreement"
    LENGTH = "length"
    ITEM = "item"


@dataclass(frozen=True, kw_only=True)
class ReplyQuery:
    """Filters of replies, and their order; replies without the figure that is sorted by come last."""

    metric: int = 0
    other: int | None = None
    order: ReplyOrder = ReplyOrder.PLACE
    is_descending: bool = False
    system: str | None = None
    search: str = ""
    low: float | None = None  # bounds of the score by `metric`
    high: float | None = None
    only_places: Collection[int] | None = None

    def places(self, view: ScoreView) -> NDArray[np.intp]:
        """Return the places of the replies that pass, in order; Usage for a metric or system that is not there."""
        view.metric(self.metric)
        if self.other is not None:
            view.metric(self.other)
        elif self.order in (ReplyOrder.OTHER, ReplyOrder.DISAGREEMENT):
            raise Usage(f"sorted by {self.order.value} without another metric", remedy="other: the place of a metric")
        chosen = np.flatnonzero(self._passes(view))
        keys = self._keys(view)[chosen]
        return chosen[np.argsort(-keys if self.is_descending else keys, kind="stable")]  # NaN comes last in both

    def _passes(self, view: ScoreView) -> NDArray[np.bool_]:
        passes = np.ones(len(view), dtype=np.bool_)
        if self.system is not None:
            passes &= view.system_places == view.system_place(self.system)
        with np.errstate(invalid="ignore"):
            if self.low is not None:
                passes &= view.scores[self.metric] >= self.low
            if self.high is not None:
                passes &= view.scores[self.metric] <= self.high
        if self.only_places is not None:
            named = np.zeros(len(view), dtype=np.bool_)
            named[[place for place in self.only_places if 0 <= place < len(view)]] = True
            passes &= named
        if self.search:
            passes &= view.texts.with_text(self.search)
        return passes

    def _keys(self, view: ScoreView) -> Floats:
        match self.order:
            case ReplyOrder.SCORE:
                return view.scores_of(self.metric)
            case ReplyOrder.OTHER:
                return view.scores_of(self.other or 0)
            case ReplyOrder.DISAGREEMENT:
                return view.disagreement(self.metric, self.other or 0)
            case ReplyOrder.LENGTH:
                return view.lengths.astype(np.float64)
            case ReplyOrder.ITEM:
                ranks = {name: float(rank) for rank, name in enumerate(sorted(set(view.ids)))}
                return np.fromiter((ranks[name] for name in view.ids), dtype=np.float64, count=len(view))
            case ReplyOrder.PLACE:
                return np.arange(len(view), dtype=np.float64)


def points_json(view: ScoreView, x: int, y: int, system: str | None, most: int) -> dict[str, object]:
    """Return the scores of replies by two metrics, those that have both; above `most` a seeded sample of them."""
    first, second = view.metric(x), view.metric(y)
    has_both = ~np.isnan(view.scores[x]) & ~np.isnan(view.scores[y])
    if system is not None:
        has_both &= view.system_places == view.system_place(system)
    places = np.flatnonzero(has_both)
    total = len(places)
    if total > most:
        places = np.sort(np.random.default_rng(_SAMPLE_SEED).choice(places, most, replace=False))
    return {
        "x": first.short_signature or first.signature.short,
        "y": second.short_signature or second.signature.short,
        "points": [
            [place, first_score, second_score]
            for place, first_score, second_score in zip(
                places.tolist(), view.scores[x, places].tolist(), view.scores[y, places].tolist(), strict=True
            )
        ],
        "systems": list(view.systems),
        "system_of": view.system_places[places].tolist(),
        "total": total,
        "is_sampled": total > most,
    }
