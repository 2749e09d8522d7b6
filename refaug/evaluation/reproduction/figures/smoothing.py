"""Ways of smoothing weighted BLEU, each less the default on the same draws of contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.correlations import Correlations, Line, correlate
from refaug.evaluation.reproduction.material.judged_replies import PEOPLE, WeightedSet, weighted_scores
from refaug.evaluation.reproduction.material.metric_candidates import MetricCandidate, Trial
from refaug.evaluation.reproduction.material.proof_logs import ProofSettings
from refaug.evaluation.reproduction.material.reference_kinds import GOLD, ONE, RATED
from refaug.evaluation.reproduction.report.report import IN_WORDS, cell
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL

DEFAULT_SMOOTHING: Final = "exp"
SMOOTHINGS: Final = ("none", "floor", "floor[0.3]", "add-k", DEFAULT_SMOOTHING, "epsilon")
CONDITIONS: Final = (GOLD, ONE, PEOPLE, RATED)
PENALTIES: Final = ("closest", "none")
KINDS: Final = ("spearman", PARTIAL)

Smoothed = Mapping[str, Correlations]  # condition and penalty → one line for each smoothing


def smoothed_judged(weighted_sets: Sequence[WeightedSet], settings: ProofSettings) -> dict[str, Correlations]:
    """Correlate every smoothing where other systems' replies are the references, under every kind of weights."""
    return {
        f"{condition}, bp={penalty}": correlate(
            [weighted_set.rated_set for weighted_set in weighted_sets],
            [_judged_line(weighted_sets, condition, penalty, smoothing) for smoothing in SMOOTHINGS],
            kinds=KINDS,
            draws=settings.draws,
            seed=settings.seed,
        )
        for condition in CONDITIONS
        for penalty in PENALTIES
    }


def _judged_line(weighted_sets: Sequence[WeightedSet], condition: str, penalty: str, smoothing: str) -> Line:
    metric = build(f"delta-bleu:smooth={smoothing},bp={penalty}")
    return Line(
        name=smoothing,
        scores={
            weighted_set.rated_set.name: weighted_scores(weighted_set, metric, condition)[None]
            for weighted_set in weighted_sets
        },
    )


def smoothed_retrieved(trial: Trial) -> dict[str, Correlations]:
    """Correlate every smoothing where references are retrieved: rated, and of weight one."""
    settings = trial.chain.settings
    return {
        f"{kind}, bp={penalty}": correlate(
            trial.sets,
            [trial.line(_retrieved(kind, penalty, smoothing), {}) for smoothing in SMOOTHINGS],
            kinds=KINDS,
            draws=settings.draws,
            seed=settings.seed,
        )
        for kind in (ONE, RATED)
        for penalty in PENALTIES
    }


def _retrieved(kind: str, penalty: str, smoothing: str) -> MetricCandidate:
    metric = f"upsilon-bleu:smooth={smoothing},bp={penalty}"
    return MetricCandidate(name=smoothing, why="", family="bleu", metric=metric, kind=kind)


def smoothing_tables(smoothed: Smoothed, title: str) -> list[Table]:
    """Return a table for each kind of correlation: the default on the mean, and what other smoothings add to it."""
    return [
        Table(
            title=f"{title}, {IN_WORDS[kind]}",
            columns=("", *smoothed),
            rows=[
                [_row_name(smoothing), *(_cell_of(smoothed[name], smoothing, kind) for name in smoothed)]
                for smoothing in (DEFAULT_SMOOTHING, *(name for name in SMOOTHINGS if name != DEFAULT_SMOOTHING))
            ],
            notes=("on the mean; all rows but the first are differences on the same draws of contexts",),
        )
        for kind in KINDS
    ]


def _row_name(smoothing: str) -> str:
    return smoothing if smoothing == DEFAULT_SMOOTHING else f"{smoothing} less {DEFAULT_SMOOTHING}"


def _cell_of(correlations: Correlations, smoothing: str, kind: str) -> str:
    scope = correlations.scopes[-1]
    if smoothing == DEFAULT_SMOOTHING:
        return cell(correlations.estimate(smoothing, kind, scope))
    return cell(correlations.difference(smoothing, DEFAULT_SMOOTHING, kind, scope))


def smoothing_json(smoothed: Smoothed) -> dict[str, object]:
    """Return every figure, and every difference to the default."""
    return {
        name: {
            smoothing: {
                kind: {
                    scope: {
                        **correlations.estimate(smoothing, kind, scope).as_json(),
                        "less_default": correlations.difference(smoothing, DEFAULT_SMOOTHING, kind, scope).as_json(),
                    }
                    for scope in correlations.scopes
                }
                for kind in KINDS
            }
            for smoothing in SMOOTHINGS
        }
        for name, correlations in smoothed.items()
    }
