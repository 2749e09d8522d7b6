"""Replies and their references in, scores out: what `refaug score` prints and a server answers, without either.

Every reply is scored once; systems, levels, intervals and comparisons are all taken from the same stored statistics.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import orjson

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin, Reference
from metrics.base import NO_GOLD, Floats, Level, Metric, Prepared, Problem, References
from metrics.catalogue import Uses
from metrics.resampling import Estimate, Paired, approximate_randomisation, bootstrap, paired_bootstrap
from metrics.signature import Signature

_BATCH: Final = 2_000  # replies between two looks at the clock: progress, and the chance to stop
_NAMED: Final = 4  # systems in a warning
_THIN: Final = 3  # fewer further references of positive weight than this are thin evidence
NO_REPLY: Final = Problem("no_reply", "the system has no reply to this item")
NO_WEIGHT: Final = Problem("no_weight", "one of its references has neither a weight nor a rating")


# ── scoring, of anything that has references ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Case:
    """A reply and what it is scored against; cases that share references should share the object."""

    reply: str
    references: References


@dataclass(frozen=True)
class Scored:
    """Statistics of cases, row by row; NaN where there is no score, and then the reason."""

    statistics: Floats
    problems: Mapping[int, Problem]

    def values(self, metric: Metric) -> Floats:
        """The score of every case, NaN where there is none."""
        return metric.values(self.statistics, Level.REPLY)


def score_cases(metric: Metric, cases: Sequence[Case | Problem], progress: Progress | None = None) -> Scored:
    """Score each case; one that is a problem already stays one. References shared by cases are prepared once."""
    number_of = dict[int, int]()
    distinct, rows, replies, of = list[References](), list[int](), list[str](), list[int]()
    problems = {row: case for row, case in enumerate(cases) if isinstance(case, Problem)}
    for row, case in enumerate(cases):
        if isinstance(case, Problem):
            continue
        if id(case.references) not in number_of:
            number_of[id(case.references)] = len(distinct)
            distinct.append(case.references)
        rows.append(row)
        replies.append(case.reply)
        of.append(number_of[id(case.references)])
    prepared = metric.prepare(distinct)
    statistics = np.full((len(cases), len(metric.columns)), np.nan)
    items = np.array(of, dtype=np.int64)
    for first in range(0, len(rows), _BATCH):
        batch = slice(first, first + _BATCH)
        texts = replies[batch]
        found = metric.statistics(texts, prepared, np.arange(len(texts)), items[batch])
        statistics[rows[batch]] = found
        for place in np.flatnonzero(np.isnan(found).any(axis=1)):
            row = rows[first + int(place)]
            statistics[row] = np.nan
            problems[row] = _why(metric, prepared, int(items[first + int(place)]))
        if progress is not None:
            progress.advance(len(texts))
    return Scored(statistics, dict(sorted(problems.items())))


def _why(metric: Metric, prepared: Prepared, item: int) -> Problem:
    return prepared.problems.get(item) or metric.undefined()


# ── which references a metric looks at ────────────────────────────────────────────────────────────────────────────


def references_of(references: Sequence[Reference], uses: Uses) -> References | Problem:
    """The item's references as the metric wants them, with their weights, or why that cannot be had.

    Empty ones are left out: in test files they stand for references that are not there.
    """
    references = [one for one in references if one.text.strip()]
    gold = next((place for place, one in enumerate(references) if one.source is Origin.GOLD), -1)
    if uses is Uses.GOLD:
        return References((references[gold].text,), (1.0,)) if gold >= 0 else NO_GOLD
    kept = [one for one in references if uses is Uses.WEIGHTED or one.is_own]
    weights = [_weight(one, uses) for one in kept]
    if None in weights:
        return NO_WEIGHT
    place = next((number for number, one in enumerate(kept) if one.source is Origin.GOLD), -1)
    return References(tuple(one.text for one in kept), tuple(one for one in weights if one is not None), place)


def _weight(reference: Reference, uses: Uses) -> float | None:
    """Golds are worth 1 unless a rater was asked; where only texts matter, all are."""
    if uses is Uses.OWN or (reference.source is Origin.GOLD and (uses is Uses.RATED or reference.weight is None)):
        return 1.0
    return reference.weight


def require_references(items: Sequence[Item], metric: Metric) -> None:
    """Refuse a weighted score of references that nobody has weighted: it would be another metric's number."""
    found = Counter(reference.source for item in items for reference in item.pair.references)
    if metric.info.uses is Uses.RATED and not found[Origin.SUPPLIED]:
        raise BadInput(
            f"no item has a reference weighted by people, so {metric.name} would be multi-bleu",
            remedy='write references as {"text": …, "weight": …} or with "ratings", or ask for multi-bleu',
        )
    if metric.info.uses is Uses.WEIGHTED and not sum(found.values()) - found[Origin.GOLD]:
        raise BadInput(
            f"no item has other references than golds, so {metric.name} has nothing to weigh",
            remedy="give items whose references carry weights or ratings, or ask for the metric without upsilon-",
        )


def evidence_of(item: Item) -> dict[str, Any]:
    """On what a weighted score of this item stands."""
    others = [one for one in item.pair.references if one.source is not Origin.GOLD]
    above = sum(1 for one in others if (one.weight or 0) > 0)
    return {
        "references": len(item.pair.references),
        "sources": dict(sorted(Counter(one.source.value for one in item.pair.references).items())),
        "similarities": [one.similarity for one in others],
        "weights": [one.weight for one in others],
        "above_zero": above,
        "thin": above < _THIN,
    }


def data_hash(items: Iterable[Item]) -> str:
    """Names what was scored, beside the signature that names how: a hash of ids and golds, in order."""
    digest = hashlib.sha256()
    for item in items:
        golds = [one.text for one in item.pair.references if one.source is Origin.GOLD]
        golds = golds or [one.text for one in item.pair.references if one.is_own]
        digest.update(orjson.dumps([item.id, golds], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:12]


# ── test files ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """What is wanted beside the scores themselves."""

    draws: int = 1_000  # of the bootstrap; 0: no intervals
    confidence: float = 0.95
    seed: int = 1
    baseline: str | None = None  # the system that all others are compared with
    explain: bool = False  # credited n-grams, and what each reference is worth to each reply
    parts: bool = True  # what every reply's score is made of

    def __post_init__(self) -> None:
        if self.draws < 0 or self.draws > 1_000_000:
            raise Usage(f"{self.draws} draws", remedy="0 for no intervals, else up to 1,000,000")
        if not 0 < self.confidence < 1:
            raise Usage(f"a confidence of {self.confidence:g}", remedy="a share between 0 and 1, such as 0.95")
        if self.baseline is not None and not self.draws:
            raise Usage("a comparison without draws", remedy="leave --draws at 1000")


@dataclass(frozen=True, kw_only=True)
class ReplyScore:
    """The score of one reply to one item; without a value, the problem says why."""

    id: str
    score: float | None
    problem: Problem | None = None
    parts: Mapping[str, Any] | None = None
    explanation: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Only what there is."""
        problem = self.problem and {"problem": self.problem.code, "message": self.problem.message}
        parts = {"parts": self.parts} if self.parts is not None else {}
        return {"id": self.id, "score": self.score, **parts, **(self.explanation or {}), **(problem or {})}


@dataclass(frozen=True, kw_only=True)
class SystemScore:
    """One system under one metric."""

    corpus: float | None
    interval: Estimate  # of the corpus score
    mean: float | None
    mean_interval: Estimate
    unscored: Mapping[str, int]  # how many replies have no score, by problem
    replies: tuple[ReplyScore, ...]
    parts: Mapping[str, Any] | None
    statistics: Floats = field(repr=False)  # (items, columns); NaN where a reply has no score

    def counts(self) -> tuple[int, int]:
        """How many replies have a score, and how many have none."""
        unscored = sum(self.unscored.values())
        return len(self.replies) - unscored, unscored

    def as_intervals(self) -> tuple[list[float] | None, list[float] | None]:
        """The intervals of corpus score and mean."""
        return bounds(self.interval), bounds(self.mean_interval)

    def as_json(self) -> dict[str, Any]:
        """As the command prints and the server answers it."""
        scored, unscored = self.counts()
        return {
            "corpus": self.corpus,
            "interval": bounds(self.interval),
            "mean": self.mean,
            "mean_interval": bounds(self.mean_interval),
            **({"interval_note": self.interval.why} if self.interval.why else {}),
            "scored": scored,
            "unscored": unscored,
            "unscored_by_reason": dict(self.unscored),
            **({"parts": self.parts} if self.parts is not None else {}),
            "replies": [reply.as_json() for reply in self.replies],
        }


def bounds(estimate: Estimate) -> list[float] | None:
    """An interval as JSON has it."""
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system against the baseline on the items that both have a score for: the same question, tested twice."""

    bootstrap: Paired
    randomisation: Paired

    def as_json(self) -> dict[str, Any]:
        """Difference, interval and both p values; a reason where there is none."""
        difference = self.bootstrap.difference
        return {
            "difference": difference.value,
            "interval": bounds(difference),
            "p_bootstrap": difference.p,
            "p_randomisation": self.randomisation.difference.p,
            "replies": self.bootstrap.replies,
            "left_out": self.bootstrap.left_out,
            **({"note": difference.why} if difference.why else {}),
        }


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """All systems under one metric."""

    metric: Metric
    signature: Signature
    systems: Mapping[str, SystemScore]
    comparisons: Mapping[str, Comparison]
    scale: float = 1.0

    def as_json(self) -> dict[str, Any]:
        """As the command prints and the server answers it."""
        return {
            "metric": self.metric.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "corpus_from": self.metric.info.corpus.value,
            "higher_is_better": self.metric.info.higher_is_better,
            "scale": self.scale,
            "systems": {name: system.as_json() for name, system in self.systems.items()},
            **({"comparisons": {k: v.as_json() for k, v in self.comparisons.items()}} if self.comparisons else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What came of a test file."""

    scores: tuple[MetricScores, ...]
    data: str
    items: int
    evidence: Mapping[str, Mapping[str, Any]]
    bad_items: tuple[BadItem, ...]
    warnings: tuple[str, ...]
    settings: ScoreSettings

    def as_json(self) -> dict[str, Any]:
        """One document; the same for the command and the server."""
        return {
            "scores": [one.as_json() for one in self.scores],
            "data": self.data,
            "items": self.items,
            "resampling": {
                "method": "percentile bootstrap over items",
                "draws": self.settings.draws,
                "confidence": self.settings.confidence,
                "seed": self.settings.seed,
            },
            **({"evidence": dict(self.evidence)} if self.evidence else {}),
            "problems": [
                {"file": bad.file, "line": bad.line, "id": bad.item, "field": bad.field, "message": bad.message}
                for bad in self.bad_items
            ],
            "warnings": list(self.warnings),
        }


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

    `provenance` and `details` go into the signatures as they are: what retrieval and rating have to say.
    """
    settings, progress = settings or ScoreSettings(), progress or Silent()
    good, bad = split(items)
    systems = systems_of(good)
    require_baseline(settings.baseline, systems)
    scores = []
    for metric in metrics:
        require_references(good, metric)
        progress.stage(f"score {metric.name}", sum(len(item.replies) for item in good), "replies")
        signature = Signature.of(metric, provenance, details)
        scores.append(_metric_scores(good, systems, metric, settings, signature, progress))
    weighted = any(metric.info.uses is Uses.WEIGHTED for metric in metrics)
    return Evaluation(
        scores=tuple(scores),
        data=data_hash(good),
        items=len(good),
        evidence={item.id: evidence_of(item) for item in good} if weighted else {},
        bad_items=tuple(bad),
        warnings=tuple(_warnings(good, systems)),
        settings=settings,
    )


def split(items: Iterable[Item | BadItem]) -> tuple[list[Item], list[BadItem]]:
    """Items that can be scored, and those that cannot; without any of the first kind there is nothing to do."""
    good, bad = list[Item](), list[BadItem]()
    for item in items:
        if isinstance(item, BadItem):
            bad.append(item)
        else:
            good.append(item)
    if not good:
        raise BadInput(f"none of {len(bad):,} items can be used: {bad[0]}" if bad else "there are no items in it")
    return good, bad


def systems_of(items: Sequence[Item]) -> list[str]:
    """All systems, in the order in which they are first met."""
    systems = list(dict.fromkeys(system for item in items for system in item.replies))
    if not systems:
        raise BadInput("no item has a reply", remedy='give every item "replies": {"system": "its reply"}')
    return systems


def require_baseline(baseline: str | None, systems: Sequence[str]) -> None:
    """The baseline must be one of the systems, and not the only one."""
    if baseline is not None and baseline not in systems:
        raise Usage(f"no system is called {baseline!r}", remedy=f"one of: {', '.join(systems)}")
    if baseline is not None and len(systems) == 1:
        raise Usage(f"{baseline} is the only system", remedy="a comparison needs a second one")


def _warnings(items: Sequence[Item], systems: Sequence[str]) -> Iterator[str]:
    """What makes a score mean something else than one may think."""
    missing = {system: sum(1 for item in items if system not in item.replies) for system in systems}
    if lacking := [f"{system} ({count:,})" for system, count in missing.items() if count]:
        yield f"replies are missing (of {len(items):,}): {_listed(lacking)}; the scores are over those there are"
    empty = {system: sum(1 for item in items if not item.replies.get(system, "-").strip()) for system in systems}
    if silent := [f"{system} ({count:,})" for system, count in empty.items() if count]:
        yield f"empty replies count as the worst reply: {_listed(silent)}"
    if blank := sum(1 for item in items for one in item.pair.references if not one.text.strip()):
        yield f"{blank:,} references are empty: they are left out"


def _listed(names: Sequence[str]) -> str:
    """The first ones by name, the others by number."""
    rest = f" and {len(names) - _NAMED:,} more systems" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _metric_scores(
    items: Sequence[Item],
    systems: Sequence[str],
    metric: Metric,
    settings: ScoreSettings,
    signature: Signature,
    progress: Progress,
) -> MetricScores:
    chosen = [references_of(item.pair.references, metric.info.uses) for item in items]
    cases = [
        _case(item.replies.get(system), references)
        for system in systems
        for item, references in zip(items, chosen, strict=True)
    ]
    scored = score_cases(metric, cases, progress)
    rows = {system: slice(n * len(items), (n + 1) * len(items)) for n, system in enumerate(systems)}
    statistics = {system: scored.statistics[rows[system]] for system in systems}
    values = scored.values(metric)
    intervals = _intervals(metric, statistics, {name: values[rows[name]] for name in systems}, settings)
    explained = _explanations(metric, cases, values) if settings.explain else {}
    found = {}
    for number, system in enumerate(systems):
        replies = tuple(
            _reply_score(item.id, row, scored, values, metric, explained.get(row), parts=settings.parts)
            for row, item in enumerate(items, start=number * len(items))
        )
        found[system] = _system_score(statistics[system], replies, metric, *intervals[system])
    comparisons = _comparisons(statistics, metric, settings)
    return MetricScores(metric=metric, signature=signature, systems=found, comparisons=comparisons)


def _case(reply: str | None, references: References | Problem) -> Case | Problem:
    if reply is None:
        return NO_REPLY
    return references if isinstance(references, Problem) else Case(reply, references)


def _comparisons(statistics: Mapping[str, Floats], metric: Metric, settings: ScoreSettings) -> dict[str, Comparison]:
    if settings.baseline is None:
        return {}
    value_of, draws, seed = metric.value_of_sums, settings.draws, settings.seed
    drawn = paired_bootstrap(statistics, value_of, settings.baseline, draws=draws, seed=seed, level=settings.confidence)
    swapped = approximate_randomisation(statistics, value_of, settings.baseline, trials=draws, seed=seed)
    return {name: Comparison(bootstrap=drawn[name], randomisation=swapped[name]) for name in drawn}


_NO_INTERVAL: Final = Estimate(why="no interval was asked for")


def _intervals(
    metric: Metric, statistics: Mapping[str, Floats], values: Mapping[str, Floats], settings: ScoreSettings
) -> dict[str, tuple[Estimate, Estimate]]:
    """Intervals of corpus score and mean, for each system."""
    if not settings.draws:
        return dict.fromkeys(statistics, (_NO_INTERVAL, _NO_INTERVAL))
    means = {name: np.stack([one, np.where(np.isnan(one), np.nan, 1.0)], axis=1) for name, one in values.items()}
    draws, seed, level = settings.draws, settings.seed, settings.confidence
    of_corpus = bootstrap(statistics, metric.value_of_sums, draws=draws, seed=seed, level=level)
    of_mean = bootstrap(means, _mean_of_sums, draws=draws, seed=seed, level=level)
    return {name: (of_corpus[name].score, of_mean[name].score) for name in statistics}


def _mean_of_sums(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _reply_score(
    name: str,
    row: int,
    scored: Scored,
    values: Floats,
    metric: Metric,
    explanation: Mapping[str, Any] | None,
    *,
    parts: bool,
) -> ReplyScore:
    if row in scored.problems:
        return ReplyScore(id=name, score=None, problem=scored.problems[row])
    return ReplyScore(
        id=name,
        score=float(values[row]),
        parts=metric.parts(scored.statistics[row], Level.REPLY) if parts else None,
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


def _explanations(metric: Metric, cases: Sequence[Case | Problem], values: Floats) -> dict[int, dict[str, Any]]:
    """What each reference is worth to each reply, and where n-grams are credited, to which reference."""
    without = leave_one_out(metric, cases)
    return {
        row: {
            **({} if (found := metric.credited(case.reply, case.references)) is None else {"credited": found}),
            "without_reference": [
                {
                    "reference": place,
                    "text": text,
                    "weight": weight,
                    "score": left,
                    "change": _change(left, values[row]),
                }
                for place, (text, weight, left) in enumerate(
                    zip(case.references.texts, case.references.weights, without[row], strict=True)
                )
            ],
        }
        for row, case in enumerate(cases)
        if isinstance(case, Case)
    }


def _change(without: float | None, score: float) -> float | None:
    return None if without is None or np.isnan(score) else float(without - score)


def leave_one_out(metric: Metric, cases: Sequence[Case | Problem]) -> dict[int, list[float | None]]:
    """The score of every case with each of its references left out in turn; None where nothing is left to score by."""
    fewer, owners = list[Case | Problem](), list[int]()
    for row, case in enumerate(cases):
        if isinstance(case, Case):
            fewer += [Case(case.reply, without(case.references, place)) for place in range(len(case.references.texts))]
            owners += [row] * len(case.references.texts)
    values = score_cases(metric, fewer).values(metric)
    found: dict[int, list[float | None]] = {row: [] for row, case in enumerate(cases) if isinstance(case, Case)}
    for row, value in zip(owners, values, strict=True):
        found[row].append(None if np.isnan(value) else float(value))
    return found


def without(references: References, place: int) -> References:
    """All references but one; the gold is still the gold, unless it is the one."""
    gold = -1 if references.gold == place else references.gold - (0 <= place < references.gold)
    return References(
        references.texts[:place] + references.texts[place + 1 :],
        references.weights[:place] + references.weights[place + 1 :],
        gold,
    )


# ── scale ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def percent(evaluation: Evaluation) -> Evaluation:
    """The same in per cent; only for metrics in [0, 1], since of others there is no per cent."""
    for one in evaluation.scores:
        require_share(one.metric)
    return replace(evaluation, scores=tuple(_times(one, 100.0) for one in evaluation.scores))


def require_share(metric: Metric) -> None:
    """Usage for a metric that cannot be given in per cent."""
    if not metric.info.is_share:
        raise Usage(
            f"{metric.name} is from {metric.info.range}, which cannot be given in per cent",
            remedy="leave --percent out",
        )


def _times(scores: MetricScores, factor: float) -> MetricScores:
    systems = {name: _system_times(system, factor) for name, system in scores.systems.items()}
    comparisons = {
        name: Comparison(bootstrap=_paired_times(one.bootstrap, factor), randomisation=one.randomisation)
        for name, one in scores.comparisons.items()
    }
    return replace(scores, systems=systems, comparisons=comparisons, scale=factor)


def _system_times(system: SystemScore, factor: float) -> SystemScore:
    return replace(
        system,
        corpus=_product(system.corpus, factor),
        mean=_product(system.mean, factor),
        interval=_estimate_times(system.interval, factor),
        mean_interval=_estimate_times(system.mean_interval, factor),
        replies=tuple(_reply_times(reply, factor) for reply in system.replies),
    )


def _reply_times(reply: ReplyScore, factor: float) -> ReplyScore:
    explanation = reply.explanation and {
        **reply.explanation,
        "without_reference": [
            {**one, "score": _product(one["score"], factor), "change": _product(one["change"], factor)}
            for one in reply.explanation["without_reference"]
        ],
    }
    return replace(reply, score=_product(reply.score, factor), explanation=explanation)


def _paired_times(paired: Paired, factor: float) -> Paired:
    return replace(
        paired,
        value=_product(paired.value, factor),
        baseline=_product(paired.baseline, factor),
        difference=_estimate_times(paired.difference, factor),
    )


def _estimate_times(estimate: Estimate, factor: float) -> Estimate:
    return replace(
        estimate,
        value=_product(estimate.value, factor),
        mean=_product(estimate.mean, factor),
        low=_product(estimate.low, factor),
        high=_product(estimate.high, factor),
    )


def _product(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
