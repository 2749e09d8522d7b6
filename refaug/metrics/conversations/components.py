"""The eleven components of the hybrid metric of Ghandeharioun et al. (2019), of one conversation.

The paper does not say how the values of turns become one of the conversation: here it is their mean over the turns
where they are defined. A component that is defined at no turn is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.conversations import coherence
from refaug.metrics.conversations.exchanges import AnsweredTurn
from refaug.metrics.conversations.sentiment import min_max_slope
from refaug.metrics.conversations.variants import Variants
from refaug.metrics.conversations.wording import count_laughs, count_words, question_score

Floats = NDArray[np.float64]

COMPONENTS: Final = (
    "sentiment",
    "sentiment-coherence",
    "sentiment-transition",
    "sentiment-min-max",
    "laughter",
    "semantic-similarity",
    "average-coherence",
    "extrema-coherence",
    "greedy-coherence",
    "questions",
    "words",
)


@dataclass(frozen=True, slots=True)
class Sentiment:
    """What a reader of sentiment says of a text."""

    score: float
    vector: tuple[float, ...]


class ConversationReader(Protocol):
    """What the components ask about a text."""

    def sentiment(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None where it has no words."""

    def sentence_vector(self, text: str) -> Floats | None:
        """Return a vector of the whole text; None where it has no known word."""

    def word_vectors(self, text: str) -> Floats:
        """Return the vectors of the known words of a text, (words, dimensions)."""


def component_values(
    exchanges: Sequence[AnsweredTurn], reader: ConversationReader, variants: Variants
) -> dict[str, float]:
    """Return each component of a conversation, in the order of `COMPONENTS`; NaN where it is defined nowhere."""
    of_turn: Mapping[str, Callable[[AnsweredTurn], float]] = {
        "sentiment": lambda exchange: _score(exchange.utterance, reader),
        "sentiment-coherence": lambda exchange: _sentiment_coherence(exchange, reader),
        "sentiment-transition": lambda exchange: _transition(exchange, reader),
        "laughter": lambda exchange: _of_answer(exchange, lambda text: count_laughs(text, variants.laughter)),
        "semantic-similarity": lambda exchange: _similarity(exchange, reader),
        "average-coherence": lambda exchange: coherence.average_coherence(*_words(exchange, reader)),
        "extrema-coherence": lambda exchange: coherence.extrema_coherence(*_words(exchange, reader)),
        "greedy-coherence": lambda exchange: coherence.greedy_coherence(*_words(exchange, reader), variants.greedy),
        "questions": lambda exchange: question_score(exchange.reply, variants.questions),
        "words": lambda exchange: _of_answer(exchange, count_words),
    }
    values = {name: _mean([function(exchange) for exchange in exchanges]) for name, function in of_turn.items()}
    scores = [_score(exchange.utterance, reader) for exchange in exchanges]
    has_words = not all(map(math.isnan, scores))
    values["sentiment-min-max"] = min_max_slope(scores, variants.slope) if has_words else math.nan
    return {name: values[name] for name in COMPONENTS}


def _score(text: str, reader: ConversationReader) -> float:
    sentiment = reader.sentiment(text)
    return math.nan if sentiment is None else sentiment.score


def _sentiment_coherence(exchange: AnsweredTurn, reader: ConversationReader) -> float:
    of_user, of_bot = reader.sentiment(exchange.utterance), reader.sentiment(exchange.reply)
    if of_user is None or of_bot is None:
        return math.nan
    return coherence.cosine(np.array(of_user.vector), np.array(of_bot.vector))


def _transition(exchange: AnsweredTurn, reader: ConversationReader) -> float:
    if exchange.answer is None:
        return math.nan
    return _score(exchange.answer, reader) - _score(exchange.utterance, reader)


def _of_answer(exchange: AnsweredTurn, count: Callable[[str], int]) -> float:
    return math.nan if exchange.answer is None else float(count(exchange.answer))


def _similarity(exchange: AnsweredTurn, reader: ConversationReader) -> float:
    of_user, of_bot = reader.sentence_vector(exchange.utterance), reader.sentence_vector(exchange.reply)
    return 0.0 if of_user is None or of_bot is None else coherence.cosine(of_user, of_bot)


def _words(exchange: AnsweredTurn, reader: ConversationReader) -> tuple[Floats, Floats]:
    return reader.word_vectors(exchange.utterance), reader.word_vectors(exchange.reply)


def _mean(values: Sequence[float]) -> float:
    defined = [number for number in values if not math.isnan(number)]
    return math.fsum(defined) / len(defined) if defined else math.nan
