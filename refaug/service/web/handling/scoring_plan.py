"""The plan of a request to POST /v1/scores: its fields, checked, and with defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from refaug.core.errors import TooLarge, Usage
from refaug.core.home import Settings
from refaug.core.records import Item
from refaug.evaluation.metric_setup import metric_requests
from refaug.evaluation.metric_setup.model_registry import JudgeLimits
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import find_preset
from refaug.evaluation.scoring.score_settings import Resampling, ScoreSettings
from refaug.metrics.models.model_kinds import ModelKind
from refaug.service.jobs.kinds.sources import resolve_metric_files
from refaug.service.server_settings import ServeSettings
from refaug.service.web.schemas.scoring import ScoresIn

_DEFAULT_METRIC: Final = "upsilon-bleu"
_NETWORKS: Final = (ModelKind.RATER, ModelKind.RUBER, ModelKind.VHRED, ModelKind.ADEM, ModelKind.FITTED_JUDGE)


@dataclass(frozen=True, kw_only=True)
class ScoringPlan:
    """A request with its defaults filled in, as far as they do not depend on its items."""

    specifications: tuple[str, ...]  # empty: the default for the items
    finds: bool
    asks_rater: bool
    judged: int  # number of specifications that ask a network about every reply
    asks_index: tuple[str, ...]  # specifications that may first need a measurement of the index
    reads: bool  # whether files may have to be read or samples drawn first
    asks_judge: bool
    judge_limits: JudgeLimits | None  # None: no judge is asked
    sample: str | None  # the index whose log a metric samples, where it names one
    augmenting: AugmentSettings
    scoring: ScoreSettings
    language: str | None
    percent: bool
    is_part: bool  # the response has sums for combining, not scores
    reports_metrics: bool  # metrics that do not suit the references are problems of the response

    @classmethod
    def of(cls, body: ScoresIn, home: Settings, serve: ServeSettings) -> ScoringPlan:
        """Make the plan; Usage where a field is missing or has no effect, TooLarge beyond a limit."""
        options = body.options
        specifications = options.metrics or _default_of_server(body, serve)
        if len(specifications) > serve.metrics:
            raise TooLarge(
                f"{len(specifications):,} metrics are more than the {serve.metrics:,} of one request",
                remedy="send the items again with the others",
            )
        specifications = resolve_metric_files(specifications, home, serve)
        wants = [metric_requests.MetricRequest.of(text, home) for text in specifications]
        finds = body.references == "find" or (
            body.references is None and (options.index is not None or any(request.weighted for request in wants))
        )
        settings, rates = options.settings, any(request.rates_by_default for request in wants)
        settings.require_effect(rates=rates)
        chosen = specifications or ((_DEFAULT_METRIC,) if finds else ())
        if finds and (preset := find_preset(settings.preset)) is not None:
            chosen = tuple(preset.specifications(chosen))
        plan = cls(
            specifications=chosen,
            finds=finds,
            asks_rater=rates,
            judged=sum(request.asks(*_NETWORKS) for request in wants),
            asks_index=tuple(text for text in chosen if metric_requests.MetricRequest.of(text).base) if finds else (),
            reads=any(_is_read_first(request) for request in wants),
            asks_judge=any(request.asks(ModelKind.JUDGE) for request in wants),
            judge_limits=judge_limits(serve),
            sample=next((model.spec for request in wants for model in request.models if model.is_sampled), None),
            augmenting=settings,
            scoring=score_settings(options, serve, explain=options.explain),
            language=options.language,
            percent=options.percent,
            is_part=body.return_ == "stats",
            reports_metrics=body.on_error == "report",
        )
        plan.require_all(wants)
        plan.require_used(body, wants)
        return plan

    def require_judged(self, items: Sequence[Item], serve: ServeSettings) -> None:
        """Raise TooLarge where a judge would be asked about more replies than one request may have."""
        if not self.asks_judge:
            return
        require_few_judged(sum(len(scored_item.replies) for scored_item in items), serve)

    @property
    def needs_rater(self) -> bool:
        """Whether the rater is asked about anything."""
        return self.asks_rater or (self.finds and self.augmenting.needs_rater)

    def require_all(self, wants: Sequence[metric_requests.MetricRequest]) -> None:
        """Raise Usage where a metric needs a model that is not named, or a judge; rater and index have a default."""
        if self.judge_limits is None:
            metric_requests.refuse_judge(wants)
        metric_requests.require_models(wants, rater="", index="" if self.finds else None)

    def require_used(self, body: ScoresIn, wants: Sequence[metric_requests.MetricRequest]) -> None:
        """Raise Usage where a field has no effect."""
        options = body.options
        if options.rater is not None and not self.needs_rater:
            raise Usage("nothing is to be rated", remedy="leave it out, or ask for rated weights", field="rater")
        if body.return_ == "stats":
            contradictions = {"draws": options.draws, "explain": options.explain, "percent": options.percent}
            if name := next((name for name, value in contradictions.items() if value), None):
                raise Usage(f'"{name}" with "return": "stats"', remedy="leave one of the two out")
        if self.finds:
            metric_requests.require_index_used(wants)
            return
        if options.index is not None:
            raise Usage('"index" with "references": "given"', remedy='leave it out, or "references": "find"')
        self.augmenting.require_no_effect(
            "where the references are those given",
            remedy='leave it out, or "references": "find"',
            rates=self.asks_rater,
        )


def _is_read_first(request: metric_requests.MetricRequest) -> bool:
    """Whether a model may have to be read, or a log sampled, before the first score."""
    return any(
        model.parameter.kind is not ModelKind.VECTORS and (model.spec or model.is_sampled) for model in request.models
    )


def require_few_judged(replies: int, serve: ServeSettings) -> None:
    """Raise TooLarge where a judge would be asked about more replies than one request may have."""
    if replies > serve.judge_replies:
        raise TooLarge(
            f"{replies:,} replies are more than the {serve.judge_replies:,} that a judge is asked about in one request",
            remedy="send fewer at a time, or score them with the command: refaug score ITEMS -m judge:model=NAME",
        )


def judge_limits(serve: ServeSettings) -> JudgeLimits | None:
    """Return what judges may do for requests; None where none may be asked."""
    if not serve.judge_hosts:
        return None
    return JudgeLimits(hosts=tuple(serve.judge_hosts.split(",")), tokens_a_day=serve.judge_tokens)


def _default_of_server(body: ScoresIn, serve: ServeSettings) -> tuple[str, ...]:
    """Return the server's default metric where it suits the references of the request, else nothing."""
    if not serve.default_metric:
        return ()
    finds, gives = body.references == "find" or body.options.index is not None, body.references == "given"
    is_weighted = metric_requests.MetricRequest.of(serve.default_metric).weighted
    return () if (gives if is_weighted else finds) else (serve.default_metric,)


def score_settings(options: Resampling, serve: ServeSettings, *, explain: bool = False) -> ScoreSettings:
    """Return the settings of resampling and explanations, within the server's limits."""
    if options.draws > serve.draws:
        raise TooLarge(
            f"{options.draws:,} draws are more than the {serve.draws:,} of one request", remedy="ask for fewer draws"
        )
    return ScoreSettings(
        draws=options.draws,
        confidence=options.confidence,
        seed=options.seed,
        baseline=options.baseline,
        explain=explain,
    )
