"""The calls that find references, score replies and rate candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Optional

from refaug_client._api import models
from refaug_client._api.items import From, Items, Metrics, OnError, Replies, WithoutReply
from refaug_client._http.call import Call

from .bodies import SYSTEM, attach_replies, format_times, metric_list, request_body, to_list
from .readers import read_model, read_page, read_scores


def references(
    items: Items,
    *,
    index: Optional[str] = None,
    rater: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    on_error: Optional[OnError] = None,
) -> Call[models.References]:
    """POST /v1/references."""
    document = request_body(
        items=to_list(items),
        index=index,
        rater=rater,
        settings=format_times(settings),
        on_error=on_error,
    )
    return Call("POST", "/v1/references", read_model(models.References), body=document, timed=True)


def replies(
    items: Items,
    bots: Mapping[str, str],
    *,
    replace: bool = False,
    without_reply: Optional[WithoutReply] = None,
    on_error: Optional[OnError] = None,
) -> Call[models.BotReplies]:
    """POST /v1/replies."""
    document = request_body(
        items=to_list(items), bots=bots, replace=replace or None, without_reply=without_reply, on_error=on_error
    )
    return Call("POST", "/v1/replies", read_model(models.BotReplies), body=document, timed=True)


def score(
    items: Items,
    *,
    replies: Optional[Replies] = None,
    system: str = SYSTEM,
    metric: Optional[str] = None,
    metrics: Metrics = None,
    references: Optional[From] = None,
    index: Optional[str] = None,
    rater: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    draws: int = 0,
    confidence: Optional[float] = None,
    seed: Optional[int] = None,
    baseline: Optional[str] = None,
    explain: bool = False,
    percent: bool = False,
    language: Optional[str] = None,
    on_error: Optional[OnError] = None,
    return_: Optional[Literal["scores", "stats"]] = None,
) -> Call[models.Scores]:
    """POST /v1/scores."""
    specifications = metric_list(metric, metrics)
    document = request_body(
        items=to_list(items) if replies is None else attach_replies(items, replies, system),
        metrics=specifications,
        references=references,
        index=index,
        rater=rater,
        settings=format_times(settings),
        draws=draws or None,
        confidence=confidence,
        seed=seed,
        baseline=baseline,
        explain=explain or None,
        percent=percent or None,
        language=language,
        on_error=on_error,
        return_=return_,
    )
    return Call("POST", "/v1/scores", read_scores(specifications), body=document, timed=True)


def verify(
    scores: Any, items: Items, *, replies: Optional[Replies] = None, system: str = SYSTEM
) -> Call[models.Verification]:
    """POST /v1/verifications."""
    document = request_body(
        scores=scores.to_dict() if isinstance(scores, models.Scores) else scores,
        items=to_list(items) if replies is None else attach_replies(items, replies, system),
    )
    return Call("POST", "/v1/verifications", read_model(models.Verification), body=document, timed=True)


def combine(
    batches: Iterable[Any],
    *,
    draws: int = 0,
    confidence: Optional[float] = None,
    seed: Optional[int] = None,
    baseline: Optional[str] = None,
    on_error: Optional[OnError] = None,
) -> Call[models.Scores]:
    """POST /v1/scores/combine."""
    document = request_body(
        batches=to_list(batches, "batches"),
        draws=draws or None,
        confidence=confidence,
        seed=seed,
        baseline=baseline,
        on_error=on_error,
    )
    return Call("POST", "/v1/scores/combine", read_scores(None), body=document, timed=True)


def rate(
    pairs: Items, *, rater: Optional[str] = None, combine: Optional[str] = None, calibrated: bool = False
) -> Call[models.Ratings]:
    """POST /v1/ratings."""
    document = request_body(
        pairs=[pair_with_candidates(one) for one in to_list(pairs, "pairs")],
        rater=rater,
        combine=combine,
        calibrated=calibrated or None,
    )
    return Call("POST", "/v1/ratings", read_model(models.Ratings), body=document, timed=True)


def pair_with_candidates(pair: Any) -> Any:
    """Return a test pair whose candidates are objects, where they were bare texts."""
    if not isinstance(pair, Mapping) or not isinstance(pair.get("candidates"), (list, tuple)):
        return pair  # the server refuses it with a reason
    return {**pair, "candidates": [{"text": one} if isinstance(one, str) else one for one in pair["candidates"]]}


def metrics() -> Call[models.Rows[models.MetricInfo]]:
    """GET /v1/metrics."""
    return Call("GET", "/v1/metrics", read_page(models.MetricInfo, "metrics"))
