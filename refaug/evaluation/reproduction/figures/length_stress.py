"""Candidates on sets whose rows are resampled so that length and rating correlate at a target.

Several sets are drawn, one a seed, and every figure is the mean over them. The contexts that intervals draw are the
same in all of them: the uncertainty lies in which contexts were rated, not in which rows a seed drew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

from refaug.core.errors import BadInput
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.figures.correlations import Correlations, Line, correlate
from refaug.evaluation.reproduction.figures.noninferiority import KINDS, CandidateList, Situation
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.metric_candidates import MetricCandidate, Trial
from refaug.evaluation.reproduction.material.rated_sets import Mask, ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import require_references
from refaug.evaluation.reproduction.material.reference_kinds import sum_of_ranks
from refaug.evaluation.reproduction.report.report import short
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.correlation import spearman

# ── resampling of rows so that the length of a reply and its rating correlate differently ─────────────────────────────

_STRONGEST: Final = 8.0  # λ: beyond, a context is a row or two, drawn again and again
_LEAST_EFFECTIVE: Final = 0.25  # of the rows
_STEPS: Final = 60  # of the bisection: λ is exact long before


@dataclass(frozen=True, kw_only=True, eq=False)
class Tilt:
    """Probabilities of rows at which length and rating correlate at the target: `shares` sum to 1 in every context."""

    strength: float  # λ
    expected: float  # the correlation
    shares: Floats
    effective: float  # rows, as many as would tell as much if all counted the same


def tilt(lengths: Floats, ratings: Floats, contexts: Indexes, target: float) -> Tilt | str:
    """Return the weakest tilt that reaches a Spearman of lengths and ratings, or why there is none."""
    if len(set(lengths.tolist())) < 2 or len(set(ratings.tolist())) < 2:
        return "all replies are as long, or rated alike"
    product = _standard_scores(lengths) * _standard_scores(ratings)
    places, counts = np.unique(contexts, return_inverse=True, return_counts=True)[1:]

    def tilted(strength: float) -> Tilt:
        most = np.full(len(counts), -np.inf)
        np.maximum.at(most, places, strength * product)
        raised = np.exp(strength * product - most[places])
        shares = raised / np.bincount(places, raised)[places]
        weights = shares * counts[places]
        return Tilt(
            strength=strength,
            expected=_weighted_spearman(lengths, ratings, weights),
            shares=shares,
            effective=float(weights.sum() ** 2 / (weights**2).sum()),
        )

    low, high = -_STRONGEST, _STRONGEST
    reached = tilted(low).expected, tilted(high).expected
    if not reached[0] <= target <= reached[1]:
        return f"rows of the same contexts reach from {reached[0]:.2f} to {reached[1]:.2f}, and not {target:g}"
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted(middle).expected < target else (low, middle)
    weakest = tilted(high)
    if weakest.effective < _LEAST_EFFECTIVE * len(lengths):
        return f"{target:g} would rest on {weakest.effective:.0f} of {len(lengths):,} rows"
    return weakest


def _standard_scores(values: Floats) -> Floats:
    """Return the standard scores of the mean ranks."""
    ranks = stats.rankdata(values)
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _weighted_spearman(first: Floats, second: Floats, weights: Floats) -> float:
    """Return Spearman's ρ of rows that count with weights, with mean ranks."""
    shares = weights / weights.sum()
    ranks = []
    for values in (first, second):
        place = np.unique(values, return_inverse=True)[1]
        mass = np.bincount(place, shares)
        ranks.append((np.cumsum(mass) - mass / 2)[place] - 0.5)
    return float(shares @ (ranks[0] * ranks[1]) / np.sqrt((shares @ ranks[0] ** 2) * (shares @ ranks[1] ** 2)))


def draw_rows(shares: Floats, contexts: Indexes, random: np.random.Generator) -> Indexes:
    """Draw places of rows: as many of each context as it has, each with its share as probability."""
    drawn = list[Indexes]()
    for context in np.unique(contexts):
        here = np.flatnonzero(contexts == context)
        drawn.append(random.choice(here, size=len(here), p=shares[here]))
    return np.concatenate(drawn)


def take_rows(rated_set: ProofSet, rows: Indexes) -> ProofSet:
    """Return a set of these rows, in their order; a row may occur more than once."""
    return replace(
        rated_set,
        item=rated_set.item[rows],
        systems=tuple(rated_set.systems[row] for row in rows.tolist()),
        replies=tuple(rated_set.replies[row] for row in rows.tolist()),
        ratings=rated_set.ratings[rows],
        by_annotator=rated_set.by_annotator[rows],
        lengths=rated_set.lengths[rows],
        is_gold=rated_set.is_gold[rows],
    )


# ── candidates on sets whose rows are resampled so that length and rating correlate at a target ───────────────────────

LENGTH: Final = "length of the reply"


def resampled_situation(chain: Chain, candidate_list: CandidateList, trial: Trial, target: float) -> Situation:
    """Try all candidates on sets in which the Spearman of length and rating is the target."""
    settings = chain.settings
    name = f"length and rating at {_signed(target)}"
    about = (
        f"Rows drawn anew within each context, with replacement, so that the Spearman correlation of length and rating "
        f"is {_signed(target)}; the mean over {settings.seeds:,} such drawings."
    )
    candidates = candidate_list.with_controls(candidate_list.candidates)
    try:
        for rated_set in trial.sets:
            require_references(rated_set, trial.pool(rated_set))
    except BadInput as error:
        return Situation(name=name, about=about, gap=chain.public_message(error))
    lines, missing = _lines_of(candidates, candidate_list, trial, chain)
    candidates = [candidate for candidate in candidates if candidate.name not in missing]
    sources, sets_left_out = _row_sources(trial.sets, list(lines.values()), target)
    if not sources:
        return Situation(name=name, about=about, gap="; ".join(sets_left_out))
    chain.progress.stage(f"drawing rows: {name}", settings.seeds, "sets")
    drawings, reached = list[Correlations](), {source.set.name: list[float]() for source in sources}
    for seed in range(settings.seeds):
        rows = {source.set.name: source.draw([settings.seed, seed]) for source in sources}
        drawn = [take_rows(source.set, rows[source.set.name]) for source in sources]
        for rated_set in drawn:
            reached[rated_set.name].append(spearman(rated_set.lengths, rated_set.ratings).value or 0.0)
        length = Line(name=LENGTH, scores={rated_set.name: rated_set.lengths[None] for rated_set in drawn})
        candidate_lines = [
            _line_on_rows(candidate, rows, seed, lines, candidate_list.by_name) for candidate in candidates
        ]
        drawings.append(
            correlate(drawn, [*candidate_lines, length], kinds=KINDS, draws=settings.draws, seed=settings.seed)
        )
        chain.progress.advance(1)
    whole = replace(mean_correlations(drawings), left_out={source.set.name: source.left_out for source in sources})
    facts_by_set = {source.set.name: source.as_json(float(np.mean(reached[source.set.name]))) for source in sources}
    return Situation(
        name=name,
        about=about,
        correlations=whole,
        lines=[lines[candidate.name] for candidate in candidates],
        verdicts=candidate_list.verdicts(
            whole, [candidate for candidate in candidate_list.candidates if candidate.name not in missing]
        ),
        missing=missing,
        tables=[_drawing_table(facts_by_set)],
        sets_left_out=sets_left_out,
        data={"target": target, "drawn": facts_by_set},
    )


def _lines_of(
    candidates: Sequence[MetricCandidate], candidate_list: CandidateList, trial: Trial, chain: Chain
) -> tuple[dict[str, Line], dict[str, str]]:
    """Return the scores of the candidates and of their summands, and why some candidates have none."""
    lines, missing = dict[str, Line](), dict[str, str]()
    for candidate in candidates:
        try:
            of_candidate = {
                part.name: trial.line(part, candidate_list.by_name)
                for part in _with_summands([candidate], candidate_list.by_name)
            }
        except BadInput as error:
            missing[candidate.name] = chain.public_message(error)
            continue
        lines |= of_candidate
    return lines, missing


def _signed(target: float) -> str:
    return f"{target:+.2f}".replace("0.", ".", 1) if target else "0"


@dataclass(frozen=True, kw_only=True, eq=False)
class _RowSource:
    """A set, the rows that are drawn from, and their probabilities."""

    set: ProofSet
    rows: Indexes
    tilt: Tilt

    @classmethod
    def of(cls, rated_set: ProofSet, lines: Sequence[Line], target: float) -> _RowSource:
        """Use the fair rows that every line has a score for, so that every drawing covers all their contexts."""
        is_scored: Mask = rated_set.fair.copy()
        for line in lines:
            is_scored &= np.isfinite(line.scores[rated_set.name]).all(axis=0)
        rows = np.flatnonzero(is_scored)
        outcome = tilt(rated_set.lengths[rows], rated_set.ratings[rows], rated_set.item[rows], target)
        if isinstance(outcome, str):
            raise BadInput(f"{rated_set.name}: {outcome}")
        return cls(set=rated_set, rows=rows, tilt=outcome)

    @property
    def left_out(self) -> int:
        """Return the number of fair rows that are not drawn from."""
        return int(self.set.fair.sum()) - len(self.rows)

    def draw(self, seed: Sequence[int]) -> Indexes:
        """Draw rows of the set."""
        return self.rows[draw_rows(self.tilt.shares, self.set.item[self.rows], np.random.default_rng(list(seed)))]

    def as_json(self, reached: float) -> dict[str, float]:
        """Return how strong the tilt is, and the mean correlation that it reaches."""
        was = spearman(self.set.lengths[self.rows], self.set.ratings[self.rows]).value
        return {
            "was": round(was or 0.0, 4),
            "expected": round(self.tilt.expected, 4),
            "reached": round(reached, 4),
            "strength": round(self.tilt.strength, 4),
            "rows": len(self.rows),
            "effective_rows": round(self.tilt.effective, 1),
        }


def _row_sources(
    sets: Sequence[ProofSet], lines: Sequence[Line], target: float
) -> tuple[list[_RowSource], tuple[str, ...]]:
    """Return the sets whose rows can be drawn so that the target is met, and why others cannot."""
    sources, reasons = list[_RowSource](), list[str]()
    for rated_set in sets:
        try:
            sources.append(_RowSource.of(rated_set, lines, target))
        except BadInput as error:
            reasons.append(error.message)
    return sources, tuple(reasons)


def _with_summands(
    candidates: Sequence[MetricCandidate], by_name: Mapping[str, MetricCandidate]
) -> Iterator[MetricCandidate]:
    """Yield the candidates and, recursively, the summands of sums."""
    for candidate in candidates:
        yield from _with_summands([by_name[name] for name in candidate.sum_of], by_name)
        yield candidate


def _line_on_rows(
    candidate: MetricCandidate,
    rows: Mapping[str, Indexes],
    seed: int,
    lines: Mapping[str, Line],
    by_name: Mapping[str, MetricCandidate],
) -> Line:
    """Return a candidate's scores of drawn rows.

    Ranks are computed among these rows; of scores with several seeds one seed is used.
    """
    if candidate.sum_of and candidate.family != "judge":  # a judge scores a row whatever the others are
        parts = [_line_on_rows(by_name[name], rows, seed, lines, by_name) for name in candidate.sum_of]
        return sum_of_ranks(parts, candidate.name)
    scores = lines[candidate.name].scores
    return Line(
        name=candidate.name,
        scores={set_name: scores[set_name][seed % len(scores[set_name])][at][None] for set_name, at in rows.items()},
    )


def tilted_correlations(
    sets: Sequence[ProofSet], lines: Sequence[Line], target: float, *, seeds: int, draws: int, seed: int
) -> Correlations | None:
    """Correlate lines on rows drawn so that length and rating correlate at the target; None where no set allows it.

    The mean over several drawings; of a line with several seeds each drawing takes one.
    """
    sources, _ = _row_sources(sets, lines, target)
    drawings = list[Correlations]()
    for number in range(seeds if sources else 0):
        rows = {source.set.name: source.draw([seed, number]) for source in sources}
        drawn = [take_rows(source.set, rows[source.set.name]) for source in sources]
        of_rows = [
            Line(
                name=line.name,
                scores={
                    name: line.scores[name][number % len(line.scores[name])][at][None] for name, at in rows.items()
                },
            )
            for line in lines
        ]
        drawings.append(correlate(drawn, of_rows, kinds=KINDS, draws=draws, seed=seed))
    return mean_correlations(drawings) if drawings else None


def mean_correlations(drawings: Sequence[Correlations]) -> Correlations:
    """Return the mean correlations over several drawings, on all rows and draw by draw."""
    return replace(
        drawings[0],
        points={key: np.mean([drawing.points[key] for drawing in drawings], axis=0) for key in drawings[0].points},
        drawn={key: np.mean([drawing.drawn[key] for drawing in drawings], axis=0) for key in drawings[0].drawn},
    )


def _drawing_table(facts_by_set: Mapping[str, Mapping[str, float]]) -> Table:
    return Table(
        title="How rows were drawn",
        columns=("", "length and rating were at", "are at, on average", "λ", "rows", "worth as many as"),
        rows=[
            [
                set_name,
                short(facts["was"]),
                short(facts["reached"]),
                f"{facts['strength']:.2f}",
                f"{facts['rows']:,}",
                f"{facts['effective_rows']:,.0f}",
            ]
            for set_name, facts in facts_by_set.items()
        ],
        notes=("rows that are drawn more often than others tell less: together as much as so many that are not",),
    )
