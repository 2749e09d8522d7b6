"""Raters of a home: where they lie, and opening one."""

from __future__ import annotations

from rater.checkpoint import open_rater as rater_of_folder
from rater.checkpoint import read_manifest
from rater.making import RaterPlaces
from rater.rate import Rater
from service.artefacts import stored
from service.retrieval import cores
from service.settings import Settings


def rater_places(settings: Settings) -> RaterPlaces:
    """The folders of this home."""
    return RaterPlaces(logs=settings.logs, raters=stored(settings)["rater"], cache=settings.cache)


def open_rater(settings: Settings, spec: str, *, threads: int | None = None) -> Rater:
    """A rater by `name` or `name@version`; it is read whole, so its version may go afterwards."""
    with stored(settings)["rater"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_manifest(held.folder).id[:12]}"
        return rater_of_folder(held.folder, spec=name, threads=threads or cores())
