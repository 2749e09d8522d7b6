"""The eleven components of the hybrid metric of Ghandeharioun et al. (2019), of one conversation.

The paper does not say how the values of turns become one of the conversation: here it is their mean over the turns
where they are defined. A component that is defined at no turn is NaN.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.sentiment import Sentiment
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.extras.conversations.metrics.exchanges import AnsweredTurn
from refaug.extras.conversations.metrics.sentiment import Greedy, Laughter, Questions, Variants, min_max_slope

MOST_LAUGHS: Final = 4
MOST_WORDS: Final = 30
QUESTION_WORDS: Final = ("who", "what", "why", "where", "how", "when")

_WORD: Final = re.compile(r"[^\W_]+")
_LAUGH: Final = re.compile(r"(a?h+a+)+h*")


def count_laughs(text: str, form: Laughter = "token") -> int:
    """Count laughter, four times at most.

    `token` counts the words that are laughter as a whole ("ha", "haha", "ahahah"). `substring` is the released code's:
    every "ha" counts, those of "that" and "what" too.
    """
    lowered = text.lower()
    if form == "substring":
        return min(lowered.count("ha"), MOST_LAUGHS)
    return min(sum(1 for word in _WORD.findall(lowered) if _LAUGH.fullmatch(word)), MOST_LAUGHS)


def question_score(text: str, form: Questions = "half") -> float:
    """Return how far a reply asks something, in [0, 1].

    `half` gives half for a question mark, be it full-width or Arabic, and half for a question word. `both` is the later
    released code's: 1 for a question mark in a text that has a question word, be it inside of another word, and
    otherwise 0.
    """
    lowered = text.lower()
    has_mark = "?" in lowered
    if form == "both":
        return float(has_mark and any(word in lowered for word in QUESTION_WORDS))
    has_word = not _QUESTION_SET.isdisjoint(_WORD.findall(lowered))
    return 0.5 * (has_mark or "\uff1f" in lowered or "\u061f" in lowered) + 0.5 * has_word


def count_words(text: str | None) -> int:
    """Count the words between spaces, thirty at most; 0 for an answer that did not come."""
    return 0 if text is None else min(len(text.split()), MOST_WORDS)


_QUESTION_SET: Final = frozenset(QUESTION_WORDS)


Floats = NDArray[np.float64]

_SMALLEST: Final = 1e-12  # a shorter vector has no direction


def cosine(left: Floats, right: Floats) -> float:
    """Return the cosine of two vectors; 0 where one of them has no direction."""
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > _SMALLEST else 0.0


def average_coherence(left: Floats, right: Floats) -> float:
    """Return the cosine of the mean vectors of two texts, given as (words, dimensions)."""
    if not len(left) or not len(right):
        return 0.0
    return cosine(left.mean(axis=0), right.mean(axis=0))


def extrema_coherence(left: Floats, right: Floats) -> float:
    """Return the cosine of the extrema of two texts; a dimension whose ends are equally far takes the larger."""
    if not len(left) or not len(right):
        return 0.0
    return cosine(_extrema(left), _extrema(right))


def greedy_coherence(user: Floats, bot: Floats, form: Greedy = "both") -> float:
    """Return the mean of each word's best cosine in the other text.

    `both` is the mean of the two directions, as published. `user` is the released code's: for each word of the user
    the best word of the bot.
    """
    if not len(user) or not len(bot):
        return 0.0
    cosines = _unit(user) @ _unit(bot).T
    of_user = float(cosines.max(axis=1).mean())
    return of_user if form == "user" else (of_user + float(cosines.max(axis=0).mean())) / 2


def _extrema(words: Floats) -> Floats:
    largest, smallest = words.max(axis=0), words.min(axis=0)
    return np.asarray(np.where(largest >= np.abs(smallest), largest, smallest))


def _unit(words: Floats) -> Floats:
    lengths = np.linalg.norm(words, axis=1, keepdims=True)
    return np.asarray(np.divide(words, lengths, out=np.zeros_like(words), where=lengths > _SMALLEST))


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


class ConversationReader(Protocol):
    """What the components ask about a text."""

    def sentiment(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None where it has no words."""

    def sentence_vector(self, text: str) -> Floats | None:
        """Return a vector of the whole text; None where it has no known word."""

    def word_vectors(self, text: str) -> Floats:
        """Return the vectors of the known words of a text, (words, dimensions)."""


_TURN: Final = 300.0  # units of a turn, and of its characters, its words and its pairs of words with the next turn's
_CHARACTER: Final = 2.0
_WORD_SQUARE: Final = 0.08  # VADER looks words up in lists of all of them
_WORD_PAIR: Final = 0.07
# Of a text that a request may have: VADER takes two seconds for them, in one piece, and the cosines of two such texts
# take 200 MB, whatever reads sentiment.
MOST_TURN_WORDS: Final = 5_000
_EMOJI_WORDS: Final = 6  # of the longest name that VADER puts for one
_OTHER_EMOJIS: Final = "‼⁉〰〽ℹ"  # of VADER's, that Unicode does not call symbols


def turn_words(text: str) -> int:
    """Return how many words a text has at most: of word vectors, or of VADER, which has a name for each emoji."""
    emojis = 0 if text.isascii() else sum(count for sign, count in Counter(text).items() if _may_be_emoji(sign))
    return max(len(WordTokenizer().tokenize(text)), len(text.split()) + _EMOJI_WORDS * emojis)


def _may_be_emoji(sign: str) -> bool:
    return not sign.isascii() and (unicodedata.category(sign).startswith("S") or sign in _OTHER_EMOJIS)


def component_cost(turns: Sequence[str]) -> float:
    """Return an upper bound of the work of the components of a conversation, in units (refaug.metrics.costs).

    `turns` are joined by side. The first and the last count like the others: they may be an answer to a reply.
    """
    words = list(map(turn_words, turns))
    of_turns = sum(_TURN + _CHARACTER * len(text) for text in turns)
    return of_turns + _WORD_SQUARE * sum(n * n for n in words) + _WORD_PAIR * sum(m * n for m, n in pairwise(words))


def component_values(
    exchanges: Sequence[AnsweredTurn],
    reader: ConversationReader,
    variants: Variants,
    check: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Return each component of a conversation, in the order of `COMPONENTS`; NaN where it is defined nowhere.

    `check` is called before each component of an exchange, and ends the work by raising.
    """
    of_turn: Mapping[str, Callable[[AnsweredTurn], float]] = {
        "sentiment": lambda exchange: _score(exchange.utterance, reader),
        "sentiment-coherence": lambda exchange: _sentiment_coherence(exchange, reader),
        "sentiment-transition": lambda exchange: _transition(exchange, reader),
        "laughter": lambda exchange: _of_answer(exchange, lambda text: count_laughs(text, variants.laughter)),
        "semantic-similarity": lambda exchange: _similarity(exchange, reader),
        "average-coherence": lambda exchange: average_coherence(*_words(exchange, reader)),
        "extrema-coherence": lambda exchange: extrema_coherence(*_words(exchange, reader)),
        "greedy-coherence": lambda exchange: greedy_coherence(*_words(exchange, reader), variants.greedy),
        "questions": lambda exchange: question_score(exchange.reply, variants.questions),
        "words": lambda exchange: _of_answer(exchange, count_words),
    }

    columns: dict[str, list[float]] = {name: [] for name in of_turn}
    for exchange in exchanges:  # all components of one, while the reader has its texts at hand
        for name, function in of_turn.items():
            check()
            columns[name].append(function(exchange))
    values = {name: _mean(column) for name, column in columns.items()}
    scores = columns["sentiment"]
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
    return cosine(np.array(of_user.vector), np.array(of_bot.vector))


def _transition(exchange: AnsweredTurn, reader: ConversationReader) -> float:
    if exchange.answer is None:
        return math.nan
    return _score(exchange.answer, reader) - _score(exchange.utterance, reader)


def _of_answer(exchange: AnsweredTurn, count: Callable[[str], int]) -> float:
    return math.nan if exchange.answer is None else float(count(exchange.answer))


def _similarity(exchange: AnsweredTurn, reader: ConversationReader) -> float:
    of_user, of_bot = reader.sentence_vector(exchange.utterance), reader.sentence_vector(exchange.reply)
    return 0.0 if of_user is None or of_bot is None else cosine(of_user, of_bot)


def _words(exchange: AnsweredTurn, reader: ConversationReader) -> tuple[Floats, Floats]:
    return reader.word_vectors(exchange.utterance), reader.word_vectors(exchange.reply)


def _mean(values: Sequence[float]) -> float:
    defined = [number for number in values if not math.isnan(number)]
    return math.fsum(defined) / len(defined) if defined else math.nan
