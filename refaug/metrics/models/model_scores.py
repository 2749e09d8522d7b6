"""Metrics that use a model's judgement of a reply as its score; the models are not part of this package.

A rater judges a text by the utterance that it answers and by a response that is known to fit (Tsuta, Yoshinaga, Toyoda:
uBLEU, ACL student research workshop 2020). There it weights references; applied to the reply itself, it is a metric. A
ruber judges the reply by the utterance alone (Tao, Mou, Zhao, Yan: RUBER, AAAI 2018). The metric tells what to judge,
and a judge returns numbers; a metric without a judge has settings and a signature, but refuses to score.

Empty replies never go to a judge, since a network rates an empty text as well, and may rate it highly. They get the
least score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from refaug.metrics.metric_info import CorpusScore, MetricInfo, Uses
from refaug.metrics.models.model_kinds import ModelKind, ModelName

LEAST: Final = -1.0
LEAST_RELEVANCE: Final = 0.0
_WITHOUT_GOLD: Final = ("",)  # a rater reads an empty text in place of the gold


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
    def turn_separator(self) -> str:
        """What the rater wants between turns."""

    def judge(self, replies: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        """Return a rating from -1 to 1 for each reply, in order."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the ratings so far."""


@dataclass(frozen=True, kw_only=True)
class PreparedGolds(Prepared):
    """The utterance and golds that replies to each item are rated by, or None where they are missing."""

    pairs: Sequence[tuple[str, tuple[str, ...]] | None]  # utterance and golds


class RatedReplies(MeanMetric):
    """The ratings that a judge gives to replies; without a judge there are none."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = replace(info, uses=Uses.UTTERANCE) if settings["refs"] == "none" else info
        self.settings = dict(settings)
        self.turns = int(settings["turns"])
        self._judge: Judge | None = None

    def with_judge(self, judge: Judge) -> RatedReplies:
        """Return the metric with this judge, which the signature names."""
        copied = copy(self)
        copied.settings = {**self.settings, "model": judge.spec}
        copied.turn_separator = judge.turn_separator
        copied._judge = judge  # noqa: SLF001
        return copied

    def prepare(self, references: Sequence[References]) -> PreparedGolds:
        """Return the golds that count for each item, with its utterance."""
        self._require_judge()
        pairs = [self._pair(of_item) for of_item in references]
        return PreparedGolds(
            items=len(pairs),
            problems={place: pair for place, pair in enumerate(pairs) if isinstance(pair, Problem)},
            pairs=[None if isinstance(pair, Problem) else pair for pair in pairs],
        )

    def _pair(self, references: References) -> tuple[str, tuple[str, ...]] | Problem:
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

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a rating and a count for each row."""
        assert isinstance(prepared, PreparedGolds)
        judge = self._require_judge()
        ratings = np.full(len(item_places), np.nan)
        to_rate, rows = list[ReplyToRate](), list[int]()
        for row, (reply_place, item_place) in enumerate(zip(reply_places.tolist(), item_places.tolist(), strict=True)):
            pair = prepared.pairs[item_place]
            if pair is None:
                continue
            if not replies[reply_place].strip():
                ratings[row] = LEAST
                continue
            to_rate.append(ReplyToRate(utterance=pair[0], golds=pair[1], reply=replies[reply_place]))
            rows.append(row)
        if to_rate:
            ratings[rows] = judge.judge(to_rate, combine=self.settings["combine"], cal=self.settings["cal"])
        return self.rows(ratings)

    def remarks(self) -> tuple[str, ...]:
        """Return the judge's remarks."""
        return () if self._judge is None else self._judge.remarks()

    def _require_judge(self) -> Judge:
        if self._judge is None:
            raise self.info.models[0].missing(self.info.name)
        return self._judge


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


@dataclass(frozen=True, kw_only=True)
class PreparedUtterances(Prepared):
    """The utterance of each item, or None where there is none."""

    utterances: Sequence[str | None]


class RelevantReplies(MeanMetric):
    """How well replies go with their utterances, by a judge; without a judge there are no scores."""

    def __init__(self, info: MetricInfo = _RELEVANCE) -> None:
        self.info = info
        self.settings: Mapping[str, str] = {"model": ""}
        self._judge: RelevanceJudge | None = None

    def named(self, model: str) -> RelevantReplies:
        """Return the metric with the name of its ruber, which is not opened."""
        copied = copy(self)
        copied.settings = {"model": model}
        return copied

    def with_judge(self, judge: RelevanceJudge) -> RelevantReplies:
        """Return the metric with this judge, which the signature names."""
        copied = copy(self)
        copied.settings = {"model": judge.spec}
        copied._judge = judge  # noqa: SLF001
        return copied

    def prepare(self, references: Sequence[References]) -> PreparedUtterances:
        """Return the utterance of each item."""
        self._require_judge()
        utterances = [of_item.utterance if (of_item.utterance or "").strip() else None for of_item in references]
        return PreparedUtterances(
            items=len(utterances),
            problems={place: NO_UTTERANCE for place, utterance in enumerate(utterances) if utterance is None},
            utterances=utterances,
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a number and a count for each row."""
        assert isinstance(prepared, PreparedUtterances)
        judge = self._require_judge()
        values = np.full(len(item_places), np.nan)
        pairs, rows = list[tuple[str, str]](), list[int]()
        for row, (reply_place, item_place) in enumerate(zip(reply_places.tolist(), item_places.tolist(), strict=True)):
            utterance = prepared.utterances[item_place]
            if utterance is None:
                continue
            if not replies[reply_place].strip():
                values[row] = LEAST_RELEVANCE
                continue
            pairs.append((utterance, replies[reply_place]))
            rows.append(row)
        if pairs:
            values[rows] = judge.relevance(pairs)
        return self.rows(values)

    def remarks(self) -> tuple[str, ...]:
        """Return the judge's remarks."""
        return () if self._judge is None else self._judge.remarks()

    def _require_judge(self) -> RelevanceJudge:
        if self._judge is None:
            raise _MODEL.missing(self.info.name)
        return self._judge
