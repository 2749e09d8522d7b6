"""The summary of a score document: systems with intervals, differences and whether they are shown, histograms."""

from __future__ import annotations

from typing import Final

import numpy as np

from refaug.evaluation.reports.histograms import BINS, ends_of
from refaug.evaluation.score_files.score_file import StoredScores
from refaug.evaluation.score_views.score_view import ScoreView
from refaug.metrics.statistics.correlation import holm

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
