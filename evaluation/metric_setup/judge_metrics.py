"""Bind the metric `judge` to the judge of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refaug.bots.endpoint.client import ClientSettings
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.evaluation.judge.asking import Asking
from refaug.evaluation.judge.judge_files import answers_path, find_judge
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
    client = ClientSettings(is_offline=not named.asks_judge)
    return PointwiseJudge(
        open_asking(home, named.judge, progress, client),
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
