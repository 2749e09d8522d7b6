"""Publishing a version that is compared with a search through all of it first."""

from __future__ import annotations

from refaug.core.errors import CheckFailed
from refaug.core.progress import Progress
from refaug.indexer.building.update import publish_version
from refaug.indexer.index_folders import Places


def require_recall(
    places: Places, name: str, version: str, recall: float, least: float, progress: Progress, *, must_go: bool
) -> None:
    """Mark a version with less recall as refused, and raise CheckFailed; one that masks deleted text only warns."""
    if recall >= least:
        return
    if must_go:
        progress.warn(f"recall@15 is {recall:.3f}; published all the same, since something was deleted")
        return
    places.indexes.refuse(name, version, f"recall is {recall:.3f}, at least {least:.3f} is required")
    raise CheckFailed(
        f"index {name}@{version} was built but not published: "
        f"recall@15 is {recall:.3f}, at least {least:.3f} is required",
        remedy="build the index anew, or publish it all the same: "
        f"refaug artefacts publish index {name}@{version} --even-refused",
    )


def publish_new(places: Places, name: str, version: str, *, must_go: bool) -> None:
    """Let a version serve that does not yet; one that masks deleted text also after a check that failed."""
    if places.indexes.current(name) != version:
        publish_version(places, name, version, even_refused=must_go)
