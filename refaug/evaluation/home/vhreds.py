"""Open the VHREDs of a home."""

from __future__ import annotations

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.evaluation.home.indexes import cores
from refaug.rater.adem.vhred.artefact import Vhred, read_vhred_manifest
from refaug.rater.training.order import TrainingPlaces


def vhred_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's VHREDs."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["vhred"], cache=settings.cache)


def open_vhred(settings: Settings, spec: str, *, threads: int | None = None) -> Vhred:
    """Open a vhred by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["vhred"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_vhred_manifest(held.folder).id[:12]}"
        return Vhred.open(held.folder, spec=name, threads=threads or cores())
