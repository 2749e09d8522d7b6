"""Raters on disk and their trainings, whatever the network: manifest and order say which one it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.progress import Progress
from refaug.rater.cross import checkpoint as cross
from refaug.rater.cross.build import CrossOrder, train_cross
from refaug.rater.dual import network as dual
from refaug.rater.dual.build import DualOrder, train_dual
from refaug.rater.frozen import artefact as frozen
from refaug.rater.frozen.build import LinearOrder, TowerOrder, train_linear, train_towers
from refaug.rater.nn import checkpoint as nn
from refaug.rater.nn.build import RaterOrder, train_rater
from refaug.rater.rating import Rater
from refaug.rater.training.loop import OnEpoch, OnNow
from refaug.rater.training.order import (
    EncoderOpener,
    TrainedVersion,
    TrainingOrder,
    TrainingPlaces,
    interrupted_order,
    interrupted_order_path,
)

StoredAnyRater = nn.StoredRater | cross.StoredCrossRater | dual.StoredDualRater | frozen.StoredFrozenRater
NN: Final = "nn"


class _Network(NamedTuple):
    """What there is of each kind of network."""

    order: type[TrainingOrder]
    train: Callable[..., TrainedVersion]
    read_manifest: Callable[[Path], StoredAnyRater]
    open: Callable[..., Rater]  # of a folder, with spec and threads


_NETWORKS: Final[Mapping[str, _Network]] = {
    NN: _Network(RaterOrder, train_rater, nn.read_manifest, nn.open_rater),
    cross.NETWORK: _Network(CrossOrder, train_cross, cross.read_cross_manifest, cross.open_cross_rater),
    dual.NETWORK: _Network(DualOrder, train_dual, dual.read_dual_manifest, dual.open_dual_rater),
    frozen.LINEAR: _Network(LinearOrder, train_linear, frozen.read_linear_manifest, frozen.open_linear_rater),
    frozen.ENCODER: _Network(TowerOrder, train_towers, frozen.read_tower_manifest, frozen.open_tower_rater),
}
_OVER_ENCODERS: Final = (frozen.LINEAR, frozen.ENCODER)


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
    return _NETWORKS[network_of(folder)].read_manifest(folder)


def open_stored_rater(folder: Path, open_encoder: EncoderOpener, *, spec: str = "", threads: int = 1) -> Rater:
    """Load a rater of any kind, with its encoder if it has one; refuse files that were altered after saving."""
    network = network_of(folder)
    encoder: dict[str, Any] = {"open_encoder": open_encoder} if network in _OVER_ENCODERS else {}
    return _NETWORKS[network].open(folder, spec=spec, threads=threads, **encoder)


def train_any_rater(
    places: TrainingPlaces,
    order: TrainingOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    **options: Any,
) -> TrainedVersion:
    """Train the rater of an order of any kind; the options are those of `train_rater`."""
    (train,) = (network.train for network in _NETWORKS.values() if type(order) is network.order)
    return train(places, order, progress, on_now, on_epoch, **options)


def resume_any_rater(
    places: TrainingPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    **options: Any,
) -> TrainedVersion:
    """Continue the interrupted training of a rater of any kind, as it was ordered."""
    written: dict[str, object] = read_json(interrupted_order_path(places.cache, nn.KIND, name, "refaug train rater"))
    network = _NETWORKS.get(str(written.get("network", NN)), _NETWORKS[NN])
    order = interrupted_order(places, network.order, name)
    return train_any_rater(places, order, progress, on_now, on_epoch, again=True, **options)
