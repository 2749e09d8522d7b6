"""A cross rater's folder: among the raters, with the name of its network in the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater import network_folder
from refaug.rater.cross.model import CrossConfig, CrossNetwork
from refaug.rater.cross.rate import CrossRater
from refaug.rater.language_coverage import Coverage

KIND: Final = "rater"
NETWORK: Final = "cross"


@dataclass(frozen=True, kw_only=True)
class StoredCrossRater(network_folder.StoredNetwork):
    """The settings in a cross rater's manifest."""

    config: CrossConfig
    temperature: float


def save_cross_rater(
    folder: Path,
    model: CrossNetwork,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    languages: Sequence[str],
    coverage: Coverage | None = None,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> str:
    """Write a rater's folder and return the rater's id; `beside` names files that the folder holds already."""
    return network_folder.write_network(
        folder,
        KIND,
        model,
        tokenizer,
        settings={"network": NETWORK, "config": asdict(model.config), "temperature": temperature},
        languages=languages,
        coverage=coverage,
        report=report,
        details=details,
        beside=beside,
    )


def read_cross_manifest(folder: Path) -> StoredCrossRater:
    """Read a cross rater's manifest; raise Corrupt if the folder holds something else."""
    return network_folder.read_network_manifest(folder, KIND, _cross_fields)


def _cross_fields(manifest: Mapping[str, Any], fields: network_folder.NetworkFields) -> StoredCrossRater:
    if manifest["network"] != NETWORK:
        raise ValueError(f"a network {manifest['network']!r}")
    return StoredCrossRater(
        config=CrossConfig(**manifest["config"]),
        temperature=network_folder.require_temperature(manifest["temperature"]),
        **fields,
    )


def open_cross_rater(folder: Path, *, spec: str = "", threads: int = 1) -> CrossRater:
    """Load a cross rater; refuse files that were altered after saving."""
    stored = read_cross_manifest(folder)
    model, tokenizer = network_folder.open_network(
        folder, KIND, stored, lambda: CrossNetwork(stored.config), settings=("network", "config", "temperature")
    )
    return CrossRater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
    )
