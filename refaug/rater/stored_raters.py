"""Raters on disk and stopped trainings, whatever the network: manifest and order say which one it is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.progress import Progress
from refaug.rater.cross import checkpoint as cross
from refaug.rater.cross.build import CrossOrder, train_cross
from refaug.rater.nn import checkpoint as nn
from refaug.rater.nn.build import Illustrate, RaterOrder, train_rater
from refaug.rater.rating import Rater
from refaug.rater.training.initial_embeddings import LearnVectors
from refaug.rater.training.loop import OnEpoch, OnNow
from refaug.rater.training.order import TrainedVersion, TrainingPlaces, interrupted_order, interrupted_order_path

if TYPE_CHECKING:
    from refaug.extras.cluster.connection import Cluster

StoredAnyRater = nn.StoredRater | cross.StoredCrossRater
NN: Final = "nn"
NETWORKS: Final = (NN, cross.NETWORK)


def network_of(folder: Path) -> str:
    """Return the kind of a rater's network: nn, where the manifest names none."""
    manifest: dict[str, object] = read_json(folder / MANIFEST)
    network = manifest.get("network", NN)
    if network not in NETWORKS:
        raise Corrupt(
            f"{folder / MANIFEST} has a network {network!r}", remedy="a newer refaug, or restore it from a backup"
        )
    return str(network)


def read_rater_manifest(folder: Path) -> StoredAnyRater:
    """Read the manifest of a rater of any kind; raise Corrupt if the folder holds something else."""
    return cross.read_cross_manifest(folder) if network_of(folder) == cross.NETWORK else nn.read_manifest(folder)


def open_stored_rater(folder: Path, *, spec: str = "", threads: int = 1) -> Rater:
    """Load a rater of any kind; refuse files that were altered after saving."""
    if network_of(folder) == cross.NETWORK:
        return cross.open_cross_rater(folder, spec=spec, threads=threads)
    return nn.open_rater(folder, spec=spec, threads=threads)


def resume_any_rater(
    places: TrainingPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
    illustrate: Illustrate = lambda _report: {},
    cluster: Cluster | None = None,
) -> TrainedVersion:
    """Continue the interrupted training of a rater of either kind, as it was ordered."""
    written: dict[str, object] = read_json(interrupted_order_path(places.cache, nn.KIND, name, "refaug rater train"))
    train = (
        partial(train_cross, places, interrupted_order(places, CrossOrder, name))
        if written.get("network") == cross.NETWORK
        else partial(train_rater, places, interrupted_order(places, RaterOrder, name))
    )
    return train(
        progress, on_now, on_epoch, learn_vectors=learn_vectors, illustrate=illustrate, again=True, cluster=cluster
    )
