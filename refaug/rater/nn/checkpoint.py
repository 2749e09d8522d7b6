"""A rater on disk: a folder with a network, its tokenizer and its temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import (
    FORMAT_VERSION,
    REPORT,
    TOKENIZER,
    WEIGHTS,
    SavedFacts,
    StoredNetwork,
    open_network,
    read_network_manifest,
    write_network,
)
from refaug.rater.nn.model import POSITIVE, BiGRURater, RaterConfig
from refaug.rater.rating import PieceRater, Probabilities, Triplet
from refaug.rater.text_encoding import CACHE_BYTES, WORTH_THREADS, TextReader

# ── Rating candidates with the NN-rater: an opened network and its cache of texts ─────────────────────────────────────

_JUDGED_AT_ONCE: Final = 4_096  # triplets


class NNRater(PieceRater):
    """The Bi-GRU network: it reads each text once, and judges triplets of vectors."""

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
        super().__init__(
            tokenizer, temperature=temperature, languages=languages, usual=usual, spec=spec, threads=threads
        )
        self.model = model.eval()
        self._read = TextReader(
            model.read_quickly,
            tokenizer,
            size=2 * model.config.hidden,
            max_tokens=model.config.max_tokens,
            cache_bytes=cache_bytes,
        )

    def forget_texts(self) -> None:
        """Empty the cache of texts, whose vectors differ by rounding with the texts that they were read with."""
        with self._lock:
            self._read.forget()

    def text_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what the network reads from each text alone: (texts, twice the hidden size)."""
        with self._lock, torch.inference_mode():
            torch.set_num_threads(self._threads if len(texts) >= WORTH_THREADS else 1)
            return np.asarray(self._read.vectors(texts).numpy())

    def _batch_probabilities(self, triplets: Sequence[Triplet], temperature: float) -> Probabilities:
        places = dict[str, int]()
        rows = np.array([[places.setdefault(text or "", len(places)) for text in triplet] for triplet in triplets])
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


# ── A rater on disk: a folder with a network, its tokenizer and its temperature ───────────────────────────────────────

__all__ = [
    "FORMAT_VERSION",
    "KIND",
    "REPORT",
    "TOKENIZER",
    "WEIGHTS",
    "StoredRater",
    "open_rater",
    "read_manifest",
    "save_rater",
]

KIND: Final = "rater"


StoredRater = StoredNetwork[RaterConfig]


def save_rater(
    folder: Path,
    model: BiGRURater,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    **facts: Unpack[SavedFacts],
) -> str:
    """Write a rater's folder and return the rater's id."""
    return write_network(
        folder, KIND, model, tokenizer, settings={"config": asdict(model.config), "temperature": temperature}, **facts
    )


def read_manifest(folder: Path) -> StoredRater:
    """Read a rater's manifest; raise Corrupt if the folder holds something else."""
    return read_network_manifest(folder, KIND, RaterConfig, ("config", "temperature"))


def open_rater(folder: Path, *, spec: str = "", threads: int = 1, cache_bytes: int = CACHE_BYTES) -> NNRater:
    """Load a rater; refuse files that were altered after saving."""
    stored = read_manifest(folder)
    model, tokenizer = open_network(folder, KIND, stored, lambda: BiGRURater(stored.config))
    return NNRater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
        cache_bytes=cache_bytes,
    )
