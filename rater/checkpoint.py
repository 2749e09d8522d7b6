"""A rater as a folder: a network with its tokenizer and its temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from core.text import SentencePieceTokenizer
from rater.coverage import Coverage
from rater.folder import (
    FORMAT_VERSION,
    REPORT,
    TOKENIZER,
    WEIGHTS,
    Stored,
    StoredFields,
    open_network,
    read_network_manifest,
    write_network,
)
from rater.model import BiGRURater, RaterConfig
from rater.rate import Rater
from rater.reading import CACHE_BYTES

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


@dataclass(frozen=True, kw_only=True)
class StoredRater(Stored):
    """What a manifest says of a rater."""

    config: RaterConfig
    temperature: float


def save_rater(
    folder: Path,
    model: BiGRURater,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    languages: Sequence[str],
    coverage: Coverage | None = None,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> str:
    """Write all of it; the answer is the rater's id. `beside` are files that are in the folder already."""
    return write_network(
        folder,
        KIND,
        model,
        tokenizer,
        settings={"config": asdict(model.config), "temperature": temperature},
        languages=languages,
        coverage=coverage,
        report=report,
        details=details,
        beside=beside,
    )


def read_manifest(folder: Path) -> StoredRater:
    """What the folder says it holds; Corrupt, if it is no rater's."""
    return read_network_manifest(folder, KIND, _stored)


def _stored(manifest: Mapping[str, Any], fields: StoredFields) -> StoredRater:
    return StoredRater(
        config=RaterConfig(**manifest["config"]), temperature=_temperature(manifest["temperature"]), **fields
    )


def _temperature(value: object) -> float:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"a temperature of {value}")
    return float(value)


def open_rater(folder: Path, *, spec: str = "", threads: int = 1, cache_bytes: int = CACHE_BYTES) -> Rater:
    """Load a rater as it was saved; what was altered since is refused."""
    stored = read_manifest(folder)
    model, tokenizer = open_network(
        folder, KIND, stored, lambda: BiGRURater(stored.config), settings=("config", "temperature")
    )
    return Rater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
        cache_bytes=cache_bytes,
    )
