"""Replies with noise: what each noise does to words, and how examples of the cross rater have it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from crosses import SHAPE, tiny_dialogues
from refusals import refusing
from vhreds import tiny_vhred

from refaug.core.errors import Usage
from refaug.operations.training import TrainRater
from refaug.rater.cross.examples import NOISY, RANDOM, CrossBatch, CrossExamples, CrossExampleSettings
from refaug.rater.cross.noise import NOISES, beginnings, with_noise
from refaug.rater.cross.sequences import REPLY

BEGINS = np.arange(40) % 2 == 0  # even pieces begin a word
REPLY_PIECES = [2, 3, 5, 4, 6, 7, 8]
WORDS = [(2, 3, 5), (4,), (6, 7), (8,)]


def words_of(pieces: list[int]) -> list[tuple[int, ...]]:
    text = " ".join(map(str, pieces))
    for word in sorted(WORDS, key=len, reverse=True):
        text = text.replace(" ".join(map(str, word)), "+".join(map(str, word)))
    return [tuple(map(int, word.split("+"))) for word in text.split()]


def noisy(noise: str, seed: int) -> list[tuple[int, ...]]:
    changed = with_noise(REPLY_PIECES, noise, BEGINS, np.random.default_rng(seed))
    assert changed is not None
    return words_of(changed)


def test_shuffled_words_are_the_same_in_another_order() -> None:
    orders = {tuple(noisy("shuffled", seed)) for seed in range(60)}
    assert all(sorted(order) == sorted(WORDS) and list(order) != WORDS for order in orders)
    assert len(orders) > 15


def test_dropped_words_leave_the_others_in_their_order() -> None:
    for seed in range(30):
        left = noisy("dropped", seed)
        assert 0 < len(left) < len(WORDS)
        assert left == [word for word in WORDS if word in left]


def test_repeated_words_stand_twice_in_their_place() -> None:
    for seed in range(30):
        said = noisy("repeated", seed)
        assert list(dict.fromkeys(said)) == WORDS
        assert set(Counter(said).values()) == {1, 2}
        assert all(at == 0 or word != said[at - 1] or Counter(said)[word] == 2 for at, word in enumerate(said))


@pytest.mark.parametrize("pieces", [[2, 3, 5], [4, 4, 4]])
def test_one_word_or_one_word_often_cannot_be_shuffled_or_dropped(pieces: list[int]) -> None:
    rng = np.random.default_rng(1)
    assert [with_noise(pieces, noise, BEGINS, rng) is None for noise in NOISES] == [True, True, False]


def test_words_begin_where_the_tokenizer_marks_a_space(tmp_path: Path) -> None:
    tokenizer = tiny_vhred(tmp_path).tokenizer
    begins = beginnings(tokenizer)
    ids = tokenizer.encode_ids_batch(["we never find the tall lamp"])[0]
    assert sum(begins[piece] for piece in ids) == 6


def examples(negatives: str = "noise") -> tuple[CrossExamples, list[CrossBatch]]:
    settings = CrossExampleSettings(batch=24, validation_share=0.3, negatives=negatives, hidden=0.0, known=0.0)
    begins = np.full(SHAPE.vocabulary, fill_value=True) if negatives == "noise" else None
    made = CrossExamples(tiny_dialogues(), "train", settings, SHAPE, begins=begins)
    return made, list(made.batches(1))


def reply_of(batch: CrossBatch, row: int) -> tuple[int, ...]:
    tokens = batch.sequences.tokens[row, : batch.sequences.lengths[row]].tolist()
    return tuple(tokens[tokens.index(SHAPE.vocabulary + REPLY) + 1 :])


def test_half_of_the_wrong_replies_are_the_right_one_with_noise_and_the_others_random() -> None:
    _, batches = examples()
    kinds = Counter[int]()
    for batch in batches:
        for place, kind in enumerate(batch.kinds[batch.examples :].tolist()):
            right, wrong = reply_of(batch, place // 2), reply_of(batch, batch.examples + place)
            kinds[kind] += 1
            if kind >= NOISY:
                assert wrong != right
                assert set(wrong) <= set(right)
    assert set(kinds) == {RANDOM, NOISY, NOISY + 1, NOISY + 2}
    assert 0.4 < kinds[RANDOM] / kinds.total() < 0.65


def test_an_epoch_with_noise_is_the_same_again_after_a_stop() -> None:
    made, batches = examples()
    for batch, other in zip(batches[2:], made.batches(1, skip=2), strict=True):
        np.testing.assert_array_equal(batch.sequences.tokens, other.sequences.tokens)


def test_the_network_of_the_method_knows_no_noise() -> None:
    with refusing(Usage, "noise"):
        TrainRater(logs=("a",), negatives="noise").check()
    TrainRater(logs=("a",), network="cross", negatives="noise").check()
