"""Scores by reply, by system and by metric, and the JSON that both commands and the server return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from refaug.core.errors import Usage
from refaug.metrics.base import Floats, Level, Metric, Problem
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.resampling import Estimate, Paired
from refaug.scoring.copies import CopiedReplies, copies_json
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import reply_provenance_json
from refaug.scoring.settings import ScoreSettings
from refaug.scoring.spooled_items.item_collection import PassingList

_ROWS_AT_ONCE: Final = 10_000  # that are numbers of Python at the same time


class ReplyForm(StrEnum):
    """The form in which the scores of single replies are returned."""

    REPLIES = "replies"  # an object each: id, score, parts and explanation
    PLAIN = "plain"  # the same without parts
    VALUES = "values"  # a number or null each, in order: what a training loop needs
    NONE = "none"  # not at all, where they do not exist


@dataclass(frozen=True, kw_only=True, eq=False)
class SystemScore:
    """The scores of one system under one metric; those of single replies are columns, and rows on demand."""

    corpus: float | None
    interval: Estimate  # of the corpus score
    mean: float | None
    mean_interval: Estimate
    unscored: Mapping[str, int]  # how many replies have no score, by problem
    parts: Mapping[str, Any] | None
    ids: Sequence[str] = field(repr=False)  # of the item of each row
    statistics: Floats = field(repr=False)  # (rows, columns); NaN where a reply has no score
    values: Floats = field(repr=False)  # (rows,)
    problems: Mapping[int, Problem] = field(repr=False)  # by row, in order
    metric: Metric = field(repr=False)
    explanations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by row
    scale: float = 1.0  # 100 for scores of replies in per cent

    def each_score(self) -> Iterator[float | None]:
        """Yield the score of every reply, or None for one without a score."""
        for first in range(0, len(self.ids), _ROWS_AT_ONCE):
            values = self.values[first : first + _ROWS_AT_ONCE] * self.scale
            if not self.problems:
                yield from values.tolist()
                continue
            for row, score in enumerate(values.tolist(), first):
                yield None if row in self.problems else score

    def each_reply(self, *, with_parts: bool = False) -> Iterator[Mapping[str, Any]]:
        """Yield the score of every reply as JSON: with its explanation and, if asked, its parts, or with a problem."""
        for row, (name, score) in enumerate(zip(self.ids, self.each_score(), strict=True)):
            if (problem := self.problems.get(row)) is not None:
                yield {"id": name, "score": None, "problem": problem.code, "message": problem.message}
                continue
            reply: dict[str, object] = {"id": name, "score": score}
            if with_parts:
                reply["parts"] = self.metric.parts(self.statistics[row], Level.REPLY)
            if row in self.explanations:
                reply |= _scale_explanation(self.explanations[row], self.scale)
            yield reply

    def counts(self) -> tuple[int, int]:
        """Return how many replies have a score, and how many have none."""
        unscored = sum(self.unscored.values())
        return len(self.ids) - unscored, unscored

    def as_intervals(self) -> tuple[list[float] | None, list[float] | None]:
        """Return the intervals of corpus score and mean."""
        return bounds(self.interval), bounds(self.mean_interval)

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES, *, passing: bool = False) -> dict[str, Any]:
        """Return the scores as the command prints and the server returns them; replies in a passing list if asked."""
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
            **self._replies(form, passing=passing),
        }

    def _replies(self, form: ReplyForm, *, passing: bool) -> dict[str, object]:
        if form in (ReplyForm.REPLIES, ReplyForm.PLAIN):
            rows = partial(self.each_reply, with_parts=form is ReplyForm.REPLIES)
            return {"replies": PassingList(len(self.ids), rows) if passing else list(rows())}
        return {"values": list(self.each_score())} if form is ReplyForm.VALUES else {}

    def rows(self) -> Iterator[list[float] | None]:
        """Yield the sums of every reply, or None for one without a score."""
        for first in range(0, len(self.ids), _ROWS_AT_ONCE):
            for place, row in enumerate(self.statistics[first : first + _ROWS_AT_ONCE].tolist(), first):
                yield None if place in self.problems else row

    def as_statistics(self) -> dict[str, object]:
        """Return the sums and the score of every reply for `combine`, or null and a problem."""
        return {
            "items": list(self.ids),
            "rows": list(self.rows()),
            "scores": list(self.each_score()),
            "problems": [
                {"row": row, "problem": problem.code, "message": problem.message}
                for row, problem in self.problems.items()
            ],
        }


def bounds(estimate: Estimate) -> list[float] | None:
    """Return an interval as JSON."""
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]


@dataclass(frozen=True, kw_only=True)
class SystemComparison:
    """A system against the baseline on the items that both have a score for, by two tests of the same question."""

    bootstrap: Paired
    randomisation: Paired

    def as_json(self) -> Mapping[str, Any]:
        """Return the difference, its interval and both p values, or the reason why there are none."""
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
    """The scores of all systems under one metric."""

    metric: Metric
    signature: Signature
    references: str  # a hash of the references and weights that the metric looked at
    systems: Mapping[str, SystemScore]
    comparisons: Mapping[str, SystemComparison]
    scale: float = 1.0

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES, *, passing: bool = False) -> dict[str, Any]:
        """Return the scores as the command prints and the server returns them; replies in passing lists if asked."""
        return {
            **self._header(),
            "scale": self.scale,
            "systems": {name: system.as_json(form, passing=passing) for name, system in self.systems.items()},
            **({"comparisons": {k: v.as_json() for k, v in self.comparisons.items()}} if self.comparisons else {}),
        }

    def as_statistics(self) -> dict[str, Any]:
        """Return the sums instead of scores, and the names of their columns."""
        return {
            **self._header(),
            "columns": list(self.metric.columns),
            "systems": {name: system.as_statistics() for name, system in self.systems.items()},
        }

    def _header(self) -> dict[str, object]:
        return {
            "metric": self.metric.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "references": self.references,
            "corpus_from": self.metric.info.corpus.value,
            "higher_is_better": self.metric.info.higher_is_better,
        }


@dataclass(frozen=True, kw_only=True)
class BadMetric:
    """A metric that the references of the items do not suit."""

    metric: str
    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of a test file."""

    scores: tuple[MetricScores, ...]
    data: str
    items: int
    evidence: Mapping[str, Mapping[str, Any]]
    bad_items: tuple[BadItem, ...]
    warnings: tuple[str, ...]
    settings: ScoreSettings
    copies: Mapping[str, CopiedReplies] = field(default_factory=dict)  # of the utterance, by system
    bad_metrics: tuple[BadMetric, ...] = ()
    reply_provenance: Mapping[str, str] = field(default_factory=dict)  # by system: which bot made its replies
    utterances: str | None = None  # hashes, for score files; None where they were not computed
    replies: str | None = None

    def as_json(self, form: ReplyForm = ReplyForm.REPLIES, *, passing: bool = False) -> dict[str, Any]:
        """Return the evaluation as one document, the same for the command and the server.

        With `passing`, replies are in passing lists and evidence may be a mapping: to be written in pieces.
        """
        return {
            "scores": [metric_scores.as_json(form, passing=passing) for metric_scores in self.scores],
            "data": self.data,
            **{key: text for key, text in (("utterances", self.utterances), ("replies", self.replies)) if text},
            "items": self.items,
            "resampling": self.settings.resampling(),
            **({"evidence": self.evidence if passing else dict(self.evidence.items())} if self.evidence else {}),
            **copies_json(self.copies),
            **reply_provenance_json(self.reply_provenance),
            **self._remarks(),
        }

    def as_statistics(self) -> dict[str, Any]:
        """Return sums instead of scores, of which `combine` makes one evaluation out of several.

        Sums of a metric that the references of these items do not suit say so: those of other items may suit it.
        """
        unsuitable = {
            bad.metric: {"unsuitable": {"code": bad.code, "message": bad.message}} for bad in self.bad_metrics
        }
        return {
            "stats": [
                {**metric_scores.as_statistics(), **unsuitable.get(metric_scores.metric.name, {})}
                for metric_scores in self.scores
            ],
            "data": self.data,
            "items": self.items,
            **copies_json(self.copies),
            **reply_provenance_json(self.reply_provenance),
            **self._remarks(),
        }

    def _remarks(self) -> dict[str, object]:
        return {
            "problems": problems_json(self.bad_items),
            "warnings": list(self.warnings),
        }


def problems_json(bad_items: Sequence[BadItem]) -> list[dict[str, object]]:
    """Return items that could not be used, as documents of scores list them."""
    return [
        {"file": bad.file, "line": bad.line, "id": bad.item, "field": bad.field, "message": bad.message}
        for bad in bad_items
    ]


def percent(evaluation: Evaluation) -> Evaluation:
    """Return the scores in per cent; those of metrics that are not from 0 to 1 stay, with a warning."""
    require_share([scores.metric for scores in evaluation.scores])
    others = [scores.metric for scores in evaluation.scores if not scores.metric.info.is_share]
    return replace(
        evaluation,
        scores=tuple(_scale(scores, 100.0) if scores.metric not in others else scores for scores in evaluation.scores),
        warnings=(*evaluation.warnings, *map(_not_in_percent, others)),
    )


def _not_in_percent(metric: Metric) -> str:
    return f"{metric.name} is from {metric.info.range}, which cannot be given in per cent"


def require_share(metrics: Sequence[Metric]) -> None:
    """Raise Usage where no metric has scores that can be given in per cent."""
    if metrics and not any(metric.info.is_share for metric in metrics):
        raise Usage("; ".join(map(_not_in_percent, metrics)), remedy="leave out percent")


def _scale(scores: MetricScores, factor: float) -> MetricScores:
    systems = {name: _scale_system(system, factor) for name, system in scores.systems.items()}
    comparisons = {
        name: replace(comparison, bootstrap=_scale_pair(comparison.bootstrap, factor))
        for name, comparison in scores.comparisons.items()
    }
    return replace(scores, systems=systems, comparisons=comparisons, scale=factor)


def _scale_system(system: SystemScore, factor: float) -> SystemScore:
    return replace(
        system,
        corpus=_product(system.corpus, factor),
        mean=_product(system.mean, factor),
        interval=_scale_estimate(system.interval, factor),
        mean_interval=_scale_estimate(system.mean_interval, factor),
        scale=system.scale * factor,
    )


def _scale_explanation(explanation: Mapping[str, Any], factor: float) -> Mapping[str, Any]:
    without_reference = [
        {**without, "score": _product(without["score"], factor), "change": _product(without["change"], factor)}
        for without in explanation["without_reference"]
    ]
    combination = explanation.get("combination")
    if combination is not None:
        parts = [{**part, "alone": _product(part["alone"], factor)} for part in combination["parts"]]
        combination = {**combination, "parts": parts, "unguarded": _product(combination["unguarded"], factor)}
        explanation = {**explanation, "combination": combination}
    return {**explanation, "without_reference": without_reference}


def _scale_pair(paired: Paired, factor: float) -> Paired:
    return replace(
        paired,
        value=_product(paired.value, factor),
        baseline=_product(paired.baseline, factor),
        difference=_scale_estimate(paired.difference, factor),
    )


def _scale_estimate(estimate: Estimate, factor: float) -> Estimate:
    figures: Any = {name: _product(getattr(estimate, name), factor) for name in ("value", "mean", "low", "high")}
    return replace(estimate, **figures)


def _product(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor
