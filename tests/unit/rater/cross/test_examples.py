"""Examples of the cross rater: which replies are wrong, what is known to fit, and what is hidden."""

from __future__ import annotations

import numpy as np
import pytest
from crosses import SHAPE, tiny_dialogues, tiny_sides
from rubers import pairs_of

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.rater.cross.build import hard_replies
from refaug.rater.cross.examples import DIALOGUE, RANDOM, CrossExamples, CrossExampleSettings
from refaug.rater.cross.sequences import KNOWN, MASK, REPLY, TURN
from refaug.rater.training.examples import ExampleCorpus
from refaug.rater.training.hard_negatives import HardSettings, hard_partners
from refaug.rater.training.pair_corpus import PairCorpus

V = SHAPE.vocabulary


def reply_of(batch, row: int) -> tuple[int, ...]:
    tokens = batch.sequences.tokens[row, : batch.sequences.lengths[row]].tolist()
    return tuple(tokens[tokens.index(V + REPLY) + 1 :])


def test_right_replies_come_first_and_each_has_wrong_ones() -> None:
    train, _ = tiny_sides(hidden=0.0)
    batch = next(train.batches(1))
    assert batch.labels.tolist() == [1.0] * batch.examples + [0.0] * 2 * batch.examples
    assert batch.kinds.tolist() == [-1] * batch.examples + [RANDOM] * 2 * batch.examples
    assert sum(batch.examples for batch in train.batches(1)) == train.epoch_size


def test_a_sequence_holds_up_to_three_turns_of_its_dialogue() -> None:
    corpus = pairs_of([[((2,), (3,), 0), ((3,), (4,), 0), ((4,), (5,), 0), ((5,), (6,), 0), ((7,), (8,), 1)]])
    settings = CrossExampleSettings(batch=8, known=0.0, hidden=0.0, validation_share=0.001, negatives="random")
    batch = next(CrossExamples(corpus, "train", settings, SHAPE).batches(1))
    read = {
        reply_of(batch, row): [piece for piece in batch.sequences.tokens[row].tolist() if 0 < piece < V][:-1]
        for row in range(batch.examples)
    }
    assert read == {(3,): [2], (4,): [2, 3], (5,): [2, 3, 4], (6,): [3, 4, 5], (8,): [7]}
    assert (batch.sequences.tokens[: batch.examples] == V + TURN).sum() == 0 + 1 + 2 + 2 + 0


def test_wrong_replies_from_the_dialogue_are_its_other_turns() -> None:
    corpus = tiny_dialogues()
    train, _ = tiny_sides(corpus, negatives="mixed", hidden=0.0, known=0.0)
    turns = [set[tuple[int, ...]]() for _ in range(80)]
    for row in range(len(corpus)):
        for text in (corpus.utterance[row], corpus.reply[row]):
            turns[int(corpus.dialogue[row])].add(tuple(corpus.pieces[corpus.start[text] : corpus.start[text + 1]]))
    seen = 0
    for batch in train.batches(1):
        for place, kind in enumerate(batch.kinds[batch.examples :].tolist()):
            if kind == DIALOGUE:
                right, wrong = reply_of(batch, place // 2), reply_of(batch, batch.examples + place)
                assert wrong != right
                assert any({right, wrong} <= said for said in turns)
                seen += 1
    assert seen > 40


def test_a_known_response_answered_the_same_utterance() -> None:
    rows = [((2, 3), (10 + number,), number) for number in range(4)] + [((4,), (20,), 9), ((5,), (21,), 10)]
    corpus = pairs_of([rows])
    settings = CrossExampleSettings(batch=6, known=1.0, hidden=0.0, validation_share=0.001, negatives="random")
    known = set()
    for number in range(1, 20):
        batch = next(CrossExamples(corpus, "train", settings, SHAPE).batches(number))
        for row in range(batch.examples):
            tokens = batch.sequences.tokens[row].tolist()
            if V + KNOWN in tokens:
                fits = tokens[tokens.index(V + KNOWN) + 1]
                assert tokens[1:3] == [2, 3]
                assert (fits,) != reply_of(batch, row)
                known.add(fits)
    assert known == {10, 11, 12, 13}


def test_pieces_are_hidden_everywhere_and_predicted_in_right_ones() -> None:
    train, validation = tiny_sides(hidden=0.5)
    batch = next(train.batches(1))
    masked = batch.sequences.tokens == V + MASK
    assert masked[: batch.examples].sum() / (masked | (batch.sequences.tokens < V))[: batch.examples].sum() > 0.3
    assert masked[batch.examples :].any()
    assert sorted(zip(batch.hidden_rows.tolist(), batch.hidden_places.tolist(), strict=True)) == sorted(
        map(tuple, np.argwhere(masked[: batch.examples]).tolist())
    )
    assert ((batch.hidden_pieces >= 2) & (batch.hidden_pieces < V)).all()
    assert not any((batch.sequences.tokens == V + MASK).any() for batch in validation.batches(0))


def test_an_epoch_after_a_stop_has_the_same_batches() -> None:
    train, _ = tiny_sides(negatives="mixed")
    whole, rest = list(train.batches(3)), list(train.batches(3, skip=2))
    assert len(whole) == train.batch_count() == 2 + len(rest)
    for batch, other in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(batch.sequences.tokens, other.sequences.tokens)
    assert not np.array_equal(whole[0].sequences.tokens, next(train.batches(4)).sequences.tokens)


def test_hard_replies_are_those_of_the_grouped_corpus() -> None:
    """By hand: replies to one utterance stand behind it, and partners are mapped back to the texts of the pairs."""
    corpus = _of_groups(150)
    embeddings = np.random.default_rng(3).standard_normal((200, 8)).astype(np.float32)
    found = hard_replies(corpus, np.arange(len(corpus)), embeddings, 1, Silent())
    grouped, texts = _grouped_by_hand(corpus)
    expected = hard_partners(grouped, np.arange(grouped.utterances), embeddings, HardSettings(seed=1)).partners
    assert (found >= 0).any()
    for pair in range(len(corpus)):
        place = texts.index((pair, int(corpus.reply[pair])))
        assert found[pair].tolist() == [-1 if text < 0 else texts[text][1] for text in expected[place].tolist()]


def _of_groups(groups: int) -> PairCorpus:
    rng = np.random.default_rng(5)
    rows = []
    for number in range(groups):
        asked = tuple(rng.integers(2, 200, 3).tolist())
        rows += [(asked, tuple(rng.integers(2, 200, 4).tolist()), 2 * number + reply) for reply in range(2)]
    return pairs_of([rows])


def _grouped_by_hand(corpus: PairCorpus):
    texts, first, names = list[tuple[int, int]](), [0], []
    for asked in np.unique(corpus.asked).tolist():
        of_group = np.flatnonzero(corpus.asked == asked).tolist()
        texts += [(-1, int(corpus.utterance[of_group[0]])), *((pair, int(corpus.reply[pair])) for pair in of_group)]
        first.append(len(texts))
        names.append(asked)
    pieces = [corpus.pieces[corpus.start[text] : corpus.start[text + 1]] for _, text in texts]
    return ExampleCorpus(
        pieces=np.concatenate(pieces),
        start=np.cumsum([0, *map(len, pieces)]),
        first=np.array(first),
        names=np.array(names, np.uint64),
    ), texts


@pytest.mark.parametrize(
    "settings",
    [
        {"batch": 0},
        {"wrong": 0},
        {"negatives": "hard"},
        {"known": 2.0},
        {"hidden": 1.0},
        {"limit": 3},
        {"seed": 1, "validation_share": 0.0},
    ],
)
def test_settings_without_examples_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(Usage):
        CrossExampleSettings(**settings)  # type: ignore[arg-type]
