"""Scores of refaug for tasks of the lm-evaluation-harness: corpus scores over all documents.

A weighted metric names its index and its rater: `corpus_score("upsilon-bleu", index="demo", rater="demo")`.
"""  # noqa: INP001  the harness reads it by its path

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import refaug

Scored = tuple[Mapping[str, Any], str]  # a document, and the model's reply to it


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Scored]:
    """Hand each document with its reply to the aggregations, since a corpus score is no mean of reply scores."""
    scored = (dict(doc), results[0].strip())
    return {"multi-bleu": scored, "chrf": scored}


def corpus_score(metric: str, **options: Any) -> Callable[[Sequence[Scored]], float]:
    """Return the aggregation for a metric of refaug."""

    def aggregate(scored: Sequence[Scored]) -> float:
        items = [
            {field: doc[field] for field in ("id", "utterance", "references") if field in doc} for doc, _ in scored
        ]
        scores = refaug.score(items, predictions=[reply for _, reply in scored], metric=metric, **options)
        return float("nan") if scores.corpus is None else float(scores.corpus)

    return aggregate


multi_bleu = corpus_score("multi-bleu")
chrf = corpus_score("chrf")
