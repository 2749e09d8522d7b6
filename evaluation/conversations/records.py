"""A conversation between a person and a bot, and what the person said of it as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from refaug.metrics.conversations.exchanges import Side


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Turns in order, and ratings by the name of their question."""

    id: str
    bot: str
    turns: tuple[tuple[Side, str], ...]
    ratings: Mapping[str, float]
    scale: tuple[float, float] | None  # the ends that all its ratings lie between
    reversed: frozenset[str]  # questions where a low number is good
    participant: str = ""

    def rating(self, question: str | None) -> float | None:
        """Return the answer to one question, or the mean over all; reversed questions are turned round.

        None where the person did not answer.
        """
        names = list(self.ratings) if question is None else [question]
        answers = [self._turned(name) for name in names if name in self.ratings]
        return math.fsum(answers) / len(answers) if answers else None

    def _turned(self, question: str) -> float:
        answer = self.ratings[question]
        if question not in self.reversed or self.scale is None:
            return answer
        return self.scale[0] + self.scale[1] - answer


@dataclass(frozen=True, slots=True)
class BadConversation:
    """A line that holds no usable conversation: where it is, and what is wrong."""

    line: int
    field: str
    message: str
