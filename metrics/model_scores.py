"""The rating of a reply as its score: what a rater, which is no part of this package, says of it beside the golds.

A rater judges a text by the utterance that it answers and by a response that is known to fit (Tsuta, Yoshinaga, Toyoda:
uBLEU, ACL student research workshop 2020). There it weighs references; asked about the reply itself, it is a metric of
its own. The metric says what is asked, and whoever judges gives numbers; a metric that nobody judges for has settings
and a signature, and refuses to score.

An empty reply is never asked about: a network has something to say of an empty text as well, and may like it. It gets
the least rating there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from core.errors import Usage
from metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Indexes, MeanMetric, Prepared, Problem, References
from metrics.catalogue import MetricInfo

LEAST: Final = -1.0


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
            remedy = "refaug score and refaug meta take --rater NAME: refaug rater list"
            raise Usage(f"{self.info.name} needs a rater, and none is named", remedy=remedy)
        return self._judge


def build(info: MetricInfo, settings: Mapping[str, str]) -> RatedReplies:
    """Make one from checked settings; it has no judge yet."""
    return RatedReplies(info, settings)
