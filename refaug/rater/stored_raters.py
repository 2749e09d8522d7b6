"""Raters on disk, whatever the network: the manifest says which one it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.rater.cross import checkpoint as cross
from refaug.rater.dual import checkpoint as dual
from refaug.rater.frozen import artefact as frozen
from refaug.rater.network_folder import NetworkFiles, StoredNetwork
from refaug.rater.nn import checkpoint as nn
from refaug.rater.rating import EncoderOpener, Rater

StoredAnyRater = StoredNetwork[Any]
KIND: Final = nn.KIND
NN: Final = "nn"
CROSS, DUAL, LINEAR, ENCODER = cross.NETWORK, dual.NETWORK, frozen.LINEAR, frozen.ENCODER


class _Network(NamedTuple):
    """What there is of each kind of network."""

    files: NetworkFiles[Any, Any]
    rater: Callable[..., Rater]  # of the network, and its tokenizer or its encoder


_NETWORKS: Final[Mapping[str, _Network]] = {
    NN: _Network(nn.FILES, nn.NNRater),
    CROSS: _Network(cross.FILES, cross.CrossRater),
    DUAL: _Network(dual.FILES, dual.DualRater),
    LINEAR: _Network(frozen.LINEAR_FILES, frozen.FrozenRater),
    ENCODER: _Network(frozen.TOWER_FILES, frozen.FrozenRater),
}
_OVER_ENCODERS: Final = (LINEAR, ENCODER)


def network_of(folder: Path) -> str:
    """Return the kind of a rater's network: nn, where the manifest names none."""
    manifest: dict[str, object] = read_json(folder / MANIFEST)
    network = manifest.get("network", NN)
    if network not in _NETWORKS:
        raise Corrupt(
            f"{folder / MANIFEST} has a network {network!r}", remedy="a newer refaug, or restore it from a backup"
        )
    return str(network)


def read_rater_manifest(folder: Path) -> StoredAnyRater:
    """Read the manifest of a rater of any kind; raise Corrupt if the folder holds something else."""
    return _NETWORKS[network_of(folder)].files.read(folder)


def open_stored_rater(folder: Path, open_encoder: EncoderOpener, *, spec: str = "", threads: int = 1) -> Rater:
    """Load a rater of any kind, with its encoder if it has one; refuse files that were altered after saving."""
    name = network_of(folder)
    network = _NETWORKS[name]
    if name not in _OVER_ENCODERS:
        model, tokenizer, stored = network.files.open(folder)
        return network.rater(model, tokenizer, **stored.opened(spec, threads))
    model, stored = network.files.open_weights(folder)
    encoder = open_encoder(f"{stored.details.get('encoder', '')}#{stored.config.encoder}")
    return network.rater(model, encoder, **stored.opened(spec, threads))
