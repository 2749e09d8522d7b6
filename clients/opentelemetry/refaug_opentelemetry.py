"""Scores as OpenTelemetry events, after the convention of `gen_ai.evaluation.result` in version 1.40.0.

The convention has a name, a number, and an error for what could not be scored; who made the score stands beside them:

    refaug.evaluator    the metric             refaug.item      the id of the item
    refaug.version      the release            refaug.system    the system that replied
    refaug.signature    all that the number depends on, in short
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry._logs import LoggerProvider, get_logger_provider
from opentelemetry.context import Context

EVENT: Final = "gen_ai.evaluation.result"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.40.0"


def emit_scores(
    scores: Iterable[Any],
    *,
    response_ids: Mapping[str, str] | None = None,
    contexts: Mapping[str, Context] | None = None,
    logger_provider: LoggerProvider | None = None,
) -> int:
    """Emit an event for each reply under each metric, and return how many.

        emit_scores(refaug.score(items, metrics=["refaug-1", "chrf"]), response_ids={"tea": "chatcmpl-123"})

    `scores` is what `refaug.score` or `Client.score` returns. By the id of the item, `contexts` names the context of
    the span in which a reply was made, and `response_ids` the response, for where the span is not known. Without a
    provider, events go to the global one.
    """
    provider = get_logger_provider() if logger_provider is None else logger_provider
    logger = provider.get_logger("refaug", schema_url=SCHEMA_URL)
    count = 0
    for item, attributes in _events(scores):
        if response_ids is not None and item in response_ids:
            attributes["gen_ai.response.id"] = response_ids[item]
        logger.emit(
            event_name=EVENT,
            attributes=attributes,
            context=None if contexts is None else contexts.get(item),
        )
        count += 1
    return count


def _events(scores: Iterable[Any]) -> Iterator[tuple[str, dict[str, str | float]]]:
    """Yield the id of the item and the attributes of each reply."""
    for metric in scores:
        evaluator = {
            "gen_ai.evaluation.name": metric.metric,
            "refaug.evaluator": metric.metric,
            "refaug.version": metric.signature.rpartition("|refaug:")[2],
            "refaug.signature": metric.signature,
        }
        for system, scored in metric.systems.items():
            for reply in scored.details or ():
                attributes = {**evaluator, "refaug.system": system, "refaug.item": reply.id}
                if reply.score is not None:
                    attributes["gen_ai.evaluation.score.value"] = float(reply.score)
                else:
                    attributes["error.type"] = reply.problem or "_OTHER"
                    attributes["gen_ai.evaluation.explanation"] = reply.message or "it has no score"
                yield reply.id, attributes
