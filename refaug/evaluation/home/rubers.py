"""Open the networks of RUBER's unreferenced part in a home."""

from __future__ import annotations

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.evaluation.home.indexes import cores
from refaug.rater.ruber.network import Relevance, open_relevance, read_ruber_manifest
from refaug.rater.training.order import TrainingPlaces


def ruber_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's rubers."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["ruber"], cache=settings.cache)


def open_ruber(settings: Settings, spec: str, *, threads: int | None = None) -> Relevance:
    """Open a ruber by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["ruber"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_ruber_manifest(held.folder).id[:12]}"
        return open_relevance(held.folder, spec=name, threads=threads or cores())
