"""Ratings of responses, whatever the network: requests, the ways to combine two probabilities, and raters' base."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from threading import Lock
from typing import ClassVar, Final, Protocol, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.vectors.encoders import Encoder
from refaug.core.vectors.kept_vectors import Encodings
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.rating_settings import Calibration, Combine, RatingSettings
from refaug.rater.text_encoding import TextReader

_HELD_AT_ONCE: Final = 32_768  # triplets whose texts are in memory besides a rater's cache
# Golds of a request to rate by the utterance alone: a network that needs a gold reads an empty text in its place.
WITHOUT_GOLD: Final = ("",)
# Units of work, of about a microsecond on one core (refaug.metrics.costs), for a network of the default sizes.
TRIPLET_UNITS: Final = 250
_CHARACTER_UNITS: Final = 50  # of each text that is read; a token has at least one character
_CHARACTERS: Final = 128  # as many tokens are read of a text
_LARGE: Final = 1_000_000  # units that are rated at once; ordinary texts take a tenth of their units
_AT_ONCE: Final = 8  # golds, and twice as many candidates, of such a part
Probabilities = NDArray[np.float64]
# An utterance, a response that is known to fit, or None, and the response that is judged.
Triplet = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRequest:
    """A test pair with its golds, and the candidates to rate against it, each with the utterance that it answered.

    A candidate without one answers `utterance`, whose turns are joined by the rater's `turn_separator`.
    """

    utterance: str
    golds: tuple[str, ...]
    candidates: tuple[Reference, ...]

    @property
    def units(self) -> int:
        """An upper bound of the work, by numbers and lengths: each text is read, each candidate judged by each gold."""
        of_candidates = (text for one in self.candidates for text in (one.text, one.utterance or ""))
        lengths = (min(len(text), _CHARACTERS) for text in (self.utterance, *self.golds, *of_candidates))
        return _CHARACTER_UNITS * sum(lengths) + TRIPLET_UNITS * max(1, len(self.golds)) * len(self.candidates)


def combine_probabilities(first: Probabilities, second: Probabilities | None, combine: Combine) -> Probabilities:
    """Return ratings in [−1, 1] from P(positive) of [U1, R1, R2] and of [U2, R2, R1]."""
    if combine == "first":
        return 2 * first - 1
    if combine == "first-literal":
        return np.where(first >= 0.5, first, -(1 - first))
    assert second is not None
    if combine == "max":
        return 2 * np.maximum(first, second) - 1
    if combine == "mean":
        return first + second - 1
    return 2 * np.where(np.abs(first - 0.5) >= np.abs(second - 0.5), first, second) - 1


class EncoderOpener(Protocol):
    """Opens an encoder of the home by NAME, NAME@VERSION or NAME@VERSION#HASH."""

    def __call__(self, spec: str, *, keep: bool = True) -> Encoder:
        """Return it; it keeps the vectors that it computes, unless they are of texts that no log has."""


class OpenedFacts(TypedDict, total=False):
    """What opening a network needs beside its weights."""

    temperature: float
    languages: Sequence[str]
    usual: Coverage | None  # of the texts it was trained on
    spec: str
    threads: int
    negatives: str  # kind of the wrong replies that it learned to tell from true ones; empty: it is not known


class Rater(ABC):
    """A network with its temperature; several threads may use it.

    The same candidate gets the same rating within 1e-5, whatever else is rated with it.
    """

    turn_separator: ClassVar[str] = " "  # between the turns of a request's utterance
    needs_gold: ClassVar[bool] = True
    runtime: str = "torch"  # what computes the network
    readers: tuple[TextReader, TextReader] | None = None  # of utterances and of responses, which are read one by one

    def __init__(self, **facts: Unpack[OpenedFacts]) -> None:
        self.temperature, self.spec = facts.get("temperature", 1.0), facts.get("spec", "")
        self.languages, self._usual = tuple(facts.get("languages", ())), facts.get("usual") or Coverage()
        self._threads, self._lock = facts.get("threads", 1), Lock()
        self.negatives = facts.get("negatives", "")

    def rate(
        self,
        requests: Sequence[RatingRequest],
        settings: RatingSettings | None = None,
        *,
        check: Callable[[], None] | None = None,
    ) -> list[list[float]]:
        """Return the ratings of each test pair's candidates, in the order given; with several golds, their mean.

        With a `check`, it is called between groups of requests and between the parts of large ones, and may raise.
        """
        settings = settings or RatingSettings()
        if check is not None:
            groups = _groups_of(requests)
            return [ratings for group in groups for ratings in self._rate_group(group, settings, check)]
        if not requests:
            return []
        counts = [len(request.candidates) * self._gold_count(request) for request in requests]
        first, second = self.probabilities(requests, second=settings.needs_second, calibration=settings.calibration)
        ratings = combine_probabilities(first, second, settings.combine)
        by_request, at = list[list[float]](), 0
        for request, count in zip(requests, counts, strict=True):
            own, at = ratings[at : at + count], at + count
            several = count > len(request.candidates)
            by_request.append((own.reshape(-1, len(request.candidates)).mean(axis=0) if several else own).tolist())
        return by_request

    def _rate_group(
        self, group: Sequence[RatingRequest], settings: RatingSettings, check: Callable[[], None]
    ) -> list[list[float]]:
        if group[0].units > _LARGE:
            return [self._rate_in_parts(group[0], settings, check)]
        check()
        return self.rate(group, settings)

    def _rate_in_parts(
        self, request: RatingRequest, settings: RatingSettings, check: Callable[[], None]
    ) -> list[float]:
        """Rate a large request in parts of its golds and candidates."""
        sums = np.zeros(len(request.candidates))
        golds = range(0, len(request.golds), _AT_ONCE) or (0,)
        for gold, at in product(golds, range(0, len(request.candidates), 2 * _AT_ONCE)):
            check()
            places = slice(at, at + 2 * _AT_ONCE)
            part = replace(request, golds=request.golds[gold : gold + _AT_ONCE], candidates=request.candidates[places])
            sums[places] += np.array(self.rate([part], settings)[0]) * max(1, len(part.golds))
        ratings: list[float] = (sums / max(1, len(request.golds))).tolist()
        return ratings

    def open_kept(self, encodings: Encodings, content: str) -> None:
        """Take the states of texts that are kept under the hash of this rater."""
        for number, reader in enumerate(dict.fromkeys(self.readers or ())):
            reader.open_kept(encodings, f"{content}.{self.runtime}{number}")

    def forget_texts(self) -> None:  # noqa: B027  not every network remembers texts
        """Forget what was read before: ratings then are, to the last bit, those of a rater that was just opened."""

    def coverage(self, texts: Sequence[str]) -> Coverage:  # noqa: ARG002  not every network cuts texts
        """Return how texts are cut into pieces; coverages can be added up for `unfamiliar`."""
        return Coverage()

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:  # noqa: ARG002
        """Return why ratings of texts like these mean little; None if nothing speaks against them."""
        return None

    def probabilities(
        self, requests: Sequence[RatingRequest], *, second: bool = True, calibration: Calibration = "raw"
    ) -> tuple[Probabilities, Probabilities | None]:
        """Return P(positive) of both triplets, for each test pair, gold and candidate in turn."""
        triplets, from_candidate = list[Triplet](), list[Triplet]()
        for request in requests:
            if request.candidates and not self._gold_count(request):
                raise Usage("a test pair without a gold cannot be rated against", remedy="give it a reference")
            for text in request.golds or (None,):
                gold = None if request.golds == WITHOUT_GOLD and not self.needs_gold else text
                for candidate in request.candidates:
                    triplets.append((request.utterance, gold, candidate.text))
                    if second:
                        from_candidate.append(_seen_from(candidate, triplets[-1]))
        probabilities = self._positive_probabilities([*triplets, *from_candidate], calibration)
        return probabilities[: len(triplets)], probabilities[len(triplets) :] if second else None

    def _gold_count(self, request: RatingRequest) -> int:
        """Return by how many golds the candidates are rated; without a gold, once, if the network can do so."""
        return len(request.golds) or int(not self.needs_gold)

    def _positive_probabilities(self, triplets: Sequence[Triplet], calibration: Calibration) -> Probabilities:
        temperature = self.temperature if calibration == "cal" else 1.0
        if not triplets:
            return np.empty(0)
        return np.concatenate(
            [
                self._batch_probabilities(triplets[at : at + _HELD_AT_ONCE], temperature)
                for at in range(0, len(triplets), _HELD_AT_ONCE)
            ]
        )

    @abstractmethod
    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        """Return P(positive) of some triplets; one thread at a time may use the network."""


class PieceRater(Rater):
    """A rater whose network reads the pieces of a tokenizer."""

    def __init__(self, tokenizer: SentencePieceTokenizer, **facts: Unpack[OpenedFacts]) -> None:
        super().__init__(**facts)
        self.tokenizer = tokenizer

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the tokenizer cuts texts into pieces."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why ratings of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar(texts_coverage, self._usual, self.languages)


def _groups_of(requests: Sequence[RatingRequest]) -> Iterator[list[RatingRequest]]:
    """Yield neighbouring requests of so many units together that none is large, and large ones alone."""
    group, units = list[RatingRequest](), 0
    for request in requests:
        if group and units + request.units > _LARGE:
            yield group
            group, units = [], 0
        group.append(request)
        units += request.units
    if group:
        yield group


def _seen_from(candidate: Reference, triplet: Triplet) -> Triplet:
    """Return the triplet from the candidate's side; without a gold there is no other side."""
    utterance, gold, text = triplet
    if gold is None:
        return triplet
    return (utterance if candidate.utterance is None else candidate.utterance), text, gold
