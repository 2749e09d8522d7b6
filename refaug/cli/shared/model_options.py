"""Options that name the models of metrics, shared by `score`, `meta` and `meta probe`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress

if TYPE_CHECKING:
    from refaug.evaluation.metric_setup.model_names import ModelNames
    from refaug.evaluation.scoring.augment_settings import AugmentSettings
    from refaug.metrics.base import Metric

RuberOption = Annotated[
    str | None, typer.Option("--ruber", help="Ruber that the metric ruber asks: name or name@version.", metavar="NAME")
]
AdemOption = Annotated[
    str | None, typer.Option("--adem", help="Adem that the metric adem asks: name or name@version.", metavar="NAME")
]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample",
        help="Index whose log says what counts as 0 and 1 of the parts of the metric ruber: name or name@version.",
        metavar="NAME",
    ),
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        help="Judge that the metric judge asks: a name of the folder judges/ of the home, or the path of a file.",
        metavar="NAME",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The models that metrics need beside a rater; a group of options."""

    ruber: RuberOption = None
    adem: AdemOption = None
    sample: SampleOption = None
    judge: JudgeOption = None

    def require_named(
        self, home: Settings, specifications: Sequence[str], rater: str | None, *, index: str | None = None
    ) -> bool:
        """Say whether the metrics use a rater; raise Usage where a model is missing or unused, before any work.

        An index that references are found in is also the sampled index, unless `sample` names another.
        """
        from refaug.evaluation.metric_setup.metric_requests import MetricNeeds  # noqa: PLC0415  compiles

        needs = [MetricNeeds.of(text, home) for text in specifications]
        for need in needs:
            if need.rater and rater is None:
                raise Usage(f"{need.name} needs a rater, and none is named", remedy="--rater NAME: refaug rater list")
            if need.ruber and self.ruber is None:
                raise Usage(f"{need.name} needs a ruber, and none is named", remedy="--ruber NAME: refaug ruber list")
            if need.adem and self.adem is None:
                raise Usage(f"{need.name} needs an adem, and none is named", remedy="--adem NAME: refaug adem list")
            if need.sample and self.sample is None and index is None:
                raise Usage(
                    f"{need.name} needs an index, to see what its parts give to replies of a log, and none is named",
                    remedy="--sample NAME: refaug index list; or norm=none",
                )
            if need.judge and self.judge is None:
                raise Usage(f"{need.name} needs a judge, and none is named", remedy="--judge NAME: refaug judge list")
        if self.judge is not None and not any(need.judge for need in needs):
            raise Usage("--judge without a metric that asks it", remedy="-m judge, or leave --judge out")
        if self.ruber is not None and not any(need.ruber for need in needs):
            raise Usage("--ruber without a metric that asks it", remedy="-m ruber, or leave --ruber out")
        if self.adem is not None and not any(need.adem for need in needs):
            raise Usage("--adem without a metric that asks it", remedy="-m adem, or leave --adem out")
        if self.sample is not None and not any(need.sample for need in needs):
            raise Usage("--sample without a metric that looks at it", remedy="-m ruber, or leave --sample out")
        return any(need.rater or need.weigher for need in needs)

    def bind(
        self,
        settings: Settings,
        metrics: Sequence[Metric],
        *,
        rater: str | None,
        index: str | None = None,
        augmenting: AugmentSettings | None = None,
        threads: int | None,
        progress: Progress,
    ) -> list[Metric]:
        """Return the metrics, bound to the models that they need.

        `rater` and `index` are names, or specifications as signatures have them.
        """
        from refaug.evaluation.metric_setup.scoring_steps import ScoringSteps  # noqa: PLC0415  numpy

        models = self.names(rater, threads, index)
        return ScoringSteps(home=settings, models=models, augmenting=augmenting).bound(metrics, progress=progress)

    def names(self, rater: str | None, threads: int | None, index: str | None = None) -> ModelNames:
        """Return the models by name, with this rater; the log of the index is sampled unless `sample` names another."""
        from refaug.evaluation.metric_setup.model_names import ModelNames  # noqa: PLC0415

        return ModelNames(
            rater=rater,
            ruber=self.ruber,
            adem=self.adem,
            judge=self.judge,
            sample=self.sample or index,
            threads=threads,
        )
