"""Paired tests of two systems by one metric: those of `refaug score --baseline`, from score files alone.

The corpus score is tested where its sums are there: for metrics whose corpus score is the mean of the reply scores, and
in files with details. The mean of the reply scores is tested in any case.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from refaug.core.errors import BadInput
from refaug.evaluation.comparison.scored_system import SystemRun
from refaug.evaluation.scoring.combine import metric_of
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.metrics.base import Floats, Metric
from refaug.metrics.statistics.resampling import ValueOfSums, approximate_randomisation, paired_bootstrap

_FIRST, _SECOND = "first", "second"


class ScoreLevel(StrEnum):
    """Which score of a system is tested."""

    CORPUS = "corpus"
    MEAN = "mean"


@dataclass(frozen=True, kw_only=True)
class SystemTest:
    """The second system less the first, on the replies that both have a score for, with two tests of the difference."""

    level: ScoreLevel
    first: float | None
    second: float | None
    difference: float | None
    interval: tuple[float, float] | None
    p_bootstrap: float | None
    p_randomisation: float | None
    replies: int
    left_out: int
    holm_p: float | None = None  # p_randomisation, adjusted over all metrics and systems compared
    note: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


def metric_of_sums(first: SystemRun, second: SystemRun) -> tuple[Metric | None, str]:
    """Return the metric that adds the sums of both, or None and why there is none."""
    specifications = [str(system.stored.signature.specification()) for system in (first, second)]
    if specifications[0] != specifications[1]:
        return None, f"no test of the corpus score: {' and '.join(specifications)} add other sums"
    try:
        metric, _ = metric_of(first.stored.signature.full)
        metric_of(second.stored.signature.full)
    except BadInput as error:
        return None, error.message
    return metric, ""


def system_tests(
    first: SystemRun, second: SystemRun, ids: list[str], settings: ScoreSettings, scale: float
) -> tuple[SystemTest, ...]:
    """Return the tests of two systems on these items: of the corpus score where it can be tested, and of the mean."""
    means = [_rows_of_means(system.scores(ids) * (scale / system.stored.scale)) for system in (first, second)]
    mean = _test(ScoreLevel.MEAN, means[0], means[1], _mean_of_sums, settings)
    if first.stored.document.get("corpus_from") == "mean":
        return (mean,)
    metric, why = metric_of_sums(first, second)
    if metric is None:
        return (_untested(first, second, scale, why), mean)
    before, now = first.sums(ids), second.sums(ids)
    if before is None or now is None:
        lacking = " and ".join(
            system.file.shown_name for system, sums in ((first, before), (second, now)) if sums is None
        )
        lacking = first.file.shown_name if first.file is second.file else lacking
        why = f"no test of the corpus score: there are no sums in {lacking}; refaug score --json --details writes them"
        return (_untested(first, second, scale, why), mean)
    if not before[0] == now[0] == metric.columns:
        return (_untested(first, second, scale, "the columns of the sums are not those of the metric"), mean)

    def value_of(sums: Floats) -> Floats:
        return metric.value_of_sums(sums) * scale

    return (_test(ScoreLevel.CORPUS, before[1], now[1], value_of, settings), mean)


def _rows_of_means(scores: Floats) -> Floats:
    """Return rows whose sums give the mean: the score, and 1 where there is one."""
    return np.stack([scores, np.where(np.isnan(scores), np.nan, 1.0)], axis=1)


def _mean_of_sums(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _test(
    level: ScoreLevel, first: Floats, second: Floats, value_of: ValueOfSums, settings: ScoreSettings
) -> SystemTest:
    statistics, draws, seed = {_FIRST: first, _SECOND: second}, settings.draws, settings.seed
    paired = paired_bootstrap(statistics, value_of, _FIRST, draws=draws, seed=seed, level=settings.confidence)[_SECOND]
    permuted = approximate_randomisation(statistics, value_of, _FIRST, trials=draws, seed=seed)[_SECOND]
    difference = paired.difference
    has_interval = difference.low is not None and difference.high is not None
    return SystemTest(
        level=level,
        first=paired.baseline,
        second=paired.value,
        difference=difference.value,
        interval=(difference.low, difference.high) if has_interval else None,  # type: ignore[arg-type]
        p_bootstrap=difference.p,
        p_randomisation=permuted.difference.p,
        replies=paired.replies,
        left_out=paired.left_out,
        note=difference.why,
    )


def _untested(first: SystemRun, second: SystemRun, scale: float, why: str) -> SystemTest:
    """Return the corpus scores as they stand in the files, and why they are not tested."""
    before, now = (
        None if corpus is None else corpus * (scale / system.stored.scale)
        for system in (first, second)
        for corpus in [system.stored.systems[system.name].get("corpus")]
    )
    return SystemTest(
        level=ScoreLevel.CORPUS,
        first=before,
        second=now,
        difference=None if before is None or now is None else now - before,
        interval=None,
        p_bootstrap=None,
        p_randomisation=None,
        replies=0,
        left_out=0,
        note=why,
    )
