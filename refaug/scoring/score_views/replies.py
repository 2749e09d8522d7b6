"""Replies of a score document as JSON: rows of a list, and one in full."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import NotFound, Usage
from refaug.metrics.base import Floats
from refaug.scoring.comparison.scored_system import SystemRun, metric_of_sums
from refaug.scoring.score_views.score_view import ScoreView

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


_SHOWN_CHARS: Final = 300
_COPIED: Final = (
    "problem", "message", "parts", "credited", "combination", "likenesses", "without_reference", "words",
)  # fmt: skip


def reply_rows(view: ScoreView, places: Sequence[int], metric: int, other: int | None) -> list[dict[str, object]]:
    """Return the rows of a list: texts are cut, and scores are those of every metric in order."""
    disagreement = None if other is None else view.disagreement(metric, other)
    return [
        {
            **_row(view, place),
            "disagreement": None if disagreement is None else _number(float(disagreement[place])),
            "problem": view.row(metric, place).get("problem"),
        }
        for place in places
    ]


def _row(view: ScoreView, place: int) -> dict[str, object]:
    reply, utterance = view.reply(place), view.utterance(place)
    return {
        "place": place,
        "item": view.ids[place],
        "system": view.system(place),
        "reply": reply[:_SHOWN_CHARS],
        "is_cut": len(reply) > _SHOWN_CHARS,
        "utterance": utterance[:_SHOWN_CHARS],
        "scores": [_number(score) for score in view.scores[:, place].tolist()],
    }


def full_reply(view: ScoreView, place: int) -> dict[str, object]:
    """Return everything that the document has of a reply, and the replies of other systems to the same item."""
    if not 0 <= place < len(view):
        raise NotFound(f"there is no reply {place:,}", remedy=f"from 0 to {len(view) - 1:,}")
    test_item = view.item(place)
    return {
        "place": place,
        "item": view.ids[place],
        "system": view.system(place),
        "reply": view.reply(place),
        "utterance": view.utterance(place),
        "turns": test_item.get("turns") or [view.utterance(place)],
        "references": test_item.get("references") or [],
        "ratings": (test_item.get("ratings") or {}).get(view.system(place)),
        "scores": [_metric_json(view, metric, place) for metric in range(len(view.file.scores))],
        "others": [
            {name: field for name, field in _row(view, other).items() if name not in ("item", "utterance")}
            for other in view.places_of_item(place)
            if other != place
        ],
    }


def _metric_json(view: ScoreView, metric: int, place: int) -> dict[str, object]:
    """Return a score with what the document says of it, and the references behind it with their credit."""
    stored, row, system = view.metric(metric), view.row(metric, place), view.system(place)
    run = SystemRun(file=view.file, place=metric, name=system)
    built = metric_of_sums(run, run)[0] if system in stored.systems else None
    references = run.references(view.ids[place], built) if built is not None else ()
    return {
        "metric": stored.name,
        "signature": stored.short_signature or stored.signature.short,
        "score": row.get("score"),
        **{name: row[name] for name in _COPIED if name in row},
        "credited_references": list(map(asdict, references)),
    }


def _number(score: float) -> float | None:
    return None if math.isnan(score) else score
