"""Metrics that use a model's judgement of a reply as its score; the models are not part of this package.

A rater judges a text by the utterance that it answers and by a response that is known to fit (Tsuta, Yoshinaga, Toyoda:
uBLEU, ACL student research workshop 2020). There it weights references; applied to the reply itself, it is a metric. A
ruber judges the reply by the utterance alone (Tao, Mou, Zhao, Yan: RUBER, AAAI 2018). The metric tells what to judge,
and a judge returns numbers; a metric without a judge has settings and a signature, but refuses to score.

Empty replies never go to a judge, since a network rates an empty text as well, and may rate it highly. They get the
least score.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np

from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses
from refaug.metrics.models.model_kinds import ModelKind, ModelName

LEAST: Final = -1.0
LEAST_RELEVANCE: Final = 0.0
_WITHOUT_GOLD: Final = ("",)  # a rater reads an empty text in place of the gold


class ScoreSource(Protocol):
    """What gives scores: a model, or a judge."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the scores so far."""


AnySource = TypeVar("AnySource", bound=ScoreSource)


@dataclass(frozen=True, kw_only=True)
class PreparedParts(Prepared):
    """What replies to each item are judged by, or None where the item lacks it."""

    parts: Sequence[Any]


class ModelMetric(MeanMetric, Generic[AnySource]):
    """A metric that asks a model or a judge; without this source there are no scores."""

    _source: AnySource | None = None

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)

    @property
    def model(self) -> str:
        """The name of the model, as specifications and signatures write it."""
        if not self.settings["model"]:
            raise self.info.models[0].missing(self.info.name)
        return self.settings["model"]

    def require_source(self) -> AnySource:
        """Return what gives the scores; Usage where there is nothing."""
        if self._source is None:
            raise self.info.models[0].missing(self.info.name)
        return self._source

    def bound(self, source: AnySource, settings: Mapping[str, str]) -> Self:
        """Return the metric with this source, which the signature names by these settings."""
        copied = copy(self)
        copied.settings = {**self.settings, **settings}
        copied._source = source  # noqa: SLF001
        return copied

    @abstractmethod
    def part_of(self, references: References) -> Any:
        """Return what replies to an item are judged by, or the problem that there is nothing."""

    def prepare(self, references: Sequence[References]) -> PreparedParts:
        """Return what replies to each item are judged by."""
        self.require_source()
        parts = [self.part_of(of_item) for of_item in references]
        return PreparedParts(
            items=len(parts),
            problems={place: part for place, part in enumerate(parts) if isinstance(part, Problem)},
            parts=[None if isinstance(part, Problem) else part for part in parts],
        )

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks of the source."""
        return () if self._source is None else self._source.remarks()


class ModelScores(ModelMetric[AnySource]):
    """Scores that a source gives to replies; an empty reply gets the least, unasked."""

    least: float

    @abstractmethod
    def scores_of(self, source: AnySource, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the scores of replies that are not empty, each with the part of its item."""

    def is_dropped(self, part: Any, reply: str) -> bool:  # noqa: ARG002  most sources have seen no replies
        """Return whether a reply is not scored, as the source was fitted to it."""
        return False

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row."""
        assert isinstance(prepared, PreparedParts)
        source = self.require_source()
        scores = np.full(len(item_places), np.nan)
        asked, rows = list[tuple[Any, str]](), list[int]()
        for row, (reply_place, item_place) in enumerate(zip(reply_places.tolist(), item_places.tolist(), strict=True)):
            part, reply = prepared.parts[item_place], replies[reply_place]
            if part is None or self.is_dropped(part, reply):
                continue
            if not reply.strip():
                scores[row] = self.least
                continue
            asked.append((part, reply))
            rows.append(row)
        if asked:
            scores[rows] = self.scores_of(source, asked)
        return self.rows(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyToRate:
    """A reply, the utterance that it answers, and the golds; its rating is the mean over the golds."""

    utterance: str
    golds: tuple[str, ...]
    reply: str


class Judge(Protocol):
    """A source of ratings of replies; the service implements it with a rater."""

    @property
    def spec(self) -> str:
        """The name, version and content of the rater, for signatures."""

    @property
    def runtime(self) -> str:
        """What computes the rater's network."""

    @property
    def turn_separator(self) -> str:
        """What the rater wants between turns."""

    def judge(self, replies: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        """Return a rating from -1 to 1 for each reply, in order."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the ratings so far."""


def signed_runtime(runtime: str) -> dict[str, str]:
    """Return what signatures say of what computed a rater's network: nothing of torch, to which the others are held."""
    return {} if runtime == "torch" else {"rater-by": runtime}


class RatedReplies(ModelScores[Judge]):
    """The ratings that a judge gives to replies; without a judge there are none."""

    least = LEAST

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        super().__init__(replace(info, uses=Uses.UTTERANCE) if settings["refs"] == "none" else info, settings)
        self.turns = int(settings["turns"])

    def with_judge(self, judge: Judge) -> Self:
        """Return the metric with this judge, which the signature names."""
        bound = self.bound(judge, {"model": judge.spec})
        bound.turn_separator = judge.turn_separator
        return bound

    def versions(self) -> Mapping[str, str]:
        """Return what computed the ratings, where that is not torch."""
        return {} if self._source is None else signed_runtime(self._source.runtime)

    def part_of(self, references: References) -> tuple[str, tuple[str, ...]] | Problem:
        """Return the utterance and the golds that count, or what is missing."""
        utterance = references.utterance or ""
        if self.settings["refs"] == "none":
            return (utterance, _WITHOUT_GOLD) if utterance.strip() else NO_UTTERANCE
        texts = references.texts
        if self.settings["refs"] == "gold":
            texts = texts[references.gold : references.gold + 1] if references.gold >= 0 else ()
        golds = tuple(text for text in texts if text.strip())
        if not golds:
            return NO_GOLD
        return (utterance, golds) if utterance.strip() else NO_UTTERANCE

    def scores_of(self, source: Judge, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the judge's ratings."""
        replies = [ReplyToRate(utterance=utterance, golds=golds, reply=reply) for (utterance, golds), reply in asked]
        return source.judge(replies, combine=self.settings["combine"], cal=self.settings["cal"])


# ── Relevance ─────────────────────────────────────────────────────────────────────────────────────────────────────


class RelevanceJudge(Protocol):
    """A source of the relevance of replies to utterances; the service implements it with a ruber."""

    @property
    def spec(self) -> str:
        """The name, version and content of the ruber, for signatures."""

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return a number from 0 to 1 for each utterance and reply, in order."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the numbers so far."""


_MODEL: Final = ModelName(name="model", kind=ModelKind.RUBER, help="the network that judges the reply")
# Not in the catalogue: it is only the second part of the metric ruber, which shows its scores.
_RELEVANCE: Final = MetricInfo(
    name="ruber",
    summary="how well the reply goes with the utterance, by a ruber",
    uses=Uses.UTTERANCE,
    low=LEAST_RELEVANCE,
    high=1,
    parameters=(_MODEL,),
    corpus=CorpusScore.MEAN,
    paper="Tao, Mou, Zhao and Yan 2018, RUBER: its unreferenced part",
    made_by="refaug.metrics.models.model_scores:RatedReplies",
    needs_beside=("the utterance",),
)


class RelevantReplies(ModelScores[RelevanceJudge]):
    """How well replies go with their utterances, by a judge; without a judge there are no scores."""

    least = LEAST_RELEVANCE

    def __init__(self, info: MetricInfo = _RELEVANCE) -> None:
        super().__init__(info, {"model": ""})

    def named(self, model: str) -> Self:
        """Return the metric with the name of its ruber, which is not opened."""
        copied = copy(self)
        copied.settings = {"model": model}
        return copied

    def with_judge(self, judge: RelevanceJudge) -> Self:
        """Return the metric with this judge, which the signature names."""
        return self.bound(judge, {"model": judge.spec})

    def part_of(self, references: References) -> str | Problem:
        """Return the utterance."""
        return utterance if (utterance := references.utterance or "").strip() else NO_UTTERANCE

    def scores_of(self, source: RelevanceJudge, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return what the judge says of each utterance and reply."""
        return source.relevance(asked)
