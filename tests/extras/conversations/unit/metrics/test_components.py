"""The components of conversations: worked by hand, and beside a plain reimplementation on hand-made turns."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from refaug.extras.conversations.metrics.components import (
    COMPONENTS,
    Sentiment,
    average_coherence,
    component_cost,
    component_values,
    cosine,
    count_laughs,
    count_words,
    extrema_coherence,
    greedy_coherence,
    question_score,
    turn_words,
)
from refaug.extras.conversations.metrics.exchanges import AnsweredTurn, Side, human_exchanges, self_play_exchanges
from refaug.extras.conversations.metrics.sentiment import EMOJIS, Variants, emoji_score, emoji_weights, min_max_slope

Floats = NDArray[np.float64]

VECTORS = {
    "tea": (1.0, 0.0, 0.5),
    "milk": (0.8, -0.6, 0.0),
    "train": (-0.2, 0.9, 0.1),
    "late": (0.0, -1.0, 1.0),
    "ありがとう": (0.3, 0.3, -0.9),
}
GOOD, BAD = {"love", "haha", "😂"}, {"late", "hate"}


class WordReader:
    """A reader whose answers can be worked out by eye: words from a table, sentiment by counting."""

    def sentiment(self, text: str) -> Sentiment | None:
        words = text.lower().split()
        if not words:
            return None
        good, bad = sum(word in GOOD for word in words), sum(word in BAD for word in words)
        return Sentiment((good - bad) / len(words), (bad + 1.0, good + 1.0))

    def sentence_vector(self, text: str) -> Floats | None:
        words = self.word_vectors(text)
        return words.sum(axis=0) if len(words) else None

    def word_vectors(self, text: str) -> Floats:
        rows = [VECTORS[word] for word in text.lower().split() if word in VECTORS]
        return np.array(rows, np.float64).reshape(len(rows), 3)


WORDS = ["tea", "milk", "train", "late", "love", "haha", "hahaha!", "what", "That", "?", "😂", "ありがとう", "zzz"]
TURNS = [
    "",
    "tea",
    "?",
    "haha",
    "😂 😂",
    "ありがとう milk",
    "Why is the train late ?",
    "that shall happen",
    " ".join(WORDS * 4),
]


def made_turns(count: int) -> list[str]:
    """Two hundred turns: the peculiar ones first, then words drawn with a seed."""
    random = np.random.default_rng(11)
    drawn = [" ".join(random.choice(WORDS, random.integers(0, 12))) for _ in range(count - len(TURNS))]
    return TURNS + drawn


def plain_cosine(left: Sequence[float], right: Sequence[float]) -> float:
    norm = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return sum(a * b for a, b in zip(left, right, strict=True)) / norm if norm > 1e-12 else 0.0


def plain_components(
    exchanges: Sequence[AnsweredTurn], *, laughter: str, questions: str, greedy: str, slope: str
) -> dict[str, float]:
    """The same in Python's own numbers, written from the definitions."""
    reader = WordReader()
    columns: dict[str, list[float]] = {name: [] for name in COMPONENTS}

    def rows(text: str) -> list[list[float]]:
        return [list(VECTORS[word]) for word in text.lower().split() if word in VECTORS]

    for exchange in exchanges:
        said, replied = reader.sentiment(exchange.utterance), reader.sentiment(exchange.reply)
        if said is not None:
            columns["sentiment"].append(said.score)
        if said is not None and replied is not None:
            columns["sentiment-coherence"].append(plain_cosine(said.vector, replied.vector))
        if exchange.answer is not None:
            answered = reader.sentiment(exchange.answer)
            if said is not None and answered is not None:
                columns["sentiment-transition"].append(answered.score - said.score)
            low = exchange.answer.lower()
            if laughter == "substring":
                laughs = len(re.findall("ha", low))
            else:
                laughs = sum(re.fullmatch("(a?h+a+)+h*", word) is not None for word in re.findall(r"[^\W_]+", low))
            columns["laughter"].append(min(4, laughs))
            columns["words"].append(min(30, len(exchange.answer.split())))
        user, bot = rows(exchange.utterance), rows(exchange.reply)
        if user and bot:
            sums = [[sum(column) for column in zip(*side, strict=True)] for side in (user, bot)]
            means = [[total / len(side) for total in summed] for side, summed in zip((user, bot), sums, strict=True)]
            ends = [
                [max(c) if max(c) >= abs(min(c)) else min(c) for c in zip(*side, strict=True)] for side in (user, bot)
            ]
            of_user = sum(max(plain_cosine(a, b) for b in bot) for a in user) / len(user)
            of_bot = sum(max(plain_cosine(a, b) for a in user) for b in bot) / len(bot)
            columns["semantic-similarity"].append(plain_cosine(*sums))
            columns["average-coherence"].append(plain_cosine(*means))
            columns["extrema-coherence"].append(plain_cosine(*ends))
            columns["greedy-coherence"].append(of_user if greedy == "user" else (of_user + of_bot) / 2)
        else:
            for name in ("semantic-similarity", "average-coherence", "extrema-coherence", "greedy-coherence"):
                columns[name].append(0.0)
        low, names = exchange.reply.lower(), ("who", "what", "why", "where", "how", "when")
        if questions == "both":
            columns["questions"].append(float("?" in low and any(name in low for name in names)))
        else:
            asked = any(word in names for word in re.findall(r"[^\W_]+", low))
            columns["questions"].append(0.5 * ("?" in low) + 0.5 * asked)
    read = [reader.sentiment(exchange.utterance) for exchange in exchanges]
    placed = [(place, sentiment.score) for place, sentiment in enumerate(read) if sentiment is not None]
    if placed and slope == "masked":
        placed = [(place, sentiment.score if sentiment else 0.0) for place, sentiment in enumerate(read)]
        placed.append((len(read), 0.0))
    if placed:
        low_at, least = min(placed, key=lambda entry: entry[1])
        high_at, most = max(placed, key=lambda entry: entry[1])
        columns["sentiment-min-max"] = [(least - most) / (low_at - high_at) if low_at != high_at else 0.0]
    return {name: sum(column) / len(column) if column else math.nan for name, column in columns.items()}


@pytest.mark.parametrize(
    ("laughter", "questions", "greedy", "slope"),
    list(product(("token", "substring"), ("half", "both"), ("both", "user"), ("turns", "masked"))),
)
def test_components_equal_a_plain_reimplementation(laughter: str, questions: str, greedy: str, slope: str) -> None:
    turns = made_turns(200)
    variants = Variants(laughter=laughter, questions=questions, greedy=greedy, slope=slope)  # type: ignore[arg-type]
    for start in range(0, 200, 8):
        sides = [(Side.PERSON if place % 2 == 0 else Side.BOT, turns[start + place]) for place in range(8)]
        exchanges = human_exchanges(sides)
        found = component_values(exchanges, WordReader(), variants)
        expected = plain_components(exchanges, laughter=laughter, questions=questions, greedy=greedy, slope=slope)
        assert list(found) == list(COMPONENTS)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True), turns[start : start + 8]


def test_exchanges_join_turns_of_a_side_and_know_the_answer() -> None:
    turns = [
        (Side.BOT, "Hello."),
        (Side.PERSON, "Hi!"),
        (Side.PERSON, "How are you?"),
        (Side.BOT, "Fine."),
        (Side.PERSON, "Good."),
        (Side.BOT, "And you?"),
    ]
    assert human_exchanges(turns) == [
        AnsweredTurn("Hi! How are you?", "Fine.", "Good."),
        AnsweredTurn("Good.", "And you?", None),
    ]
    assert human_exchanges([*turns, (Side.PERSON, "Bye.")])[-1] == AnsweredTurn("Good.", "And you?", "Bye.")
    assert human_exchanges([]) == human_exchanges(turns[:2]) == []


def test_in_self_play_a_reply_is_its_own_answer() -> None:
    assert self_play_exchanges(["a", "b", "c"]) == [AnsweredTurn("a", "b", "b"), AnsweredTurn("b", "c", "c")]
    assert self_play_exchanges(["a"]) == []


@pytest.mark.parametrize(
    ("text", "token", "substring"),
    [
        ("ha", 1, 1),
        ("Hahaha!", 1, 3),
        ("haha, ha", 2, 3),
        ("that is what I have", 0, 3),
        ("ahahah", 1, 2),
        ("aha", 1, 1),
        ("hah hahh", 2, 2),
        ("", 0, 0),
        ("ha ha ha ha ha", 4, 4),
        ("harm", 0, 1),
    ],
)
def test_laughter_by_words_and_by_substrings(text: str, token: int, substring: int) -> None:
    assert (count_laughs(text), count_laughs(text, "substring")) == (token, substring)


@pytest.mark.parametrize(
    ("text", "half", "both"),
    [
        ("What?", 1.0, 1.0),
        ("what", 0.5, 0.0),
        ("Really?", 0.5, 0.0),
        ("Anyhow?", 0.5, 1.0),  # "how" inside of another word
        ("somewhere", 0.0, 0.0),
        ("元気ですか\uff1f", 0.5, 0.0),
        ("كيف حالك\u061f", 0.5, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_questions_by_halves_and_as_in_the_later_code(text: str, half: float, both: float) -> None:
    assert (question_score(text), question_score(text, "both")) == (half, both)


def test_words_are_clipped_and_silence_has_none() -> None:
    assert [count_words(text) for text in ("a b", "", None, "w " * 40)] == [2, 0, 0, 30]


def test_emojis_are_those_of_the_published_order_and_weights() -> None:
    weights = emoji_weights()
    assert len(EMOJIS) == len(set(EMOJIS)) == 64
    assert {EMOJIS[place]: weights[place] for place in (0, 1, 4, 6, 14, 16, 56)} == {
        "joy": 0,
        "unamused": -1,
        "heart_eyes": 0.75,
        "ok_hand": 1,
        "sleeping": -0.5,
        "relaxed": 0.5,
        "no_good": 0,
    }
    assert np.unique(weights, return_counts=True)[1].tolist() == [3, 4, 5, 33, 9, 6, 4]
    uniform = np.full((2, 64), 1 / 64)
    assert emoji_score(uniform) == pytest.approx([4.5 / 64] * 2)


def test_slope_from_smallest_to_largest() -> None:
    assert min_max_slope([0.1, 0.9, -0.5, 0.3]) == pytest.approx((-0.5 - 0.9) / (2 - 1))
    assert min_max_slope([0.1, 0.9], "masked") == pytest.approx((0.0 - 0.9) / (2 - 1))
    gap = [0.9, math.nan, -0.5]  # a turn without words has its place
    assert min_max_slope(gap) == pytest.approx((-0.5 - 0.9) / (2 - 0))
    assert min_max_slope([0.9, math.nan, 0.5], "masked") == pytest.approx((0.0 - 0.9) / (1 - 0))
    assert min_max_slope([math.nan, 0.4]) == 0.0
    assert min_max_slope([0.4, 0.4]) == min_max_slope([0.4]) == min_max_slope([]) == 0.0


def test_texts_without_known_words_have_similarity_zero() -> None:
    nothing, word = np.zeros((0, 3)), np.array([[1.0, 2.0, 3.0]])
    for similarity in (average_coherence, extrema_coherence, greedy_coherence):
        assert similarity(nothing, word) == similarity(word, nothing) == 0.0
    assert cosine(np.zeros(3), word[0]) == 0.0


def test_equally_far_ends_take_the_larger() -> None:
    both = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert extrema_coherence(both, np.array([[1.0, 0.0]])) == pytest.approx(1.0)


vectors = st.lists(
    st.lists(st.floats(-5, 5, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=3, max_size=3),
    min_size=1,
    max_size=5,
).map(lambda rows: np.array(rows, np.float64))


@given(vectors, vectors)
def test_coherence_is_symmetric_and_bounded(left: Floats, right: Floats) -> None:
    for similarity in (average_coherence, extrema_coherence, greedy_coherence):
        assert similarity(left, right) == pytest.approx(similarity(right, left), abs=1e-12)
        assert -1 - 1e-12 <= similarity(left, right) <= 1 + 1e-12


def test_components_cost_characters_words_squared_and_pairs_of_words() -> None:
    turns = ["one two three", "four five", "six"]
    assert component_cost(turns) == pytest.approx(3 * 300 + 2 * 25 + 0.08 * (9 + 4 + 1) + 0.07 * (6 + 2))
    assert component_cost([]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("don't", 1),
        ("a,b_c", 5),
        ("नमस्ते दुनिया", 2),
        ("привет, мир", 3),
        ("日本 語", 2),
        ("hi \U0001f600", 8),
        ("‼ℹ", 13),
        ("\u200e \u200e", 2),  # no words of vectors, but VADER's
    ],
)
def test_letters_with_their_marks_make_a_word_and_an_emoji_six(text: str, words: int) -> None:
    assert turn_words(text) == words


def test_vader_makes_no_more_words_of_an_emoji_than_are_counted() -> None:
    analyzer = SentimentIntensityAnalyzer()
    for emoji in (emoji for emoji in analyzer.emojis if len(emoji) == 1):
        assert len(analyzer.emojis[emoji].split()) <= turn_words(emoji) - 1, emoji


def test_components_end_between_two_exchanges() -> None:
    looks = list[int]()

    def check() -> None:
        looks.append(len(looks))
        if len(looks) == 5:
            raise KeyboardInterrupt

    exchanges = [AnsweredTurn("good", "good", "good")] * 3
    with pytest.raises(KeyboardInterrupt):
        component_values(exchanges, WordReader(), Variants(), check)
    assert looks == [0, 1, 2, 3, 4]
