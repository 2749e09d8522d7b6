"""Replies and their references in, scores out: what `refaug score` prints and a server answers, without either.

Every reply is scored once; systems, levels, intervals and comparisons are all taken from the same stored statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin
from metrics.base import Floats, Level, Metric, Problem, References
from metrics.catalogue import Uses
from metrics.model_scores import RatedReplies
from metrics.resampling import Estimate, approximate_randomisation, bootstrap, paired_bootstrap
from metrics.signature import Signature
from service.cases import (
    ENOUGH,
    NO_REPLY,
    Case,
    Scored,
    bound_to,
    data_hash,
    evidence_of,
    leave_one_out,
    references_for,
    references_hash,
    require_references,
    score_cases,
    split,
    systems_of,
)
from service.scores import Comparison, Evaluation, MetricScores, ReplyScore, ScoreSettings, SystemScore

_NAMED: Final = 4  # systems in a warning


def evaluate(
    items: Iterable[Item | BadItem],
    metrics: Sequence[Metric],
    settings: ScoreSettings | None = None,
    *,
    provenance: Mapping[str, str] | None = None,
    details: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score every system of a test file under every metric.

    `provenance` and `details` go into the signatures of metrics that look at weighted references, as they are: what
    retrieval and rating have to say.
    """
    settings, progress = settings or ScoreSettings(), progress or Silent()
    good, bad = split(items)
    systems = systems_of(good)
    require_baseline(settings.baseline, systems)
    scores, nothing = list[MetricScores](), list[str]()
    for metric in metrics:
        require_references(good, metric)
        progress.stage(f"score {metric.name}", sum(len(item.replies) for item in good), "replies")
        found = _ScoredSystems.of(metric, good, systems, progress)
        nothing += [why] if (why := found.why_nothing()) else []
        found_for_it = metric.info.uses is Uses.WEIGHTED
        signature = Signature.of(found.metric, *((provenance, details) if found_for_it else ()))
        scores.append(_metric_scores(found, settings, signature))
    if len(nothing) == len(metrics):
        raise BadInput(nothing[0])
    weighted = any(metric.info.uses is Uses.WEIGHTED for metric in metrics)
    evidence = {item.id: evidence_of(item) for item in good} if weighted else {}
    return Evaluation(
        scores=tuple(scores),
        data=data_hash(good),
        items=len(good),
        evidence=evidence,
        bad_items=tuple(bad),
        warnings=(
            *nothing,
            *_warnings(good, systems, metrics),
            *_weights_ignored(good, metrics),
            *_thin(evidence),
            *dict.fromkeys(remark for one in scores for remark in one.metric.remarks()),
        ),
        settings=settings,
    )


def require_baseline(baseline: str | None, systems: Sequence[str]) -> None:
    """The baseline must be one of the systems, and not the only one."""
    if baseline is not None and baseline not in systems:
        raise Usage(f"no system is called {baseline!r}", remedy=f"one of: {', '.join(systems)}")
    if baseline is not None and len(systems) == 1:
        raise Usage(f"{baseline} is the only system", remedy="a comparison needs a second one")


def _warnings(items: Sequence[Item], systems: Sequence[str], metrics: Sequence[Metric]) -> Iterator[str]:
    """What makes a score mean something else than one may think."""
    missing = {system: sum(1 for item in items if system not in item.replies) for system in systems}
    if lacking := [f"{system} ({count:,})" for system, count in missing.items() if count]:
        yield f"replies are missing (of {len(items):,}): {_listed(lacking)}; the scores are over those there are"
    empty = {system: sum(1 for item in items if not item.replies.get(system, "-").strip()) for system in systems}
    if silent := [f"{system} ({count:,})" for system, count in empty.items() if count]:
        least = "0, by a rater -1," if any(isinstance(metric, RatedReplies) for metric in metrics) else "0"
        yield f"empty replies, which score {least} or nothing at all: {_listed(silent)}"
    if blank := sum(1 for item in items for one in item.pair.references if not one.text.strip()):
        yield f"empty references, which are left out: {blank:,}"


def _weights_ignored(items: Sequence[Item], metrics: Sequence[Metric]) -> Iterator[str]:
    """Golds that a rater has weighted count as 1 where people's weights are asked for."""
    rated = [metric.name for metric in metrics if metric.info.uses is Uses.RATED]
    golds = [one for item in items for one in item.pair.references if one.source is Origin.GOLD]
    if rated and (other := sum(1 for gold in golds if gold.weight not in (None, 1.0))):
        yield f"{', '.join(rated)} takes every gold at weight 1; {other:,} have another weight, which upsilon- uses"


def _thin(evidence: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """How many weighted scores stand on little."""
    if thin := sum(1 for one in evidence.values() if one["thin"]):
        what = f"fewer than {ENOUGH} references of positive weight beside the gold"
        yield f"weighted scores stand on thin evidence for {thin:,} of {len(evidence):,} items: {what}"


def _listed(names: Sequence[str]) -> str:
    """The first ones by name, the others by number."""
    rest = f" and {len(names) - _NAMED:,} more systems" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScoredSystems:
    """All replies of all systems under one metric: system by system, each with a row for every item."""

    metric: Metric
    items: Sequence[Item]
    systems: Sequence[str]
    cases: Sequence[Case | Problem]
    scored: Scored
    values: Floats
    rows: Mapping[str, slice]
    references: str  # names the references and weights that were looked at

    @classmethod
    def of(cls, metric: Metric, items: Sequence[Item], systems: Sequence[str], progress: Progress) -> _ScoredSystems:
        """Score them; a reply that is not there is a row without a score."""
        chosen = [references_for(metric, item.pair.references, item.pair.turns) for item in items]
        cases = [
            _case(item.replies.get(system), references)
            for system in systems
            for item, references in zip(items, chosen, strict=True)
        ]
        metric = bound_to(metric, chosen, cases)
        scored = score_cases(metric, cases, progress)
        values = scored.values(metric)
        return cls(
            metric=metric,
            items=items,
            systems=systems,
            cases=cases,
            scored=scored,
            values=values,
            rows={name: slice(n * len(items), (n + 1) * len(items)) for n, name in enumerate(systems)},
            references=references_hash(items, chosen),
        )

    @cached_property
    def statistics(self) -> dict[str, Floats]:
        """The statistics by system."""
        return {system: self.scored.statistics[rows] for system, rows in self.rows.items()}

    def why_nothing(self) -> str | None:
        """For a metric under which nothing at all has a score, the reasons."""
        if not np.isnan(self.values).all():
            return None
        reasons = Counter(problem.message for problem in self.scored.problems.values())
        listed = "; ".join(f"{count:,} times {message}" for message, count in reasons.most_common(3))
        return f"no reply has a score by {self.metric.name}: {listed}"


def _case(reply: str | None, references: References | Problem) -> Case | Problem:
    if reply is None:
        return NO_REPLY
    return references if isinstance(references, Problem) else Case(reply, references)


def _metric_scores(found: _ScoredSystems, settings: ScoreSettings, signature: Signature) -> MetricScores:
    intervals = _intervals(found, settings)
    explained = _explanations(found) if settings.explain else {}
    systems = {}
    for system in found.systems:
        replies = tuple(
            _reply_score(item.id, row, found, explained.get(row), parts=settings.parts)
            for row, item in enumerate(found.items, start=found.rows[system].start)
        )
        systems[system] = _system_score(found.statistics[system], replies, found.metric, *intervals[system])
    comparisons = _comparisons(found.statistics, found.metric, settings)
    return MetricScores(
        metric=found.metric,
        signature=signature,
        references=found.references,
        systems=systems,
        comparisons=comparisons,
    )


def _comparisons(statistics: Mapping[str, Floats], metric: Metric, settings: ScoreSettings) -> dict[str, Comparison]:
    if settings.baseline is None:
        return {}
    value_of, draws, seed = metric.value_of_sums, settings.draws, settings.seed
    drawn = paired_bootstrap(statistics, value_of, settings.baseline, draws=draws, seed=seed, level=settings.confidence)
    swapped = approximate_randomisation(statistics, value_of, settings.baseline, trials=draws, seed=seed)
    return {name: Comparison(bootstrap=drawn[name], randomisation=swapped[name]) for name in drawn}


_NO_INTERVAL: Final = Estimate(why="no interval was asked for")


def _intervals(found: _ScoredSystems, settings: ScoreSettings) -> dict[str, tuple[Estimate, Estimate]]:
    """Intervals of corpus score and mean, for each system."""
    if not settings.draws:
        return dict.fromkeys(found.systems, (_NO_INTERVAL, _NO_INTERVAL))
    counted = np.stack([found.values, np.where(np.isnan(found.values), np.nan, 1.0)], axis=1)
    means = {system: counted[rows] for system, rows in found.rows.items()}
    draws, seed, level = settings.draws, settings.seed, settings.confidence
    of_corpus = bootstrap(found.statistics, found.metric.value_of_sums, draws=draws, seed=seed, level=level)
    of_mean = bootstrap(means, _mean_of_sums, draws=draws, seed=seed, level=level)
    return {name: (of_corpus[name].score, of_mean[name].score) for name in found.systems}


def _mean_of_sums(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _reply_score(
    name: str, row: int, found: _ScoredSystems, explanation: Mapping[str, Any] | None, *, parts: bool
) -> ReplyScore:
    if row in found.scored.problems:
        return ReplyScore(id=name, score=None, problem=found.scored.problems[row])
    return ReplyScore(
        id=name,
        score=float(found.values[row]),
        parts=found.metric.parts(found.scored.statistics[row], Level.REPLY) if parts else None,
        explanation=explanation,
    )


def _system_score(
    statistics: Floats, replies: Sequence[ReplyScore], metric: Metric, of_corpus: Estimate, of_mean: Estimate
) -> SystemScore:
    sums = statistics[~np.isnan(statistics).any(axis=1)].sum(axis=0)
    values = [reply.score for reply in replies if reply.score is not None]
    return SystemScore(
        corpus=float(metric.values(sums, Level.CORPUS)) if values else None,
        interval=of_corpus,
        mean=float(np.mean(values)) if values else None,
        mean_interval=of_mean,
        unscored=dict(Counter(reply.problem.code for reply in replies if reply.problem is not None)),
        replies=tuple(replies),
        parts=metric.parts(sums, Level.CORPUS) if values else None,
        statistics=statistics,
    )


# ── why ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _explanations(found: _ScoredSystems) -> dict[int, dict[str, Any]]:
    """What each reference is worth to each reply, and where n-grams are credited, to which reference."""
    fewer = leave_one_out(found.metric, found.cases)
    explained = {}
    for row, case in enumerate(found.cases):
        if isinstance(case, Case):
            credit = found.metric.credited(case.reply, case.references)
            explained[row] = {
                **({} if credit is None else {"credited": credit}),
                "without_reference": _without(case, fewer[row], found.values[row]),
            }
    return explained


def _without(case: Case, scores: Sequence[float | None], score: float) -> list[dict[str, Any]]:
    references = zip(case.references.texts, case.references.weights, scores, strict=True)
    return [
        {"reference": place, "text": text, "weight": weight, "score": left, "change": _change(left, score)}
        for place, (text, weight, left) in enumerate(references)
    ]


def _change(without: float | None, score: float) -> float | None:
    return None if without is None or np.isnan(score) else float(without - score)
