"""Results of scoring: by metric, by system, by reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Optional, Union, overload

from refaug_client._core.errors import NoScore, Usage
from refaug_client._core.frames import make_frame

from .base import Model, WrongType, describe_kind, read_float, record, shorten
from .server import FieldProblem, Versions


@record
class ReplyScore(Model):
    """The score of one reply, or why it has none: `problem` is a code, `message` the same in words."""

    id: str  # the item's
    score: Optional[float]
    parts: Optional[Mapping[str, Any]] = None  # what the score was made of
    combination: Optional[Mapping[str, Any]] = None  # with explain, for refaug-1: how its parts make it
    likenesses: Optional[list[Mapping[str, Any]]] = None  # with explain, for refaug-1: references by falling cosine
    problem: Optional[str] = None  # a code: why there is none
    message: Optional[str] = None  # the same in words


class ReplyScores(Sequence[ReplyScore]):
    """The scores of single replies, in the order sent; read on access, since most users want the numbers only."""

    def __init__(self, rows: Any) -> None:
        if not isinstance(rows, list):
            raise WrongType(f"a list, and not {describe_kind(rows)}")
        self._rows = rows
        self.scores: list[Optional[float]] = []
        for row in rows:
            if type(row) is not dict or "score" not in row or type(row.get("id")) is not str:
                ReplyScore.of(row)  # raises with what is wrong
            score = row["score"]
            self.scores.append(score if score is None or type(score) is float else read_float(score))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> ReplyScore: ...
    @overload
    def __getitem__(self, place: slice) -> list[ReplyScore]: ...
    def __getitem__(self, place: Union[int, slice]) -> Union[ReplyScore, list[ReplyScore]]:
        if isinstance(place, slice):
            return [ReplyScore.of(row) for row in self._rows[place]]
        return ReplyScore.of(self._rows[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shorten(list(self))


def _read_details(wire: Any) -> Optional[ReplyScores]:
    return None if wire is None else ReplyScores(wire)


@record
class SystemScores(Model):
    """The scores of one system by one metric."""

    corpus: Optional[float]  # of all replies together
    interval: Optional[list[float]] = None  # of the corpus score, where draws were asked for
    mean: Optional[float] = None  # of the reply scores
    mean_interval: Optional[list[float]] = None  # of the mean
    scored: int = 0  # replies with a score
    unscored: int = 0  # replies without one
    unscored_by_reason: dict[str, int] = field(default_factory=dict)  # the same by code
    interval_note: Optional[str] = None  # why there is no interval, where one was asked for
    parts: Optional[Mapping[str, Any]] = None  # what the corpus score was made of
    details: Optional[Sequence[ReplyScore]] = field(default=None, metadata={"key": "replies", "read": _read_details})
    values: Optional[list[Optional[float]]] = None

    @property
    def replies(self) -> list[Optional[float]]:
        """A score for each reply, in the order sent; None where there is none."""
        if self.values is not None:
            return list(self.values)
        if isinstance(self.details, ReplyScores):
            return list(self.details.scores)
        if self.details is not None:
            return [one.score for one in self.details]
        raise Usage(
            "sums that were put together do not say what single replies have", remedy="the scores of the batches do"
        )

    def __repr__(self) -> str:
        unscored = f", {self.unscored:,} unscored" if self.unscored else ""
        return f"SystemScores(corpus={_format_score(self.corpus, self.interval)}, {self.scored:,} scored{unscored})"


@record
class Comparison(Model):
    """A system beside the baseline, on the items for which both have a score."""

    difference: Optional[float]  # of the corpus scores: the system's less the baseline's
    interval: Optional[list[float]] = None  # of the difference
    p_bootstrap: Optional[float] = None  # how likely so large a difference is by chance, by the bootstrap
    p_randomisation: Optional[float] = None  # the same by approximate randomisation
    replies: int = 0  # on how many it stands
    left_out: int = 0  # replies that only one of the two has a score for
    note: Optional[str] = None  # why there is none


@record
class MetricScores(Model):
    """All systems by one metric; `metric_scores["model"]` is one of them."""

    metric: str
    signature: str  # all that the numbers depend on, in short
    signature_full: str  # the same in full; it can be read back
    systems: dict[str, SystemScores]
    corpus_from: str = ""  # `sums`, or the `mean` of reply scores
    higher_is_better: bool = True
    scale: float = 1.0  # 100 with percent, else 1
    references: Any = None  # names what was looked at; of sums that were put together, a list
    comparisons: Optional[dict[str, Comparison]] = None  # with the baseline, by system

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
    def corpus(self) -> Optional[float]:
        """The corpus score of the only system."""
        return self.system.corpus

    @property
    def interval(self) -> Optional[list[float]]:
        """The interval of the corpus score, where draws were asked for."""
        return self.system.interval

    @property
    def replies(self) -> list[Optional[float]]:
        """The only system's score for each reply, in the order sent."""
        return self.system.replies

    def __repr__(self) -> str:
        systems = ", ".join(f"{name}: {_format_score(one.corpus, one.interval)}" for name, one in self.systems.items())
        return f"MetricScores({self.metric}, {systems}, signature={shorten(self.signature)})"


@record
class MetricSums(Model):
    """The sums that scores by one metric are made of, for `combine`."""

    metric: str
    signature_full: str  # only sums of equal ones can be put together
    columns: list[str]  # what each number of a row is
    systems: Mapping[str, Any]
    unsuitable: Optional[dict[str, str]] = None  # why the references of these items do not suit the metric


@record
class Resampling(Model):
    """How intervals were drawn."""

    draws: int  # 0: there are none
    method: str = ""  # in words
    confidence: float = 0.95  # of the intervals
    seed: int = 1
    baseline: Optional[str] = None  # the system that the others are compared with


@record
class ScoredSet(Model):
    """The reference set that scores are against."""

    id: str
    purpose: str = ""
    items: int = 0


@record
class Copies(Model):
    """The replies of one system that repeat the utterance, or nearly."""

    rows: list[int] = field(default_factory=list)  # their places among the replies of the system, from 0
    items: list[str] = field(default_factory=list)  # of each, the id of the item


@record
class Scores(Model):
    """Scores of replies: by metric, by system, by reply.

    `scores["upsilon-bleu"]["model"].replies` has a number for each reply, in the order sent. Where there is one metric,
    or one system, it need not be named: `scores.corpus`, `scores.replies`, `scores.signature`.
    """

    scores: list[MetricScores] = field(default_factory=list)  # a metric each
    data: Any = None  # names the items and golds that were scored
    items: Optional[int] = None  # how many
    batches: Optional[int] = None  # how many were put together
    resampling: Optional[Resampling] = None
    evidence: Optional[Mapping[str, Any]] = None  # on what weighted scores stand, by item
    copies: dict[str, Copies] = field(default_factory=dict)  # by system: replies that repeat the utterance
    reply_provenance: dict[str, str] = field(default_factory=dict)  # by system: which bot made its replies
    stats: Optional[list[MetricSums]] = None  # with return_="stats": the sums of each metric
    set: Optional[ScoredSet] = None  # the reference set that they are against
    versions: Optional[Versions] = None  # what was used beside the texts
    missing_shards: list[str] = field(default_factory=list)  # that had no part in the references
    problems: list[FieldProblem] = field(default_factory=list)  # what could not be scored, and why
    warnings: list[str] = field(default_factory=list)  # what one should know of the numbers
    utterances: Optional[str] = None  # names the utterances that references were found for
    replies_hash: Optional[str] = field(default=None, metadata={"key": "replies"})  # names the replies
    format_version: Optional[int] = None  # of the answer, for `verify`
    checksum: Optional[str] = None  # tells whether the answer was altered since

    def __getitem__(self, metric: str) -> MetricScores:
        """Return one metric: by its name, or by name and settings as in the request."""
        matches = [one for one in self.scores if one.metric == metric]
        if len(matches) == 1:
            return matches[0]
        specifications: Sequence[str] = self.__dict__.get("_asked", ())
        if specifications.count(metric) == 1 and len(specifications) == len(self.scores):
            return self.scores[specifications.index(metric)]
        names = list(specifications) if len(specifications) == len(self.scores) else [one.metric for one in self.scores]
        raise KeyError(f"{metric!r}; there are: {', '.join(names) or 'none'}")

    def __iter__(self) -> Iterator[MetricScores]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def metric(self) -> MetricScores:
        """The only metric; Usage where there are several, or none."""
        if len(self.scores) == 1:
            return self.scores[0]
        if not self.scores:
            raise Usage("these are sums, and no scores yet", remedy="combine() makes scores of them")
        names = ", ".join(one.metric for one in self.scores)
        raise Usage(f"there are {len(self.scores)} metrics: {names}", remedy="say which one: scores[metric]")

    @property
    def corpus(self) -> Optional[float]:
        """The corpus score, where there is one metric and one system."""
        return self.metric.corpus

    @property
    def interval(self) -> Optional[list[float]]:
        """The interval of the corpus score, where draws were asked for."""
        return self.metric.interval

    @property
    def replies(self) -> list[Optional[float]]:
        """A score for each reply in the order sent, where there is one metric and one system; None: it has none."""
        return self.metric.replies

    def floats(self, missing: Optional[float] = None) -> list[float]:
        """Return the reply scores without None: `missing` stands for a reply without a score; NoScore without it."""
        replies = self.replies
        if missing is None and None in replies:
            raise NoScore(
                f"reply {replies.index(None)} has no score, and {replies.count(None) - 1:,} others have none",
                remedy="floats(missing=0.0), or replies, which has None there",
            )
        return [missing if one is None else one for one in replies]  # type: ignore[misc]  # None was refused

    @property
    def signature(self) -> str:
        """All that the numbers depend on, in short; it belongs beside every number."""
        return self.metric.signature

    def to_frame(self, kind: str = "pandas", *, corpus: bool = False) -> Any:
        """Return a frame with a row for each reply by each metric; with `corpus`, for each system by each metric."""
        if corpus:
            rows = [row for one in self.scores for row in _corpus_rows(one)]
            return make_frame(rows, kind, columns=("metric", "system", "corpus", "signature"))
        rows = [row for one in self.scores for row in _reply_rows(one)]
        return make_frame(rows, kind, columns=("metric", "system", "place", "score"))

    def __repr__(self) -> str:
        lines = [
            f"  {scores.metric:<16} {name}: {_format_score(system.corpus, system.interval)} ({system.scored:,} scored"
            + (f", {system.unscored:,} unscored)" if system.unscored else ")")
            for scores in self.scores
            for name, system in scores.systems.items()
        ]
        lines += [f"  sums of {one.metric}" for one in self.stats or ()]
        against = f" against {self.set.id}" if self.set else ""
        wrong = f", {len(self.problems):,} left out" if self.problems else ""
        return "\n".join([f"Scores({'?' if self.items is None else f'{self.items:,}'} items{against}{wrong})", *lines])


@record
class VerifiedPart(Model):
    """One part of scores that were verified."""

    part: str  # file, software, index, rater, data, replies, references, reply scores, …
    state: str  # holds, differs, missing, or unchecked where there is nothing to compare
    message: str = ""  # what holds, differs or is missing
    metric: Optional[str] = None  # None: the part is the same for all metrics


@record
class Verification(Model):
    """Whether scores are reproduced from their signatures; `verification.holds`, and each part with its state."""

    verdict: str  # holds, differs if any part differs, else missing if any is missing
    parts: list[VerifiedPart] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no part differs or is missing."""
        return self.verdict == "holds"

    def in_state(self, state: str) -> list[VerifiedPart]:
        """Return the parts in a state."""
        return [one for one in self.parts if one.state == state]

    def __repr__(self) -> str:
        lines = [
            f"  {f'{one.metric}, ' if one.metric else ''}{one.part}: {one.state}, {one.message}"
            for one in self.parts
            if one.state != "holds"
        ]
        return "\n".join([f"Verification({self.verdict}, {len(self.parts)} parts)", *lines])


def _format_score(score: Optional[float], interval: Optional[list[float]]) -> str:
    number = "none" if score is None else f"{score:.4f}"
    return f"{number} [{interval[0]:.4f}, {interval[1]:.4f}]" if interval and len(interval) == 2 else number


def _corpus_rows(scores: MetricScores) -> Iterator[dict[str, Any]]:
    for name, system in scores.systems.items():
        low, high = system.interval or (None, None)
        yield {
            "metric": scores.metric,
            "system": name,
            "corpus": system.corpus,
            "low": low,
            "high": high,
            "mean": system.mean,
            "scored": system.scored,
            "unscored": system.unscored,
            "signature": scores.signature,
        }


def _reply_rows(scores: MetricScores) -> Iterator[dict[str, Any]]:
    for name, system in scores.systems.items():
        replies = system.replies
        details: Sequence[Optional[ReplyScore]] = system.details or [None] * len(replies)
        for place, (score, detail) in enumerate(zip(replies, details)):
            yield {
                "metric": scores.metric,
                "system": name,
                "place": place,
                "item": detail.id if detail else None,
                "score": score,
                "problem": detail.problem if detail else None,
            }


@record
class Parameter(Model):
    """One key of a metric's specification."""

    name: str
    default: str = ""  # empty: it has to be given
    values: str = ""  # what it may be, in words
    choices: Optional[list[str]] = None  # where it is one of a few words
    help: str = ""


@record
class MetricInfo(Model):
    """A metric: the references it uses, its range and direction, its parameters."""

    name: str
    summary: str = ""
    references: str = ""  # which it looks at: gold, golds, own, rated, weighted or utterance
    range: list[Optional[float]] = field(default_factory=list)  # the least and the largest score; None: no bound
    higher_is_better: bool = True
    corpus_from: str = ""  # `sums`, or the `mean` of reply scores
    needs: list[str] = field(default_factory=list)  # beside the texts
    paper: str = ""  # where it comes from
    parameters: list[Parameter] = field(default_factory=list)


# ── The result of `score_iter`: the scores of one item ────────────────────────────────────────────────────────────────


@record
class ScoredItem(Model):
    """The scores of an item's replies: by metric, by system.

    `item["upsilon-bleu"]["model"].score`, or `item.score` where there is one metric and one system. A score is None
    where there is none, and `problem` says why.
    """

    id: str
    scores: dict[str, dict[str, ReplyScore]]
    signatures: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> dict[str, ReplyScore]:
        if metric in self.scores:
            return self.scores[metric]
        raise KeyError(f"{metric!r}; there are: {', '.join(self.scores)}")

    @property
    def reply(self) -> ReplyScore:
        """The only score; Usage where there are several."""
        reply_scores = [reply for systems in self.scores.values() for reply in systems.values()]
        if len(reply_scores) == 1:
            return reply_scores[0]
        raise Usage(
            f"there are {len(reply_scores)} scores of {self.id}: by {', '.join(self.scores)}",
            remedy="say which one: item[metric][system]",
        )

    @property
    def score(self) -> Optional[float]:
        """The score as a number; None where the reply has none."""
        return self.reply.score

    @property
    def signature(self) -> str:
        """The signature of the only metric."""
        if len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        raise Usage(f"there are {len(self.signatures)} metrics", remedy="say which one: item.signatures[metric]")

    def __repr__(self) -> str:
        scores = {metric: {name: one.score for name, one in systems.items()} for metric, systems in self.scores.items()}
        return f"ScoredItem({self.id!r}, {shorten(scores)})"
