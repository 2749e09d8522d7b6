"""The metrics of turns of a hybrid, pinned to versions of their models when it is fitted, and opened by these later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.evaluation.conversations.turn_scores import TurnJudges
from refaug.evaluation.metric_setup.combined.opening import pinned_metric, pinned_models
from refaug.evaluation.metric_setup.model_names import ModelNames
from refaug.evaluation.metric_setup.scoring_steps import without_content
from refaug.evaluation.scoring.augment_settings import AugmentSettings


def pinned_judges(home: Settings, judges: TurnJudges | None) -> TurnJudges | None:
    """Return the metrics with versions for names, so that a later publication changes no score."""
    if judges is None:
        return None
    models = judges.models
    named = pinned_models(
        home,
        {"rater": models.rater, "ruber": models.ruber, "adem": models.adem, "sample": models.sample},
    )
    rater, ruber, adem, sample = (without_content(named[kind]) for kind in ("rater", "ruber", "adem", "sample"))
    index = None if judges.index is None else "@".join(artefact_stores(home)["index"].resolve(judges.index))
    return replace(
        judges,
        metrics=[pinned_metric(home, metric) for metric in judges.metrics],
        models=replace(models, rater=rater, ruber=ruber, adem=adem, sample=sample),
        index=index,
    )


def read_judges(fields: Mapping[str, Any] | None, threads: int | None) -> TurnJudges | None:
    """Return the metrics of turns as a manifest has them; None where the hybrid has none."""
    if fields is None:
        return None
    references = AugmentSettings(gold="none", weights=fields["weights"], k=fields["k"], mode=fields["mode"])
    return TurnJudges(
        metrics=list(fields["metrics"]),
        models=ModelNames(**fields["models"], threads=threads),
        index=fields["index"],
        references=references,
    )
