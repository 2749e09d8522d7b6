"""A rater on disk: a folder with a network, its tokenizer and its temperature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.network_folder import NetworkFiles
from refaug.rater.nn.array_network import ArrayBiGRU
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import OpenedFacts, PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import CACHE_BYTES, WORTH_THREADS, Floats, Ids, TextReader

# ── Rating candidates with the NN-rater: an opened network and its cache of texts ─────────────────────────────────────


class TripletNetwork(Protocol):
    """A network that reads texts and judges triplets of them, whatever computes it."""

    runtime: str

    @property
    def config(self) -> RaterConfig:
        """Its sizes."""
        ...

    def text_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first."""
        ...

    def probabilities(self, vectors: Floats, rows: Ids, temperature: float, threads: int) -> Probabilities:
        """Return P(positive) of triplets given as rows of `vectors`."""
        ...


class NNRater(PieceRater):
    """The Bi-GRU network: it reads each text once, and judges triplets of vectors."""

    def __init__(
        self,
        model: TripletNetwork,
        tokenizer: SentencePieceTokenizer,
        *,
        cache_bytes: int = CACHE_BYTES,
        **facts: Unpack[OpenedFacts],
    ) -> None:
        super().__init__(tokenizer, **facts)
        self.model, self.runtime = model, model.runtime
        self._read = TextReader(
            model.text_vectors,
            tokenizer,
            size=2 * model.config.hidden,
            max_tokens=model.config.max_tokens,
            cache_bytes=cache_bytes,
        )
        self.readers = self._read, self._read

    def forget_texts(self) -> None:
        """Empty the cache of texts, whose vectors differ by rounding with the texts that they were read with."""
        with self._lock:
            self._read.forget()

    def text_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what the network reads from each text alone: (texts, twice the hidden size)."""
        with self._lock:
            return self._read.vectors(texts, self._threads_for(len(texts)))

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        places = dict[str, int]()
        rows = np.array([[places.setdefault(text or "", len(places)) for text in triplet] for triplet in triplets])
        with self._lock:
            threads = self._threads_for(len(places))
            return self.model.probabilities(self._read.vectors(list(places), threads), rows, temperature, threads)

    def _threads_for(self, texts: int) -> int:
        return self._threads if texts >= WORTH_THREADS else 1


# ── A rater on disk: a folder with a network, its tokenizer and its temperature ───────────────────────────────────────

KIND: Final = "rater"


FILES: Final = NetworkFiles[RaterConfig, TripletNetwork](
    kind=KIND,
    config=RaterConfig,
    module="refaug.rater.nn.model:BiGRURater",
    arrays=ArrayBiGRU,
    has_temperature=True,
)
save_rater, read_manifest = FILES.save, FILES.read


def open_rater(folder: Path, *, spec: str = "", threads: int = 1) -> NNRater:
    """Load a rater; refuse files that were altered after saving."""
    model, tokenizer, stored = FILES.open(folder)
    return NNRater(model, tokenizer, **stored.opened(spec, threads))
