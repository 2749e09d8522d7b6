"""Scores as they are handed out: by reply, by system, by metric; and the one JSON that commands and servers give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from core.errors import Usage
from core.items import BadItem
from metrics.base import Floats, Metric, Problem
from metrics.resampling import Estimate, Paired
from metrics.signature import Signature


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
            raise Usage("a comparison without draws", remedy="1000 draws, or no baseline")

    def resampling(self) -> dict[str, Any]:
        """How intervals come about, as JSON has it."""
        return {
            "method": "percentile bootstrap over items",
            "draws": self.draws,
            "confidence": self.confidence,
            "seed": self.seed,
        }


class ReplyForm(StrEnum):
    """How the scores of single replies are given out."""

    REPLIES = "replies"  # an object each: id, score, and what else is known
    VALUES = "values"  # a number or null each, in order: what a training loop wants
    NONE = "none"  # not at all, where nobody has them


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

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES) -> dict[str, Any]:
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
            **self._replies(form),
        }

    def _replies(self, form: ReplyForm) -> dict[str, Any]:
        if form is ReplyForm.REPLIES:
            return {"replies": [reply.as_json() for reply in self.replies]}
        return {"values": [reply.score for reply in self.replies]} if form is ReplyForm.VALUES else {}

    def as_statistics(self) -> dict[str, Any]:
        """The sums of every reply, to be added elsewhere, and its score; null, and a problem, where there is none."""
        problems = [
            {"row": row, "problem": reply.problem.code, "message": reply.problem.message}
            for row, reply in enumerate(self.replies)
            if reply.problem is not None
        ]
        rows = [
            None if reply.problem is not None else row
            for reply, row in zip(self.replies, self.statistics.tolist(), strict=True)
        ]
        return {
            "items": [reply.id for reply in self.replies],
            "rows": rows,
            "scores": [reply.score for reply in self.replies],
            "problems": problems,
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
    references: str  # names the references and weights that were looked at
    systems: Mapping[str, SystemScore]
    comparisons: Mapping[str, Comparison]
    scale: float = 1.0

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES) -> dict[str, Any]:
        """As the command prints and the server answers it."""
        return {
            **self._named(),
            "scale": self.scale,
            "systems": {name: system.as_json(form) for name, system in self.systems.items()},
            **({"comparisons": {k: v.as_json() for k, v in self.comparisons.items()}} if self.comparisons else {}),
        }

    def as_statistics(self) -> dict[str, Any]:
        """The same with sums instead of scores, and what they are sums of."""
        return {
            **self._named(),
            "columns": list(self.metric.columns),
            "systems": {name: system.as_statistics() for name, system in self.systems.items()},
        }

    def _named(self) -> dict[str, Any]:
        return {
            "metric": self.metric.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "references": self.references,
            "corpus_from": self.metric.info.corpus.value,
            "higher_is_better": self.metric.info.higher_is_better,
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

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES) -> dict[str, Any]:
        """One document; the same for the command and the server."""
        return {
            "scores": [one.as_json(form) for one in self.scores],
            "data": self.data,
            "items": self.items,
            "resampling": self.settings.resampling(),
            **({"evidence": dict(self.evidence)} if self.evidence else {}),
            **self._remarks(),
        }

    def as_statistics(self) -> dict[str, Any]:
        """Sums instead of scores: what `service.combine` makes one evaluation of, out of several."""
        return {
            "stats": [one.as_statistics() for one in self.scores],
            "data": self.data,
            "items": self.items,
            **self._remarks(),
        }

    def _remarks(self) -> dict[str, Any]:
        return {
            "problems": [
                {"file": bad.file, "line": bad.line, "id": bad.item, "field": bad.field, "message": bad.message}
                for bad in self.bad_items
            ],
            "warnings": list(self.warnings),
        }


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
            remedy="ask for it without per cent",
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
    explanation = dict(reply.explanation) if reply.explanation is not None else None
    if explanation is not None:
        explanation["without_reference"] = [
            {**one, "score": _product(one["score"], factor), "change": _product(one["change"], factor)}
            for one in explanation["without_reference"]
        ]
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
