"""Scores by metric, by system and by reply.

The records have the names and attributes of `refaug_client`, so that code for one of them reads results of the other:
`scores.corpus`, `scores.replies`, `scores.signature`, `scores["bleu"]["model"].mean`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from refaug.core.errors import BadInput, Usage
from refaug.core.options.decoding import made_of
from refaug.library.results.parts import ArtefactVersions, FrameKind, ItemProblem, format_score, html_table, make_frame

if TYPE_CHECKING:
    from refaug.scoring.copies import CopiedReplies
    from refaug.scoring.scores import Evaluation, MetricScores, SystemScore

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ScoredReply:
    """The score of one reply, or why it has none: `problem` is a code, `message` the same in words."""

    id: str  # the item's
    score: float | None
    problem: str | None = None
    message: str | None = None
    words: Any = None  # with explain=True: the words of the reply that credits and matches are about
    credited: Any = None  # with explain=True: n-grams credited to which reference
    matched: Any = None  # with explain=True: words that resemble which word of each reference
    combination: Any = None  # with explain=True: the parts of a score of refaug-1, and how they make it
    likenesses: Any = None  # with explain=True: how like the reply is to each reference by refaug-1
    reasons: Any = None  # with explain=True: what judges gave as their reasons, which no score depends on
    without_reference: Any = None  # with explain=True: the score without each reference


@dataclass(frozen=True, kw_only=True, repr=False)
class SystemScores:
    """The scores of one system by one metric."""

    corpus: float | None  # of all replies together
    interval: Interval | None = None  # of the corpus score, with draws
    mean: float | None = None  # of the reply scores that exist
    mean_interval: Interval | None = None
    scored: int = 0  # replies with a score
    unscored: int = 0  # replies without one
    unscored_by_reason: Mapping[str, int] = field(default_factory=dict)
    interval_note: str | None = None  # why there is no interval
    details: tuple[ScoredReply, ...] = ()  # in the order of the input

    @property
    def replies(self) -> list[float | None]:
        """A score for each reply, in the order of the input; None where there is none."""
        return [reply.score for reply in self.details]

    @property
    def coverage(self) -> float:
        """The share of the replies that have a score."""
        return self.scored / max(1, self.scored + self.unscored)

    def __repr__(self) -> str:
        unscored = f", {self.unscored:,} unscored" if self.unscored else ""
        return f"SystemScores(corpus={format_score(self.corpus, self.interval)}, {self.scored:,} scored{unscored})"

    @classmethod
    def of(cls, system: SystemScore) -> Self:
        """Read the scores that the evaluation computed."""
        scored, unscored = system.counts()
        interval, mean_interval = system.as_intervals()
        return cls(
            corpus=system.corpus,
            interval=_pair(interval),
            mean=system.mean,
            mean_interval=_pair(mean_interval),
            scored=scored,
            unscored=unscored,
            unscored_by_reason=dict(system.unscored),
            interval_note=system.interval.why or None,
            details=tuple(ScoredReply(**reply) for reply in system.each_reply()),
        )


@dataclass(frozen=True, kw_only=True)
class SystemDifference:
    """A system beside the baseline, on the items for which both have a score."""

    difference: float | None  # of the corpus scores: the system's less the baseline's
    interval: Interval | None
    p_bootstrap: float | None
    p_randomisation: float | None
    replies: int
    left_out: int  # replies that only one of the two has a score for
    note: str | None = None  # why there is none


@dataclass(frozen=True, kw_only=True, repr=False)
class ScoredMetric:
    """All systems by one metric; `scored_metric["model"]` is one of them."""

    metric: str
    signature: str  # all that the numbers depend on, in short
    signature_full: str  # the same in full; it can be read back
    systems: Mapping[str, SystemScores]
    corpus_from: str  # `sums`, or the `mean` of reply scores
    higher_is_better: bool
    scale: float  # 100 with percent, else 1
    references: str  # a hash of the references and weights that were looked at
    comparisons: Mapping[str, SystemDifference] = field(default_factory=dict)  # with the baseline, by system

    def __getitem__(self, system: str) -> SystemScores:
        if system in self.systems:
            return self.systems[system]
        raise KeyError(f"{system!r}; there are: {', '.join(self.systems)}")

    @property
    def system(self) -> SystemScores:
        """The only system; Usage where there are several."""
        if len(self.systems) == 1:
            return next(iter(self.systems.values()))
        raise Usage(
            f"there are {len(self.systems)} systems: {', '.join(self.systems)}",
            remedy="say which one: scores[metric][system]",
        )

    @property
    def corpus(self) -> float | None:
        """The corpus score of the only system."""
        return self.system.corpus

    @property
    def interval(self) -> Interval | None:
        """The interval of the corpus score, with draws."""
        return self.system.interval

    @property
    def replies(self) -> list[float | None]:
        """The only system's score for each reply, in the order of the input."""
        return self.system.replies

    def mean(self, min_coverage: float = 1.0) -> float:
        """Return the mean of the only system's reply scores.

        BadInput where less than the share `min_coverage` of the replies has a score: the mean of the others would be
        a score of other replies.
        """
        if not 0 <= min_coverage <= 1:
            raise Usage(f"min_coverage={min_coverage}", remedy="a share from 0 to 1, such as 0.95")
        system = self.system
        if system.mean is None or system.coverage < min_coverage:
            reasons = ", ".join(f"{count:,} {code}" for code, count in system.unscored_by_reason.items())
            raise BadInput(
                f"{system.scored:,} of {system.scored + system.unscored:,} replies have a score ({reasons})",
                remedy=f"mean(min_coverage={_floor(system.coverage)}) for the mean of those"
                if system.scored
                else "warnings and details say what is missing",
            )
        return system.mean

    def __repr__(self) -> str:
        systems = ", ".join(f"{name}: {format_score(one.corpus, one.interval)}" for name, one in self.systems.items())
        return f"ScoredMetric({self.metric}, {systems}, signature={self.signature!r})"

    @classmethod
    def of(cls, scores: MetricScores) -> Self:
        """Read the scores that the evaluation computed."""
        return cls(
            metric=scores.metric.name,
            signature=scores.signature.short,
            signature_full=scores.signature.full,
            systems={name: SystemScores.of(system) for name, system in scores.systems.items()},
            corpus_from=scores.metric.info.corpus.value,
            higher_is_better=scores.metric.info.higher_is_better,
            scale=scores.scale,
            references=scores.references,
            comparisons={name: _difference(one.as_json()) for name, one in scores.comparisons.items()},
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Scores:
    """Scores of replies: by metric, by system, by reply.

    `scores["upsilon-bleu"]["model"].replies` has a number for each reply, in the order of the input. Where there is
    one metric, or one system, it need not be named: `scores.corpus`, `scores.replies`, `scores.signature`.
    """

    scores: tuple[ScoredMetric, ...]
    data: str  # a hash of the items and golds that were scored
    items: int
    resampling: Mapping[str, Any]
    evidence: Mapping[str, Any] = field(default_factory=dict)  # on what weighted scores stand, by item
    copies: Mapping[str, CopiedReplies] = field(default_factory=dict)  # replies that repeat the utterance, by system
    reply_provenance: Mapping[str, str] = field(default_factory=dict)  # by system: which bot made its replies
    versions: ArtefactVersions = field(default_factory=ArtefactVersions)
    problems: tuple[ItemProblem, ...] = ()  # items that were left out, with on_error="report"
    warnings: tuple[str, ...] = ()  # what one should know of the numbers
    specifications: tuple[str, ...] = ()  # the metrics as they were named
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)  # what `refaug score --json` prints

    def __getitem__(self, metric: str) -> ScoredMetric:
        """Return one metric: by its name, or by name and settings as it was named."""
        matches = [one for one in self.scores if one.metric == metric]
        if len(matches) == 1:
            return matches[0]
        names = self.specifications if len(self.specifications) == len(self.scores) else ()
        if names.count(metric) == 1:
            return self.scores[names.index(metric)]
        raise KeyError(f"{metric!r}; there are: {', '.join(names or (one.metric for one in self.scores))}")

    def __iter__(self) -> Iterator[ScoredMetric]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def metric(self) -> ScoredMetric:
        """The only metric; Usage where there are several."""
        if len(self.scores) == 1:
            return self.scores[0]
        names = ", ".join(one.metric for one in self.scores)
        raise Usage(f"there are {len(self.scores)} metrics: {names}", remedy="say which one: scores[metric]")

    @property
    def corpus(self) -> float | None:
        """The corpus score, where there is one metric and one system."""
        return self.metric.corpus

    @property
    def interval(self) -> Interval | None:
        """The interval of the corpus score, with draws."""
        return self.metric.interval

    @property
    def replies(self) -> list[float | None]:
        """A score for each reply in the order of the input, where there is one metric and one system."""
        return self.metric.replies

    @property
    def signature(self) -> str:
        """All that the numbers depend on, in short; it belongs beside every number."""
        return self.metric.signature

    def mean(self, min_coverage: float = 1.0) -> float:
        """Return the mean of the reply scores, where at least the share `min_coverage` of the replies has one."""
        return self.metric.mean(min_coverage)

    def floats(self, missing: float | None = None) -> list[float]:
        """Return the reply scores without None: `missing` stands for a reply without a score; BadInput without it."""
        replies = self.replies
        if missing is None and None in replies:
            raise BadInput(
                f"reply {replies.index(None)} has no score, and {replies.count(None) - 1:,} more have none",
                remedy="floats(missing=0.0), or replies, which has None there",
            )
        return [score if score is not None else missing for score in replies]  # type: ignore[misc]  # refused above

    def to_dict(self) -> dict[str, object]:
        """Return the scores as `refaug score --json` prints them, for `refaug score verify`; a copy."""
        from refaug.scoring.score_files.score_file import sealed  # noqa: PLC0415

        return sealed(copy.deepcopy(dict(self.document)))

    def to_frame(self, kind: FrameKind = "pandas", *, corpus: bool = False) -> Any:
        """Return a frame with a row for each reply by each metric; with `corpus`, for each system by each metric."""
        if corpus:
            return make_frame(list(self._system_rows()), kind, columns=("metric", "system", "corpus", "signature"))
        return make_frame(list(self._reply_rows()), kind, columns=("metric", "system", "place", "score"))

    def to_pandas(self, *, corpus: bool = False) -> Any:
        """Return `to_frame("pandas")`."""
        return self.to_frame("pandas", corpus=corpus)

    def _system_rows(self) -> Iterator[dict[str, object]]:
        for metric in self.scores:
            for name, system in metric.systems.items():
                low, high = system.interval or (None, None)
                yield {
                    "metric": metric.metric,
                    "system": name,
                    "corpus": system.corpus,
                    "low": low,
                    "high": high,
                    "mean": system.mean,
                    "scored": system.scored,
                    "unscored": system.unscored,
                    "signature": metric.signature,
                }

    def _reply_rows(self) -> Iterator[dict[str, object]]:
        for metric in self.scores:
            for name, system in metric.systems.items():
                for place, reply in enumerate(system.details):
                    yield {
                        "metric": metric.metric,
                        "system": name,
                        "place": place,
                        "item": reply.id,
                        "score": reply.score,
                        "problem": reply.problem,
                    }

    def __repr__(self) -> str:
        lines = [
            f"  {metric.metric:<16} {name}: {format_score(system.corpus, system.interval)} ({system.scored:,} scored"
            + (f", {system.unscored:,} unscored)" if system.unscored else ")")
            for metric in self.scores
            for name, system in metric.systems.items()
        ]
        wrong = f", {len(self.problems):,} left out" if self.problems else ""
        return "\n".join([f"Scores({self.items:,} items{wrong})", *lines])

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each system by each metric, the signatures and warnings below."""
        rows = list(self._system_rows())
        columns = ("metric", "system", "corpus", "low", "high", "mean", "scored", "unscored")
        notes = [*(metric.signature for metric in self.scores), *self.warnings]
        return html_table(
            f"Scores of {self.items:,} items", columns, [[row[name] for name in columns] for row in rows], notes
        )

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        versions: Mapping[str, str],
        specifications: tuple[str, ...],
        warnings: tuple[str, ...],
    ) -> Self:
        """Read the scores that the evaluation computed; `warnings` come before its own."""
        from refaug.scoring.scores import ReplyForm  # noqa: PLC0415  numpy

        listed = tuple(dict.fromkeys((*warnings, *evaluation.warnings)))
        return made_of(
            cls,
            evaluation,
            scores=tuple(map(ScoredMetric.of, evaluation.scores)),
            resampling=evaluation.settings.resampling(),
            versions=ArtefactVersions.of(versions),
            problems=tuple(map(ItemProblem.of, evaluation.bad_items)),
            warnings=listed,
            specifications=specifications,
            document={**evaluation.as_json(ReplyForm.PLAIN), "versions": dict(versions), "warnings": list(listed)},
        )


def _pair(bounds: list[float] | None) -> Interval | None:
    return None if bounds is None else (bounds[0], bounds[1])


def _difference(figures: Mapping[str, Any]) -> SystemDifference:
    return SystemDifference(**{**figures, "interval": _pair(figures["interval"])})


def _floor(share: float) -> str:
    """Return a share with two digits that is not above it."""
    return f"{int(share * 100) / 100:g}"
