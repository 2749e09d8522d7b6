"""Hard negatives: responses that share rare words with a response, though they answered something of another kind.

Two responses that were drawn apart have little in common, and a network soon tells them from two that belong together
by their words alone. Among references that an index finds that is of no use: they have the words in common. But what
answered almost the same utterance is often a good response as well, and must not be learnt as a wrong one. So a hard
negative shares rare words with a response, and its utterance is only middling like that one's: above the median of what
two drawn utterances are, and below what the most alike are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from core.kernels import compiled, frozen
from core.progress import Progress, Silent
from rater.examples import Corpus, Texts

_FIRST_WORD: Final = 2  # after pad and unk: that a piece is unknown is nothing that two texts have in common
_LEAST_TEXTS: Final = 2  # that a word stands in, or nobody shares it
_DRAWN_PAIRS: Final = 10_000  # of utterances, which tell what middling is
_AT_ONCE: Final = 20_000  # responses, between which Ctrl-C is heard

Words = NDArray[np.uint16]
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class HardSettings:
    """Which responses are hard negatives of a response: its partners."""

    partners: int = 4  # at most
    candidates: int = 64  # that are looked at for a response, at most
    most_texts: int = 1_000  # that hold a rare word
    most_share: float = 0.02  # the same, as a share of the responses; the smaller of the two counts
    quantiles: tuple[float, float] = (0.5, 0.9)  # of the similarity of drawn utterances, between which theirs is
    alike: float = 0.5  # the likeness from which on two responses say the same
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.partners, self.candidates) < 1:
            raise Usage(f"{self.partners} partners out of {self.candidates} candidates", remedy="at least 1 of either")
        low, high = self.quantiles
        if not 0 <= low <= high <= 1:
            raise Usage(f"similarities between the quantiles {low} and {high}", remedy="such as 0.5 and 0.9")


@dataclass(frozen=True, eq=False, kw_only=True)
class Hard:
    """The partners of each response of some utterances, the best first."""

    partners: Texts  # (texts of the corpus, most partners), -1 where there is none
    between: tuple[float, float] | None  # the similarities of utterances that are middling
    without_partner: float  # share of the responses


class _Responses(NamedTuple):
    """The responses of a split, those of an utterance together, as sets of words."""

    texts: Numbers
    owner: Numbers  # the utterance of each
    first: Numbers  # response of each utterance
    begin: Numbers  # of each response's words
    words: Words  # in rising order, each once


class _Limits(NamedTuple):
    """Between which similarities of utterances, to which likeness, and how many candidates are looked at."""

    low: float
    high: float
    alike: float
    candidates: int


class _Holders(NamedTuple):
    """Which responses hold a word, in a drawn order; of words that are rare."""

    held: Numbers  # by how many responses a word is, also one that is not rare
    worth: NDArray[np.float64]  # of a word: its inverse document frequency
    totals: NDArray[np.float64]  # what the words of each response are worth
    start: Numbers
    responses: NDArray[np.int32]


def hard_partners(
    corpus: Corpus,
    utterances: Numbers,
    embeddings: Vectors,
    settings: HardSettings | None = None,
    progress: Progress | None = None,
) -> Hard:
    """Partners of the responses of these utterances, all of them responses of these utterances too.

    Candidates share a rare word, those with the rarest first; where more share a word than are looked at, some are
    drawn. Of those whose utterance is middling like the response's own, the partners are the likest; of equals, the
    first texts. The likeness of two responses is what the words that both hold are worth, as a share of what the words
    of either are, by inverse document frequency. Without the share, the partners would be long texts, and the length
    alone would tell them from good responses. What is too like an answer to the same utterance says the same, and is
    no partner.
    """
    settings, progress = settings or HardSettings(), progress or Silent()
    rng = np.random.default_rng(settings.seed)
    partners = np.full((len(corpus.start) - 1, settings.partners), -1, np.int64)
    asked = _response_count(corpus, utterances)
    utterances, vectors = _with_vectors(corpus, np.sort(utterances), embeddings)
    if len(utterances) < 2 or not asked:
        return Hard(partners=partners, between=None, without_partner=1.0)
    progress.stage("finding hard negatives", asked, "responses")
    low, high = _middling(vectors, settings.quantiles, rng)
    responses = _responses(corpus, utterances)
    count = len(responses.texts)
    holders = _holders(responses, min(settings.most_texts, int(settings.most_share * count)), rng)
    turns, met = rng.integers(0, 2**31, count), np.zeros(count, np.int64)
    names = frozen(corpus.names[utterances])
    limits = _Limits(low, high, settings.alike, settings.candidates)
    for begin in range(0, count, _AT_ONCE):
        end = min(count, begin + _AT_ONCE)
        _choose(responses, holders, names, vectors, turns, met, limits, begin, end, partners)
        progress.advance(end - begin)
    without = asked - int((partners[:, 0] >= 0).sum())
    return Hard(partners=partners, between=(low, high), without_partner=without / asked)


def _response_count(corpus: Corpus, utterances: Numbers) -> int:
    return int((corpus.first[utterances + 1] - corpus.first[utterances] - 1).sum())


def _with_vectors(corpus: Corpus, utterances: Numbers, embeddings: Vectors) -> tuple[Numbers, Vectors]:
    """The utterances that have one, as the direction of the mean of their pieces' rows."""
    vectors = np.empty((len(utterances), embeddings.shape[1]), np.float32)
    known = np.empty(len(utterances), np.bool_)
    texts = frozen(corpus.first[utterances])
    _embed(frozen(corpus.pieces), frozen(corpus.start), texts, frozen(embeddings), vectors, known)
    return (utterances, vectors) if known.all() else (utterances[known], vectors[known])


def _middling(vectors: Vectors, quantiles: tuple[float, float], rng: np.random.Generator) -> tuple[float, float]:
    """Between which similarities drawn pairs of different utterances are middling."""
    one = rng.integers(0, len(vectors), _DRAWN_PAIRS)
    other = (one + rng.integers(1, len(vectors), _DRAWN_PAIRS)) % len(vectors)
    low, high = np.quantile(_similarities(vectors, one, other), quantiles).tolist()
    return low, high


def _responses(corpus: Corpus, utterances: Numbers) -> _Responses:
    counts = corpus.first[utterances + 1] - corpus.first[utterances] - 1
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(utterances)), counts)
    texts = corpus.first[utterances][owner] + 1 + np.arange(len(owner)) - first[owner]
    words = np.empty(int((corpus.start[texts + 1] - corpus.start[texts]).sum()), np.uint16)
    begin = np.empty(len(texts) + 1, np.int64)
    used = _words(frozen(corpus.pieces), frozen(corpus.start), texts, begin, words)
    return _Responses(texts, owner, first, begin, words[:used])


def _holders(responses: _Responses, most: int, rng: np.random.Generator) -> _Holders:
    vocabulary = int(responses.words.max(initial=0)) + 1
    count = np.bincount(responses.words, minlength=vocabulary)
    rare = (count >= _LEAST_TEXTS) & (count <= max(most, _LEAST_TEXTS))
    start = np.concatenate([[0], np.cumsum(np.where(rare, count, 0))]).astype(np.int64)
    listed = np.empty(start[-1], np.int32)
    _list(responses.begin, responses.words, rng.permutation(len(responses.texts)), start, listed)
    worth, totals = np.log(len(responses.texts) / np.maximum(count, 1)), np.empty(len(responses.texts))
    _totals(responses.begin, responses.words, worth, totals)
    return _Holders(count, worth, totals, start, listed)


# Loops


@compiled
def _embed(
    pieces: Words, start: Numbers, texts: Numbers, embeddings: Vectors, vectors: Vectors, known: NDArray[np.bool_]
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
        known[place] = square > 0.0
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for j in range(sums.size):
            vectors[place, j] = sums[j] * scale


@compiled
def _similarity(vectors: Vectors, one: int, other: int) -> float:
    """The cosine, in an order of additions that is the same everywhere."""
    total = 0.0
    for j in range(vectors.shape[1]):
        total += np.float64(vectors[one, j]) * np.float64(vectors[other, j])
    return total


@compiled
def _similarities(vectors: Vectors, one: Numbers, other: Numbers) -> NDArray[np.float64]:
    found = np.empty(one.size)
    for place in range(one.size):
        found[place] = _similarity(vectors, one[place], other[place])
    return found


@compiled
def _words(pieces: Words, start: Numbers, texts: Numbers, begin: Numbers, words: Words) -> int:
    """Fill in the words of each text, in rising order and each once, and where they begin; how many there are."""
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
def _list(begin: Numbers, words: Words, order: Numbers, start: Numbers, listed: NDArray[np.int32]) -> None:
    """Fill in the responses that hold each word that has room, in this order."""
    ends = start.copy()
    for place in order:
        for at in range(begin[place], begin[place + 1]):
            word = words[at]
            if start[word] < start[word + 1]:
                listed[ends[word]] = place
                ends[word] += 1


@compiled
def _rare(responses: _Responses, holders: _Holders, place: int, rare: Numbers) -> int:
    """Fill in the rare words of a response, the rarest first, of equals the first piece; how many there are."""
    used = 0
    for at in range(responses.begin[place], responses.begin[place + 1]):
        word = np.int64(responses.words[at])
        if holders.start[word] == holders.start[word + 1]:
            continue
        spot = used
        while spot > 0 and holders.held[rare[spot - 1]] > holders.held[word]:
            rare[spot] = rare[spot - 1]
            spot -= 1
        rare[spot] = word
        used += 1
    return used


@compiled
def _totals(begin: Numbers, words: Words, worth: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Fill in what the words of each response are worth."""
    for place in range(totals.size):
        total = 0.0
        for at in range(begin[place], begin[place + 1]):
            total += worth[words[at]]
        totals[place] = total


@compiled
def _likeness(responses: _Responses, holders: _Holders, one: int, other: int) -> float:
    """What the words that both hold are worth, as a share of what the words of either are."""
    shared, a, b = 0.0, responses.begin[one], responses.begin[other]
    while a < responses.begin[one + 1] and b < responses.begin[other + 1]:
        if responses.words[a] == responses.words[b]:
            shared += holders.worth[responses.words[a]]
            a += 1
            b += 1
        elif responses.words[a] < responses.words[b]:
            a += 1
        else:
            b += 1
    either = holders.totals[one] + holders.totals[other] - shared
    return shared / either if either > 0.0 else 0.0


@compiled
def _says_the_same(responses: _Responses, holders: _Holders, owner: int, other: int, alike: float) -> bool:
    """Whether a response says about what one of an utterance's own says."""
    for own in range(responses.first[owner], responses.first[owner + 1]):
        if _likeness(responses, holders, own, other) >= alike:
            return True
    return False


@compiled
def _choose(
    responses: _Responses,
    holders: _Holders,
    names: NDArray[np.uint64],
    vectors: Vectors,
    turns: Numbers,
    met: Numbers,
    limits: _Limits,
    begin: int,
    end: int,
    partners: Texts,
) -> None:
    """Fill in the partners of responses `begin` to `end`; `met` says for which one a candidate was last looked at."""
    rare = np.empty(holders.held.size, np.int64)
    best, likenesses = np.empty(partners.shape[1], np.int64), np.empty(partners.shape[1])
    for place in range(begin, end):
        owner, looked_at, used = responses.owner[place], 0, 0
        for nth in range(_rare(responses, holders, place, rare)):
            word = rare[nth]
            for step in range(holders.held[word]):
                if looked_at == limits.candidates:
                    break
                other = holders.responses[holders.start[word] + (turns[place] + step) % holders.held[word]]
                of_other = responses.owner[other]
                if met[other] == place + 1 or names[of_other] == names[owner]:
                    continue
                met[other] = place + 1
                looked_at += 1
                likeness = _likeness(responses, holders, place, other)
                spot = used
                while spot > 0 and (
                    likenesses[spot - 1] < likeness or (likenesses[spot - 1] == likeness and best[spot - 1] > other)
                ):
                    spot -= 1
                if spot == best.size or not limits.low <= _similarity(vectors, owner, of_other) <= limits.high:
                    continue
                if _says_the_same(responses, holders, owner, other, limits.alike):
                    continue
                used = min(used + 1, best.size)
                for later in range(used - 1, spot, -1):
                    best[later], likenesses[later] = best[later - 1], likenesses[later - 1]
                best[spot], likenesses[spot] = other, likeness
        for spot in range(used):
            partners[responses.texts[place], spot] = responses.texts[best[spot]]
