"""A score document whose replies are columns: systems, ids, scores of every metric, texts.

The place of a reply never changes: systems in the order of the document, and the replies of each in its order.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.metrics.base import Floats
from refaug.metrics.statistics.correlation import holm
from refaug.scoring.comparison.scored_system import SystemRun
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.score_files.stored_lists import StoredRows
from refaug.tables.reports.html_page import BINS, ends_of


class SearchedTexts:
    """The texts of all replies without case, one after the other on the disk."""

    def __init__(self, content: mmap.mmap, ends: NDArray[np.int64]) -> None:
        self._content, self._ends = content, ends

    def with_text(self, text: str) -> NDArray[np.bool_]:
        """Return which replies have a text, without case, in their id, reply or utterance."""
        sought = text.casefold().encode("utf-8", "surrogatepass")
        has_text = np.zeros(len(self._ends), dtype=np.bool_)
        begin = self._content.find(sought, 1) if sought else -1
        while begin >= 0:
            place = int(np.searchsorted(self._ends, begin, side="right"))
            if begin + len(sought) < self._ends[place]:  # before the end of its line, not over it
                has_text[place] = True
                begin = self._content.find(sought, int(self._ends[place]))
            else:
                begin = self._content.find(sought, begin + 1)
        return has_text


@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """A score document, its systems and its replies; what grows with the replies lies on the disk, ids apart."""

    file: ScoreFile
    systems: tuple[str, ...]
    system_places: NDArray[np.int32]  # (replies,) of the system of each reply
    ids: tuple[str, ...]  # of the item of each reply
    item_places: NDArray[np.int32]  # (replies,) equal for replies to one item
    scores: Floats  # (metrics, replies), on the scale of the document; NaN where there is none
    lengths: NDArray[np.int32]  # (replies,) characters
    texts: SearchedTexts

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The place of the first reply of each system."""
        places = np.searchsorted(self.system_places, np.arange(len(self.systems)))
        return tuple(int(place) for place in places)

    def item(self, place: int) -> Mapping[str, Any]:
        """Return the item of a reply as JSON; empty where the document has no details."""
        details = self.file.details
        return {} if details is None else details.row(self.ids[place])

    def system(self, place: int) -> str:
        """Return the system of a reply."""
        return self.systems[int(self.system_places[place])]

    def reply(self, place: int) -> str:
        """Return the text of a reply; empty where the document has no texts."""
        replies = self.item(place).get("replies")
        return str(replies.get(self.system(place), "")) if isinstance(replies, dict) else ""

    def utterance(self, place: int) -> str:
        """Return what is replied to; empty where that is not known."""
        test_item = self.item(place)
        turns = test_item.get("turns") or [test_item.get("utterance") or ""]
        return str(turns[-1])

    def row(self, metric: int, place: int) -> Mapping[str, Any]:
        """Return what the document says of a reply under a metric; nothing where the metric has no such system."""
        name = self.system(place)
        system = self.metric(metric).systems.get(name)
        if system is None:
            return {}
        rows, number = system.get("replies", []), place - self.begins[int(self.system_places[place])]
        if isinstance(rows, StoredRows):
            row: Mapping[str, Any] = rows[number]
            return row
        return SystemRun(file=self.file, place=metric, name=name).rows.get(self.ids[place], {})

    def places_of_item(self, place: int) -> list[int]:
        """Return the places of all replies to the item of a reply."""
        places: list[int] = np.flatnonzero(self.item_places == self.item_places[place]).tolist()
        return places

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


# ── The summary of a score document: systems with intervals, differences and whether they are shown, histograms ───────

_SHOWN_BAD_ROWS: Final = 100
_SHOWN_WARNINGS: Final = 100
_OF_SYSTEM: Final = (
    "corpus",
    "interval",
    "mean",
    "mean_interval",
    "interval_note",
    "scored",
    "unscored",
    "unscored_by_reason",
)


def summary_json(view: ScoreView) -> dict[str, object]:
    """Return what a page shows first; nothing in it grows with the number of replies."""
    document = view.file.document
    problems = list(document.get("problems") or [])
    return {
        "systems": list(view.systems),
        "items": document.get("items", 0),
        "replies": len(view),
        "data": document.get("data"),
        "resampling": document.get("resampling") or {},
        "metrics": [_metric_json(view, place) for place in range(len(view.file.scores))],
        "bad_rows": [
            {
                "file": bad.get("file"),
                "line": bad.get("line"),
                "item": bad.get("id"),
                "field": bad.get("field"),
                "message": bad.get("message"),
            }
            for bad in problems[:_SHOWN_BAD_ROWS]
        ],
        "more_bad_rows": max(0, len(problems) - _SHOWN_BAD_ROWS),
        "warnings": list(document.get("warnings") or [])[:_SHOWN_WARNINGS],
        "copies": document.get("copies") or {},
        "reply_provenance": document.get("reply_provenance") or {},
    }


def _metric_json(view: ScoreView, place: int) -> dict[str, object]:
    stored = view.metric(place)
    return {
        "metric": stored.name,
        "signature": stored.short_signature or stored.signature.short,
        "signature_full": stored.document.get("signature_full"),
        "scale": stored.scale,
        "higher_is_better": stored.document.get("higher_is_better") is not False,
        "systems": [
            {"system": name, **{field: system[field] for field in _OF_SYSTEM if field in system}}
            for name, system in stored.systems.items()
        ],
        "comparisons": _comparisons_json(view, stored),
        "histogram": _histogram_json(view, place),
    }


def _comparisons_json(view: ScoreView, stored: StoredScores) -> list[dict[str, object]]:
    """Return the differences from the baseline; a difference is shown where p, by Holm's correction, is small."""
    compared = stored.document.get("comparisons") or {}
    confidence = float((view.file.document.get("resampling") or {}).get("confidence", 0.95))
    p_values = holm([figures.get("p_randomisation") for figures in compared.values()])
    corrected = dict(zip(compared, p_values, strict=True))
    return [
        {
            "system": name,
            "baseline": view.file.baseline,
            **figures,
            "p_holm": corrected[name],
            "is_shown": None if (p := corrected[name]) is None else p < 1 - confidence,
        }
        for name, figures in compared.items()
    ]


def _histogram_json(view: ScoreView, place: int) -> dict[str, object]:
    """Return how often the scores of each system fall into equal bins that all systems share."""
    by_system = [view.scores[place][view.system_places == system] for system in range(len(view.systems))]
    low, high = ends_of(by_system)
    return {
        "low": low,
        "high": high,
        "bins": BINS,
        "systems": [
            {
                "system": name,
                "counts": np.histogram(scores[~np.isnan(scores)], bins=BINS, range=(low, high))[0].tolist(),
                "missing": int(np.isnan(scores).sum()),
            }
            for name, scores in zip(view.systems, by_system, strict=True)
        ],
    }
