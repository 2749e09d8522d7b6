"""Networks of RUBER's unreferenced part in a home: where they lie, and opening one."""

from __future__ import annotations

from rater.ruber import Relevance, open_relevance, read_ruber_manifest
from rater.ruber_making import RuberPlaces
from service.artefacts import stored
from service.retrieval import cores
from service.settings import Settings


def ruber_places(settings: Settings) -> RuberPlaces:
    """The folders of this home."""
    return RuberPlaces(logs=settings.logs, rubers=stored(settings)["ruber"], cache=settings.cache)


def open_ruber(settings: Settings, spec: str, *, threads: int | None = None) -> Relevance:
    """A ruber by `name` or `name@version`; it is read whole, so its version may go afterwards."""
    with stored(settings)["ruber"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_ruber_manifest(held.folder).id[:12]}"
        return open_relevance(held.folder, spec=name, threads=threads or cores())
