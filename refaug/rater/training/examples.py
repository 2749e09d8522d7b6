"""Training data of a rater: utterances with several responses as arrays, and seeded sequences of examples.

A positive example is two different responses to one utterance. A negative one is two pairs of different utterances: the
first pair of one positive example, and the second pair of another one of the same batch. So every text is as frequent,
and as often in each place, among negatives as among positives, and the two kinds differ only in whether the pairs
belong together.

With hard negatives, the second pair of a negative is chosen by the words of the first: see
`refaug.rater.training.hard_negatives`. Then a text may be more frequent among negatives than among positives.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage

Texts = NDArray[np.int64]
Split = Literal["train", "validation", "all"]
Negatives = Literal["random", "hard", "mixed"]

LEAST_LIMIT: Final = 20  # positive examples, so that they come from different utterances
_CHUNK: Final = 64  # batches made from one run of examples sorted by length
_DRAWS: Final = 20  # attempts at an order in which no example follows one of the same utterance


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """Which examples are used, and in what order."""

    batch: int = 256  # examples, half of them positive
    validation_share: float = 0.05  # of the utterances
    limit: int | None = None  # positive examples an epoch, drawn again each time; None: all
    seed: int = 1
    negatives: Negatives = "random"  # with "mixed", every other example has a hard negative if there is one

    def __post_init__(self) -> None:
        if self.negatives not in get_args(Negatives):
            raise Usage(f"negatives {self.negatives!r}", remedy=f"one of: {', '.join(get_args(Negatives))}")
        if self.batch < 1:
            raise Usage(f"batches of {self.batch} examples", remedy="at least 1")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise Usage(f"{self.limit} positive examples an epoch", remedy=f"at least {LEAST_LIMIT}, or all")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share}", remedy="give one between 0 and 1")


class ExampleBatch(NamedTuple):
    """Some examples: texts without repetition, the longest first, and two triplets an example.

    Triplet i and triplet i + examples are [U1, R1, R2] and [U2, R2, R1] of example i.
    """

    tokens: NDArray[np.int64]  # (texts, time), 0 beyond a text's end
    lengths: NDArray[np.int64]
    triplets: NDArray[np.int64]  # (2 * examples, 3), rows of tokens
    labels: NDArray[np.int64]  # (2 * examples,)


class Partners(NamedTuple):
    """Hard negatives to draw from, and how often one is used if there is one."""

    responses: Texts  # (texts, most partners); -1 fills the rest
    share: float


class Quadruples(NamedTuple):
    """Examples as texts: utterance, response, utterance, response; and whether the two pairs belong together."""

    texts: Texts  # (examples, 4)
    positive: NDArray[np.bool_]


class CodedCorpus(Protocol):
    """Texts as piece ids: text t is `pieces[start[t]:start[t + 1]]`."""

    @property
    def pieces(self) -> NDArray[np.uint16]:
        """The piece ids of all texts, one after the other."""

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each text begins, and where the last one ends."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ExampleCorpus:
    """Shared utterances and their responses as piece ids.

    Text t is `pieces[start[t]:start[t + 1]]`. Utterance u is text `first[u]`; its responses are the texts from
    there to `first[u + 1]`.
    """

    pieces: NDArray[np.uint16]
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    names: NDArray[np.uint64]  # of utterances: a hash of the normalised text, which decides the split

    @property
    def utterances(self) -> int:
        """The number of utterances."""
        return len(self.first) - 1

    def of_split(self, split: Split, settings: ExampleSettings) -> NDArray[np.int64]:
        """Return the utterances of a split; an utterance is always in the same split, whatever else the log holds."""
        if split == "all":
            return np.arange(self.utterances)
        shares = np.array([hash_share(int(name), settings.seed) for name in self.names.tolist()])
        is_validation = shares < settings.validation_share
        return np.flatnonzero(is_validation if split == "validation" else ~is_validation)

    def utterances_of(self, responses: Texts) -> Texts:
        """Return the utterances, as texts, that these texts are responses to."""
        return self.first[np.searchsorted(self.first, responses, side="right") - 1]

    def positives(self, utterances: NDArray[np.int64]) -> Texts:
        """Return all pairs of responses, (examples, 3): utterance, response, response, as texts."""
        counts = self.first[utterances + 1] - self.first[utterances] - 1
        pairs = []
        for count in np.unique(counts):
            texts = self.first[utterances[counts == count]]
            for first, second in itertools.combinations(range(1, int(count) + 1), 2):
                pairs.append(np.stack([texts, texts + first, texts + second], axis=1))
        return np.concatenate(pairs) if pairs else np.empty((0, 3), np.int64)


def hash_share(name: int, seed: int) -> float:
    """Return a number from 0 to 1 by the hash of an utterance; below the validation share it is not trained on."""
    digest = hashlib.blake2b(name.to_bytes(8, "little"), key=str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def quadruples(positives: Texts, rng: np.random.Generator) -> Quadruples:
    """Return as many negatives as positives, in random order; the order of the two responses is random too."""
    count = len(positives)
    swapped = rng.random(count) < 0.5
    first_response, second_response = (
        np.where(swapped, positives[:, 2], positives[:, 1]),
        np.where(swapped, positives[:, 1], positives[:, 2]),
    )
    first_pair, second_pair = (
        np.stack([positives[:, 0], first_response], axis=1),
        np.stack([positives[:, 0], second_response], axis=1),
    )
    following = _other_utterances(positives[:, 0], rng)
    together = np.concatenate([first_pair, second_pair], axis=1)
    apart = np.concatenate([first_pair, second_pair[following]], axis=1)
    order = rng.permutation(2 * count)
    return Quadruples(np.concatenate([together, apart])[order], (np.arange(2 * count) < count)[order])


def replace_with_hard(
    corpus: ExampleCorpus, examples: Quadruples, partners: Partners, rng: np.random.Generator
) -> Quadruples:
    """Replace the second pair of a negative by a random hard negative of its first pair, if there is one."""
    candidates = partners.responses[examples.texts[:, 1]]
    choices = (candidates >= 0).sum(axis=1)
    chosen = candidates[np.arange(len(candidates)), rng.integers(0, np.maximum(choices, 1))]
    is_replaced = ~examples.positive & (choices > 0) & (rng.random(len(candidates)) < partners.share)
    texts = examples.texts.copy()
    texts[is_replaced, 2], texts[is_replaced, 3] = corpus.utterances_of(chosen[is_replaced]), chosen[is_replaced]
    return examples._replace(texts=texts)


def _other_utterances(utterances: Texts, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a permutation that gives every example one of another utterance.

    It is random, if random exchanges find one soon.
    """
    other = rng.permutation(len(utterances))
    for _ in range(_DRAWS):
        same = np.flatnonzero(utterances == utterances[other])
        if not len(same):
            return other
        exchanged = rng.integers(0, len(utterances), len(same))
        for place, partner in zip(same.tolist(), exchanged.tolist(), strict=True):
            other[place], other[partner] = other[partner], other[place]
    return _rotate(utterances, rng)


def _rotate(utterances: Texts, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sort the examples by utterance and rotate them so far that each gets one of another utterance."""
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
    """Return the greatest number of examples that one utterance has."""
    return int(np.unique(utterances, return_counts=True)[1].max(initial=0))


class Examples:
    """The examples of one split in batches; an epoch's number and the settings determine its batches.

    The positive examples of an utterance stay together, and a batch's negatives are made from its own texts:
    reading texts takes most of the time, so each is read once for many examples.

    Without `hard`, the partners of each text, negatives are random whatever the settings say. With `all_hard`,
    positive examples with a response without a partner are left out.
    """

    def __init__(
        self,
        corpus: ExampleCorpus,
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
        """The number of positive examples."""
        return len(self._positives)

    @property
    def epoch_size(self) -> int:
        """The number of examples, positive and negative, in one epoch."""
        limit = self._settings.limit
        return 2 * (self.positive_count if limit is None else min(limit, self.positive_count))

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return max(1, self.epoch_size // 2 // self._half)

    @property
    def has_negatives(self) -> bool:
        """Whether there are enough different utterances for as many negatives as positives."""
        return 0 < 2 * self._largest <= self.positive_count

    @property
    def _half(self) -> int:
        """The number of positive examples in a batch, so large that no utterance has more than half of them."""
        return max(1, self._settings.batch // 2, 2 * self._largest)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[ExampleBatch]:
        """Yield the batches of an epoch after the first `skip`; examples of similar length come together."""
        for examples in self.draw(number, skip=skip):
            yield self.batch(examples)

    def draw(self, number: int, *, skip: int = 0) -> Iterator[Quadruples]:
        """Yield the examples of each batch as texts, after the first `skip` batches."""
        for place, positives in enumerate(self._split_into_batches(number)):
            if place >= skip:
                rng = np.random.default_rng([self._settings.seed, number, 1 + place])
                examples = quadruples(positives, rng)
                yield (
                    examples
                    if self._partners is None
                    else replace_with_hard(self._corpus, examples, self._partners, rng)
                )

    def _split_into_batches(self, number: int) -> list[Texts]:
        """Return the positive examples of each batch; the last batches share the remainder."""
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

    def batch(self, examples: Quadruples) -> ExampleBatch:
        """Return examples in the form that a network reads."""
        texts, places = np.unique(examples.texts, return_inverse=True)
        tokens, lengths, order = pad(self._corpus, texts, self._max_tokens)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        utterance, response, other_utterance, other = rank[places.reshape(examples.texts.shape)].T
        triplets = np.concatenate(
            [np.stack([utterance, response, other], axis=1), np.stack([other_utterance, other, response], axis=1)]
        )
        return ExampleBatch(tokens, lengths, triplets, np.tile(examples.positive.astype(np.int64), 2))


def pad(
    corpus: CodedCorpus, texts: Texts, max_tokens: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return tokens (texts, time) and lengths, the longest first, and the text of each row.

    An empty text is `<unk>`.
    """
    lengths = np.minimum(corpus.start[texts + 1] - corpus.start[texts], max_tokens)
    order = np.argsort(-lengths, kind="stable")
    lengths, begins = lengths[order], corpus.start[texts[order]]
    tokens = np.zeros((len(texts), max(1, int(lengths.max(initial=1)))), np.int64)
    rows = np.repeat(np.arange(len(texts)), lengths)
    columns = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    tokens[rows, columns] = corpus.pieces[begins[rows] + columns]
    tokens[lengths == 0, 0] = 1
    return tokens, np.maximum(lengths, 1), order
