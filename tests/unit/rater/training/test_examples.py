"""Examples against counting by hand: which pairs, which negatives, on which side, in which batches, as which arrays."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from raters import corpus_of, tiny_corpus
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.rater.training.examples import (
    ExampleBatch,
    ExampleCorpus,
    Examples,
    ExampleSettings,
    Quadruples,
    Split,
    Texts,
    pad,
    quadruples,
)

LONG = 1_000
ALL = ExampleSettings(batch=7, validation_share=1e-9)  # every utterance is one to train on
SPLITS: tuple[Split, ...] = ("train", "validation")
Pieces = tuple[int, ...]

ANY_TEXTS = st.lists(st.lists(st.integers(2, 40), max_size=9), min_size=1, max_size=12)
# How many responses each utterance has, such that none has more than half of all pairs.
RESPONSES = st.lists(st.integers(2, 5), min_size=2, max_size=9).filter(
    lambda counts: 2 * max(map(pairs_among, counts)) <= sum(map(pairs_among, counts))
)


def pairs_among(count: int) -> int:
    return count * (count - 1) // 2


def told_apart(counts: Sequence[int], seed: int = 1, longest: int = 9) -> ExampleCorpus:
    """Utterances with so many responses; the first two pieces of each text tell which of all it is."""
    rng, number, texts = np.random.default_rng(seed), itertools.count(), []
    for count in counts:
        own = []
        for _ in range(1 + count):
            which = next(number)
            own.append([2 + which // 50, 2 + which % 50, *rng.integers(2, 52, rng.integers(0, longest - 1)).tolist()])
        texts.append(own)
    return corpus_of(texts)


def text_of(corpus: ExampleCorpus, text: int, most: int = LONG) -> Pieces:
    return tuple(corpus.pieces[corpus.start[text] : corpus.start[text + 1]].tolist()[:most])


def by_hand(corpus: ExampleCorpus, utterances: Iterable[int]) -> list[tuple[int, int, int]]:
    """All unordered pairs of responses, by the definition."""
    return [
        (int(corpus.first[one]), *pair)
        for one in utterances
        for pair in itertools.combinations(range(int(corpus.first[one]) + 1, int(corpus.first[one + 1])), 2)
    ]


def everything(corpus: ExampleCorpus) -> Texts:
    return corpus.positives(np.arange(corpus.utterances))


def rows_of(array: NDArray[np.int64]) -> list[tuple[int, ...]]:
    return [tuple(row) for row in array.tolist()]


def utterance_of(corpus: ExampleCorpus, text: int) -> int:
    return int(np.searchsorted(corpus.first, text, side="right")) - 1


def read_back(batch: ExampleBatch) -> list[tuple[tuple[Pieces, ...], bool]]:
    """Examples of a batch, each as the texts U1, R1, U2, R2 and its label; both triplets say the same."""
    texts = [tuple(row[:length]) for row, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)]
    half = len(batch.labels) // 2
    assert batch.triplets.shape == (2 * half, 3)
    found = list[tuple[tuple[Pieces, ...], bool]]()
    for at in range(half):
        utterance, response, other = (texts[row] for row in batch.triplets[at])
        other_utterance, other_again, response_again = (texts[row] for row in batch.triplets[at + half])
        assert (other_again, response_again) == (other, response)
        assert batch.labels[at] == batch.labels[at + half]
        found.append(((utterance, response, other_utterance, other), bool(batch.labels[at])))
    return found


def as_texts(corpus: ExampleCorpus, drawn: Quadruples, most: int = LONG) -> list[tuple[tuple[Pieces, ...], bool]]:
    return [
        (tuple(text_of(corpus, text, most) for text in row), bool(label))
        for row, label in zip(drawn.texts.tolist(), drawn.positive, strict=True)
    ]


# Positives


@given(st.lists(st.integers(2, 6), min_size=1, max_size=12), st.data())
@settings(max_examples=50, deadline=None)
def test_positives_are_all_unordered_pairs_of_responses_of_an_utterance(counts: list[int], data: st.DataObject) -> None:
    corpus = told_apart(counts)
    some = sorted(data.draw(st.sets(st.integers(0, len(counts) - 1))))
    found = rows_of(corpus.positives(np.array(some, np.int64)))
    assert sorted(found) == by_hand(corpus, some)
    assert len(found) == sum(pairs_among(counts[one]) for one in some)


def test_no_utterances_have_no_positives() -> None:
    assert tiny_corpus().positives(np.empty(0, np.int64)).shape == (0, 3)


# Quadruples


@given(RESPONSES, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_quadruples_are_positives_and_negatives_of_the_same_texts(counts: list[int], seed: int) -> None:
    corpus = told_apart(counts)
    drawn = quadruples(everything(corpus), np.random.default_rng(seed))
    together, apart = drawn.texts[drawn.positive], drawn.texts[~drawn.positive]
    pairs = [(u, min(r, s), max(r, s)) for u, r, v, s in together.tolist() if u == v]
    assert sorted(pairs) == by_hand(corpus, range(len(counts)))
    assert len(apart) == len(together) == len(pairs)
    assert not np.any(apart[:, 0] == apart[:, 2])
    for place in range(4):
        assert Counter(apart[:, place].tolist()) == Counter(together[:, place].tolist())


@given(RESPONSES, st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_negative_is_two_pairs_that_do_stand_in_positives(counts: list[int], seed: int) -> None:
    corpus = told_apart(counts)
    drawn = quadruples(everything(corpus), np.random.default_rng(seed))
    together, apart = drawn.texts[drawn.positive], drawn.texts[~drawn.positive]
    assert Counter(rows_of(apart[:, :2])) == Counter(rows_of(together[:, :2]))
    assert Counter(rows_of(apart[:, 2:])) == Counter(rows_of(together[:, 2:]))
    for u, r, v, s in apart.tolist():
        assert utterance_of(corpus, r) == utterance_of(corpus, u) != utterance_of(corpus, v) == utterance_of(corpus, s)


def test_the_order_of_labels_and_the_places_of_responses_are_drawn() -> None:
    corpus = told_apart([3] * 200)
    drawn = quadruples(everything(corpus), np.random.default_rng(1))
    together = drawn.texts[drawn.positive]
    assert 0.45 < float((together[:, 1] < together[:, 3]).mean()) < 0.55  # of 600: five standard deviations
    assert 0.45 < float((drawn.positive[1:] == drawn.positive[:-1]).mean()) < 0.55
    assert rows_of(together[:, :1]) != sorted(rows_of(together[:, :1]))


@pytest.mark.parametrize(
    "counts",
    [
        [5],  # one utterance
        [2],  # one example
        [5, 2, 2],  # ten examples of one utterance, and two others
    ],
)
def test_examples_most_of_which_are_of_one_utterance_are_refused(counts: list[int]) -> None:
    with refusing(BadInput) as caught:
        quadruples(everything(told_apart(counts)), np.random.default_rng(1))
    assert caught.value.remedy == "give more logs"


@pytest.mark.parametrize(
    ("counts", "draws"), [([2, 2], 99), ([5, 5], 99), ([5, *[2] * 10], 99), ([5, *[3] * 4], 99), ([20, 20], 2)]
)
def test_negatives_exist_if_no_utterance_has_over_half_of_the_examples(counts: list[int], draws: int) -> None:
    positives = everything(told_apart(counts))
    for seed in range(draws):
        drawn = quadruples(positives, np.random.default_rng(seed))
        apart = drawn.texts[~drawn.positive]
        assert len(apart) == sum(map(pairs_among, counts))
        assert not np.any(apart[:, 0] == apart[:, 2])


# Splits


def named(names: Sequence[int]) -> ExampleCorpus:
    return corpus_of([[[2], [3], [4]] for _ in names], names=list(names))


def sides(corpus: ExampleCorpus, wanted: ExampleSettings) -> dict[int, str]:
    """On which side each utterance is, by its name; each is on one."""
    found = dict[int, str]()
    for split in SPLITS:
        own = corpus.of_split(split, wanted)
        assert own.tolist() == sorted(set(own.tolist()))
        for name in corpus.names[own].tolist():
            assert name not in found
            found[name] = split
    assert set(found) == set(corpus.names.tolist())
    return found


def test_every_utterance_is_on_one_side_and_the_shares_are_about_right() -> None:
    names = np.random.default_rng(1).integers(0, 2**63, 4_000).tolist()
    for share in (0.05, 0.2, 0.5):
        found = list(sides(named(names), ExampleSettings(validation_share=share)).values())
        assert found.count("validation") / len(names) == pytest.approx(share, abs=5 * (share / len(names)) ** 0.5)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=30, unique=True), st.data())
@settings(max_examples=30, deadline=None)
def test_an_utterance_is_on_the_same_side_whatever_else_is_in_the_corpus(names: list[int], data: st.DataObject) -> None:
    wanted = ExampleSettings(validation_share=0.4)
    others = data.draw(st.permutations(names))[: len(names) // 2]
    whole, part = sides(named(names), wanted), sides(named(others), wanted)
    assert part == {name: whole[name] for name in others}


def test_larger_share_only_adds_to_validation_and_another_seed_differs() -> None:
    corpus = named(range(500))
    small, large, other = (
        set(corpus.of_split("validation", ExampleSettings(validation_share=share, seed=seed)).tolist())
        for share, seed in ((0.1, 1), (0.3, 1), (0.1, 2))
    )
    assert small < large
    assert not small <= other
    assert not other <= small


def test_the_examples_of_the_two_splits_have_no_text_in_common() -> None:
    corpus, wanted = tiny_corpus(utterances=200), ExampleSettings(validation_share=0.3)
    texts = [set(epoch_of(Examples(corpus, split, wanted, LONG), 1).texts.ravel().tolist()) for split in SPLITS]
    assert all(texts)
    assert not texts[0] & texts[1]


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"limit": 0}, {"validation_share": 0.0}, {"validation_share": 1.0}])
def test_settings_that_leave_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Usage):
        ExampleSettings(**wrong)  # type: ignore[arg-type]


# Epochs


def epoch_of(examples: Examples, number: int) -> Quadruples:
    """All of its examples, batch after batch."""
    drawn = list(examples.draw(number))
    return Quadruples(np.concatenate([one.texts for one in drawn]), np.concatenate([one.positive for one in drawn]))


def to_train_on(corpus: ExampleCorpus, most: int = LONG, **settings: Any) -> Examples:
    """Examples of all utterances."""
    return Examples(corpus, "train", ExampleSettings(**{"validation_share": 1e-9, **settings}), most)


def positives_in(drawn: Quadruples) -> list[tuple[int, int, int]]:
    return [(u, min(r, s), max(r, s)) for u, r, _, s in drawn.texts[drawn.positive].tolist()]


def same(one: Quadruples, other: Quadruples) -> bool:
    return bool(np.array_equal(one.texts, other.texts) and np.array_equal(one.positive, other.positive))


def test_epoch_repeats_for_the_same_seed_and_number_and_differs_otherwise() -> None:
    corpus = tiny_corpus()
    drawn = {
        (seed, number): epoch_of(to_train_on(corpus, batch=16, seed=seed), number)
        for seed in (1, 2)
        for number in (0, 1, 2)
    }
    for (seed, number), epoch in drawn.items():
        again = to_train_on(corpus, batch=16, seed=seed)
        epoch_of(again, 5)  # what was asked before changes nothing
        assert same(epoch, epoch_of(again, number))
    for one, other in itertools.combinations(drawn.values(), 2):
        assert not same(one, other)
        for place in range(0, len(one.texts), 40):  # other examples, and not only others at the beginning
            part = slice(place, place + 40)
            assert Counter(rows_of(one.texts[part])) != Counter(rows_of(other.texts[part]))


def test_every_epoch_has_all_positives_unless_there_is_a_limit() -> None:
    corpus = tiny_corpus(utterances=40)
    for limit in (None, 120, 10_000):
        examples = to_train_on(corpus, limit=limit, batch=16)
        assert (examples.positive_count, examples.epoch_size) == (120, 240)
        for number in (0, 3):
            assert sorted(positives_in(epoch_of(examples, number))) == by_hand(corpus, range(40))


def test_a_limit_draws_so_many_positives_anew_each_epoch() -> None:
    corpus = tiny_corpus(utterances=40)
    examples = to_train_on(corpus, batch=16, limit=30)
    assert (examples.positive_count, examples.epoch_size) == (120, 60)
    taken = Counter[tuple[int, int, int]]()
    for number in range(60):
        drawn = epoch_of(examples, number)
        some = positives_in(drawn)
        assert len(drawn.texts) == 60
        assert len(set(some)) == len(some) == 30
        taken.update(some)
    assert sorted(taken) == by_hand(corpus, range(40))
    assert max(taken.values()) < 35  # 15 on average, with a standard deviation of 3.4


def test_every_utterance_of_the_split_is_in_the_epoch_and_no_other() -> None:
    corpus, wanted = tiny_corpus(utterances=150), ExampleSettings(validation_share=0.3)
    for split in SPLITS:
        examples = Examples(corpus, split, wanted, LONG)
        counts = Counter(utterance_of(corpus, text) for text in epoch_of(examples, 1).texts[:, [0, 2]].ravel().tolist())
        assert sorted(counts) == examples.utterances.tolist() == corpus.of_split(split, wanted).tolist()
        assert set(counts.values()) == {3 * 2 * 2}  # three pairs each: in two places of positives and of negatives


# Batches


@given(RESPONSES, st.integers(1, 40), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_every_example_occurs_once_over_the_batches_and_batches_are_even(
    counts: list[int], batch: int, number: int
) -> None:
    corpus = told_apart(counts)
    examples = to_train_on(corpus, batch=batch)
    drawn = list(examples.draw(number))
    assert len(drawn) == examples.batch_count()
    assert sorted(one for own in drawn for one in positives_in(own)) == by_hand(corpus, range(len(counts)))
    assert sum(len(own.texts) for own in drawn) == examples.epoch_size
    for own in drawn:
        together, apart = own.texts[own.positive], own.texts[~own.positive]
        assert len(together) == len(apart)
        assert not np.any(apart[:, 0] == apart[:, 2])
        for place in range(4):
            assert Counter(apart[:, place].tolist()) == Counter(together[:, place].tolist())


@pytest.mark.parametrize("batch", [1, 7, 10, 64, 256, 10_000])
def test_batches_have_the_size_asked_for_or_twice_one_utterances_examples(batch: int) -> None:
    examples = to_train_on(told_apart([3] * 80), batch=batch)
    sizes = [len(own.texts) for own in examples.draw(1)]
    least = max(batch // 2 * 2, 2 * 2 * 3)  # of three pairs of the same utterance, half of them positive
    assert sum(sizes) == 480
    assert len(sizes) == max(1, 480 // least)
    assert max(sizes) - min(sizes) <= 2
    assert min(sizes) >= min(480, least)


def test_batches_hold_the_drawn_examples_in_their_order() -> None:
    corpus = told_apart([4, 3, 2] * 15)
    examples = to_train_on(corpus, 7, batch=20)
    for batch, drawn in zip(examples.batches(2), examples.draw(2), strict=True):
        assert read_back(batch) == as_texts(corpus, drawn, 7)


@pytest.mark.parametrize("skip", [0, 1, 2, 30, 59, 60, 100])
def test_batches_after_a_skip_are_those_after_the_first_so_many(skip: int) -> None:
    examples = to_train_on(tiny_corpus(), 4, batch=12)
    everyone, rest = list(examples.batches(1)), list(examples.batches(1, skip=skip))
    assert len(everyone) == 60
    assert len(rest) == max(0, 60 - skip)
    for one, other in zip(everyone[skip:], rest, strict=True):
        assert all(np.array_equal(*arrays) for arrays in zip(one, other, strict=True))


def test_examples_of_an_utterance_stand_together_so_texts_are_read_once() -> None:
    corpus = told_apart([5, 4, 3, 2] * 100)
    examples = to_train_on(corpus, batch=50)
    drawn = list(examples.draw(1))
    places = sum(len(np.unique(own.texts[:, [0, 2]])) for own in drawn)
    assert places <= corpus.utterances + len(drawn)  # where a batch ends, an utterance may go on in another
    assert len(drawn) == 80


def test_batches_hold_texts_of_like_length_and_come_in_a_drawn_order() -> None:
    corpus = told_apart([2] * 60, longest=40)
    longest = []
    for own in to_train_on(corpus, batch=10).draw(1):
        lengths = [max(len(text_of(corpus, text)) for text in row) for row in own.texts[own.positive].tolist()]
        longest.append((min(lengths), max(lengths)))
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(sorted(longest)))
    assert longest != sorted(longest)


def test_one_utterance_alone_gives_no_batches() -> None:
    with refusing(BadInput):
        list(to_train_on(told_apart([4])).batches(1))


@given(RESPONSES, st.integers(0, 100), st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_a_batch_holds_both_triplets_of_its_examples_in_their_order(counts: list[int], seed: int, most: int) -> None:
    corpus = told_apart(counts, seed, longest=12)
    drawn = quadruples(everything(corpus), np.random.default_rng(seed))
    some = Quadruples(drawn.texts[:9], drawn.positive[:9])
    batch = Examples(corpus, "train", ALL, most).batch(some)
    assert read_back(batch) == as_texts(corpus, some, most)
    assert batch.labels.tolist() == [int(label) for label in some.positive.tolist()] * 2
    texts = {text_of(corpus, text, most) for text in some.texts.ravel().tolist()}
    rows = [tuple(row[:length]) for row, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)]
    assert len(rows) == len(set(rows))  # no text is there twice
    assert set(rows) == texts
    assert all(array.dtype == np.int64 for array in batch)


@given(ANY_TEXTS, st.integers(1, 11), st.data())
@settings(max_examples=40, deadline=None)
def test_texts_are_cut_padded_with_zeros_and_stand_with_the_longest_first(
    texts: list[list[int]], most: int, data: st.DataObject
) -> None:
    corpus = corpus_of([texts])
    some = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=10, unique=True))
    tokens, lengths, order = pad(corpus, np.array(some), most)
    assert sorted(order.tolist()) == list(range(len(some)))
    assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
    assert tokens.shape == (len(some), lengths[0])
    for row, length, place in zip(tokens.tolist(), lengths.tolist(), order.tolist(), strict=True):
        expected = texts[some[place]][:most] or [1]
        assert length == len(expected)
        assert row == expected + [0] * (len(row) - len(expected))


def test_an_empty_text_is_one_unknown_piece_in_a_batch() -> None:
    corpus = corpus_of([[[7, 8], [], [9]], [[4], [5, 6, 4], [6]]])
    batch = Examples(corpus, "train", ALL, LONG).batch(Quadruples(np.array([[0, 1, 3, 4]]), np.array([False])))
    assert read_back(batch) == [(((7, 8), (1,), (4,), (5, 6, 4)), False)]
    assert batch.tokens.tolist() == [[5, 6, 4], [7, 8, 0], [4, 0, 0], [1, 0, 0]]
    assert batch.lengths.tolist() == [3, 2, 1, 1]
    assert batch.triplets.tolist() == [[1, 3, 0], [2, 0, 3]]
    assert batch.labels.tolist() == [0, 0]


# Hard negatives


def partners_of(corpus: ExampleCorpus, seed: int = 1, most: int = 3, without: float = 0.3) -> Texts:
    """Drawn responses to other utterances as partners, up to so many for each response; some have none."""
    rng, partners = np.random.default_rng(seed), np.full((len(corpus.start) - 1, most), -1)
    responses = np.setdiff1d(np.arange(len(partners)), corpus.first[:-1])
    for text in responses.tolist():
        others = [one for one in responses.tolist() if utterance_of(corpus, one) != utterance_of(corpus, text)]
        count = 0 if rng.random() < without else int(rng.integers(1, min(most, len(others)) + 1))
        partners[text, :count] = rng.choice(others, count, replace=False)
    return partners


def hard_ones(corpus: ExampleCorpus, drawn: Quadruples, partners: Texts) -> NDArray[np.bool_]:
    """Which negatives have a hard negative of their response, behind the utterance that it is a response to."""
    apart = drawn.texts[~drawn.positive]
    found = [
        other in set(partners[response].tolist()) and corpus.first[utterance_of(corpus, other)] == answered
        for _, response, answered, other in apart.tolist()
    ]
    return np.array(found)


def with_negatives(
    corpus: ExampleCorpus, negatives: str, hard: Texts | None, *, all_hard: bool = False, **more: Any
) -> Examples:
    settings = ExampleSettings(validation_share=1e-9, batch=16, negatives=negatives, **more)  # type: ignore[arg-type]
    return Examples(corpus, "train", settings, LONG, hard, all_hard=all_hard)


def test_negatives_are_random_unless_hard_ones_are_asked_for_and_given() -> None:
    corpus = told_apart([3, 2, 4] * 12)
    usual = epoch_of(to_train_on(corpus, batch=16), 1)
    for negatives, hard in (("random", None), ("random", partners_of(corpus)), ("hard", None), ("mixed", None)):
        assert same(usual, epoch_of(with_negatives(corpus, negatives, hard), 1))
    assert not same(usual, epoch_of(with_negatives(corpus, "hard", partners_of(corpus)), 1))


@given(RESPONSES, st.integers(0, 50), st.sampled_from(["hard", "mixed"]))
@settings(max_examples=40, deadline=None)
def test_hard_negatives_replace_only_the_second_pairs_in_equal_number(
    counts: list[int], number: int, negatives: str
) -> None:
    corpus = told_apart(counts)
    partners = partners_of(corpus, seed=number)
    usual = epoch_of(with_negatives(corpus, "random", None), number)
    drawn = epoch_of(with_negatives(corpus, negatives, partners), number)
    assert np.array_equal(drawn.positive, usual.positive)
    assert int(drawn.positive.sum()) * 2 == len(drawn.texts)
    assert np.array_equal(drawn.texts[drawn.positive], usual.texts[usual.positive])
    assert np.array_equal(drawn.texts[:, :2], usual.texts[:, :2])
    changed = (drawn.texts != usual.texts).any(axis=1)[~drawn.positive]
    hard = hard_ones(corpus, drawn, partners)
    assert not np.any(changed & ~hard)  # what is not hard is what it was
    if negatives == "hard":
        assert hard[partners[drawn.texts[~drawn.positive][:, 1], 0] >= 0].all()
    for utterance, _, answered, _ in drawn.texts[~drawn.positive].tolist():
        assert utterance != answered


def test_mixed_negatives_are_hard_in_half_of_the_examples_with_a_partner() -> None:
    corpus = told_apart([3] * 150)
    partners = partners_of(corpus, without=0.2)
    usual = epoch_of(with_negatives(corpus, "random", None), 1)
    drawn = epoch_of(with_negatives(corpus, "mixed", partners), 1)
    having = partners[drawn.texts[~drawn.positive][:, 1], 0] >= 0
    changed = (drawn.texts != usual.texts).any(axis=1)[~drawn.positive]
    assert having.sum() > 300
    assert 0.4 < float(changed[having].mean()) < 0.6  # of more than 300: three standard deviations and more
    assert not changed[~having].any()
    assert hard_ones(corpus, drawn, partners)[changed].all()


def test_all_partners_of_a_response_are_drawn_over_the_epochs() -> None:
    corpus = told_apart([2] * 30)
    partners = partners_of(corpus, without=0.0)
    examples = with_negatives(corpus, "hard", partners)
    taken = Counter[tuple[int, int]]()
    for number in range(60):
        drawn = epoch_of(examples, number)
        taken.update((response, other) for _, response, _, other in drawn.texts[~drawn.positive].tolist())
    assert {pair for pair, times in taken.items() if times} == {
        (text, other) for text, row in enumerate(partners.tolist()) for other in row if other >= 0
    }
    assert same(epoch_of(examples, 3), epoch_of(with_negatives(corpus, "hard", partners), 3))
    assert not same(epoch_of(examples, 3), epoch_of(examples, 4))
    rest = list(examples.draw(3, skip=2))
    assert all(same(one, other) for one, other in zip(list(examples.draw(3))[2:], rest, strict=True))


def test_all_hard_examples_have_hard_negatives_and_partners_only() -> None:
    corpus = told_apart([3] * 60)
    partners = partners_of(corpus)
    examples = with_negatives(corpus, "hard", partners, all_hard=True)
    drawn = epoch_of(examples, 0)
    kept = [row for row in by_hand(corpus, range(60)) if partners[row[1], 0] >= 0 and partners[row[2], 0] >= 0]
    assert sorted(positives_in(drawn)) == kept
    assert examples.positive_count == len(kept)
    assert hard_ones(corpus, drawn, partners).all()
    assert examples.has_negatives


@pytest.mark.parametrize(("counts", "enough"), [([2], False), ([5, 2, 2], False), ([5, 5], True), ([2, 2], True)])
def test_whether_there_are_negatives_is_known_before_they_are_drawn(counts: list[int], enough: bool) -> None:
    assert to_train_on(told_apart(counts)).has_negatives is enough


def test_negatives_of_another_kind_are_refused() -> None:
    with refusing(Usage, "easy") as caught:
        ExampleSettings(negatives="easy")  # type: ignore[arg-type]
    assert caught.value.remedy == "one of: random, hard, mixed"
