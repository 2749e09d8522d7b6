"""Hard negatives against choosing them in plain Python, and what a rater's report says of them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from raters import FIRST_PIECE, corpus_of, tiny_corpus, tiny_model

from refaug.core.errors import Usage
from refaug.rater.nn.build import hard_report
from refaug.rater.training.examples import ExampleCorpus, Examples, ExampleSettings
from refaug.rater.training.hard_negatives import HardPartners, HardSettings, hard_partners

VOCABULARY = 26
EVERYTHING = 10_000
ANY_WORDS = st.lists(st.integers(0, VOCABULARY - 1), max_size=7)
ANY_TEXTS = st.lists(st.lists(ANY_WORDS, min_size=3, max_size=5), min_size=2, max_size=9)


def embeddings_of(seed: int = 1, vocabulary: int = VOCABULARY, dimensions: int = 5) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((vocabulary, dimensions)).astype(np.float32)


def words_of(corpus: ExampleCorpus, text: int) -> list[int]:
    """Each once, in rising order; pad and unk are none."""
    return sorted({one for one in pieces_of(corpus, text) if one >= 2})


def pieces_of(corpus: ExampleCorpus, text: int) -> list[int]:
    found: list[int] = corpus.pieces[corpus.start[text] : corpus.start[text + 1]].tolist()
    return found


def responses_of(corpus: ExampleCorpus, utterance: int) -> range:
    return range(int(corpus.first[utterance]) + 1, int(corpus.first[utterance + 1]))


class Plain:
    """Everything looked at, one after the other."""

    def __init__(self, corpus: ExampleCorpus, utterances: list[int], embeddings: NDArray[np.float32]) -> None:
        self.corpus, self.embeddings = corpus, embeddings
        self.utterances = [one for one in utterances if words_of(corpus, int(corpus.first[one]))]
        self.owner = {text: one for one in self.utterances for text in responses_of(corpus, one)}
        self.words = {text: words_of(corpus, text) for text in self.owner}
        self.held = Counter(word for own in self.words.values() for word in own)
        self.vectors = {one: self._vector(one) for one in self.utterances}
        self.worths = {word: float(np.log(len(self.owner) / held)) for word, held in self.held.items()}
        self.totals = {text: self.worth(own) for text, own in self.words.items()}

    def _vector(self, utterance: int) -> NDArray[np.float32]:
        sums = np.zeros(self.embeddings.shape[1])
        for piece in pieces_of(self.corpus, int(self.corpus.first[utterance])):
            if piece >= 2:
                sums = sums + self.embeddings[piece].astype(np.float64)
        return (sums * (1.0 / np.sqrt(in_order(sums * sums)))).astype(np.float32)

    def similarity(self, one: int, other: int) -> float:
        return in_order(self.vectors[one].astype(np.float64) * self.vectors[other].astype(np.float64))

    def worth(self, words: list[int]) -> float:
        return in_order(self.worths[word] for word in words)

    def likeness(self, one: int, other: int) -> float:
        shared = self.worth(sorted(set(self.words[one]) & set(self.words[other])))
        either = self.totals[one] + self.totals[other] - shared
        return shared / either if either > 0 else 0.0

    def rare(self, text: int, wanted: HardSettings) -> list[int]:
        """The rarest first."""
        most = max(2, min(wanted.most_texts, int(wanted.most_share * len(self.owner))))
        return sorted((word for word in self.words[text] if 2 <= self.held[word] <= most), key=self.rarity)

    def rarity(self, word: int) -> tuple[int, int]:
        return self.held[word], word

    def candidates(self, text: int, wanted: HardSettings) -> list[int]:
        """Responses to others that share a rare word."""
        rare = set(self.rare(text, wanted))
        name = self.corpus.names[self.owner[text]]
        return [
            other
            for other in self.owner
            if rare & set(self.words[other]) and self.corpus.names[self.owner[other]] != name
        ]

    def is_middling(self, one: int, other: int, between: tuple[float, float]) -> bool:
        return between[0] <= self.similarity(self.owner[one], self.owner[other]) <= between[1]

    def says_the_same(self, text: int, other: int, alike: float) -> bool:
        return any(self.likeness(own, other) >= alike for own in responses_of(self.corpus, self.owner[text]))

    def partners(self, text: int, wanted: HardSettings, between: tuple[float, float]) -> list[int]:
        found = [
            other
            for other in self.candidates(text, wanted)
            if self.is_middling(text, other, between) and not self.says_the_same(text, other, wanted.alike)
        ]
        return sorted(found, key=lambda other: (-self.likeness(text, other), other))[: wanted.partners]


def in_order(numbers: Any) -> float:
    """Added one after the other."""
    total = 0.0
    for one in numbers:
        total += float(one)
    return total


def listed(found: HardPartners) -> dict[int, list[int]]:
    """The partners of the texts that have some; where one is none, so are those after it."""
    rows = {text: row for text, row in enumerate(found.partners.tolist()) if row[0] >= 0}
    for row in found.partners.tolist():
        assert sorted(row, key=lambda one: one < 0) == row
    return {text: [one for one in row if one >= 0] for text, row in rows.items()}


def drawn_corpus(seed: int = 1, utterances: int = 150, vocabulary: int = 400) -> ExampleCorpus:
    """Texts of 1 to 20 words, of which some are much more frequent than others."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(3, vocabulary + 3)

    def text() -> list[int]:
        return rng.choice(vocabulary, rng.integers(1, 21), p=shares / shares.sum()).tolist()

    return corpus_of([[[FIRST_PIECE + word for word in text()] for _ in range(4)] for _ in range(utterances)])


# Which


@given(
    texts=ANY_TEXTS,
    seed=st.integers(0, 99),
    partners=st.integers(1, 5),
    most=st.sampled_from([0.0, 0.3, 1.0]),
    quantiles=st.sampled_from([(0.0, 1.0), (0.2, 0.8), (0.5, 0.9)]),
    alike=st.sampled_from([0.3, 0.5, 2.0]),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_partners_over_all_candidates_equal_those_of_plain_python(
    texts: list[list[list[int]]],
    seed: int,
    partners: int,
    most: float,
    quantiles: tuple[float, float],
    alike: float,
    data: st.DataObject,
) -> None:
    names = data.draw(st.lists(st.integers(0, 5), min_size=len(texts), max_size=len(texts)))
    some = data.draw(st.permutations(range(len(texts))))[: data.draw(st.integers(0, len(texts)))]
    corpus, embeddings = corpus_of(texts, names), embeddings_of(seed)
    wanted = HardSettings(
        partners=partners, candidates=EVERYTHING, most_share=most, quantiles=quantiles, alike=alike, seed=seed
    )
    found = hard_partners(corpus, np.array(some, np.int64), embeddings, wanted)
    plain = Plain(corpus, some, embeddings)
    assert found.partners.shape == (len(corpus.start) - 1, partners)
    assert (found.between is None) == (len(plain.utterances) < 2)
    expected = {text: plain.partners(text, wanted, found.between or (2.0, 2.0)) for text in plain.owner}
    assert listed(found) == {text: row for text, row in expected.items() if row}
    asked = sum(len(responses_of(corpus, one)) for one in some)
    if asked:
        assert found.without_partner == pytest.approx(1 - len(listed(found)) / asked)


@given(seed=st.integers(0, 99), candidates=st.integers(1, 12))
@settings(max_examples=10, deadline=None)
def test_of_many_candidates_some_are_drawn_that_share_the_rarest_words(seed: int, candidates: int) -> None:
    corpus, embeddings = drawn_corpus(seed, utterances=30), embeddings_of(seed, 402)
    wanted = HardSettings(
        partners=candidates, candidates=candidates, most_share=0.2, quantiles=(0.0, 1.0), alike=2.0, seed=seed
    )
    found = hard_partners(corpus, np.arange(30), embeddings, wanted)
    plain = Plain(corpus, list(range(30)), embeddings)
    assert found.between is not None
    for text, row in listed(found).items():
        every = plain.candidates(text, wanted)
        inside = {other for other in every if plain.is_middling(text, other, found.between)}
        assert len(set(row)) == len(row) <= min(candidates, len(every))
        assert set(row) <= set(every)
        likeness = [plain.likeness(text, other) for other in row]
        assert likeness == sorted(likeness, reverse=True)
        looked_at, left = set[int](), candidates
        for word in plain.rare(text, wanted):  # as many as there is room for hold each
            holding = {other for other in every if word in plain.words[other]} - looked_at
            if len(holding) > left:
                assert set(row) - looked_at <= holding
                break
            assert holding & inside <= set(row)
            looked_at, left = looked_at | holding, left - len(holding)


def test_the_same_seed_draws_the_same_and_another_one_others() -> None:
    corpus, embeddings = drawn_corpus(), embeddings_of(1, 402)
    one, again, other = (
        hard_partners(corpus, np.arange(150), embeddings, HardSettings(candidates=6, seed=seed)).partners
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    unsorted = np.random.default_rng(1).permutation(150)
    assert np.array_equal(one, hard_partners(corpus, unsorted, embeddings, HardSettings(candidates=6)).partners)


def test_partners_stay_on_their_side_and_answer_fairly_similar_utterances() -> None:
    corpus, embeddings = drawn_corpus(), embeddings_of(1, 402)
    examples = ExampleSettings(validation_share=0.4)
    for split in ("train", "validation"):
        own = corpus.of_split(split, examples)  # type: ignore[arg-type]
        found = hard_partners(corpus, own, embeddings, HardSettings(most_share=0.2))
        plain = Plain(corpus, own.tolist(), embeddings)
        every = [plain.similarity(one, other) for one, other in itertools.combinations(own.tolist(), 2)]
        assert found.between is not None
        low, high = found.between
        assert np.mean(np.array(every) < low) == pytest.approx(0.5, abs=0.03)  # 10,000 drawn: five standard deviations
        assert np.mean(np.array(every) > high) == pytest.approx(0.1, abs=0.02)
        assert len(listed(found)) > 100
        for text, row in listed(found).items():
            for other in row:
                assert plain.owner[other] != plain.owner[text]
                assert low <= plain.similarity(plain.owner[text], plain.owner[other]) <= high


def test_their_length_does_not_tell_partners_from_other_responses() -> None:
    corpus, embeddings = drawn_corpus(utterances=250), embeddings_of(1, 402)
    found = hard_partners(corpus, np.arange(250), embeddings, HardSettings(most_share=0.2))
    having = np.array(sorted(listed(found)))
    lengths = np.diff(corpus.start)
    of_response, of_partner = lengths[having], lengths[found.partners[having, 0]]
    assert of_partner.mean() == pytest.approx(of_response.mean(), rel=0.15)


def test_what_has_no_known_word_has_no_partner_and_is_none() -> None:
    shared = [[5, 6, 7], [8, 9]]
    texts = [[[1, 0], *shared], [[10, 11], [5, 6, 12], [1]], [[], [5, 6], []], [[10, 12], [5, 6, 13], [8]]]
    found = hard_partners(
        corpus_of(texts),
        np.arange(4),
        embeddings_of(),
        HardSettings(candidates=EVERYTHING, most_share=1.0, quantiles=(0.0, 1.0), alike=2.0),
    )
    assert listed(found) == {4: [10], 10: [4]}
    assert found.without_partner == 6 / 8


@pytest.mark.parametrize("utterances", [[], [3]])
def test_without_two_utterances_there_are_none(utterances: list[int]) -> None:
    found = hard_partners(tiny_corpus(), np.array(utterances, np.int64), embeddings_of())
    assert (found.between, found.without_partner, listed(found)) == (None, 1.0, {})


@pytest.mark.parametrize(
    "wrong", [{"partners": 0}, {"candidates": 0}, {"quantiles": (0.9, 0.5)}, {"quantiles": (0.5, 1.5)}]
)
def test_settings_that_find_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        HardSettings(**wrong)


# What the report says of them


def test_the_report_has_the_figures_of_every_hard_negative_one_by_one() -> None:
    torch.set_num_threads(1)
    corpus, model = tiny_corpus(utterances=150), tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # until it has opinions
    examples = ExampleSettings(validation_share=0.5, limit=20, batch=16)
    own = corpus.of_split("validation", examples)
    every_one = hard_partners(corpus, own, embeddings_of(), HardSettings(most_share=1.0))
    partners = np.where(np.arange(len(every_one.partners))[:, None] % 7 > 0, every_one.partners, -1)
    hard = HardPartners(partners=partners, between=every_one.between, without_partner=0.25)
    found = hard_report(model, corpus, examples, hard)
    assert found is not None
    having = set(listed(hard))
    pairs = [pair for one in own.tolist() for pair in itertools.combinations(responses_of(corpus, one), 2)]
    kept = [pair for pair in pairs if set(pair) <= having]
    assert len(kept) < len(pairs)
    assert found["examples"] == 2 * len(kept)
    assert found["without_partner"] == 0.25
    wanted = ExampleSettings(validation_share=0.5, batch=16, negatives="hard")
    every = [
        (row, label)
        for some in Examples(corpus, "validation", wanted, 16, hard.partners, all_hard=True).draw(0)
        for row, label in zip(some.texts.tolist(), some.positive.tolist(), strict=True)
    ]
    assert all(label or row[3] in hard.partners[row[1]] for row, label in every)
    likely = {label: [asked(model, corpus, row) for row, one in every if one is label] for label in (True, False)}
    wins = sum((good > bad) + (good == bad) / 2 for good in likely[True] for bad in likely[False])
    assert found["auc_good_vs_hard"] == pytest.approx(wins / len(kept) ** 2, abs=1e-4)
    taken = sum(one > 0.5 for one in likely[False]) / len(kept)
    assert found["taken_for_good"] == pytest.approx(taken, abs=5 * (0.25 / 100) ** 0.5)
    assert found["taken_for_good"] * 100 == pytest.approx(round(found["taken_for_good"] * 100))
    assert found == hard_report(model, corpus, examples, hard)


def asked(model: Any, corpus: ExampleCorpus, row: list[int]) -> float:
    """P(positive) of the first triplet, all alone."""
    utterance, response, _, other = (torch.tensor([pieces_of(corpus, text)]) for text in row)
    texts = sorted([(len(one[0]), at, one) for at, one in enumerate((utterance, response, other))], key=lambda x: -x[0])
    tokens = torch.zeros((3, texts[0][0]), dtype=torch.int64)
    for place, (length, _, one) in enumerate(texts):
        tokens[place, :length] = one[0]
    places = [next(place for place, (_, at, _) in enumerate(texts) if at == which) for which in range(3)]
    with torch.inference_mode():
        logits = model(tokens, torch.tensor([length for length, _, _ in texts]), torch.tensor([places]))
    return float(torch.softmax(logits.double(), dim=1)[0, 1])


def test_too_few_hard_negatives_give_no_figures() -> None:
    corpus = tiny_corpus(utterances=40)
    examples = ExampleSettings(validation_share=0.5)
    own = corpus.of_split("validation", examples)
    few = hard_partners(corpus, own, embeddings_of(), HardSettings(most_share=1.0))
    assert hard_report(tiny_model(), corpus, examples, few) is None
    none = HardPartners(partners=np.full((len(corpus.start) - 1, 4), -1), between=None, without_partner=1.0)
    assert hard_report(tiny_model(), corpus, examples, none) is None
    one_utterance = corpus_of([[[2, 3 + number] for number in range(23)]] * 2, names=[1, 2])
    hard = np.full((46, 1), -1)
    hard[1:23], hard[24:] = np.arange(24, 46)[:, None], np.arange(1, 23)[:, None]
    side = ExampleSettings(validation_share=0.999)
    assert len(one_utterance.of_split("validation", side)) == 2
    found = hard_report(
        tiny_model(), one_utterance, side, HardPartners(partners=hard, between=(0.0, 1.0), without_partner=0.0)
    )
    assert found is not None
    assert found["examples"] == 2 * 2 * 231
