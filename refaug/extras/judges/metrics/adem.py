"""The metric `adem`: what a scorer that was fitted to people's ratings gives to a reply (Lowe et al., ACL 2017).

The metric says what is compared with what, and a judge returns numbers; a metric without a judge has settings and a
signature, but refuses to score. The full form compares the reply with the context and with a reference, the forms of
one term (C-ADEM, R-ADEM) with one of both. Scores are on the scale of ratings, from 1 to 5; the scorer is linear and
not bounded by the scale, unless `clip=yes`. An empty reply gets 1, unasked.

A scorer must not be asked about rows that it was fitted to: their scores would repeat the ratings. The judge knows
them, and with `seen=drop` they have no score but the problem `trained_on`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics.base import (
    NO_GOLD,
    NO_UTTERANCE,
    TRAINED_ON,
    Floats,
    Prepared,
    Problem,
    References,
)
from refaug.metrics.metric_info import MetricInfo, Uses
from refaug.metrics.models.model_scores import ModelScores, PreparedParts

LEAST_RATING: Final = 1.0
MOST_RATING: Final = 5.0
_TURN_END: Final = "\x1e"  # the record separator, which is in no text that people write
_MOST_TURNS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyToJudge:
    """A reply with the turns before it and the references that it is compared with; an unused part is empty."""

    turns: tuple[str, ...]
    references: tuple[str, ...]
    reply: str


class FittedJudge(Protocol):
    """A source of scores; the service implements it with an adem."""

    @property
    def form(self) -> str:
        """What the scorer compares replies with: full, context or reference."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What signatures say of it: the state of the encoder, the adem and the vhred with version and content."""

    def judge(self, replies: Sequence[ReplyToJudge], *, multiple: str) -> Floats:
        """Return a score for each reply, in order: the mean or the most over its references."""

    def has_seen(self, reply: ReplyToJudge) -> bool:
        """Say whether the scorer was fitted to this row."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the scores so far."""


class FittedReplies(ModelScores[FittedJudge]):
    """The scores that a fitted judge gives to replies; without a judge there are none."""

    least = LEAST_RATING
    turns = _MOST_TURNS
    turn_separator = _TURN_END

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if settings["form"] == "context":
            info = replace(info, uses=Uses.UTTERANCE, beside=None)
        else:
            beside = Uses.UTTERANCE if settings["form"] == "full" else Uses.DIALOGUE
            info = replace(info, uses=Uses.GOLD if settings["refs"] == "gold" else Uses.OWN, beside=beside)
        super().__init__(info, settings)

    def with_judge(self, judge: FittedJudge) -> Self:
        """Return the metric with this judge, which the signature names; Usage where it is of another form."""
        if judge.form != self.settings["form"]:
            raise Usage(
                f"{self.name}:form={self.settings['form']} and an adem of the form {judge.form}",
                remedy=f"{self.name}:form={judge.form}, or name another adem: refaug artefacts list adem",
            )
        return self.bound(judge, judge.settings)

    def part_of(self, references: References) -> tuple[tuple[str, ...], tuple[str, ...]] | Problem:
        """Return turns and references, or what the form lacks."""
        joined = (references.utterance if references.beside is None else references.beside.utterance) or ""
        turns = tuple(joined.split(_TURN_END)) if joined.strip() else ()
        golds = tuple(text for text in references.texts if text.strip())
        form = self.settings["form"]
        if form != "reference" and not turns:
            return NO_UTTERANCE
        if form != "context" and not golds:
            return NO_GOLD
        return turns, golds

    def scores_of(self, source: FittedJudge, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the judge's scores, within the scale of ratings if they are to be."""
        scores = source.judge([_reply_to_judge(part, reply) for part, reply in asked], multiple=self.settings["multi"])
        return np.clip(scores, LEAST_RATING, MOST_RATING) if self.settings["clip"] == "yes" else scores

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why a reply has no score: its item lacks something, or the judge was fitted to it."""
        assert isinstance(prepared, PreparedParts)
        if (part := prepared.parts[item_place]) is not None and self.is_dropped(part, reply):
            return TRAINED_ON
        return super().problem_of(reply, prepared, item_place)

    def is_dropped(self, part: Any, reply: str) -> bool:
        """Return whether the judge was fitted to the reply, and such replies have no score."""
        return self.settings["seen"] == "drop" and self.require_source().has_seen(_reply_to_judge(part, reply))

    def remarks(self) -> tuple[str, ...]:
        """Return the judge's remarks, and a warning where rows that it was fitted to count."""
        own = ["adem with seen=keep: scores of rows that it was fitted to count as well"]
        return (*(own if self.settings["seen"] == "keep" else ()), *super().remarks())


def _reply_to_judge(part: tuple[tuple[str, ...], tuple[str, ...]], reply: str) -> ReplyToJudge:
    return ReplyToJudge(turns=part[0], references=part[1], reply=reply)
