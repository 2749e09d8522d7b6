"""Hard negatives: responses that share rare words with a response but answer another kind of utterance.

Two random responses have little in common, and a network soon tells them by their words alone from two that belong
together. That does not help among references from an index, which have words in common. A response to nearly the same
utterance, on the other hand, is often a good response too, and must not be learned as a wrong one. So a hard negative
shares rare words with a response, and its utterance is moderately similar to the response's utterance: above the median
similarity of two random utterances, and below that of the most similar ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.progress import Progress, Silent
from refaug.rater.training.examples import ExampleCorpus, Texts

_FIRST_WORD: Final = 2  # after pad and unk: an unknown piece is nothing that two texts have in common
_LEAST_TEXTS: Final = 2  # that contain a word, so that it can be shared
_DRAWN_PAIRS: Final = 10_000  # of utterances, which define moderate similarity
_AT_ONCE: Final = 20_000  # responses between two checks for Ctrl-C

Words = NDArray[np.uint16]
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class HardSettings:
    """Which responses are hard negatives of a response: its partners."""

    partners: int = 4  # at most
    candidates: int = 64  # compared for a response, at most
    most_texts: int = 1_000  # that contain a rare word
    most_share: float = 0.02  # the same, as a share of the responses; the smaller limit counts
    quantiles: tuple[float, float] = (0.5, 0.9)  # of random utterances' similarity; partners' lie between
    alike: float = 0.5  # the word overlap from which two responses say the same
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.partners, self.candidates) < 1:
            raise Usage(f"{self.partners} partners out of {self.candidates} candidates", remedy="at least 1 of either")
        low, high = self.quantiles
        if not 0 <= low <= high <= 1:
            raise Usage(f"similarities between the quantiles {low} and {high}", remedy="such as 0.5 and 0.9")


@dataclass(frozen=True, eq=False, kw_only=True)
class HardPartners:
    """The partners of each response of some utterances, the best first."""

    partners: Texts  # (texts of the corpus, most partners); -1 fills the rest
    between: tuple[float, float] | None  # the range of moderate similarity of utterances
    without_partner: float  # share of the responses


class _Responses(NamedTuple):
    """The responses of a split, those of an utterance together, as sets of words."""

    texts: Numbers
    owner: Numbers  # the utterance of each
    first: Numbers  # response of each utterance
    begin: Numbers  # of each response's words
    words: Words  # in rising order, without repetition


class _Limits(NamedTuple):
    """The range of utterances' similarity, the greatest word overlap, and the number of candidates compared."""

    low: float
    high: float
    alike: float
    candidates: int


class _RareWords(NamedTuple):
    """The responses that contain each rare word, in random order."""

    frequency: Numbers  # how many responses contain a word, also for words that are not rare
    worth: NDArray[np.float64]  # of a word: its inverse document frequency
    totals: NDArray[np.float64]  # the sum of the worth of each response's words
    start: Numbers
    responses: NDArray[np.int32]


def hard_partners(
    corpus: ExampleCorpus,
    utterances: Numbers,
    embeddings: Vectors,
    settings: HardSettings | None = None,
    progress: Progress | None = None,
) -> HardPartners:
    """Find partners of the responses of these utterances among these same responses.

    Candidates share a rare word, those with the rarest first; if more share a word than the limit allows, some are
    drawn. Of the candidates whose utterance is moderately similar to the response's utterance, the partners are
    those with the greatest word overlap; of equals, the first texts. The overlap of two responses is the worth of
    the words that both contain, divided by the worth of the words that either contains, by inverse document
    frequency. Without the division, the partners would be long texts, and length alone would separate them from
    good responses. A response too similar to any response to the same utterance says the same, and is no partner.
    """
    settings, progress = settings or HardSettings(), progress or Silent()
    rng = np.random.default_rng(settings.seed)
    partners = np.full((len(corpus.start) - 1, settings.partners), -1, np.int64)
    response_count = int((corpus.first[utterances + 1] - corpus.first[utterances] - 1).sum())
    utterances, vectors = _embed_utterances(corpus, np.sort(utterances), embeddings)
    if len(utterances) < 2 or not response_count:
        return HardPartners(partners=partners, between=None, without_partner=1.0)
    progress.stage("finding hard negatives", response_count, "responses")
    low, high = _moderate_similarities(vectors, settings.quantiles, rng)
    responses = _responses(corpus, utterances)
    count = len(responses.texts)
    rare_words = _rare_words(responses, min(settings.most_texts, int(settings.most_share * count)), rng)
    turns, met = rng.integers(0, 2**31, count), np.zeros(count, np.int64)
    names = frozen(corpus.names[utterances])
    limits = _Limits(low, high, settings.alike, settings.candidates)
    for begin in range(0, count, _AT_ONCE):
        end = min(count, begin + _AT_ONCE)
        _choose(responses, rare_words, names, vectors, turns, met, limits, begin, end, partners)
        progress.advance(end - begin)
    without = response_count - int((partners[:, 0] >= 0).sum())
    return HardPartners(partners=partners, between=(low, high), without_partner=without / response_count)


def _embed_utterances(corpus: ExampleCorpus, utterances: Numbers, embeddings: Vectors) -> tuple[Numbers, Vectors]:
    """Return the utterances with a vector, and the direction of the mean of their pieces' rows."""
    vectors = np.empty((len(utterances), embeddings.shape[1]), np.float32)
    has_vector = np.empty(len(utterances), np.bool_)
    texts = frozen(corpus.first[utterances])
    _embed(frozen(corpus.pieces), frozen(corpus.start), texts, frozen(embeddings), vectors, has_vector)
    return (utterances, vectors) if has_vector.all() else (utterances[has_vector], vectors[has_vector])


def _moderate_similarities(
    vectors: Vectors, quantiles: tuple[float, float], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the range of moderate similarity: quantiles of random pairs of different utterances."""
    first = rng.integers(0, len(vectors), _DRAWN_PAIRS)
    second = (first + rng.integers(1, len(vectors), _DRAWN_PAIRS)) % len(vectors)
    low, high = np.quantile(_similarities(vectors, first, second), quantiles).tolist()
    return low, high


def _responses(corpus: ExampleCorpus, utterances: Numbers) -> _Responses:
    counts = corpus.first[utterances + 1] - corpus.first[utterances] - 1
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(utterances)), counts)
    texts = corpus.first[utterances][owner] + 1 + np.arange(len(owner)) - first[owner]
    words = np.empty(int((corpus.start[texts + 1] - corpus.start[texts]).sum()), np.uint16)
    begin = np.empty(len(texts) + 1, np.int64)
    used = _words(frozen(corpus.pieces), frozen(corpus.start), texts, begin, words)
    return _Responses(texts, owner, first, begin, words[:used])


def _rare_words(responses: _Responses, most: int, rng: np.random.Generator) -> _RareWords:
    vocabulary = int(responses.words.max(initial=0)) + 1
    count = np.bincount(responses.words, minlength=vocabulary)
    rare = (count >= _LEAST_TEXTS) & (count <= max(most, _LEAST_TEXTS))
    start = np.concatenate([[0], np.cumsum(np.where(rare, count, 0))]).astype(np.int64)
    listed = np.empty(start[-1], np.int32)
    _list_responses(responses.begin, responses.words, rng.permutation(len(responses.texts)), start, listed)
    worth, totals = np.log(len(responses.texts) / np.maximum(count, 1)), np.empty(len(responses.texts))
    _totals(responses.begin, responses.words, worth, totals)
    return _RareWords(count, worth, totals, start, listed)


# Loops


@compiled
def _embed(
    pieces: Words, start: Numbers, texts: Numbers, embeddings: Vectors, vectors: Vectors, has_vector: NDArray[np.bool_]
) -> None:
    """Fill in vectors of unit length, and which texts have one."""
    sums = np.empty(embeddings.shape[1], np.float64)
    for place in range(texts.size):
        sums[:] = 0.0
        for at in range(start[texts[place]], start[texts[place] + 1]):
            if pieces[at] >= _FIRST_WORD:
                for j in range(sums.size):
                    sums[j] += embeddings[pieces[at], j]
        square = 0.0
        for j in range(sums.size):
            square += sums[j] * sums[j]
        has_vector[place] = square > 0.0
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for j in range(sums.size):
            vectors[place, j] = sums[j] * scale


@compiled
def _similarity(vectors: Vectors, first: int, second: int) -> float:
    """Return the cosine, summed in a fixed order."""
    total = 0.0
    for j in range(vectors.shape[1]):
        total += np.float64(vectors[first, j]) * np.float64(vectors[second, j])
    return total


@compiled
def _similarities(vectors: Vectors, first: Numbers, second: Numbers) -> NDArray[np.float64]:
    similarities = np.empty(first.size)
    for place in range(first.size):
        similarities[place] = _similarity(vectors, first[place], second[place])
    return similarities


@compiled
def _words(pieces: Words, start: Numbers, texts: Numbers, begin: Numbers, words: Words) -> int:
    """Fill in the words of each text, sorted and without repetition, and where they begin; return their number."""
    used = 0
    for place in range(texts.size):
        begin[place] = used
        last = _FIRST_WORD - 1
        for word in np.sort(pieces[start[texts[place]] : start[texts[place] + 1]]):
            if word > last:
                words[used] = word
                used += 1
                last = word
    begin[texts.size] = used
    return used


@compiled
def _list_responses(begin: Numbers, words: Words, order: Numbers, start: Numbers, listed: NDArray[np.int32]) -> None:
    """Fill in the responses that contain each rare word, in this order."""
    ends = start.copy()
    for place in order:
        for at in range(begin[place], begin[place + 1]):
            word = words[at]
            if start[word] < start[word + 1]:
                listed[ends[word]] = place
                ends[word] += 1


@compiled
def _rare_words_of(responses: _Responses, rare_words: _RareWords, place: int, rare: Numbers) -> int:
    """Fill in the rare words of a response, the rarest first, of equals the first piece; return their number."""
    used = 0
    for at in range(responses.begin[place], responses.begin[place + 1]):
        word = np.int64(responses.words[at])
        if rare_words.start[word] == rare_words.start[word + 1]:
            continue
        at_rank = used
        while at_rank > 0 and rare_words.frequency[rare[at_rank - 1]] > rare_words.frequency[word]:
            rare[at_rank] = rare[at_rank - 1]
            at_rank -= 1
        rare[at_rank] = word
        used += 1
    return used


@compiled
def _totals(begin: Numbers, words: Words, worth: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Fill in the total worth of each response's words."""
    for place in range(totals.size):
        total = 0.0
        for at in range(begin[place], begin[place + 1]):
            total += worth[words[at]]
        totals[place] = total


@compiled
def _overlap(responses: _Responses, rare_words: _RareWords, first: int, second: int) -> float:
    """Return the worth of the words that both contain, divided by the worth of the words that either contains."""
    shared, at_first, at_second = 0.0, responses.begin[first], responses.begin[second]
    while at_first < responses.begin[first + 1] and at_second < responses.begin[second + 1]:
        if responses.words[at_first] == responses.words[at_second]:
            shared += rare_words.worth[responses.words[at_first]]
            at_first += 1
            at_second += 1
        elif responses.words[at_first] < responses.words[at_second]:
            at_first += 1
        else:
            at_second += 1
    either = rare_words.totals[first] + rare_words.totals[second] - shared
    return shared / either if either > 0.0 else 0.0


@compiled
def _says_the_same(responses: _Responses, rare_words: _RareWords, owner: int, other: int, alike: float) -> bool:
    """Return whether a response says about the same as one of an utterance's responses."""
    for own in range(responses.first[owner], responses.first[owner + 1]):
        if _overlap(responses, rare_words, own, other) >= alike:
            return True
    return False


@compiled
def _choose(
    responses: _Responses,
    rare_words: _RareWords,
    names: NDArray[np.uint64],
    vectors: Vectors,
    turns: Numbers,
    met: Numbers,
    limits: _Limits,
    begin: int,
    end: int,
    partners: Texts,
) -> None:
    """Fill in the partners of responses `begin` to `end`; `met` holds the last response that compared a candidate."""
    rare = np.empty(rare_words.frequency.size, np.int64)
    best, overlaps = np.empty(partners.shape[1], np.int64), np.empty(partners.shape[1])
    for place in range(begin, end):
        owner, compared, used = responses.owner[place], 0, 0
        for nth in range(_rare_words_of(responses, rare_words, place, rare)):
            word = rare[nth]
            for step in range(rare_words.frequency[word]):
                if compared == limits.candidates:
                    break
                other = rare_words.responses[
                    rare_words.start[word] + (turns[place] + step) % rare_words.frequency[word]
                ]
                of_other = responses.owner[other]
                if met[other] == place + 1 or names[of_other] == names[owner]:
                    continue
                met[other] = place + 1
                compared += 1
                overlap = _overlap(responses, rare_words, place, other)
                spot = used
                while spot > 0 and (
                    overlaps[spot - 1] < overlap or (overlaps[spot - 1] == overlap and best[spot - 1] > other)
                ):
                    spot -= 1
                if spot == best.size or not limits.low <= _similarity(vectors, owner, of_other) <= limits.high:
                    continue
                if _says_the_same(responses, rare_words, owner, other, limits.alike):
                    continue
                used = min(used + 1, best.size)
                for later in range(used - 1, spot, -1):
                    best[later], overlaps[later] = best[later - 1], overlaps[later - 1]
                best[spot], overlaps[spot] = other, overlap
        for spot in range(used):
            partners[responses.texts[place], spot] = responses.texts[best[spot]]
