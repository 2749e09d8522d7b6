"""The metrics of turns of a hybrid, pinned to versions of their models when it is fitted, and opened by these later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refaug.core.errors import Corrupt
from refaug.core.home import Settings
from refaug.core.options.decoding import decode
from refaug.evaluation.conversations.options.turn_references import TurnReferences
from refaug.evaluation.conversations.turn_scores import TurnJudges
from refaug.evaluation.metric_setup.metric_requests import pinned_metric
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.metrics.models.model_kinds import ModelKind


def pinned_judges(judges: TurnJudges | None) -> TurnJudges | None:
    """Return the metrics with versions for names, so that a later publication changes no score."""
    if judges is None:
        return None
    models, rater, index = judges.models, judges.models.default_rater, judges.index
    return replace(
        judges,
        metrics=[pinned_metric(models, metric) for metric in judges.metrics],
        models=replace(models, default_rater=None if rater is None else models.pinned(ModelKind.RATER, rater)),
        index=None if index is None else models.resolve(ModelKind.INDEX, index),
    )


def read_judges(home: Settings, fields: Mapping[str, Any] | None, threads: int | None) -> TurnJudges | None:
    """Return the metrics of turns as a manifest has them; None where the hybrid has none."""
    if fields is None:
        return None
    if "references" not in fields:
        raise Corrupt("the hybrid does not say how references of turns were found", remedy="fit it again")
    return TurnJudges(
        metrics=list(fields["metrics"]),
        models=ModelRegistry(home, threads, default_rater=fields["rater"]),
        index=fields["index"],
        references=decode(TurnReferences, fields["references"]),
    )
