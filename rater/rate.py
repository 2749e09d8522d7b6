"""Rating candidates: a published rater, its cache of texts that were read, and every way to combine its two answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from core.errors import Usage
from core.text import SentencePieceTokenizer
from rater.coverage import Coverage, unfamiliar
from rater.model import POSITIVE, BiGRURater
from rater.reading import CACHE_BYTES, WORTH_THREADS, TextReader

Combine = Literal["first", "first-literal", "max", "confident", "mean"]
Calibration = Literal["raw", "cal"]
COMBINES: Final[tuple[str, ...]] = get_args(Combine)
_JUDGED_AT_ONCE: Final = 4_096  # triplets
_HELD_AT_ONCE: Final = 32_768  # triplets whose texts' vectors are in memory, beside the cache

Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text to be rated, and the utterance that it answered; None where it has none of its own."""

    text: str
    utterance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRate:
    """A test pair with its golds, and what is to be rated against it."""

    utterance: str
    golds: tuple[str, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, kw_only=True)
class RatingSettings:
    """How P(positive) of the two triplets becomes a rating."""

    combine: Combine = "first"
    calibration: Calibration = "raw"

    def __post_init__(self) -> None:
        if self.combine not in COMBINES:
            raise Usage(f"combine={self.combine!r} is not known", remedy=f"one of: {', '.join(COMBINES)}")
        if self.calibration not in ("raw", "cal"):
            raise Usage(f"cal={self.calibration!r} is not known", remedy="one of: raw, cal")

    @property
    def needs_second(self) -> bool:
        """Whether the triplet seen from the candidate's side counts."""
        return not self.combine.startswith("first")


def combined(first: Probabilities, second: Probabilities | None, combine: Combine) -> Probabilities:
    """Ratings in [−1, 1] of P(positive) of [U1, R1, R2] and of [U2, R2, R1], as DESIGN names the ways."""
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
    """A network with its tokenizer and temperature; it may be asked from several threads.

    The same candidate gets the same rating within 1e-5 whatever else is asked at once.
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

    def rate(self, asked: Sequence[ToRate], settings: RatingSettings | None = None) -> list[list[float]]:
        """The ratings of each test pair's candidates, in the order given; against several golds, their mean."""
        settings = settings or RatingSettings()
        if not asked:
            return []
        counts = [len(one.candidates) * len(one.golds) for one in asked]
        first, second = self.probabilities(asked, second=settings.needs_second, calibration=settings.calibration)
        ratings = combined(first, second, settings.combine)
        found = list[list[float]]()
        for one, own in zip(asked, np.split(ratings, np.cumsum(counts)[:-1]), strict=True):
            by_gold = own.reshape(len(one.golds), len(one.candidates))
            found.append(by_gold.mean(axis=0).tolist() if len(one.golds) else [])
        return found

    def coverage(self, texts: Sequence[str]) -> Coverage:
        """How texts are cut into pieces; to be added up, and then judged by `unfamiliar`."""
        return Coverage.of(self.tokenizer, texts)

    def unfamiliar(self, found: Coverage) -> str | None:
        """Why ratings of texts like these mean little; None where nothing speaks against them."""
        return unfamiliar(found, self._usual, self.languages)

    def probabilities(
        self, asked: Sequence[ToRate], *, second: bool = True, calibration: Calibration = "raw"
    ) -> tuple[Probabilities, Probabilities | None]:
        """P(positive) of both triplets, test pair after test pair, gold after gold, candidate after candidate."""
        triplets = list[tuple[str, str, str]]()
        turned = list[tuple[str, str, str]]()
        for one in asked:
            if one.candidates and not one.golds:
                raise Usage("a test pair without a gold cannot be rated against", remedy="give it a reference")
            for gold in one.golds:
                for candidate in one.candidates:
                    triplets.append((one.utterance, gold, candidate.text))
                    if second:
                        own = one.utterance if candidate.utterance is None else candidate.utterance
                        turned.append((own, candidate.text, gold))
        likely = self._likely([*triplets, *turned], calibration)
        return likely[: len(triplets)], likely[len(triplets) :] if second else None

    def _likely(self, triplets: Sequence[tuple[str, str, str]], calibration: Calibration) -> Probabilities:
        if not triplets:
            return np.empty(0)
        return np.concatenate(
            [
                self._likely_of_some(triplets[at : at + _HELD_AT_ONCE], calibration)
                for at in range(0, len(triplets), _HELD_AT_ONCE)
            ]
        )

    def _likely_of_some(self, triplets: Sequence[tuple[str, str, str]], calibration: Calibration) -> Probabilities:
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
