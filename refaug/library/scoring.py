"""Scores of replies, as `refaug score` computes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refaug.core.errors import Usage
from refaug.core.installation import extras_named
from refaug.core.records import Item
from refaug.library import inputs
from refaug.library.engine import Engine, engine_of
from refaug.library.inputs import Predictions
from refaug.library.results.scores import Scores
from refaug.library.retrieval import OnError, augment_settings, retrieve_references
from refaug.metrics.catalogue import find
from refaug.metrics.metric_info import MetricInfo
from refaug.operations.scoring_options import ScoreOptions
from refaug.scoring.items import BadItem
from refaug.scoring.settings import ScoreSettings

if TYPE_CHECKING:
    from refaug.library.retrieval import RetrievedReferences
    from refaug.scoring.provenance import Provenance
    from refaug.scoring.scores import Evaluation


@extras_named()
def score(
    items: Any = None,
    *,
    predictions: inputs.Predictions | None = None,
    references: Any = None,
    utterances: Any = None,
    system: str = inputs.SYSTEM,
    metric: str | None = None,
    metrics: str | Sequence[str] | None = None,
    index: str | None = None,
    rater: str | None = None,
    settings: Mapping[str, Any] | None = None,
    draws: int = 0,
    confidence: float = ScoreSettings.confidence,
    seed: int = ScoreSettings.seed,
    baseline: str | None = None,
    explain: bool = False,
    percent: bool = False,
    require_passport: bool = False,
    language: str | None = None,
    on_error: OnError = "fail",
    home: str | os.PathLike[str] | None = None,
) -> Scores:
    """Return scores of replies: of `predictions` against `references`, or of the replies in `items`.

        scores = refaug.score(predictions=["In the shop."], references=[["At the market.", "In a shop."]])
        scores.corpus, scores.replies, scores.signature

        scores = refaug.score(
            predictions=["In the shop."], utterances=["Where do you buy tea?"], references=[["At the market."]],
            metric="upsilon-bleu", index="demo", rater="demo",
        )

    With `index`, further references are retrieved for the `utterances` and weighed by `rater`. Predictions of several
    systems are a dict: `{"a": […], "b": […]}`. Numbers and signatures are those of `refaug score` (docs/python.md).
    """
    options = ScoreOptions(
        metrics=specifications_of(metric, metrics),
        index=index,
        rater=rater,
        settings=augment_settings(settings),
        draws=draws,
        confidence=confidence,
        seed=seed,
        baseline=baseline,
        explain=explain,
        percent=percent,
        require_passport=require_passport,
        language=language,
    )
    options = replace(options, metrics=options.metrics_or_default(options.metrics))
    rows = _rows(items, predictions, references, utterances, system)
    parsed, warnings = inputs.parse_rows(rows, on_error=on_error)
    return score_items(options, engine_of(home), parsed, warnings)


def specifications_of(metric: str | None, metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the named metrics; none stands for the one that suits the references."""
    if metric is not None and metrics is not None:
        raise Usage(f"metric={metric!r} and metrics={metrics!r}", remedy="one of the two")
    named = metric if metric is not None else metrics
    if named is None:
        return ()
    texts = (named,) if isinstance(named, str) else tuple(named)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Usage(f"metrics={metrics!r}", remedy='metrics=["bleu", "chrf"]')
    return texts


def _rows(
    items: Any, predictions: inputs.Predictions | None, references: Any, utterances: Any, system: str
) -> list[Mapping[str, Any]]:
    """Return items from one of the two forms of input."""
    if items is None:
        if predictions is None:
            raise Usage("nothing to score", remedy="predictions=[…] with references=[[…], …], or items=[{…}, …]")
        by_system = inputs.predictions_by_system(predictions, system)
        if not by_system:
            raise Usage("predictions={} has no system", remedy='predictions={"model": ["…", …]}')
        return inputs.aligned_rows(by_system, references, utterances)
    beside = {"references": references, "utterances": utterances}
    if named := [name for name, column in beside.items() if column is not None]:
        raise Usage(f"items=… and {named[0]}=…", remedy=f"items have their {named[0]}: leave one of the two out")
    rows = inputs.to_rows(items)
    return (
        rows
        if predictions is None
        else inputs.with_predictions(rows, inputs.predictions_by_system(predictions, system))
    )


def score_items(
    options: ScoreOptions, engine: Engine, parsed: Sequence[Item | BadItem], warnings: tuple[str, ...] = ()
) -> Scores:
    """Find references where an index is named, and score."""
    from refaug.scoring.scores import percent  # noqa: PLC0415  compiles

    scored = evaluate_items(options, engine, parsed)
    return Scores.of(
        percent(scored.evaluation) if options.percent else scored.evaluation,
        _versions(engine, options.rater, scored.provenance),
        options.metrics,
        (*warnings, *scored.warnings),
    )


@dataclass(frozen=True, kw_only=True)
class EvaluatedItems:
    """An evaluation with the items that it is of, whose references may have been found for it."""

    evaluation: Evaluation
    items: Sequence[Item | BadItem]
    provenance: Provenance | None  # of the references that were found
    warnings: tuple[str, ...]


def evaluate_items(
    options: ScoreOptions, engine: Engine, parsed: Sequence[Item | BadItem], *, is_part: bool = False
) -> EvaluatedItems:
    """Find references where an index is named, and evaluate; a part of a test set may suit its metric less than all."""
    from refaug.scoring.evaluate import evaluate  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.metric_requests import baseline_advice  # noqa: PLC0415  numpy
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics  # noqa: PLC0415  compiles

    requests = options.require_models(engine.home, options.metrics)
    retrieved: RetrievedReferences | None = None
    provenance: Provenance | None = None
    scored_items: Sequence[Item | BadItem] = parsed
    if options.index is not None:
        retrieved = retrieve_references(engine, parsed, options.index, options.rater, options.settings)
        scored_items, provenance = retrieved.as_items(parsed), retrieved.provenance
    finds = retrieved is not None or any(request.rates_by_default for request in requests)
    models, settings = replace(engine, default_rater=options.rater), options.settings
    chosen = chosen_metrics(
        options.specifications,
        scored_items,
        models,
        provenance,
        references=settings,
        language=options.language,
        set_baseline=engine.baselines.of(provenance.settings["index"]) if provenance is not None else None,
    )
    advice = baseline_advice(chosen, scored_items)
    bound = bound_metrics(chosen, models, provenance, augmenting=settings if finds else None)
    return EvaluatedItems(
        evaluation=evaluate(scored_items, bound, options, provenance=provenance, is_part=is_part),
        items=scored_items,
        provenance=provenance,
        warnings=(*(retrieved.warnings if retrieved else ()), *((advice,) if advice else ())),
    )


def _versions(engine: Engine, rater: str | None, provenance: Provenance | None) -> dict[str, str]:
    """Return the versions behind the scores."""
    named = provenance.settings if provenance is not None else {}
    versions = {kind: named[kind] for kind in ("index", "rater") if kind in named}
    if "rater" not in versions and rater is not None:
        versions["rater"] = engine.rater(rater).spec
    return versions


# ── A metric with its settings, for programs that score again and again ───────────────────────────────────────────────


class Metric:
    """A metric with its index, rater and settings, named once.

        metric = refaug.Metric("upsilon-bleu", index="demo", rater="demo")
        metric.compute(predictions=replies, utterances=utterances, references=references).corpus

    It may be pickled, and used by several threads and by forked workers.
    """

    def __init__(self, name: str, *, home: str | os.PathLike[str] | None = None, **options: Any) -> None:
        self.info: MetricInfo = find(name.partition(":")[0].strip())
        self.name = name
        if "metrics" in options or "metric" in options:
            raise Usage("a metric has one name", remedy="refaug.score(…, metrics=[…]) computes several at once")
        self._options: Mapping[str, Any] = {**options, "home": None if home is None else os.path.abspath(home)}  # noqa: PTH100

    def compute(
        self,
        items: Any = None,
        *,
        predictions: Predictions | None = None,
        references: Any = None,
        utterances: Any = None,
        **options: Any,
    ) -> Scores:
        """Return scores, as `refaug.score` does; options here come before those of the metric."""
        return score(
            items,
            predictions=predictions,
            references=references,
            utterances=utterances,
            metric=self.name,
            **{**self._options, **options},
        )

    def __repr__(self) -> str:
        options = "".join(f", {name}={option!r}" for name, option in self._options.items() if option is not None)
        return f"Metric({self.name!r}{options})"
