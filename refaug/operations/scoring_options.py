"""What every face of scoring has: metrics, intervals, and where references come from; and the scoring of test files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Length, Metavar, Panel
from refaug.core.options.decoding import Options
from refaug.operations.item_sources import ItemSources
from refaug.operations.operation import Cluster, OwnedOperation, Spec, Text, Threads
from refaug.scoring.settings import REFAUG_1, AugmentSettings, Draws, Resampling, ScoreSettings, find_preset, preset_for

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.scoring.metric_setup.metric_requests import MetricRequest

Language = Annotated[
    str | None,
    Length(1, 35),
    Metavar("TAG"),
    Doc("Language of the texts (en, ja, …): decides the tokenizer where a metric names none."),
]
_NO_INDEX: Final = "an index, or leave it out"


@contextmanager
def within(group: str) -> Iterator[None]:
    """Name the group of an option that an error is about."""
    try:
        yield
    except Usage as error:
        field = f"{group}.{error.field}" if error.field else ""
        raise Usage(error.without_field, remedy=error.remedy, field=field) from None


@dataclass(frozen=True, kw_only=True)
class MetricOptions(Options):
    """The metrics that replies are scored by."""

    panel: ClassVar[Panel] = Panel("Metric")

    metrics: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Metavar("SPEC"),
        Doc(
            "What to score with: NAME or NAME:key=value,…, as `refaug score metrics list` has them; of files, a "
            "signature, too. Without it: refaug-1 with an index, which its encoder must have read; else upsilon-bleu "
            "where references were retrieved before, delta-bleu where people weighted some, multi-bleu otherwise; of "
            "requests, first the server's `default_metric` where the references suit it."
        ),
    ] = ()
    language: Language = None

    @property
    def specifications(self) -> list[str]:
        """The metrics that are named; a signature names its metric."""
        from refaug.scoring.metric_setup.signature_requests import specification_texts  # noqa: PLC0415  numpy

        return specification_texts(list(self.metrics))


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(ScoreSettings, MetricOptions, Resampling):
    """What replies are scored by."""


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions(Options):
    """Where references are found, and what weighs them."""

    panel: ClassVar[Panel] = Panel("Retrieval")

    index: Annotated[
        Spec | None, Doc("Index that references are found in first; without it they are taken as they are.")
    ] = None
    rater: Annotated[Spec | None, Doc("Rater of references that are found, and of metrics that name none.")] = None
    settings: Annotated[AugmentSettings, Doc("How references are found, rated and weighed.")] = field(
        default_factory=AugmentSettings
    )

    def find_as(self, metrics: Sequence[str], *, finds: bool = False) -> None:
        """Take over how the recommended metric finds references, where it is among the metrics.

        That is so where an index is named, or `finds`: one that the server chooses is searched.
        """
        preset = preset_for(metrics) if finds or self.index is not None else None
        if preset is not None:
            with within("settings"):
                object.__setattr__(self, "settings", self.settings.with_preset(preset))

    def metrics_or_default(self, metrics: Sequence[str], *, finds: bool = False) -> tuple[str, ...]:
        """Return the metrics, or the one where none is named, and find references as they need them.

        Where references are found, that is the metric of the preset, else the recommended one, which never gives way
        to another; where they are given, it depends on them, and none is returned.
        """
        preset = find_preset(self.settings.preset) or REFAUG_1
        default = () if metrics or not (finds or self.index is not None) else preset.metrics[:1]
        try:
            self.find_as(default or metrics, finds=finds)
            if default:
                self._require_rater_asked(rates=False, remedy="leave it out")
        except Usage as error:
            if not default:
                raise
            from refaug.metrics.embeddings.recommended import OTHER_METRIC  # noqa: PLC0415  numpy

            message = f"no metric is named, so replies are scored by {default[0]}: {error.without_field}"
            raise Usage(message, remedy=f"{error.remedy}; {OTHER_METRIC}", field=error.field) from None
        return tuple(default or metrics)

    def require_named_index(self) -> None:
        """Raise Usage where no index is named."""
        if self.index is None:
            raise Usage("no index is named", remedy="refaug artefacts list index", field="index")

    def require_effect(self, *, rates: bool = False, shows_references: bool = False) -> None:
        """Raise Usage for a setting or a rater that has no effect where references are found.

        `rates`: the rater is asked about replies, too.
        """
        with within("settings"):
            self.settings.require_effect(rates=rates, shows_references=shows_references)
        self._require_rater_asked(rates=rates, remedy="leave it out, or use rated weights")

    def _require_rater_asked(self, *, rates: bool, remedy: str) -> None:
        if self.rater is not None and not (rates or self.settings.needs_rater):
            raise Usage("nothing is to be rated", remedy=remedy, field="rater")

    def require_nothing_found(self) -> None:
        """Raise Usage for a setting or a rater where no index is searched and nothing is scored."""
        with within("settings"):
            self.settings.require_no_effect("without an index", remedy=_NO_INDEX)
        if self.rater is not None:
            raise Usage("it has no effect without an index", remedy=_NO_INDEX, field="rater")

    def require_index(self) -> None:
        """Raise Usage for a setting that has no effect without an index, whatever the metrics are."""
        if self.index is None:
            with within("settings"):
                self.settings.require_no_effect("without an index", remedy=_NO_INDEX, rates=True, scores=True)

    def require_models(self, home: Settings, metrics: Sequence[str]) -> list[MetricRequest]:
        """Return what metrics ask for; Usage where a model is missing, or index, rater or settings have no effect."""
        from refaug.scoring.metric_setup import metric_requests  # noqa: PLC0415  compiles
        from refaug.scoring.metric_setup.signature_requests import specification_texts  # noqa: PLC0415  numpy

        requests = [metric_requests.MetricRequest.of(text, home) for text in specification_texts(list(metrics))]
        metric_requests.require_models(requests, rater=self.rater, index=self.index)
        rates = any(request.rates_by_default for request in requests)
        if self.index is None:
            with within("settings"):
                self.settings.require_no_effect("without an index", remedy=_NO_INDEX, rates=rates, scores=True)
            if self.rater is not None and not rates:
                remedy = "an index, whose references it weighs, or the metric rater, for which it rates the replies"
                raise Usage("it has no effect without an index", remedy=remedy, field="rater")
            return requests
        metric_requests.require_index_used(requests)
        metric_requests.require_same_encoder(requests, self.index, home)
        self.require_effect(rates=rates)
        self.settings.require_rater(self.rater)
        return requests


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(ReferenceOptions):
    """Where references are found, perhaps on a cluster."""

    panel: ClassVar[Panel] = Panel("Retrieval", rare=("on", "threads"))

    on: Annotated[
        Cluster,
        Doc("Find and rate references on a cluster of Ray: HOST:PORT, auto on one of its machines, or local."),
    ] = None
    threads: Threads = None

    def check(self) -> None:
        """Refuse what is of an index where none is searched."""
        super().check()
        if self.on is not None and self.index is None:
            raise Usage("a cluster finds references in an index", remedy="name one, or leave it out", field="on")
        self.require_index()


# Replies in hand have intervals on request, since each takes as long as many scores.


@dataclass(frozen=True, kw_only=True)
class RequestedResampling(Resampling):
    """Intervals and comparisons, on request."""

    draws: Draws = 0


@dataclass(frozen=True, kw_only=True)
class RequestedScoring(ScoringOptions):
    """What replies in hand are scored by, against references that are there."""

    draws: Draws = 0


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(RequestedScoring, ReferenceOptions):
    """What replies in hand are scored by."""

    def check(self) -> None:
        """Find references as the metrics need them."""
        self.find_as(self.metrics)
        super().check()


# ── Scoring test files ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Score(ItemSources, ScoringOptions, ClusterOptions, OwnedOperation):
    """Score the replies of one or several systems against their references."""

    operation: ClassVar[str] = "score"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.scoring:score_job"

    def check(self) -> None:
        """Find references as the metrics need them."""
        object.__setattr__(self, "metrics", self.metrics_or_default(self.metrics))
        super().check()

    def metrics_named(self) -> list[str]:
        """Return the metrics."""
        return list(self.metrics)

    def sources_named(self) -> list[str]:
        """Return the files of items."""
        return self.files
