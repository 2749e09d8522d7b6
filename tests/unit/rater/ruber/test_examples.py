"""Pairs and replies from elsewhere: checked one by one against what a plain loop over all rows allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubers import Text, hash_of, pairs_of, tiny_pairs, tiny_sides

from refaug.core.errors import Usage
from refaug.rater.ruber.build import PairExamples
from refaug.rater.training.examples import hash_share
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings

Row = tuple[Text, Text, int]


def text_at(corpus: PairCorpus, number: int) -> Text:
    return tuple(corpus.pieces[corpus.start[number] : corpus.start[number + 1]].tolist())


def of_side(rows: list[Row], side: str, share: float, seed: int = 1) -> list[Row]:
    """The rows whose utterance is on this side."""
    return [row for row in rows if (hash_share(hash_of(row[0]), seed) < share) == (side == "validation")]


def allowed(row: Row, log: list[Row], every: list[Row]) -> set[Text]:
    """The replies of a log that a row may get: of another dialogue, and never given to its utterance."""
    known = {reply for utterance, reply, _ in every if utterance == row[0]}
    return {reply for _, reply, dialogue in log if dialogue != row[2]} - known


def triples_of(corpus: PairCorpus, examples: PairExamples, number: int) -> list[tuple[Text, Text, Text]]:
    return [tuple(text_at(corpus, text) for text in triple) for cut in examples.draw(number) for triple in cut.tolist()]


SMALL_TEXTS = st.sampled_from([(2,), (3,), (2, 3), (4, 5, 6)])
ROWS = st.lists(st.tuples(SMALL_TEXTS, SMALL_TEXTS, st.integers(0, 3)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(ROWS, min_size=1, max_size=2), st.integers(1, 3), st.integers(1, 5))
def test_every_reply_from_elsewhere_is_one_that_may_be(logs: list[list[Row]], seed: int, batch: int) -> None:
    corpus, every = pairs_of(logs), [row for log in logs for row in log]
    for side in ("train", "validation"):
        examples = PairExamples(corpus, side, PairSettings(batch=batch, validation_share=0.5, seed=seed), 16)
        sides = [of_side(log, side, 0.5, seed) for log in logs]
        possible = [(row, allowed(row, log, every)) for log in sides for row in log]
        expected = sorted((row[0], row[1]) for row, may_be in possible if may_be)
        assert examples.unmatched_count == len(possible) - len(expected)  # in a hundred draws, of at most 24 pairs
        found = triples_of(corpus, examples, 1)
        assert sorted(triple[:2] for triple in found) == expected  # each pair once
        for utterance, reply, other in found:
            assert any(other in may_be for row, may_be in possible if row[:2] == (utterance, reply))


def test_a_reply_from_elsewhere_is_drawn_evenly_among_all_pairs_that_fit() -> None:
    rows: list[Row] = [((2,), (10,), 0)]
    rows += [((3, at), (11,), 1 + at) for at in range(3)]  # three times
    rows += [((4,), (12,), 10), ((2,), (13,), 11), ((5,), (14,), 0), ((6,), (10,), 12)]  # fits, known, inside, the same
    corpus = pairs_of([rows])
    share = PairSettings(validation_share=1e-9, batch=100)
    examples = PairExamples(corpus, "train", share, 16)
    drawn = [
        other
        for number in range(1, 801)
        for utterance, reply, other in triples_of(corpus, examples, number)
        if (utterance, reply) == ((2,), (10,))
    ]
    assert set(drawn) == {(11,), (12,)}
    assert len(drawn) == 800
    assert drawn.count((11,)) == pytest.approx(600, abs=60)  # five standard deviations


def test_replies_come_from_the_same_log_and_the_same_side() -> None:
    logs = [
        [((2 + at, 50), (60, 2 + at), at) for at in range(40)],
        [((2 + at, 51), (61, 2 + at), at) for at in range(40)],
    ]
    corpus = pairs_of(logs)
    for side in ("train", "validation"):
        mine = {row[1] for log in logs for row in of_side(log, side, 0.3)}
        examples = PairExamples(corpus, side, PairSettings(validation_share=0.3, batch=8), 16)
        for number in (1, 2, 3):
            for utterance, _, other in triples_of(corpus, examples, number):
                assert other in mine
                assert (other[0] == 60) == (utterance[1] == 50)


def test_the_sides_go_by_the_utterance_alone_and_have_all_pairs() -> None:
    corpus = tiny_pairs(dialogues=500)
    share = PairSettings(validation_share=0.3, seed=4)
    train, validation = (corpus.of_side(side, share) for side in ("train", "validation"))
    assert sorted([*train.tolist(), *validation.tolist()]) == list(range(500))
    assert validation.tolist() == [row for row, key in enumerate(corpus.asked.tolist()) if hash_share(key, 4) < 0.3]
    assert not set(corpus.asked[train].tolist()) & set(corpus.asked[validation].tolist())
    assert 100 < len(validation) < 200


def test_epochs_repeat_for_the_same_seed_and_number_and_differ_otherwise() -> None:
    corpus = tiny_pairs()
    drawn = {
        (seed, number): triples_of(corpus, tiny_sides(corpus, seed=seed)[0], number)
        for seed in (1, 2)
        for number in (0, 1, 2)
    }
    assert triples_of(corpus, tiny_sides(corpus)[0], 2) == drawn[1, 2]
    assert len({tuple(one) for one in drawn.values()}) == 6
    pairs = [sorted(triple[:2] for triple in drawn[1, number]) for number in (0, 1, 2)]
    assert pairs[0] == pairs[1] == pairs[2]
    negatives = [{triple[:2]: triple[2] for triple in drawn[1, number]} for number in (1, 2)]
    same = sum(negatives[0][pair] == negatives[1][pair] for pair in negatives[0])
    assert same < 0.2 * len(negatives[0])


def test_a_limit_draws_other_pairs_in_every_epoch() -> None:
    corpus = tiny_pairs()
    examples, _ = tiny_sides(corpus, limit=30)
    every = {triple[:2] for triple in triples_of(corpus, tiny_sides(corpus)[0], 1)}
    epochs = [{triple[:2] for triple in triples_of(corpus, examples, number)} for number in range(1, 9)]
    assert [len(epoch) for epoch in epochs] == [30] * 8
    assert examples.epoch_size == 30
    assert all(epoch < every for epoch in epochs)
    assert len(set.union(*epochs)) > 100


def test_batches_are_the_drawn_triples_longest_first_with_each_text_once() -> None:
    corpus = tiny_pairs()
    examples, _ = tiny_sides(corpus)
    drawn = [cut.tolist() for cut in examples.draw(3)]
    batches = list(examples.batches(3))
    assert len(batches) == len(drawn) == examples.batch_count() == examples.epoch_size // 20
    for batch, triples in zip(batches, drawn, strict=True):
        for lengths in (batch.utterance_lengths, batch.reply_lengths):
            assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
        utterances = [tuple(row[:n]) for row, n in zip(batch.utterances.tolist(), batch.utterance_lengths, strict=True)]
        replies = [tuple(row[:n]) for row, n in zip(batch.replies.tolist(), batch.reply_lengths, strict=True)]
        assert len(set(utterances)) == len(utterances)
        assert len(set(replies)) == len(replies)
        found = [(utterances[u], replies[r], replies[n]) for u, r, n in batch.rows.tolist()]
        assert found == [tuple(text_at(corpus, text) for text in triple) for triple in triples]
    rest = list(examples.batches(3, skip=4))
    assert len(rest) == len(batches) - 4
    for one, other in zip(rest, batches[4:], strict=True):
        assert all(np.array_equal(mine, yours) for mine, yours in zip(one, other, strict=True))


def test_negative_replies_come_from_the_batch_if_one_fits() -> None:
    examples, _ = tiny_sides(tiny_pairs(dialogues=400))
    for cut in examples.draw(1):
        assert set(cut[:, 2].tolist()) <= set(cut[:, 1].tolist())
        assert 20 <= len(cut) < 40
    alone = PairExamples(tiny_pairs(), "train", PairSettings(batch=1, validation_share=0.3), 16)
    drawn = alone.draw(1)
    assert [len(cut) for cut in drawn] == [1] * alone.epoch_size
    assert all(cut[0, 1] != cut[0, 2] for cut in drawn)


def test_texts_are_read_to_the_most_pieces_alone() -> None:
    corpus = pairs_of(
        [[(tuple(range(2, 30)), (3 + at,), at) for at in range(3)] + [((9,), (40,), 9), ((8,), (41,), 8)]]
    )
    examples = PairExamples(corpus, "train", PairSettings(batch=9, validation_share=1e-9), 5)
    (batch,) = examples.batches(1)
    assert batch.utterances[0].tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "rows",
    [
        [((2,), (3,), 0), ((3,), (4,), 0), ((4,), (5,), 0)],  # one dialogue
        [((2 + at,), (60,), at) for at in range(9)],  # everybody says the same
        [((2,), (3 + at,), at) for at in range(9)],  # everybody asks the same
    ],
)
def test_where_nothing_is_from_elsewhere_no_pair_is_left(rows: list[Row]) -> None:
    examples = PairExamples(pairs_of([rows]), "train", PairSettings(validation_share=1e-9), 16)
    assert (len(examples.rows), examples.unmatched_count, examples.epoch_size) == (0, len(rows), 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"batch": 0}, "batches of 0 pairs"),
        ({"limit": 19}, "19 pairs an epoch"),
        ({"validation_share": 0.0}, "a validation share of 0.0"),
        ({"validation_share": 1.0}, "a validation share of 1.0"),
        ({"validation_share": float("nan")}, "a validation share of nan"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(Usage) as caught:
        PairSettings(**wrong)
    assert caught.value.message == said
    assert caught.value.remedy
