"""Bind the metric `judge` to the judge of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.client import ClientSettings
from refaug.bots.endpoint.daily_spending import DailyTokens
from refaug.bots.endpoint.specification import Endpoint
from refaug.core.errors import NotAllowed, Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.evaluation.judge.asking import Asking
from refaug.evaluation.judge.judge_files import answers_path, find_judge, find_named_judge, spending_path
from refaug.evaluation.judge.pointwise import PointwiseJudge, SampleSettings
from refaug.evaluation.judge.rubric import find_rubric
from refaug.evaluation.metric_setup.model_names import ModelNames
from refaug.metrics.base import Metric
from refaug.metrics.models.judged_replies import JudgedReplies


def with_judge(
    metrics: Sequence[Metric], home: Settings, named: ModelNames, progress: Progress | None = None
) -> list[Metric]:
    """Return the metrics, those that need a judge bound to the named one; rubric and file are checked here."""
    return [
        metric.with_judge(_judge_of(metric.settings, home, named, progress or Silent()))
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


def _judge_of(settings: Mapping[str, str], home: Settings, named: ModelNames, progress: Progress) -> PointwiseJudge:
    if named.judge is None:
        raise Usage("judge needs a judge, and none is named", remedy="--judge NAME: refaug judge list")
    return PointwiseJudge(
        _asking(home, named.judge, named, progress),
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


def _asking(home: Settings, judge: str, named: ModelNames, progress: Progress) -> Asking:
    """Return how the judge is asked: as its file says, and within the limits of a server."""
    limits = named.judge_limits
    if limits is None:
        return open_asking(home, judge, progress, ClientSettings(is_offline=not named.asks_judge))
    advice = "the operator of the server adds {entry} to --judge-hosts of refaug serve (REFAUG_JUDGE_HOSTS)"
    endpoint, policy = find_named_judge(home, judge), AddressPolicy.of_list(limits.hosts, advice)
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
