"""What a model says of a reply as its score; the model is no part of this package.

A rater judges a text by the utterance that it answers and by a response that is known to fit (Tsuta, Yoshinaga, Toyoda:
uBLEU, ACL student research workshop 2020). There it weighs references; asked about the reply itself, it is a metric of
its own. A ruber judges it by the utterance alone (Tao, Mou, Zhao, Yan: RUBER, AAAI 2018). The metric says what
is asked, and whoever judges gives numbers; a metric that nobody judges for has settings and a signature, and refuses to
score.

An empty reply is never asked about: a network has something to say of an empty text as well, and may like it. It gets
the least that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from core.errors import Usage
from metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from metrics.catalogue import A_RUBER, Corpus, MetricInfo, Uses

LEAST: Final = -1.0
LEAST_RELEVANCE: Final = 0.0
_ASKING: Final = "refaug score and refaug meta take --{} NAME: refaug {} list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A reply, the utterance that it answers, and the golds that it is rated against: the mean over all of them."""

    utterance: str
    golds: tuple[str, ...]
    reply: str


class Judge(Protocol):
    """Whoever rates replies: the service has one that asks a rater."""

    @property
    def spec(self) -> str:
        """Who that is, for signatures: name, version and content."""

    def judge(self, asked: Sequence[Asked], *, combine: str, cal: str) -> Floats:
        """A rating from -1 to 1 for each, in the order given."""

    def remarks(self) -> tuple[str, ...]:
        """What makes the ratings given so far mean something else than one may think."""


@dataclass(frozen=True, kw_only=True)
class PreparedGolds(Prepared):
    """What replies to each item are rated by, or None where that is not there."""

    pairs: Sequence[tuple[str, tuple[str, ...]] | None]  # utterance and golds


class RatedReplies(MeanMetric):
    """The ratings that a judge gives to replies; without a judge there are none."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)
        self.turns = int(settings["turns"])
        self._judge: Judge | None = None

    def bound(self, judge: Judge) -> RatedReplies:
        """The same, scored by this judge, whom the signature names."""
        by = copy(self)
        by.settings = {**self.settings, "rater": judge.spec}
        by._judge = judge  # noqa: SLF001
        return by

    def prepare(self, references: Sequence[References]) -> PreparedGolds:
        """The golds that count for each item, with its utterance."""
        self._require_judge()
        found = [self._pair(one) for one in references]
        return PreparedGolds(
            items=len(found),
            problems={item: one for item, one in enumerate(found) if isinstance(one, Problem)},
            pairs=[None if isinstance(one, Problem) else one for one in found],
        )

    def _pair(self, references: References) -> tuple[str, tuple[str, ...]] | Problem:
        texts = references.texts
        if self.settings["refs"] == "gold":
            texts = texts[references.gold : references.gold + 1] if references.gold >= 0 else ()
        golds = tuple(text for text in texts if text.strip())
        if not golds:
            return NO_GOLD
        utterance = references.utterance or ""
        return (utterance, golds) if utterance.strip() else NO_UTTERANCE

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """A rating and a count for each row."""
        assert isinstance(prepared, PreparedGolds)
        judge = self._require_judge()
        ratings = np.full(len(item), np.nan)
        asked, rows = list[Asked](), list[int]()
        for row, (text, pair) in enumerate(zip(reply.tolist(), item.tolist(), strict=True)):
            known = prepared.pairs[pair]
            if known is None:
                continue
            if not replies[text].strip():
                ratings[row] = LEAST
                continue
            asked.append(Asked(utterance=known[0], golds=known[1], reply=replies[text]))
            rows.append(row)
        if asked:
            ratings[rows] = judge.judge(asked, combine=self.settings["combine"], cal=self.settings["cal"])
        return self.rows(ratings)

    def remarks(self) -> tuple[str, ...]:
        """Those of the judge."""
        return () if self._judge is None else self._judge.remarks()

    def _require_judge(self) -> Judge:
        if self._judge is None:
            remedy = _ASKING.format("rater", "rater")
            raise Usage(f"{self.info.name} needs a rater, and none is named", remedy=remedy)
        return self._judge


# ── relevance ─────────────────────────────────────────────────────────────────────────────────────────────────────


class RelevanceJudge(Protocol):
    """Whoever says how well replies go with utterances: the service has one that asks a ruber."""

    @property
    def spec(self) -> str:
        """Who that is, for signatures: name, version and content."""

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """A number from 0 to 1 for each utterance and reply, in the order given."""

    def remarks(self) -> tuple[str, ...]:
        """What makes the numbers given so far mean something else than one may think."""


# In no register: on its own it is the second part of the metric ruber, which shows what it gave.
_RELEVANCE: Final = MetricInfo(
    name="ruber",
    summary="how well the reply goes with the utterance, by a ruber",
    uses=Uses.UTTERANCE,
    low=LEAST_RELEVANCE,
    high=1,
    parameters=(),
    corpus=Corpus.MEAN,
    paper="Tao, Mou, Zhao and Yan 2018, RUBER: its unreferenced part",
    module="metrics.model_scores",
    needs=(A_RUBER, "the utterance"),
)


@dataclass(frozen=True, kw_only=True)
class PreparedUtterances(Prepared):
    """What replies to each item answer, or None where that is not there."""

    utterances: Sequence[str | None]


class RelevantReplies(MeanMetric):
    """How well replies go with what they answer, by a judge; without one there are no scores."""

    def __init__(self, info: MetricInfo = _RELEVANCE) -> None:
        self.info = info
        self.settings: Mapping[str, str] = {}
        self._judge: RelevanceJudge | None = None

    def bound(self, judge: RelevanceJudge) -> RelevantReplies:
        """The same, scored by this judge, whom the signature names."""
        by = copy(self)
        by.settings = {**self.settings, "ruber": judge.spec}
        by._judge = judge  # noqa: SLF001
        return by

    def prepare(self, references: Sequence[References]) -> PreparedUtterances:
        """The utterance of each item."""
        self._require_judge()
        found = [one.utterance if (one.utterance or "").strip() else None for one in references]
        return PreparedUtterances(
            items=len(found),
            problems={item: NO_UTTERANCE for item, one in enumerate(found) if one is None},
            utterances=found,
        )

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """A number and a count for each row."""
        assert isinstance(prepared, PreparedUtterances)
        judge = self._require_judge()
        values = np.full(len(item), np.nan)
        asked, rows = list[tuple[str, str]](), list[int]()
        for row, (text, pair) in enumerate(zip(reply.tolist(), item.tolist(), strict=True)):
            utterance = prepared.utterances[pair]
            if utterance is None:
                continue
            if not replies[text].strip():
                values[row] = LEAST_RELEVANCE
                continue
            asked.append((utterance, replies[text]))
            rows.append(row)
        if asked:
            values[rows] = judge.relevance(asked)
        return self.rows(values)

    def remarks(self) -> tuple[str, ...]:
        """Those of the judge."""
        return () if self._judge is None else self._judge.remarks()

    def _require_judge(self) -> RelevanceJudge:
        if self._judge is None:
            remedy = _ASKING.format("ruber", "ruber")
            raise Usage(f"{self.info.name} needs a ruber, and none is named", remedy=remedy)
        return self._judge


def build(info: MetricInfo, settings: Mapping[str, str]) -> RatedReplies:
    """Make one from checked settings; it has no judge yet."""
    return RatedReplies(info, settings)
