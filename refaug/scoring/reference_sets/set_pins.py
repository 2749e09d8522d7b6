"""The versions that frozen sets name: their scores can be made anew only while these versions are at hand."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.scoring.reference_sets.set_store import ReferenceSets

PINNED_KINDS: Final = ("index", "rater")  # as signatures name them


def pinned_versions(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that frozen sets name, each with the ids of these sets, oldest first.

    Withdrawn sets pin nothing, and neither do damaged ones, which `refaug admin doctor` lists.
    """
    if kind not in PINNED_KINDS:
        return {}
    sets, pins = ReferenceSets(settings.reference_sets), dict[str, list[str]]()
    for set_id in sets.ids():
        with suppress(RefaugError):
            spec = sets.open(set_id).manifest.provenance.get(kind, "").partition("#")[0]
            artefact, _, version = spec.partition("@")
            if artefact == name and version:
                pins.setdefault(version, []).append(set_id)
    return dict(sorted(pins.items()))
