"""Folders that `datasets` writes with `save_to_disk`: Arrow files, and JSON files that describe them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

SPLITS_FILE: Final = "dataset_dict.json"
STATE_FILE: Final = "state.json"
_MAX_STATE_BYTES: Final = 1 << 20


def without_descriptions(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without what describes saved datasets, and without the caches that `map` leaves beside them."""
    files_of = {path.parent: names for path in paths if path.name == STATE_FILE and (names := _data_files(path))}
    split_folders = {folder.parent for folder in files_of}
    return [
        path
        for path in paths
        if (path.parent not in files_of or path.name in files_of[path.parent])
        and not (path.name == SPLITS_FILE and path.parent in split_folders)
    ]


def _data_files(state_file: Path) -> set[str]:
    """Return the names of the data files; none for a file of the same name that describes no dataset."""
    try:
        if state_file.stat().st_size > _MAX_STATE_BYTES:
            return set()
        state = orjson.loads(state_file.read_bytes())
        return {Path(file["filename"]).name for file in state["_data_files"]}
    except (OSError, orjson.JSONDecodeError, LookupError, TypeError):
        return set()
