"""Replies of a score document as JSON: rows of a list, and one in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from refaug.core.errors import NotFound
from refaug.evaluation.comparison.scored_system import SystemRun
from refaug.evaluation.comparison.system_tests import metric_of_sums
from refaug.evaluation.score_views.score_view import ScoreView

_SHOWN_CHARS: Final = 300
_COPIED: Final = ("problem", "message", "parts", "credited", "without_reference", "words")


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
        "credited_references": [
            {
                "text": reference.text,
                "weight": reference.weight,
                "credit": reference.credit,
                "source": reference.source,
            }
            for reference in references
        ],
    }


def _number(score: float) -> float | None:
    return None if math.isnan(score) else score
