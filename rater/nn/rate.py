"""Rating candidates: an opened rater, its cache of texts, and the ways to combine its two probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage, unfamiliar
from refaug.rater.nn.model import POSITIVE, BiGRURater
from refaug.rater.nn.rating_settings import Calibration, Combine, RatingSettings
from refaug.rater.text_encoding import CACHE_BYTES, WORTH_THREADS, TextReader

_JUDGED_AT_ONCE: Final = 4_096  # triplets
_HELD_AT_ONCE: Final = 32_768  # triplets whose texts' vectors are in memory besides the cache
Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text to be rated, and the utterance that it answered; None if it has no other utterance."""

    text: str
    utterance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRequest:
    """A test pair with its golds, and the candidates to rate against it."""

    utterance: str
    golds: tuple[str, ...]
    candidates: tuple[Candidate, ...]


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


class Rater:
    """A network with its tokenizer and temperature; several threads may use it.

    The same candidate gets the same rating within 1e-5, whatever else is rated with it.
    """

    def __init__(
        self,
        model: BiGRURater,
        tokenizer: SentencePieceTokenizer,
        *,
        temperature: float = 1.0,
        languages: Sequence[str] = (),
        usual: Coverage | None = None,
        spec: str = "",
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.model, self.tokenizer, self.temperature, self.spec = model.eval(), tokenizer, temperature, spec
        self.languages, self._usual = tuple(languages), usual or Coverage()
        self._threads = threads
        self._read = TextReader(
            model.read_quickly,
            tokenizer,
            size=2 * model.config.hidden,
            max_tokens=model.config.max_tokens,
            cache_bytes=cache_bytes,
        )
        self._lock = Lock()

    def rate(self, requests: Sequence[RatingRequest], settings: RatingSettings | None = None) -> list[list[float]]:
        """Return the ratings of each test pair's candidates, in the order given; with several golds, their mean."""
        settings = settings or RatingSettings()
        if not requests:
            return []
        counts = [len(request.candidates) * len(request.golds) for request in requests]
        first, second = self.probabilities(requests, second=settings.needs_second, calibration=settings.calibration)
        ratings = combine_probabilities(first, second, settings.combine)
        by_request = list[list[float]]()
        for request, own in zip(requests, np.split(ratings, np.cumsum(counts)[:-1]), strict=True):
            by_gold = own.reshape(len(request.golds), len(request.candidates))
            by_request.append(by_gold.mean(axis=0).tolist() if len(request.golds) else [])
        return by_request

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """Return how the tokenizer cuts texts into pieces; coverages can be added up for `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, texts_coverage: Coverage) -> str | None:
        """Return why ratings of texts like these mean little; None if nothing speaks against them."""
        return unfamiliar(texts_coverage, self._usual, self.languages)

    def probabilities(
        self, requests: Sequence[RatingRequest], *, second: bool = True, calibration: Calibration = "raw"
    ) -> tuple[Probabilities, Probabilities | None]:
        """Return P(positive) of both triplets, for each test pair, gold and candidate in turn."""
        triplets = list[tuple[str, str, str]]()
        from_candidate = list[tuple[str, str, str]]()
        for request in requests:
            if request.candidates and not request.golds:
                raise Usage("a test pair without a gold cannot be rated against", remedy="give it a reference")
            for gold in request.golds:
                for candidate in request.candidates:
                    triplets.append((request.utterance, gold, candidate.text))
                    if second:
                        own = request.utterance if candidate.utterance is None else candidate.utterance
                        from_candidate.append((own, candidate.text, gold))
        probabilities = self._positive_probabilities([*triplets, *from_candidate], calibration)
        return probabilities[: len(triplets)], probabilities[len(triplets) :] if second else None

    def _positive_probabilities(
        self, triplets: Sequence[tuple[str, str, str]], calibration: Calibration
    ) -> Probabilities:
        if not triplets:
            return np.empty(0)
        return np.concatenate(
            [
                self._batch_probabilities(triplets[at : at + _HELD_AT_ONCE], calibration)
                for at in range(0, len(triplets), _HELD_AT_ONCE)
            ]
        )

    def _batch_probabilities(self, triplets: Sequence[tuple[str, str, str]], calibration: Calibration) -> Probabilities:
        places = dict[str, int]()
        rows = np.array([[places.setdefault(text, len(places)) for text in triplet] for triplet in triplets])
        temperature = self.temperature if calibration == "cal" else 1.0
        with self._lock, torch.inference_mode():
            torch.set_num_threads(self._threads if len(places) >= WORTH_THREADS else 1)
            vectors = self._read.vectors(list(places))
            likely = [
                torch.softmax(
                    self.model.judge_quickly(vectors, torch.from_numpy(rows[at : at + _JUDGED_AT_ONCE])).double()
                    / temperature,
                    dim=1,
                )
                for at in range(0, len(rows), _JUDGED_AT_ONCE)
            ]
        return torch.cat(likely)[:, POSITIVE].numpy()
