"""The lines of the main table of `reproduce metrics`: baselines, the published method, RUBER, selected candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.core.errors import RefaugError
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.figures.selection import Selection, select
from refaug.evaluation.reproduction.material import metric_candidates, reference_kinds
from refaug.evaluation.reproduction.material.published_method import published_line, published_name
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Floats
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL, partial_spearman
from refaug.metrics.statistics.correlation import spearman as spearman_of

BLEU, BLEU_AT_BEST, OURS = "BLEU-2, gold", "BLEU-2, gold, best setting", "best of ours, out of fold"
BLEU_AT_BEST_GIVEN_LENGTH: Final = "BLEU-2, gold, best setting given length"
BLEU_OURS: Final = "υBLEU, out of fold"
BASELINES: Final = {"spearman": BLEU_AT_BEST, PARTIAL: BLEU_AT_BEST_GIVEN_LENGTH}  # the best baseline by each kind
PENALTIES: Final = ("closest", "none")
SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
_BLENDS: Final = ("min", "max", "arithmetic", "geometric")
DEFAULT: Final = metric_candidates.MetricCandidate(
    name="υBLEU, default",
    why="as the commands have it",
    family="bleu",
    metric="upsilon-bleu",
    kind=reference_kinds.RATED,
)
_UNREFERENCED: Final = "RUBER, unreferenced"
_FURTHER: Final = {  # other υ-metrics, with their specifications
    "υ-chrF": "upsilon-chrf",
    "υ-ROUGE-L": "upsilon-rouge-l",
    "υ-average": f"upsilon-embedding-average:weighting=sif,vectors={metric_candidates.VECTORS}",
    "υ-METEOR": "upsilon-meteor",
}


@dataclass(frozen=True, kw_only=True)
class MainLines:
    """The lines of the main table, and the candidates that the last two lines were chosen from."""

    lines: tuple[Line, ...]
    published: str  # the line of the published method
    ours: Selection
    bleu: Selection
    candidates: Mapping[str, metric_candidates.MetricCandidate]
    # Of the lines with further references; the selected lines are made of several candidates.
    candidate_of_line: Mapping[str, metric_candidates.MetricCandidate]
    gaps: tuple[str, ...]


def main_lines_of(trial: metric_candidates.Trial, sets: Sequence[ProofSet]) -> MainLines:
    """Compute the lines of baselines, the published method, further υ-metrics, RUBER, and selected candidates."""
    candidates = {candidate.name: candidate for candidate in metric_candidates.all_candidates()}
    lines = [trial.line(candidate, candidates) for candidate in candidates.values()]
    by_name = {line.name: line for line in lines}
    ours = select(trial.sets, lines, OURS)
    bleu = select(
        trial.sets,
        [by_name[candidate.name] for candidate in candidates.values() if candidate.family == "bleu"],
        BLEU_OURS,
    )
    further, gaps = _further_metrics(trial)
    baselines = [
        plain_line(trial.sets, BLEU, "bleu"),
        line_at_best(trial.sets, BLEU_AT_BEST, "bleu", PENALTIES),
        line_at_best(trial.sets, BLEU_AT_BEST_GIVEN_LENGTH, "bleu", PENALTIES, PARTIAL),
        line_at_best(trial.sets, "BLEU-4, gold, best setting", "bleu:n=4", PENALTIES),
    ]
    several = [rated_set for rated_set in sets if any(len(test_item.references) > 1 for test_item in rated_set.items)]
    if several:
        penalties = (*PENALTIES, "average", "gold")
        baselines.append(line_at_best(sets, "BLEU-2, all human references, best setting", "multi-bleu", penalties))
    length = Line(
        name="length",
        scores={rated_set.name: rated_set.lengths[None] for rated_set in trial.sets},
        about="tokens of the reply",
    )
    fixed = (
        metric_candidates.GREEDY_GOLD.name,
        metric_candidates.REPLY.name,
        metric_candidates.REPLY_TO_THREE.name,
        metric_candidates.RECOMMENDED.name,
    )
    rubers = _ruber_candidates()
    return MainLines(
        lines=(
            length,
            *baselines,
            trial.line(DEFAULT, candidates),
            published_line(trial.chain, trial.sets),
            bleu.line,
            *further,
            *(by_name[name] for name in fixed),
            *_ruber_lines(trial, rubers, gaps),
            ours.line,
        ),
        published=published_name(trial.chain),
        ours=ours,
        bleu=bleu,
        candidates=candidates,
        candidate_of_line={candidate.name: candidate for candidate in (*candidates.values(), DEFAULT, *rubers)},
        gaps=tuple(gaps),
    )


def plain_line(sets: Sequence[ProofSet], name: str, specification: str) -> Line:
    """Return the line of one metric on the references that the sets come with."""
    return reference_kinds.line_of(name, sets, build(specification), about=specification)


def line_at_best(
    sets: Sequence[ProofSet], name: str, specification: str, penalties: Sequence[str], kind: str = "spearman"
) -> Line:
    """Return a baseline at its best setting on each set: an advantage that our metrics do not get.

    The setting that is best by Spearman switches the penalty off, and is far from the best once length is held fixed.
    So each kind of correlation needs its own baseline.
    """
    mark = "," if ":" in specification else ":"
    grid = [
        plain_line(
            sets, f"{specification}{mark}smooth={smooth},bp={bp}", f"{specification}{mark}smooth={smooth},bp={bp}"
        )
        for smooth in SMOOTHINGS
        for bp in penalties
    ]
    scores, settings = dict[str, Floats](), list[str]()
    for rated_set in sets:
        best = max(grid, key=lambda line: _correlation(line.scores[rated_set.name][0], rated_set, kind))
        scores[rated_set.name] = best.scores[rated_set.name]
        settings.append(f"{rated_set.name}: {best.name}")
    return Line(name=name, scores=scores, about="; ".join(settings))


def _correlation(scores: Floats, rated_set: ProofSet, kind: str) -> float:
    rows = rated_set.fair & np.isfinite(scores)
    values, ratings = scores[rows], rated_set.ratings[rows]
    correlation = (
        partial_spearman(values, ratings, rated_set.lengths[rows]) if kind == PARTIAL else spearman_of(values, ratings)
    )
    return -1.0 if correlation.value is None else correlation.value


def _further_metrics(trial: metric_candidates.Trial) -> tuple[list[Line], list[str]]:
    """Compute other υ-metrics on the same references; a metric that is not available becomes a gap."""
    lines, gaps = list[Line](), list[str]()
    for name, specification in _FURTHER.items():
        candidate = metric_candidates.MetricCandidate(
            name=name,
            why="",
            family="other",
            metric=specification,
            kind=reference_kinds.RATED,
            mode=metric_candidates.WORDS,
        )
        try:
            lines.append(trial.line(candidate, {}))
        except RefaugError as error:
            gaps.append(f"{name} is missing: {trial.chain.public_message(error)}")
    return lines, gaps


def _ruber_lines(
    trial: metric_candidates.Trial, candidates: Sequence[metric_candidates.MetricCandidate], gaps: list[str]
) -> Iterator[Line]:
    """Yield RUBER, its parts and blends; without its network there is only a gap."""
    try:
        unreferenced = reference_kinds.line_of(
            _UNREFERENCED, trial.sets, trial.chain.relevance(), about="how well it goes with the utterance"
        )
    except RefaugError as error:
        gaps.append(f"RUBER is missing: {trial.chain.public_message(error)}")
        return
    yield unreferenced
    for candidate in candidates:
        yield trial.line(candidate, {})


def _ruber_candidates() -> list[metric_candidates.MetricCandidate]:
    """Return the referenced part and all four blends, also with υBLEU: the paper does not say which blend it used."""
    pooled = f"vectors={metric_candidates.VECTORS}"
    specifications = {"RUBER, referenced": (f"pooled:{pooled}", reference_kinds.GOLD)}
    for blend in _BLENDS:
        specifications[f"RUBER, {blend}"] = (f"ruber:blend={blend},{pooled}", reference_kinds.GOLD)
    specifications["RUBER, arithmetic, scaled by the test set"] = (f"ruber:norm=test,{pooled}", reference_kinds.GOLD)
    for blend in _BLENDS:
        specifications[f"RUBER + υBLEU, {blend}"] = (
            f"ruber:blend={blend},referenced=upsilon-bleu;bp=none",
            reference_kinds.RATED,
        )
    return [
        metric_candidates.MetricCandidate(
            name=name, why="", family="other", metric=specification, kind=kind, mode=metric_candidates.WORDS
        )
        for name, (specification, kind) in specifications.items()
    ]
