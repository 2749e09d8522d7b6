"""Searching in plain Python, from the definition of retrieval in the design: what an index is held to.

Everything is looked at, nothing is stored: pairs are merged, compared one by one with exact sums, sorted, and walked
from the top. A *level* is a similarity in whole millionths.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.indexer.search import search_settings
from refaug.indexer.search.search_settings import SearchSettings

MODES = search_settings.MODES[:4]  # those by word vectors and by BM25
MILLION = 1_000_000
EDGE = 1e-6  # of a level: sums in another order may be rounded to the other side
DIALOG_DEPTH = 1_000
K1, B = 1.2, 0.75

Vector = tuple[float, ...]
Shown = tuple[str, str]  # the utterance and the response of a merged pair, as they are shown


@dataclass(frozen=True)
class RawPair:
    """A row of a log."""

    log: str
    dialogue: str
    position: str
    utterance: str
    response: str
    time: datetime | None = None
    speaker: str | None = None

    @property
    def id(self) -> str:
        return f"{self.log}/{self.dialogue}#{self.position}"


@dataclass(frozen=True)
class MergedPair:
    """Pairs that are equal after normalisation; the first of them is the first by log, dialogue and position."""

    utterance: str
    response: str
    occurrences: tuple[RawPair, ...]

    @property
    def shown(self) -> Shown:
        return self.utterance, self.response


@dataclass(frozen=True)
class Found:
    """A reference."""

    level: int
    text: str
    utterance: str
    count: int
    pair: str


@dataclass(frozen=True)
class Answer:
    """What is found for one test pair."""

    references: tuple[Found, ...]
    excluded: Mapping[str, int]
    note: str = ""
    left_out: tuple[tuple[str, str, str], ...] = ()  # of each: the reason, the response and the utterance


def sha(text: str) -> int:
    """The first eight bytes of SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def merged(pairs: Iterable[RawPair]) -> list[MergedPair]:
    """One pair for all that are equal after normalisation, with the surface forms of smallest SHA-256."""
    by_utterance = defaultdict[str, defaultdict[str, list[RawPair]]](lambda: defaultdict(list))
    for pair in pairs:
        by_utterance[normalise(pair.utterance)][normalise(pair.response)].append(pair)
    return [
        MergedPair(
            utterance=min((one.utterance for some in by_response.values() for one in some), key=sha),
            response=min((one.response for one in group), key=sha),
            occurrences=tuple(sorted(group, key=lambda one: (one.log, one.dialogue.encode(), one.position.encode()))),
        )
        for by_response in by_utterance.values()
        for group in by_response.values()
    ]


# ── similarity ───────────────────────────────────────────────────────────────────────────────────────────────────


def rounded(value: float) -> float:
    return round(value * MILLION) / MILLION


def settled(millionths: float, seen: int | None) -> int:
    """The level: the nearest one, or the other one if that was seen and the value lies on the edge between the two."""
    if seen is not None and abs(abs(seen - millionths) - 0.5) < EDGE:
        return seen
    return round(millionths)


class PlainVectors:
    """Sentences as means of their words' vectors, each of these scaled to unit length first."""

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self._words = {word: unit(np.float32(vector).tolist()) for word, vector in vectors.items()}

    def of(self, tokens: Sequence[str]) -> Vector | None:
        """A unit vector; None without a known word."""
        rows = [vector for word in tokens if (vector := self._words.get(word)) is not None]
        return unit([math.fsum(column) for column in zip(*rows, strict=True)])


def unit(vector: Sequence[float]) -> Vector | None:
    length = math.sqrt(math.fsum(x * x for x in vector))
    return tuple(x / length for x in vector) if length else None


def cosine(left: Vector | None, right: Vector | None) -> float:
    if left is None or right is None:
        return 0.0
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


class PlainBm25:
    """Lucene's BM25 with the statistics of some texts; words in `known` count in a query, in whatever text they are."""

    def __init__(self, texts: Sequence[Sequence[str]], known: frozenset[str]) -> None:
        self._known, self._count = known, len(texts)
        self._df = Counter(word for text in texts for word in set(text))
        self._average = sum(map(len, texts)) / len(texts) or 1.0

    def score(self, query: Sequence[str], text: Sequence[str]) -> float:
        """What a query gives to a text."""
        occurrences = Counter(text)
        norm = K1 * (1 - B + B * len(text) / self._average)
        return rounded(
            math.fsum(
                times * self._idf(word) * occurrences[word] / (occurrences[word] + norm)
                for word, times in Counter(self._words(query)).items()
                if occurrences[word]
            )
        )

    def share(self, query: Sequence[str], text: Sequence[str]) -> float:
        """What it gives as a share of what it gives to itself."""
        own = self.own_score(query)
        return self.score(query, text) / own if own else 0.0

    def own_score(self, query: Sequence[str]) -> float:
        """What a text gives to itself: words that nobody else has count, too."""
        norm = K1 * (1 - B + B * len(query) / self._average)
        gains = (times * self._idf(word) * times / (times + norm) for word, times in Counter(query).items())
        return max(rounded(math.fsum(gains)), 1e-6) if query else 0.0

    def _idf(self, word: str) -> float:
        return math.log(1 + (self._count - self._df[word] + 0.5) / (self._df[word] + 0.5))

    def _words(self, query: Sequence[str]) -> list[str]:
        return [word for word in query if word in self._known]


# ── search ───────────────────────────────────────────────────────────────────────────────────────────────────────


class PlainSearch:
    """All pairs of some logs."""

    def __init__(self, pairs: Sequence[RawPair], vectors: Mapping[str, Sequence[float]], tokenizer: Tokenizer) -> None:
        self.pairs, self.tokenizer, self._vectors = merged(pairs), tokenizer, PlainVectors(vectors)
        self.utterances = sorted({pair.utterance for pair in self.pairs}, key=sha)
        responses = [self._tokens(pair.response) for pair in self.pairs]
        utterances = [self._tokens(text) for text in self.utterances]
        self._known = frozenset(vectors) | {word for text in utterances + responses for word in text}
        self._of_utterances, self._of_responses = (PlainBm25(some, self._known) for some in (utterances, responses))
        self._memory: dict[str, tuple[tuple[str, ...], Vector | None]] = {}

    @cached_property
    def _by_utterance(self) -> Mapping[str, list[MergedPair]]:
        groups = defaultdict[str, list[MergedPair]](list)
        for pair in self.pairs:
            groups[pair.utterance].append(pair)
        return groups

    def search(self, test: Item, settings: SearchSettings, seen: Mapping[Shown, int] | None = None) -> Answer:
        """The references of a test pair.

        Where a similarity lies on the edge between two levels, the one is taken that was `seen`, if it is one of them.
        """
        note = self._why_not(test, settings)
        if note:
            return Answer((), {}, note)
        levels = [
            (settled(value, (seen or {}).get(pair.shown)), pair) for value, pair in self._compared(test, settings)
        ]
        ranked = sorted(levels, key=lambda one: (-one[0], sha(one[1].response), sha(one[1].utterance)))
        return self._walk(test, settings, ranked)

    def _walk(self, test: Item, settings: SearchSettings, ranked: Sequence[tuple[int, MergedPair]]) -> Answer:
        """From the top, until there are k different texts."""
        found, texts, left_out = list[Found](), set[str](), list[tuple[str, str, str]]()
        for level, pair in ranked:
            if len(found) == settings.k:
                break
            reason = self._exclusion(test, pair, settings)
            if not reason and normalise(pair.response) in texts:
                reason = "duplicate"
            if reason:
                left_out.append((reason, pair.response, pair.utterance))
                continue
            texts.add(normalise(pair.response))
            first = next(one for one in pair.occurrences if not _closed(test, one, settings))
            found.append(Found(level, pair.response, pair.utterance, len(pair.occurrences), first.id))
        return Answer(tuple(found), Counter(reason for reason, _, _ in left_out), "", tuple(left_out))

    def _why_not(self, test: Item, settings: SearchSettings) -> str:
        if not (test.utterance or "").strip():
            return "no_utterance"
        if settings.mode.endswith("dialog") and not golds(test):
            return "no_gold"
        texts = [test.utterance, golds(test)[0]] if settings.mode.endswith("dialog") else [test.utterance]
        return "" if all(self._is_known(text, settings) for text in texts) else "no_known_word"

    def _is_known(self, text: str, settings: SearchSettings) -> bool:
        tokens, vector = self._text(text)
        return not self._known.isdisjoint(tokens) if settings.mode.startswith("bm25") else vector is not None

    # ── how alike ────────────────────────────────────────────────────────────────────────────────────────────────

    def _compared(self, test: Item, settings: SearchSettings) -> Iterator[tuple[float, MergedPair]]:
        """The similarity, in millionths, of all pairs that can be found."""
        alike = list(self._similar_utterances(test, settings))
        if settings.mode.endswith("utterance"):
            for similarity, utterance in alike:
                for pair in self._by_utterance[utterance]:
                    yield similarity * MILLION, pair
            return
        levels = [(level, utterance) for similarity, utterance in alike if (level := round(similarity * MILLION)) > 0]
        depth = settings.depth or DIALOG_DEPTH
        least = sorted((level for level, _ in levels), reverse=True)[:depth][-1:]  # those equal to the last are in
        for level, utterance in levels:
            for pair in self._by_utterance[utterance] if [level] >= least else []:
                response = max(0.0, rounded(self._response_similarity(golds(test)[0], pair.response, settings)))
                yield level * (settings.alpha * response + (1 - settings.alpha) * settings.epsilon), pair

    def _similar_utterances(self, test: Item, settings: SearchSettings) -> Iterator[tuple[float, str]]:
        tokens, vector = self._text(test.utterance)
        for utterance in self.utterances:
            its_tokens, its_vector = self._text(utterance)
            if settings.mode == "embedding-utterance" or settings.mode == "embedding-dialog":
                if its_vector is not None:
                    yield cosine(vector, its_vector), utterance
                continue
            bm25 = self._of_utterances
            score = (bm25.share if settings.mode == "bm25-dialog" else bm25.score)(tokens, its_tokens)
            if score > 0:
                yield score, utterance

    def _response_similarity(self, gold: str, response: str, settings: SearchSettings) -> float:
        tokens, vector = self._text(gold)
        its_tokens, its_vector = self._text(response)
        if settings.mode == "bm25-dialog":
            return self._of_responses.share(tokens, its_tokens)
        return cosine(vector, its_vector)

    def _text(self, text: str) -> tuple[tuple[str, ...], Vector | None]:
        if text not in self._memory:
            tokens = self._tokens(text)
            self._memory[text] = (tokens, self._vectors.of(tokens))
        return self._memory[text]

    def _tokens(self, text: str) -> tuple[str, ...]:
        return tuple(self.tokenizer.tokenize(text))

    # ── what is excluded ─────────────────────────────────────────────────────────────────────────────────────────

    def _exclusion(self, test: Item, pair: MergedPair, settings: SearchSettings) -> str:
        """Why a pair may not be a reference, in the order of the reasons; "" if it may."""
        utterance, response = normalise(test.utterance), normalise(pair.response)
        if response in map(normalise, golds(test)):
            return "test_pair" if normalise(pair.utterance) == utterance else "gold"
        if response == utterance:
            return "parrot"
        if any(self._near(gold, pair.response, settings) for gold in golds(test)):
            return "near_gold"
        if self._near(test.utterance, pair.response, settings):
            return "near_parrot"
        reasons = [_closed(test, one, settings) for one in pair.occurrences]
        return reasons[0] if all(reasons) else ""

    def _near(self, left: str, right: str, settings: SearchSettings) -> bool:
        """Both texts are long enough, and nearly all of their different words are in both."""
        tokens, others = self._text(left)[0], self._text(right)[0]
        if min(len(tokens), len(others)) < max(1, settings.near_tokens):
            return False
        return len({*tokens} & {*others}) / len({*tokens} | {*others}) >= settings.near


def golds(test: Item) -> list[str]:
    return [one.text for one in test.references if one.source is Origin.GOLD and one.text.strip()]


def _closed(test: Item, pair: RawPair, settings: SearchSettings) -> str:
    """Why an occurrence may not be the source of a reference."""
    if test.dialogue is not None and pair.dialogue == test.dialogue:
        return "own_dialogue"
    if pair.dialogue in test.exclude:
        return "dialogue"
    after, before = settings.after, settings.before
    if (after or before) and pair.time is None:
        return "time"
    if (after and pair.time < after) or (before and pair.time >= before):
        return "time"
    return "log" if pair.log in settings.exclude_logs else ""


# A log of chance

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(30))  # without a vector


def chance_tests(random, pairs, count):
    """Test pairs, half of whose utterances are in the log."""
    return [
        Item(
            id=str(number),
            turns=(random.choice(pairs).utterance if number % 2 else " ".join(random.choices(WORDS, k=3)),),
            references=(Reference(text=random.choice(pairs).response),),
            dialogue=random.choice((None, "d1", "d2")),
            exclude=tuple(random.sample(("d3", "d4", "d5"), number % 3)),
        )
        for number in range(count)
    ]
