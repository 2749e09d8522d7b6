"""Scores of replies, as `refaug score` computes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refaug.core.errors import Usage
from refaug.core.installation.extras import extras_named
from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.presets import find_preset
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.library import inputs
from refaug.library.engine import Engine, engine_of
from refaug.library.results.scores import Scores
from refaug.library.retrieval import OnError, require_rater, retrieve_references
from refaug.library.retrieval_settings import augment_settings

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.evaluation.metric_setup.model_registry import MetricModels
    from refaug.evaluation.scoring.provenance import Provenance
    from refaug.library.retrieval import RetrievedReferences


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
    order = ScoreOrder(
        specifications=specifications_of(metric, metrics),
        index=index,
        rater=rater,
        augmenting=augment_settings(settings),
        has_settings=bool(settings),
        settings=ScoreSettings(
            draws=draws, confidence=confidence, seed=seed, baseline=baseline, explain=explain, parts=False
        ),
        percent=percent,
        language=language,
    )
    rows = _rows(items, predictions, references, utterances, system)
    parsed, warnings = inputs.parse_rows(rows, on_error=on_error)
    return order.score(engine_of(home), parsed, warnings)


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


@dataclass(frozen=True, kw_only=True)
class ScoreOrder:
    """What items are scored by."""

    specifications: tuple[str, ...] = ()
    index: str | None = None
    rater: str | None = None  # weighs references, and rates replies for metrics that name no rater
    augmenting: AugmentSettings = field(default_factory=AugmentSettings)
    has_settings: bool = False
    settings: ScoreSettings = field(default_factory=lambda: ScoreSettings(draws=0, parts=False))
    percent: bool = False
    language: str | None = None

    def score(self, engine: Engine, parsed: Sequence[Item | BadItem], warnings: tuple[str, ...] = ()) -> Scores:
        """Find references where an index is named, and score."""
        from refaug.evaluation.metric_setup.metric_requests import baseline_advice  # noqa: PLC0415  numpy
        from refaug.evaluation.metric_setup.scoring_steps import ScoringSteps  # noqa: PLC0415  compiles
        from refaug.evaluation.scoring.scores import percent  # noqa: PLC0415  compiles

        asks_rater = self.require_models(engine.home)
        preset = find_preset(self.augmenting.preset)
        retrieved = self._retrieved(engine, parsed, asks_rater=asks_rater)
        provenance: Provenance | None = None
        scored_items: Sequence[Item | BadItem] = parsed
        if retrieved is not None:
            scored_items, provenance = retrieved.as_items(parsed), retrieved.provenance
        steps = ScoringSteps(
            models=self.models(engine),
            specifications=self.specifications,
            settings=self.settings,
            rating=self.augmenting.rating,
            augmenting=self.augmenting if asks_rater or retrieved is not None else None,
            preset=preset,
            language=self.language,
            percent=self.percent,
        )
        set_baseline = engine.baselines.of(provenance.settings["index"]) if provenance is not None else None
        chosen = steps.chosen(scored_items, provenance, set_baseline=set_baseline)
        advice = baseline_advice(chosen, scored_items)
        evaluation = steps.score_by(chosen, scored_items, provenance)
        return Scores.of(
            percent(evaluation) if self.percent else evaluation,
            self._versions(engine, provenance),
            self.specifications,
            (*warnings, *(retrieved.warnings if retrieved else ()), *((advice,) if advice else ())),
        )

    def models(self, engine: Engine) -> MetricModels:
        """Return the models of metrics, which the engine holds open."""
        from refaug.evaluation.metric_setup.model_registry import MetricModels  # noqa: PLC0415

        return MetricModels(registry=engine, rater=self.rater)

    def require_models(self, home: Settings) -> bool:
        """Say whether a metric asks `rater`; raise Usage where a model is missing or has no effect."""
        from refaug.evaluation.metric_setup import metric_requests  # noqa: PLC0415  numpy

        requests = [metric_requests.MetricRequest.of(text, home) for text in self.specifications]
        metric_requests.require_models(requests, rater=self.rater, index=self.index)
        asks_rater = any(request.rates_by_default for request in requests)
        if self.index is not None:
            metric_requests.require_index_used(requests)
            if not asks_rater:
                require_rater(self.rater, self.augmenting)
        elif self.rater is not None and not asks_rater:
            remedy = 'index="NAME", whose references it weighs, or metric="rater", for which it rates the replies'
            raise Usage("rater=… without index=…", remedy=remedy)
        elif self.has_settings and not asks_rater and self.augmenting.preset is None:
            raise Usage("settings=… of references without index=…", remedy='index="NAME", or leave them out')
        return asks_rater

    def _retrieved(
        self, engine: Engine, parsed: Sequence[Item | BadItem], *, asks_rater: bool
    ) -> RetrievedReferences | None:
        if self.index is None:
            return None
        if not asks_rater or self.augmenting.needs_rater:
            require_rater(self.rater, self.augmenting)
        return retrieve_references(engine, parsed, self.index, self.rater, self.augmenting)

    def _versions(self, engine: Engine, provenance: Provenance | None) -> dict[str, str]:
        """Return the versions behind the scores."""
        named = provenance.settings if provenance is not None else {}
        versions = {kind: named[kind] for kind in ("index", "rater") if kind in named}
        if "rater" not in versions and self.rater is not None:
            versions["rater"] = engine.rater(self.rater).spec
        return versions
