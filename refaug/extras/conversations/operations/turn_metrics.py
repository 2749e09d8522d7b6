"""The metrics that score every reply of a conversation in its context, and what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from refaug.core.errors import Usage
from refaug.core.options.declaring import Distinct, Doc, Length, Metavar
from refaug.extras.conversations.options.conversation_source import TurnReferences
from refaug.operations.operation import Text
from refaug.operations.scoring_options import ReferenceOptions, within

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.extras.conversations.judged import TurnJudges
    from refaug.scoring.metric_setup.model_registry import ModelRegistry

TURN_METRICS = Doc(
    "A metric that scores every reply in its context, without a gold, such as rater:refs=none, likelihood:model=VHRED "
    "or upsilon-bleu."
)


@dataclass(frozen=True, kw_only=True)
class TurnMetrics(ReferenceOptions):
    """The metrics of turns, with the index that references are found in, and the rater that weighs them."""

    metrics: Annotated[tuple[Text, ...], Length(0, 100), Distinct(), Metavar("METRIC"), TURN_METRICS] = ()
    settings: Annotated[TurnReferences, Doc("How references of turns are found, rated and weighed.")] = field(
        default_factory=TurnReferences
    )

    def check(self) -> None:
        """Refuse what is of metrics where none is named."""
        super().check()
        if not self.metrics:
            if idle := next((name for name in ("rater", "index") if getattr(self, name) is not None), None):
                raise Usage("no metric of turns is named", remedy="name one, such as rater:refs=none", field=idle)
            with within("settings"):
                self.settings.require_no_effect("without a metric of turns", remedy="name one, or leave it out")

    def metrics_named(self) -> list[str]:
        """Return the metrics."""
        return list(self.metrics)

    def judges_of(self, home: Settings, threads: int | None) -> TurnJudges | None:
        """Return the metrics with the models of a home; None without a metric. Usage where a model is missing."""
        from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415  compiles

        if not self.metrics:
            return None
        self.require_models(home, self.metrics)
        return self.judges(ModelRegistry(home, threads, default_rater=self.rater), self.metrics)

    def judges(self, models: ModelRegistry, metrics: Sequence[str]) -> TurnJudges:
        """Return the metrics with their models; files in their names as the face has found them."""
        from refaug.extras.conversations.judged import TurnJudges  # noqa: PLC0415  compiles

        return TurnJudges(metrics=list(metrics), models=models, index=self.index, references=self.settings)
