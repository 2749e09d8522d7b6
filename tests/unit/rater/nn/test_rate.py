"""Ratings against the network written out in plain numpy, and against themselves asked in other ways."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from raters import tiny_model
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.vectors.kept_vectors import Encodings
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.rating import Rater, RatingRequest, combine_probabilities
from refaug.rater.rating_settings import COMBINES, Calibration, Combine, RatingSettings
from refaug.rater.text_encoding import Floats, Ids, bytes_of

MOST = 16  # pieces of a text that are read
TEMPERATURE = 2.5
CLOSE = 1e-5
WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
WORDS += ["they", "to", "trees", "we", "what", "why", "yes", "you"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 8)) for number in range(700)})

# The published combinations, one for each name.
BY_HAND: dict[Combine, Callable[[float, float], float]] = {
    "first": lambda one, _other: 2 * one - 1,
    "first-literal": lambda one, _other: one if one >= 0.5 else -(1 - one),
    "max": lambda one, other: 2 * max(one, other) - 1,
    "confident": lambda one, other: 2 * (one if abs(one - 0.5) >= abs(other - 0.5) else other) - 1,
    "mean": lambda one, other: 2 * (one + other) / 2 - 1,
}
EVERY_WAY = [
    RatingSettings(combine=combine, calibrated=calibrated) for combine in BY_HAND for calibrated in (False, True)
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.model"
    train_sentencepiece(TEXTS, path, TokenizerTraining(vocab_size=100, at_most=True))
    return open_sentencepiece(path)


def rater_of(tokenizer: SentencePieceTokenizer, **more: Any) -> Rater:
    """A rater with opinions: drawn weights, scaled up until its answers lie far apart."""
    model = tiny_model(tokenizer.vocab_size, max_tokens=MOST)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return NNRater(model, tokenizer, temperature=TEMPERATURE, **more)


@pytest.fixture
def rater(tokenizer: SentencePieceTokenizer) -> Rater:
    return rater_of(tokenizer)


def to_rate(seed: int, candidates: int = 4, golds: int = 1) -> RatingRequest:
    rng = random.Random(seed)
    return RatingRequest(
        utterance=rng.choice(TEXTS),
        golds=tuple(rng.choices(TEXTS, k=golds)),
        candidates=tuple(
            Reference(text=rng.choice(TEXTS), utterance=rng.choice([None, *rng.choices(TEXTS, k=2)]))
            for _ in range(candidates)
        ),
    )


def require_close(found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> None:
    assert [len(own) for own in found] == [len(own) for own in expected]
    for one, other in zip(found, expected, strict=True):
        assert list(one) == pytest.approx(list(other), abs=CLOSE)


# The network in plain numpy, double precision


def sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-values)))


def read_plainly(model: BiGRURater, ids: Sequence[int]) -> NDArray[np.float64]:
    """The last state of a GRU (Cho et al. 2014, reset after the product) from left to right, and from right to left."""
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    ends = []
    for way, order in (("l0", ids), ("l0_reverse", ids[::-1])):
        state = np.zeros(model.config.hidden)
        for piece in order:
            seen = weights[f"reader.weight_ih_{way}"] @ weights["embedding.weight"][piece]
            seen = np.split(seen + weights[f"reader.bias_ih_{way}"], 3)
            kept = np.split(weights[f"reader.weight_hh_{way}"] @ state + weights[f"reader.bias_hh_{way}"], 3)
            reset, update = sigmoid(seen[0] + kept[0]), sigmoid(seen[1] + kept[1])
            state = (1 - update) * np.tanh(seen[2] + reset * kept[2]) + update * state
        ends.append(state)
    return np.concatenate(ends)


def likely_plainly(rater: Rater, triplet: Sequence[str], temperature: float = 1.0) -> float:
    """P(positive) of a triplet of texts."""
    weights = {name: tensor.double().numpy() for name, tensor in rater.model.state_dict().items()}
    coded = [rater.tokenizer.encode_ids_batch([text])[0][:MOST] or [1] for text in triplet]
    state = np.concatenate([read_plainly(rater.model, ids) for ids in coded])
    for layer in range(rater.model.config.layers):
        state = np.maximum(0, weights[f"hidden.{layer}.weight"] @ state + weights[f"hidden.{layer}.bias"])
    negative, positive = (weights["last.weight"] @ state + weights["last.bias"]) / temperature
    return float(1 / (1 + np.exp(negative - positive)))


def both_plainly(
    rater: Rater, one: RatingRequest, gold: str, candidate: Reference, temperature: float
) -> tuple[float, float]:
    """P of [U1, R1, R2] and of [U2, R2, R1]; a candidate without an utterance has U2 := U1."""
    own = one.utterance if candidate.utterance is None else candidate.utterance
    return (
        likely_plainly(rater, (one.utterance, gold, candidate.text), temperature),
        likely_plainly(rater, (own, candidate.text, gold), temperature),
    )


@pytest.mark.parametrize("wanted", EVERY_WAY, ids=lambda one: f"{one.combine}-{one.calibration}")
def test_ratings_are_those_of_the_network_written_out(rater: Rater, wanted: RatingSettings) -> None:
    asked = [to_rate(1, 3, 1), to_rate(2, 2, 2), to_rate(3, 0, 1), to_rate(4, 1, 3)]
    temperature = TEMPERATURE if wanted.calibration == "cal" else 1.0
    expected = []
    for one in asked:
        own = []
        for candidate in one.candidates:
            by_gold = [
                BY_HAND[wanted.combine](*both_plainly(rater, one, gold, candidate, temperature)) for gold in one.golds
            ]
            own.append(sum(by_gold) / len(by_gold))
        expected.append(own)
    require_close(rater.rate(asked, wanted), expected)


def test_the_rater_of_these_tests_has_opinions(rater: Rater) -> None:
    first, second = rater.probabilities([to_rate(seed, 20) for seed in range(10)])
    assert second is not None
    for likely in (first, second):
        assert likely.min() < 0.3
        assert likely.max() > 0.7


# Ways to combine


def test_the_table_has_every_way_there_is() -> None:
    assert tuple(BY_HAND) == COMBINES


@pytest.mark.parametrize("combine", COMBINES)
def test_ratings_are_combined_as_the_table_says(rater: Rater, combine: Combine) -> None:
    asked = [to_rate(seed, 9) for seed in range(12)]
    first, second = rater.probabilities(asked)
    assert second is not None
    expected = [BY_HAND[combine](one, other) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    found = rater.rate(asked, RatingSettings(combine=combine))
    assert [len(own) for own in found] == [9] * 12
    assert [rating for own in found for rating in own] == pytest.approx(expected, abs=CLOSE)


LIKELY = st.floats(0, 1)


@given(st.lists(st.tuples(LIKELY, LIKELY), min_size=1, max_size=20), st.sampled_from(COMBINES))
@settings(max_examples=40, deadline=None)
def test_any_two_probabilities_give_the_rating_of_the_table(pairs: list[tuple[float, float]], combine: Combine) -> None:
    first, second = (np.array(some) for some in zip(*pairs, strict=True))
    found = combine_probabilities(first, second, combine).tolist()
    assert found == pytest.approx([BY_HAND[combine](*pair) for pair in pairs], abs=1e-12)
    assert all(-1 <= rating <= 1 for rating in found)


def test_the_table_at_a_half_and_on_a_tie() -> None:
    half, low, high = np.array([0.5]), np.array([0.25]), np.array([0.75])
    assert combine_probabilities(half, half, "first-literal").tolist() == [
        0.5
    ]  # the positive class is the larger one, or as large
    assert combine_probabilities(low, half, "first-literal").tolist() == [-0.75]
    assert combine_probabilities(low, high, "confident").tolist() == [-0.5]  # equally sure: the first
    assert combine_probabilities(high, low, "confident").tolist() == [0.5]


@pytest.mark.parametrize("combine", COMBINES)
def test_the_second_triplet_is_asked_only_where_it_counts(combine: Combine) -> None:
    assert RatingSettings(combine=combine).needs_second == (combine in ("max", "confident", "mean"))


@pytest.mark.parametrize("wrong", [{"combine": "median"}, {"combine": ""}, {"calibrated": "hot"}])
def test_ways_that_do_not_exist_are_refused_with_those_that_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(Usage) as caught:
        RatingSettings(**wrong)
    assert repr(next(iter(wrong.values()))) in caught.value.message
    assert [caught.value.field] == list(wrong)


def test_calibrated_probability_is_the_softmax_of_logits_over_temperature(rater: Rater) -> None:
    asked = [to_rate(seed) for seed in range(20)]
    for raw, cal in zip(
        rater.probabilities(asked, calibration="raw"), rater.probabilities(asked, calibration="cal"), strict=True
    ):
        assert raw is not None
        assert cal is not None
        odds = np.log(raw) - np.log1p(-raw)
        assert cal == pytest.approx(1 / (1 + np.exp(-odds / TEMPERATURE)), abs=CLOSE)
        assert not np.allclose(raw, cal, atol=0.01)


def test_swapping_responses_to_one_utterance_swaps_the_two_probabilities(rater: Rater) -> None:
    triples = [random.Random(seed).choices(TEXTS, k=3) for seed in range(30)]
    there = [RatingRequest(utterance=u, golds=(r,), candidates=(Reference(text=s),)) for u, r, s in triples]
    back = [RatingRequest(utterance=u, golds=(s,), candidates=(Reference(text=r),)) for u, r, s in triples]
    calibrations: tuple[Calibration, ...] = ("raw", "cal")
    for calibration in calibrations:
        first, second = rater.probabilities(there, calibration=calibration)
        first_back, second_back = rater.probabilities(back, calibration=calibration)
        assert first == pytest.approx(second_back, abs=CLOSE)
        assert second == pytest.approx(first_back, abs=CLOSE)


# What is asked


def test_a_candidate_without_an_utterance_has_that_of_the_test_pair(rater: Rater) -> None:
    for one in (to_rate(seed, 6, 2) for seed in range(10)):
        without = replace(one, candidates=tuple(replace(candidate, utterance=None) for candidate in one.candidates))
        with_it = replace(
            one, candidates=tuple(replace(candidate, utterance=one.utterance) for candidate in one.candidates)
        )
        for wanted in EVERY_WAY:
            assert rater.rate([without], wanted) == rater.rate([with_it], wanted)


def test_the_utterance_of_a_candidate_counts_for_the_second_triplet_alone(rater: Rater) -> None:
    one = RatingRequest(
        utterance=TEXTS[1], golds=(TEXTS[2],), candidates=(Reference(text=TEXTS[3], utterance=TEXTS[4]),)
    )
    other = replace(one, candidates=(Reference(text=TEXTS[3], utterance=TEXTS[300]),))
    empty = replace(one, candidates=(Reference(text=TEXTS[3], utterance=""),))
    none = replace(one, candidates=(Reference(text=TEXTS[3]),))
    first, second = rater.probabilities([one, other, empty, none])
    assert second is not None
    assert len({round(float(likely), 6) for likely in first}) == 1
    assert len({round(float(likely), 6) for likely in second}) == 4  # an empty utterance is one, too


def test_probabilities_are_ordered_by_test_pair_gold_and_candidate(rater: Rater) -> None:
    asked = [to_rate(1, 3, 2), to_rate(2, 1, 1), to_rate(3, 2, 3)]
    first, second = rater.probabilities(asked)
    assert second is not None
    expected = [
        both_plainly(rater, one, gold, candidate, 1.0)
        for one in asked
        for gold in one.golds
        for candidate in one.candidates
    ]
    assert first.tolist() == pytest.approx([one for one, _ in expected], abs=CLOSE)
    assert second.tolist() == pytest.approx([other for _, other in expected], abs=CLOSE)
    only, none = rater.probabilities(asked, second=False)
    assert none is None
    assert only == pytest.approx(first, abs=CLOSE)


@pytest.mark.parametrize("wanted", EVERY_WAY, ids=lambda one: f"{one.combine}-{one.calibration}")
def test_rating_against_several_golds_is_the_mean_over_them(rater: Rater, wanted: RatingSettings) -> None:
    one = to_rate(5, 7, 3)
    each = [rater.rate([replace(one, golds=(gold,))], wanted)[0] for gold in one.golds]
    require_close(rater.rate([one], wanted), [[sum(ratings) / 3 for ratings in zip(*each, strict=True)]])


def test_a_gold_that_is_there_twice_counts_twice(rater: Rater) -> None:
    one = to_rate(6, 4, 2)
    first, second = (np.array(rater.rate([replace(one, golds=(gold,))])[0]) for gold in one.golds)
    found = rater.rate([replace(one, golds=(one.golds[0], *one.golds))])[0]
    assert found == pytest.approx(((2 * first + second) / 3).tolist(), abs=CLOSE)


def test_without_candidates_there_are_no_ratings(rater: Rater) -> None:
    one = to_rate(1)
    bare = replace(one, candidates=())
    for wanted in EVERY_WAY:
        assert rater.rate([bare], wanted) == [[]]
        assert rater.rate([replace(bare, golds=())], wanted) == [[]]
        assert rater.rate([bare, one, bare], wanted) == [[], *rater.rate([one], wanted), []]


def test_nothing_asked_is_nothing_answered(rater: Rater) -> None:
    assert [len(likely) for likely in rater.probabilities([]) if likely is not None] == [0, 0]
    assert rater.rate([]) == []


def test_a_test_pair_without_a_gold_is_refused(rater: Rater) -> None:
    with refusing(Usage) as caught:
        rater.rate([to_rate(1), replace(to_rate(2), golds=())])
    assert caught.value.remedy == "give it a reference"


# However it is asked


def test_a_rating_is_the_same_alone_in_any_batch_and_in_any_order(tokenizer: SentencePieceTokenizer) -> None:
    wanted = RatingSettings(combine="mean")
    asked = [to_rate(seed, candidates=seed % 5, golds=1 + seed % 3) for seed in range(40)]
    alone = [rater_of(tokenizer).rate([one], wanted)[0] for one in asked]
    require_close(rater_of(tokenizer).rate(asked, wanted), alone)
    for size in (2, 7, 19):
        fresh = rater_of(tokenizer)
        cuts = [asked[at : at + size] for at in range(0, len(asked), size)]
        require_close([own for cut in cuts for own in fresh.rate(cut, wanted)], alone)
    order = random.Random(1).sample(range(40), 40)
    found = rater_of(tokenizer).rate([asked[at] for at in order], wanted)
    require_close(found, [alone[at] for at in order])


def test_a_candidate_gets_the_same_rating_beside_any_others(tokenizer: SentencePieceTokenizer) -> None:
    one = to_rate(1, 30)
    alone = [rater_of(tokenizer).rate([replace(one, candidates=(each,))])[0][0] for each in one.candidates]
    require_close(rater_of(tokenizer).rate([one]), [alone])
    require_close(rater_of(tokenizer).rate([replace(one, candidates=one.candidates[::-1])]), [alone[::-1]])
    twice = rater_of(tokenizer).rate([replace(one, candidates=(*one.candidates, *one.candidates))])
    require_close(twice, [[*alone, *alone]])


def test_more_texts_and_triplets_than_one_batch_are_rated_like_few(tokenizer: SentencePieceTokenizer) -> None:
    texts = TEXTS[:330]
    one = RatingRequest(
        utterance=texts[0], golds=tuple(texts[1:15]), candidates=tuple(Reference(text=text) for text in texts[15:])
    )
    found = rater_of(tokenizer).rate([one])[0]
    assert len(found) * len(one.golds) > 4_096
    some = (0, 1, 150, 255, 256, 300, 314)
    expected = rater_of(tokenizer).rate([replace(one, candidates=tuple(one.candidates[at] for at in some))])
    require_close([[found[at] for at in some]], expected)
    mean = sum(likely_plainly(rater_of(tokenizer), (texts[0], gold, texts[-1])) for gold in one.golds) / 14
    assert found[-1] == pytest.approx(2 * mean - 1, abs=CLOSE)


def test_of_very_many_candidates_the_vectors_are_held_in_parts(tokenizer: SentencePieceTokenizer) -> None:
    one = RatingRequest(
        utterance=TEXTS[0],
        golds=tuple(TEXTS[1:121]),
        candidates=tuple(Reference(text=text) for text in TEXTS[121:395]),
    )
    assert 32_768 < len(one.golds) * len(one.candidates) <= 2 * 32_768
    rater = rater_of(tokenizer, cache_bytes=1)
    with counted_reading(rater) as read:
        found = rater.rate([one])[0]
    assert sum(read) > len(texts_in([one], second=False))  # some stand in both parts, and nothing is kept
    some = (0, 1, 150, 272, 273)
    expected = rater.rate([replace(one, candidates=tuple(one.candidates[at] for at in some))])
    require_close([[found[at] for at in some]], expected)


# The cache


@contextmanager
def counted_reading(rater: Rater) -> Iterator[list[int]]:
    """How many texts the network reads, each time that it does."""
    read, plainly = list[int](), rater._read._read

    def noted(tokens: Ids, lengths: Ids, threads: int) -> Floats:
        read.append(len(tokens))
        return plainly(tokens, lengths, threads)

    rater._read._read = noted
    yield read
    rater._read._read = plainly


def texts_in(asked: Sequence[RatingRequest], *, second: bool) -> set[str]:
    found = set[str]()
    for one in asked:
        found |= {one.utterance, *one.golds, *(candidate.text for candidate in one.candidates)}
        if second:
            found |= {candidate.utterance for candidate in one.candidates if candidate.utterance is not None}
    return found


def test_text_is_read_once_and_cached_ratings_are_equal_to_the_bit(rater: Rater) -> None:
    asked = [to_rate(seed, 6, 2) for seed in range(10)]
    with counted_reading(rater) as read:
        first = rater.rate(asked)
        assert sum(read) == len(texts_in(asked, second=False))
        both = rater.rate(asked, RatingSettings(combine="max"))
        assert sum(read) == len(texts_in(asked, second=True))
        before = list(read)
        for _ in range(3):
            assert rater.rate(asked) == first
            assert rater.rate(asked, RatingSettings(combine="max")) == both
        assert read == before


def test_a_warm_cache_changes_no_rating(tokenizer: SentencePieceTokenizer) -> None:
    wanted = RatingSettings(combine="confident")
    asked = [to_rate(seed) for seed in range(20)]
    cold = [rater_of(tokenizer).rate([one], wanted)[0] for one in asked]
    warm = rater_of(tokenizer)
    warm.rate([to_rate(seed, 10) for seed in range(100, 120)])
    warm.rate(asked[::3])
    require_close(warm.rate(asked, wanted), cold)


@pytest.mark.parametrize("room", [0, 1, 2, 5])
def test_small_cache_holds_the_latest_texts_and_ratings_stay_right(
    tokenizer: SentencePieceTokenizer, room: int
) -> None:
    asked = [to_rate(seed, 6, 2) for seed in range(12)]
    expected = [rater_of(tokenizer).rate([one])[0] for one in asked]
    most = room * max(bytes_of(text, torch.empty(2 * 8)) for text in TEXTS)
    tight = rater_of(tokenizer, cache_bytes=most)
    for _ in range(2):
        require_close(tight.rate(asked), expected)
        held = tight._read._cache.size
        assert most - most / max(1, room) <= held <= most
        for one, ratings in zip(asked, expected, strict=True):
            require_close(tight.rate([one]), [ratings])
    last = RatingRequest(utterance=TEXTS[0], golds=(TEXTS[0],), candidates=(Reference(text=TEXTS[0]),))
    with counted_reading(tight) as read:
        tight.rate([last])
        tight.rate([last])
    assert read == ([1] if room else [1, 1])


def test_the_texts_that_were_asked_for_last_are_kept(tokenizer: SentencePieceTokenizer) -> None:
    rater = rater_of(tokenizer, cache_bytes=3 * bytes_of("green", torch.empty(2 * 8)))

    def ask(*texts: str) -> None:
        rater.rate(
            [RatingRequest(utterance=texts[0], golds=(texts[0],), candidates=tuple(Reference(text=t) for t in texts))]
        )

    with counted_reading(rater) as read:
        ask("red")
        ask("green")
        ask("blue")
        ask("red")  # becomes the newest
        assert sum(read) == 3
        ask("fly")  # green has to go
        assert sum(read) == 4
        ask("red")
        ask("blue")
        assert sum(read) == 4
        ask("green")
        assert sum(read) == 5


@pytest.mark.parametrize("cache_bytes", [2 * 4 * 2 * 8, 1 << 20])
def test_several_threads_at_once_get_the_ratings_that_one_gets(
    tokenizer: SentencePieceTokenizer, cache_bytes: int
) -> None:
    work = [([to_rate(seed, 5), to_rate(seed % 7, 3, 2)], EVERY_WAY[seed % len(EVERY_WAY)]) for seed in range(60)]
    expected = [rater_of(tokenizer).rate(asked, wanted) for asked, wanted in work]
    shared = rater_of(tokenizer, cache_bytes=cache_bytes)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda one: shared.rate(*one), work))
    for one, other in zip(found, expected, strict=True):
        require_close(one, other)


# Texts of all kinds

LONG = " ".join(random.Random(9).choices(WORDS, k=10_000))
STRANGE = [
    "",
    " \t\n",
    "猫が好きです。",
    "Ὅμηρος",
    "😂😂",
    "\ud800",
    "\0",
    "\u0301",
    "-",
    "<pad>",
    "<unk>",
    "a" * 5_000,
    LONG,
]


@pytest.mark.parametrize("text", STRANGE, ids=[repr(text[:12]) for text in STRANGE])
@pytest.mark.parametrize("place", ["candidate", "own utterance", "gold", "utterance"])
def test_any_text_in_any_place_gets_a_rating_of_its_pieces(rater: Rater, text: str, place: str) -> None:
    usual = RatingRequest(
        utterance=TEXTS[5], golds=(TEXTS[6],), candidates=(Reference(text=TEXTS[7], utterance=TEXTS[8]),)
    )
    one = {
        "candidate": replace(usual, candidates=(Reference(text=text, utterance=TEXTS[8]),)),
        "own utterance": replace(usual, candidates=(Reference(text=TEXTS[7], utterance=text),)),
        "gold": replace(usual, golds=(text,)),
        "utterance": replace(usual, utterance=text),
    }[place]
    expected = both_plainly(rater, one, one.golds[0], one.candidates[0], 1.0)
    for combine, by_hand in BY_HAND.items():
        ((rating,),) = rater.rate([one], RatingSettings(combine=combine))
        assert -1 <= rating <= 1
        assert rating == pytest.approx(by_hand(*expected), abs=CLOSE)


def test_empty_response_is_one_unknown_piece_rated_like_white_space(rater: Rater) -> None:
    one = replace(to_rate(1), candidates=(Reference(text=""), Reference(text="  "), Reference(text="\n\t")))
    ratings = rater.rate([one])[0]
    assert ratings == pytest.approx([ratings[0]] * 3, abs=CLOSE)
    ids = [rater.tokenizer.unk_id]
    with torch.inference_mode():
        read = rater.model.read(torch.tensor([ids]), torch.tensor([1]))[0]
    assert read.numpy() == pytest.approx(read_plainly(rater.model, ids), abs=CLOSE)


def test_of_a_long_text_only_the_beginning_is_read(rater: Rater, tokenizer: SentencePieceTokenizer) -> None:
    ends = list(accumulate(LONG.split(), lambda text, word: f"{text} {word}", initial=""))[1 : MOST + 5]
    counts = [len(tokenizer.encode_ids_batch([text])[0]) for text in ends]
    beyond = next(at for at, count in enumerate(counts) if count >= MOST)
    one = replace(to_rate(1), candidates=tuple(Reference(text=text) for text in (*ends, LONG)))
    ratings = rater.rate([one])[0]
    assert ratings[beyond:] == pytest.approx([ratings[-1]] * len(ratings[beyond:]), abs=CLOSE)
    assert all(abs(before - after) > 10 * CLOSE for before, after in pairwise(ratings[: beyond + 1]))


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=30), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_gets_a_number_between_minus_one_and_one(rater: Rater, texts: list[str]) -> None:
    one = RatingRequest(
        utterance=texts[0], golds=(texts[-1],), candidates=tuple(Reference(text=text) for text in texts)
    )
    for wanted in EVERY_WAY:
        (ratings,) = rater.rate([one], wanted)
        assert len(ratings) == len(texts)
        assert all(-1 <= rating <= 1 for rating in ratings)


# Texts that are kept


def test_kept_texts_are_not_read_again_and_are_rated_to_the_bit_as_they_were(
    tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    encodings, asked = Encodings(tmp_path, 1 << 20), [to_rate(1), to_rate(2, golds=2)]
    texts = sorted({text for one in asked for text in (one.utterance, *one.golds)})
    candidates = sorted({text for one in asked for own in one.candidates for text in (own.text, own.utterance) if text})
    first, later = rater_of(tokenizer), rater_of(tokenizer)
    for one in (first, later):
        one.open_kept(encodings, "hash")
    assert first.readers is not None
    assert first.readers[1].keep([*candidates, candidates[0]], 1) == (len(candidates), 0)
    assert first.readers[1].keep(candidates, 1) == (0, 0)
    read = list[str]()
    with reading(later, read):
        found = later.rate(asked)
    assert sorted(read) == sorted(set(texts) - set(candidates))
    with reading(later, read := []):
        assert later.rate(asked) == found
    assert read == []
    require_close(found, rater_of(tokenizer).rate(asked))


@contextmanager
def reading(rater: Rater, read: list[str]) -> Iterator[None]:
    """Note the texts that the network reads."""
    assert rater.readers is not None
    reader, tokenizer = rater.readers[0], rater.readers[0]._tokenizer
    encode = tokenizer.encode_ids_batch

    class Noting:
        unk_id = tokenizer.unk_id

        def encode_ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
            read.extend(texts)
            return encode(texts)

    with patch.object(reader, "_tokenizer", Noting()):
        yield


def test_a_damaged_state_is_read_anew(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    encodings, rater = Encodings(tmp_path, 1 << 20), rater_of(tokenizer)
    rater.open_kept(encodings, "hash")
    assert rater.readers is not None
    rater.readers[0].keep(TEXTS[:3], 1)
    expected = rater.readers[0].vectors(TEXTS[:3])
    (path,) = tmp_path.glob("*.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update vectors set vector = substr(vector, 1, 20) where place = 2")
        connection.commit()
    rater.forget_texts()
    np.testing.assert_allclose(rater.readers[0].vectors(TEXTS[:3]), expected, atol=1e-6)
    assert [size.content for size in encodings.sizes()] == ["hash"]
    assert encodings.clear("hash") > 0
    assert encodings.sizes() == []
