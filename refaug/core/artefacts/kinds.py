"""The kinds of artefacts that have versions, and their folders."""

from __future__ import annotations

from refaug.core.artefacts.versions import Versions
from refaug.core.home import Settings


def artefact_stores(settings: Settings) -> dict[str, Versions]:
    """Return the versions of every kind, by the name that manifests and commands use."""
    return {
        "adem": Versions(settings.adems, "adem"),
        "judge-fit": Versions(settings.fitted_judges, "judge-fit"),
        "encoder": Versions(settings.encoders, "encoder"),
        "hybrid": Versions(settings.hybrids, "hybrid"),
        "index": Versions(settings.indexes, "index"),
        "rater": Versions(settings.raters, "rater"),
        "ruber": Versions(settings.rubers, "ruber"),
        "self-play": Versions(settings.self_plays, "self-play"),
        "vectors": Versions(settings.vectors, "vectors"),
        "vhred": Versions(settings.vhreds, "vhred"),
    }
