"""What a rater learns from: utterances with several responses, as arrays; and a seeded sequence of examples of them.

A positive example is two different responses to one utterance. A negative one is two pairs of different utterances:
the first of one positive example, the second of another one of the same batch. So every text is as frequent, and stands
as often in each place, among negatives as among positives, and nothing but whether the two belong together tells them
apart.

Where hard negatives are asked for, the second pair of a negative is another one, found by the words of the first: see
`rater.hard`. Then a text may stand among negatives more often than among positives.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput, Usage

Texts = NDArray[np.int64]
Split = Literal["train", "validation", "all"]
Negatives = Literal["random", "hard", "mixed"]

LEAST_LIMIT: Final = 20  # positive examples, so that there are different utterances among them
_CHUNK: Final = 64  # batches that are cut out of examples sorted by length
_DRAWS: Final = 20  # of an order in which no example is followed by one of the same utterance


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """Which examples, and in what order."""

    batch: int = 256  # examples, half of them positive
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # positive examples of an epoch, drawn anew each time; None: all
    seed: int = 1
    negatives: Negatives = "random"  # "mixed" has a hard one, where there is one, in every other example

    def __post_init__(self) -> None:
        if self.negatives not in get_args(Negatives):
            raise Usage(f"negatives {self.negatives!r}", remedy=f"one of: {', '.join(get_args(Negatives))}")
        if self.batch < 1:
            raise Usage(f"batches of {self.batch} examples", remedy="at least 1")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise Usage(f"{self.limit} positive examples an epoch", remedy=f"at least {LEAST_LIMIT}, or all")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")


class Batch(NamedTuple):
    """Some examples: texts without repetition, the longest first, and two triplets an example.

    Triplet i and triplet i + examples are [U1, R1, R2] and [U2, R2, R1] of example i.
    """

    tokens: NDArray[np.int64]  # (texts, time), 0 beyond a text's end
    lengths: NDArray[np.int64]
    triplets: NDArray[np.int64]  # (2 * examples, 3), rows of tokens
    labels: NDArray[np.int64]  # (2 * examples,)


class Partners(NamedTuple):
    """Hard negatives to draw from, and how often one is taken where there is one."""

    responses: Texts  # (texts, most partners), -1 where there is none, which comes last
    share: float


class Quadruples(NamedTuple):
    """Examples as texts: utterance and response, utterance and response; and whether the two pairs belong together."""

    texts: Texts  # (examples, 4)
    positive: NDArray[np.bool_]


class Coded(Protocol):
    """Texts as piece ids: text t is `pieces[start[t]:start[t + 1]]`."""

    @property
    def pieces(self) -> NDArray[np.uint16]:
        """Of all texts, one after the other."""

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each text begins, and where the last one ends."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Shared utterances and their responses as piece ids.

    Text t is `pieces[start[t]:start[t + 1]]`. Utterance u is text `first[u]`, its responses the texts from there to
    `first[u + 1]`.
    """

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    names: NDArray[np.uint64]  # of utterances: a hash of the normalised text, which decides over the split

    @property
    def utterances(self) -> int:
        """How many there are."""
        return len(self.first) - 1

    def of_split(self, split: Split, settings: ExampleSettings) -> NDArray[np.int64]:
        """The utterances of a split: the same utterance is always in the same one, whatever else is in the log."""
        if split == "all":
            return np.arange(self.utterances)
        drawn = np.array([drawn_share(int(name), settings.seed) for name in self.names.tolist()])
        wanted = drawn < settings.validation_share
        return np.flatnonzero(wanted if split == "validation" else ~wanted)

    def answered(self, responses: Texts) -> Texts:
        """The utterances, as texts, that these texts are responses to."""
        return self.first[np.searchsorted(self.first, responses, side="right") - 1]

    def positives(self, utterances: NDArray[np.int64]) -> Texts:
        """All pairs of responses, (examples, 3): utterance, response, response, as texts."""
        counts = self.first[utterances + 1] - self.first[utterances] - 1
        found = []
        for count in np.unique(counts):
            some = self.first[utterances[counts == count]]
            for one, other in itertools.combinations(range(1, int(count) + 1), 2):
                found.append(np.stack([some, some + one, some + other], axis=1))
        return np.concatenate(found) if found else np.empty((0, 3), np.int64)


def drawn_share(name: int, seed: int) -> float:
    """From 0 to 1, by the hash of a normalised utterance: below the validation share it is not trained on."""
    digest = hashlib.blake2b(name.to_bytes(8, "little"), key=str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def quadruples(positives: Texts, rng: np.random.Generator) -> Quadruples:
    """As many negatives as positives, in a drawn order; in which of the two places a response stands is drawn too."""
    count = len(positives)
    swapped = rng.random(count) < 0.5
    one, other = (
        np.where(swapped, positives[:, 2], positives[:, 1]),
        np.where(swapped, positives[:, 1], positives[:, 2]),
    )
    first, second = np.stack([positives[:, 0], one], axis=1), np.stack([positives[:, 0], other], axis=1)
    following = _elsewhere(positives[:, 0], rng)
    together = np.concatenate([first, second], axis=1)
    apart = np.concatenate([first, second[following]], axis=1)
    order = rng.permutation(2 * count)
    return Quadruples(np.concatenate([together, apart])[order], (np.arange(2 * count) < count)[order])


def with_hard(corpus: Corpus, some: Quadruples, partners: Partners, rng: np.random.Generator) -> Quadruples:
    """The same examples, but for the second pair of a negative: a drawn hard one of its first pair, if there is one."""
    found = partners.responses[some.texts[:, 1]]
    choices = (found >= 0).sum(axis=1)
    chosen = found[np.arange(len(found)), rng.integers(0, np.maximum(choices, 1))]
    taken = ~some.positive & (choices > 0) & (rng.random(len(found)) < partners.share)
    texts = some.texts.copy()
    texts[taken, 2], texts[taken, 3] = corpus.answered(chosen[taken]), chosen[taken]
    return some._replace(texts=texts)


def _elsewhere(utterances: Texts, rng: np.random.Generator) -> NDArray[np.int64]:
    """A permutation that gives every example one of another utterance; as chance has it, if chance finds one soon."""
    other = rng.permutation(len(utterances))
    for _ in range(_DRAWS):
        same = np.flatnonzero(utterances == utterances[other])
        if not len(same):
            return other
        exchanged = rng.integers(0, len(utterances), len(same))
        for place, partner in zip(same.tolist(), exchanged.tolist(), strict=True):
            other[place], other[partner] = other[partner], other[place]
    return _turned(utterances, rng)


def _turned(utterances: Texts, rng: np.random.Generator) -> NDArray[np.int64]:
    """The examples utterance by utterance, each given the one that stands so far behind that it is another's."""
    count, largest = len(utterances), _largest(utterances)
    if 2 * largest > count:
        raise BadInput(
            "too few different utterances have several responses to find pairs that do not belong together",
            remedy="give more logs",
        )
    order = np.lexsort((rng.random(count), utterances))
    other = np.empty(count, np.int64)
    other[order] = np.roll(order, -int(rng.integers(largest, count - largest + 1)))
    return other


def _largest(utterances: Texts) -> int:
    """How many examples the utterance with the most has."""
    return int(np.unique(utterances, return_counts=True)[1].max(initial=0))


class Examples:
    """The examples of one split: batches of an epoch, the same ones for the same settings and number.

    The positive examples of an utterance stand together, and a batch's negatives are made of its own texts: most of the
    time goes into reading texts, and so each is read once for many examples.

    Without `hard`, the partners of each text, negatives are random ones whatever the settings say. With `all_hard`
    those positive examples are left out that have a response without a partner.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: Split,
        settings: ExampleSettings,
        max_tokens: int,
        hard: Texts | None = None,
        *,
        all_hard: bool = False,
    ) -> None:
        self._corpus, self._settings, self._max_tokens = corpus, settings, max_tokens
        self.utterances = corpus.of_split(split, settings)
        self._positives = corpus.positives(self.utterances)
        self._partners: Partners | None = None
        if hard is not None and settings.negatives != "random":
            self._partners = Partners(hard, 1.0 if settings.negatives == "hard" else 0.5)
        if hard is not None and all_hard:
            self._positives = self._positives[(hard[self._positives[:, 1:], 0] >= 0).all(axis=1)]
        self._lengths = np.minimum(np.diff(corpus.start), max_tokens)
        self._largest = _largest(self._positives[:, 0])

    @property
    def positive_count(self) -> int:
        """Positive examples there are."""
        return len(self._positives)

    @property
    def of_an_epoch(self) -> int:
        """Examples, positive and negative, that one epoch has."""
        limit = self._settings.limit
        return 2 * (self.positive_count if limit is None else min(limit, self.positive_count))

    def batch_count(self) -> int:
        """How many batches an epoch has."""
        return max(1, self.of_an_epoch // 2 // self._half)

    @property
    def has_negatives(self) -> bool:
        """Whether there are different utterances enough for as many negatives as positives."""
        return 0 < 2 * self._largest <= self.positive_count

    @property
    def _half(self) -> int:
        """Positive examples of a batch: so many at least that no utterance has more than half of them."""
        return max(1, self._settings.batch // 2, 2 * self._largest)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, those after the first `skip`; examples of like length stand together."""
        for some in self.drawn(number, skip=skip):
            yield self.batch(some)

    def drawn(self, number: int, *, skip: int = 0) -> Iterator[Quadruples]:
        """The same, as texts."""
        for place, positives in enumerate(self._cut(number)):
            if place >= skip:
                rng = np.random.default_rng([self._settings.seed, number, 1 + place])
                some = quadruples(positives, rng)
                yield some if self._partners is None else with_hard(self._corpus, some, self._partners, rng)

    def _cut(self, number: int) -> list[Texts]:
        """The positive examples of each batch; what is left over goes into the last ones."""
        rng = np.random.default_rng([self._settings.seed, number])
        positives, limit = self._positives, self._settings.limit
        if limit is not None and limit < len(positives):
            positives = positives[np.sort(rng.permutation(len(positives))[:limit])]
        first, of_utterance = np.unique(positives[:, 0], return_inverse=True)
        rank = rng.permutation(len(first))[of_utterance]  # the order of the utterances
        places = np.empty(len(positives), np.int64)
        places[np.argsort(rank, kind="stable")] = np.arange(len(positives))
        longest = np.zeros(len(first), np.int64)
        np.maximum.at(longest, of_utterance, self._lengths[positives].max(axis=1))
        order = np.lexsort((rank, longest[of_utterance], places // (self._half * _CHUNK)))
        cuts = np.array_split(positives[order], self.batch_count())
        return [cuts[place] for place in rng.permutation(len(cuts)).tolist()]

    def batch(self, some: Quadruples) -> Batch:
        """Examples as a network reads them."""
        texts, places = np.unique(some.texts, return_inverse=True)
        tokens, lengths, order = padded(self._corpus, texts, self._max_tokens)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        utterance, response, other_utterance, other = rank[places.reshape(some.texts.shape)].T
        triplets = np.concatenate(
            [np.stack([utterance, response, other], axis=1), np.stack([other_utterance, other, response], axis=1)]
        )
        return Batch(tokens, lengths, triplets, np.tile(some.positive.astype(np.int64), 2))


def padded(
    corpus: Coded, texts: Texts, max_tokens: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Tokens (texts, time) and lengths, the longest first, and which text each row is; an empty text is `<unk>`."""
    lengths = np.minimum(corpus.start[texts + 1] - corpus.start[texts], max_tokens)
    order = np.argsort(-lengths, kind="stable")
    lengths, begins = lengths[order], corpus.start[texts[order]]
    tokens = np.zeros((len(texts), max(1, int(lengths.max(initial=1)))), np.int64)
    rows = np.repeat(np.arange(len(texts)), lengths)
    columns = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    tokens[rows, columns] = corpus.pieces[begins[rows] + columns]
    tokens[lengths == 0, 0] = 1
    return tokens, np.maximum(lengths, 1), order
