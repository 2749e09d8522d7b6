"""Bind the metric `judge` to the judge that it names."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.client import ClientSettings
from refaug.bots.endpoint.judge_files import answers_path, find_judge, spending_path
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import DailyTokens
from refaug.core.errors import NotAllowed
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pointwise import PointwiseJudge, SampleSettings
from refaug.extras.judges.language_models.rubric import find_rubric
from refaug.extras.judges.metrics.judged_replies import JudgedReplies
from refaug.metrics.base import Metric
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import Bind


def with_judge(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    progress: Progress | None = None,
    bind: Bind | None = None,  # noqa: ARG001
) -> list[Metric]:
    """Return the metrics, those that need a judge bound to the one that they name; rubric and file are checked here."""
    return [
        metric.with_judge(_judge_of(metric, models, progress or Silent()))
        if isinstance(metric, JudgedReplies)
        else metric
        for metric in metrics
    ]


def open_asking(
    home: Settings, judge: str, progress: Progress | None = None, client: ClientSettings | None = None
) -> Asking:
    """Return the judge's endpoint with the stored answers of the home."""
    return Asking(
        endpoint=find_judge(home, judge),
        answers=answers_path(home),
        client=client or ClientSettings(),
        progress=progress or Silent(),
    )


def _judge_of(metric: JudgedReplies, models: ModelRegistry, progress: Progress) -> PointwiseJudge:
    settings = metric.settings
    return PointwiseJudge(
        _asking(models.judge(metric.model), models, progress),
        find_rubric(settings["rubric"]),
        SampleSettings(
            samples=int(settings["samples"]),
            temperature=float(settings["temperature"]),
            seed=int(settings["seed"]),
            is_expected=settings["score"] == "expected",
            repeat=int(settings["repeat"]),
            is_weighted=settings["refs"] == "weighted",
        ),
    )


def _asking(endpoint: Endpoint, models: ModelRegistry, progress: Progress) -> Asking:
    """Return how the judge is asked: as its file says, and within the limits of a server."""
    limits, home = models.judge_limits, models.home
    if limits is None:
        client = ClientSettings(is_offline=not models.asks_judge)
        return Asking(endpoint=endpoint, answers=answers_path(home), client=client, progress=progress)
    advice = "the operator of the server adds {entry} to --judge-hosts of refaug serve (REFAUG_JUDGE_HOSTS)"
    policy = AddressPolicy.of_list(limits.hosts, advice)
    _require_host(endpoint, policy)
    return Asking(
        endpoint=endpoint,
        answers=answers_path(home),
        client=ClientSettings(policy=policy),
        progress=progress,
        days=DailyTokens(spending_path(home), limits.tokens_a_day),
    )


def _require_host(endpoint: Endpoint, policy: AddressPolicy) -> None:
    parts = urlsplit(endpoint.url)
    try:
        policy.require_host(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except AddressRefused as refused:
        raise NotAllowed(f"judge {endpoint.name}: {refused.reason}", remedy=refused.advice) from refused
