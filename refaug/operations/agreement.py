"""Agreement of metrics with people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from refaug.core.installation import require_extra
from refaug.core.options.declaring import Argument, Doc, Length, Metavar, Panel
from refaug.operations.item_sources import OF_JOB, TableOptions
from refaug.operations.operation import OwnedOperation, Text
from refaug.operations.scoring_options import ClusterOptions, Language, ReferenceOptions
from refaug.scoring.items import BadItem
from refaug.scoring.settings import MetaSettings, find_preset

if TYPE_CHECKING:
    from refaug.agreement.costs import RatedSizes
    from refaug.core.records import Item


@dataclass(frozen=True, kw_only=True)
class AgreementOptions(MetaSettings, ReferenceOptions):
    """Which metrics are compared, and how their agreement with people is measured."""

    panel: ClassVar[Panel] = Panel("Metric")

    metrics: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Metavar("SPEC"),
        Doc(
            "What to compare: NAME or NAME:key=value,…. Without it: those of bleu, multi-bleu, rouge-l and chrf that "
            "apply, after refaug-1 with an index."
        ),
    ] = ()
    baseline: Annotated[
        Text | None, Metavar("SPEC"), Doc("The metric that every other is compared with; without it, the first.")
    ] = None
    language: Language = None

    def check(self) -> None:
        """Find references as the metrics need them; its statistics are no part of the wheel alone."""
        require_extra("meta")
        if not self.metrics:
            self.metrics_or_default(())
        self.find_as(self.metrics_named())
        super().check()

    def metrics_named(self) -> list[str]:
        """Return the metrics, or the one that comes first with an index, and the baseline behind them."""
        return [*(self.metrics or self._first()), *([self.baseline] if self.baseline is not None else [])]

    def metrics_for(self, items: Iterable[Item | BadItem]) -> list[str]:
        """Return the metrics, or those that apply to the items where none is named."""
        from refaug.agreement.meta import default_metrics  # noqa: PLC0415  compiles

        return list(self.metrics) or default_metrics(items, self._first())

    def cost(self, sets: Sequence[RatedSizes], *, metrics: int) -> float:
        """Return an upper bound of the work on test sets of these sizes by so many metrics, in units."""
        from refaug.agreement.costs import agreement_units  # noqa: PLC0415  numpy

        return agreement_units(sets, metrics=metrics, draws=self.draws)

    def _first(self) -> tuple[str, ...]:
        preset = find_preset(self.settings.preset)
        return preset.metrics[:1] if preset is not None and self.index is not None else ()

    @property
    def meta_settings(self) -> MetaSettings:
        """How agreement is measured."""
        return MetaSettings(
            rows=self.rows, draws=self.draws, confidence=self.confidence, seed=self.seed, min_kappa=self.min_kappa
        )


@dataclass(frozen=True, kw_only=True)
class MeasureAgreement(AgreementOptions, ClusterOptions, TableOptions, OwnedOperation):
    """Say how far metrics agree with people's ratings."""

    panel: ClassVar[Panel] = Panel("Input")

    operation: ClassVar[str] = "meta"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.meta:meta_job"

    data: Annotated[
        tuple[Text, ...],
        Length(1, 100),
        Argument("ITEMS…"),
        Doc("Test sets with ratings: JSONL with one item a line, or tables; - for stdin.", of_job=OF_JOB),
    ]

    def sources_named(self) -> list[str]:
        """Return the test sets."""
        return list(self.data)
