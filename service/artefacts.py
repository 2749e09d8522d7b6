"""The kinds of artefact that have versions, and where each kind lies."""

from __future__ import annotations

from core.versions import Versions
from service.settings import Settings


def stored(settings: Settings) -> dict[str, Versions]:
    """Every kind, by the name that manifests and commands use."""
    return {
        "index": Versions(settings.indexes, "index"),
        "rater": Versions(settings.raters, "rater"),
        "ruber": Versions(settings.rubers, "ruber"),
        "vectors": Versions(settings.vectors, "vectors"),
    }
