"""A rater on disk: a folder with a network, its tokenizer and its temperature."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final, Unpack

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
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
from refaug.rater.nn.model import BiGRURater, RaterConfig
from refaug.rater.nn.rate import NNRater
from refaug.rater.text_encoding import CACHE_BYTES

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
