"""Conversations as numbers: the components, plain counts, and the scores of their turns, beside what people said."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.extras.conversations.hybrid_metric.encoders import VectorReader
from refaug.extras.conversations.judged import TurnScores
from refaug.extras.conversations.metrics.components import COMPONENTS, component_values
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.metrics.sentiment import Variants
from refaug.extras.conversations.metrics.variety import variety
from refaug.extras.conversations.options import HybridSettings
from refaug.extras.conversations.reading import Conversation, require_one_scale

Floats = NDArray[np.float64]

COUNTS: Final = ("log-turns", "words-of-person", "words-of-bot", "repeated-replies", "distinct-2")
VOTES: Final = "vote-mean"  # a column where people voted on replies; no set is fitted to it
_LEAST_CONVERSATIONS: Final = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class RatedConversations:
    """The conversations that count, with one number each."""

    conversations: Sequence[Conversation]
    ratings: Floats
    unrated: int  # without an answer to the question
    few_ratings: int  # of people with too few ratings, or with the same for all

    @classmethod
    def of(cls, conversations: Sequence[Conversation], settings: HybridSettings) -> RatedConversations:
        """Choose the conversations that were rated; BadInput where they are few, or their scales differ."""
        answers = [(conversation, conversation.rating(settings.target)) for conversation in conversations]
        rated = [(conversation, answer) for conversation, answer in answers if answer is not None]
        require_one_scale([conversation for conversation, _ in rated])
        few = 0
        if settings.person_z is not None:
            standard = _standard(rated, settings.person_z)
            few, rated = len(rated) - len(standard), standard
        if len(rated) < _LEAST_CONVERSATIONS:
            questions = ", ".join(sorted({question for talk in conversations for question in talk.ratings})) or "none"
            named = f" called {settings.target!r}" if settings.target else ""
            people = f" by people with {settings.person_z} of them" if settings.person_z is not None else ""
            raise BadInput(
                f"{len(rated):,} of {len(conversations):,} conversations have a rating{named}{people}; at least "
                f"{_LEAST_CONVERSATIONS} are needed",
                remedy=f"the questions of the file are: {questions}",
            )
        if not any(conversation.exchanges() for conversation, _ in rated):
            raise BadInput(
                "no rated conversation has a reply of the bot to the person: each is an opening of the bot and an "
                "answer to it",
                remedy="turns stand in the order in which they were said",
            )
        return cls(
            conversations=[conversation for conversation, _ in rated],
            ratings=np.array([answer for _, answer in rated], np.float64),
            unrated=len(conversations) - len(rated) - few,
            few_ratings=few,
        )


def _standard(rated: Sequence[tuple[Conversation, float]], least: int) -> list[tuple[Conversation, float]]:
    """Return ratings in standard deviations from the mean of their person; people with few or equal ones drop out."""
    ratings_of = defaultdict[str, list[float]](list)
    for conversation, answer in rated:
        if conversation.participant:
            ratings_of[conversation.participant].append(answer)
    standard = list[tuple[Conversation, float]]()
    for conversation, answer in rated:
        own = ratings_of.get(conversation.participant, [])
        deviation = float(np.std(own)) if len(own) >= max(least, 2) else 0.0
        if deviation > 0:
            standard.append((conversation, (answer - float(np.mean(own))) / deviation))
    return standard


@dataclass(frozen=True, eq=False, kw_only=True)
class ConversationTable:
    """Columns of conversations with their ratings and bots."""

    columns: Mapping[str, Floats]
    judged: tuple[str, ...]  # the columns that are mean scores of turns
    courses: Mapping[str, Floats]  # further figures of these scores, which no set is fitted to
    ratings: Floats
    bots: NDArray[np.int64]
    names: tuple[str, ...]  # of the bots, by number
    unrated: int  # conversations without an answer to the question, which are left out
    few_ratings: int = 0

    @property
    def components(self) -> list[str]:
        """The components that are defined for some conversation."""
        return [name for name in COMPONENTS if not np.isnan(self.columns[name]).all()]

    @property
    def votes(self) -> tuple[str, ...]:
        """The column of votes, if some conversation has one."""
        return () if np.isnan(self.columns[VOTES]).all() else (VOTES,)

    @property
    def wide(self) -> list[str]:
        """The columns of the wider set: components, counts, and the mean scores of turns."""
        return [*self.components, *COUNTS, *self.judged]

    def matrix(self, names: Sequence[str]) -> Floats:
        """Return some columns side by side, (conversations, columns)."""
        return np.stack([self.columns[name] for name in names], axis=1)

    def of(
        self, conversations: Sequence[Conversation], measured: RatedConversations, settings: HybridSettings
    ) -> ConversationTable:
        """Return the rows of some of the measured conversations, with ratings by other settings of these."""
        rated = RatedConversations.of(conversations, settings)
        row_of = {talk.id: row for row, talk in enumerate(measured.conversations)}
        rows = np.array([row_of[talk.id] for talk in rated.conversations], np.int64)
        names = tuple(sorted({talk.bot for talk in rated.conversations}))
        number_of = {name: number for number, name in enumerate(names)}
        return replace(
            self,
            columns={name: column[rows] for name, column in self.columns.items()},
            courses={name: course[rows] for name, course in self.courses.items()},
            ratings=rated.ratings,
            bots=np.array([number_of[talk.bot] for talk in rated.conversations], np.int64),
            names=names,
            unrated=rated.unrated,
            few_ratings=rated.few_ratings,
        )


def conversation_table(
    rated: RatedConversations,
    reader: VectorReader,
    settings: HybridSettings,
    progress: Progress,
    judged: Sequence[TurnScores] = (),
) -> ConversationTable:
    """Compute the columns of rated conversations; `judged` has the scores of their turns, in the same order."""
    names = tuple(sorted({conversation.bot for conversation in rated.conversations}))
    number_of = {name: number for number, name in enumerate(names)}
    return ConversationTable(
        columns=conversation_columns(rated.conversations, reader, settings, progress, judged),
        judged=tuple(scores.name for scores in judged),
        courses={
            f"{scores.name}, {figure}": np.array([getattr(course, figure) for course in scores.courses()], np.float64)
            for scores in judged
            for figure in ("worst", "slope", "first", "second")
        },
        ratings=rated.ratings,
        bots=np.array([number_of[conversation.bot] for conversation in rated.conversations], np.int64),
        names=names,
        unrated=rated.unrated,
        few_ratings=rated.few_ratings,
    )


def conversation_columns(
    conversations: Sequence[Conversation],
    reader: VectorReader,
    variants: Variants,
    progress: Progress,
    judged: Sequence[TurnScores] = (),
) -> dict[str, Floats]:
    """Return every column: components, counts, and the mean score of each metric."""
    rows = []
    progress.stage("components", len(conversations), unit="conversations")
    for conversation in conversations:
        rows.append(_row(conversation, reader, variants, partial(progress.advance, 0)))
        progress.advance(1)
    columns = {name: np.array([row[name] for row in rows], np.float64) for name in (*COMPONENTS, *COUNTS, VOTES)}
    for scores in judged:
        columns[scores.name] = np.array([course.mean for course in scores.courses()], np.float64)
    return columns


def _row(
    conversation: Conversation, reader: VectorReader, variants: Variants, check: Callable[[], None]
) -> dict[str, float]:
    of_bot, of_person = conversation.texts(Side.BOT), conversation.texts(Side.PERSON)
    figures = variety(of_bot, [reader.tokens(text) for text in of_bot])
    return {
        **component_values(conversation.exchanges(), reader, variants, check),
        "log-turns": math.log(max(len(conversation.turns), 1)),
        "words-of-person": _mean_words(of_person),
        "words-of-bot": _mean_words(of_bot),
        "repeated-replies": figures.repeated,
        "distinct-2": figures.distinct_2,
        VOTES: math.nan if conversation.vote_mean is None else conversation.vote_mean,
    }


def _mean_words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / len(texts) if texts else math.nan
