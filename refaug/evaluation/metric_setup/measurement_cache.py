"""Cache measurements of an index in files beside its versions, by a key of everything that the measurement depends on.

The files lie in a separate folder among the index's versions, which never change: the result is the same whichever
process measures it, it stays when versions are removed, and it goes when the index does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from refaug.core.errors import Corrupt, StorageFull
from refaug.core.files import lock_file, make_folder, read_json, remove_asides, with_checksum, write_json
from refaug.core.progress import Progress


@dataclass(frozen=True, kw_only=True)
class MeasurementKey:
    """Everything that a cached measurement of an index depends on."""

    kind: str
    format_version: int
    index: str  # the id of the index's content, whatever the index is called
    parameters: Mapping[str, object]  # all else that can change the measurement, as JSON values

    @property
    def file(self) -> str:
        """The name of the cache file, from the index's content and a digest of the parameters."""
        parameters = {"index": self.index, **self.parameters}
        digest = hashlib.sha256(orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return f"{self.index[:12]}-{digest[:12]}.json"

    def document(self, measurement: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the file, without time or machine, so that every process writes the same bytes."""
        header = {"kind": self.kind, "format_version": self.format_version, "index": self.index}
        return {**header, **self.parameters, **measurement}


def read_measurement(path: Path, key: MeasurementKey, names: Sequence[str]) -> dict[str, object] | None:
    """Return the cached values of these names; None without a file, or where it was altered or has another key.

    Only the caller knows whether the values of a file without a checksum are plausible.
    """
    try:
        document = read_json(path)
    except (OSError, Corrupt):
        return None
    measurement = {name: document.get(name) for name in names}
    return measurement if document == key.document(measurement) else None


def write_measurement(
    path: Path, key: MeasurementKey, measurement: Mapping[str, object], what: str, progress: Progress
) -> None:
    """Write a measurement to the cache; where writing fails, warn and go on."""
    try:
        make_folder(path.parent)
        with lock_file(path.parent / ".lock"):  # only while writing: files left aside are those of a killed process
            remove_asides(path.parent)
            write_json(path, with_checksum(key.document(measurement)))
    except (OSError, StorageFull) as error:
        progress.warn(f"{what} could not be kept, and will be measured again: {error}")
