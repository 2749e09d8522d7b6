"""Where tasks of a build on a cluster write what is no part of the index."""

from __future__ import annotations

from pathlib import Path

from refaug.core.artefacts.build_stages import Stages
from refaug.core.files import remove_tree


def scratch_of(cache: Path, stages: Stages) -> Path:
    """Return the folder of what tasks of a build write that is no part of the index."""
    return cache.resolve() / f"cluster-{stages.folder.name}"


def remove_scratch(cache: Path, name: str, *, but: Path | None = None) -> None:
    """Remove what stopped builds of an index on a cluster left behind, texts among it, but this folder.

    Only the holder of the lock of the index may call this.
    """
    for folder in cache.resolve().glob(f"cluster-index-{name}-{'?' * 12}"):
        if folder != but:
            remove_tree(folder)
