"""The acts of a job that belong into the audit log: each is noted in the home when it happens.

The notes lie beside the folder of the job's stages, so that they outlast a kill of the worker. Whichever process ends
the job, as done, failed or cancelled, writes them into the audit log with that end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from refaug.core.artefacts.versions import Change
from refaug.core.files import make_folder
from refaug.core.home import Settings

log = logging.getLogger(__name__)

FOLDER: Final = "jobs"  # of the home; for stages and notes


@dataclass(frozen=True)
class JobActs:
    """The notes of all jobs of a home."""

    home: Settings

    def observer(self, job: str) -> Callable[[Change], None]:
        """Return the function that notes the changes of a job, each once."""
        noted = _read(self._path(job))

        def note(change: Change) -> None:
            if change not in noted:
                noted.append(change)
                self._note(job, change)

        return note

    def _note(self, job: str, change: Change) -> None:
        """Append a change; what has happened must not be reported as failed because its note has no room."""
        fields = {"action": change.action, "subject": change.subject, "details": dict(change.details)}
        try:
            for folder in (self.home.home, self._path(job).parent):
                make_folder(folder)
            with self._path(job).open("ab") as file:
                file.write(b"\n" + orjson.dumps(fields) + b"\n")  # a kill may have left half a line before
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            facts = {"job": job, **fields, "why": str(error)}
            log.error("not in the audit log", extra=facts)  # noqa: TRY400  the trace says nothing

    def of_job(self, job: str) -> Sequence[Change]:
        """Return what a job has done so far, in order; versions of one artefact that it removed are one act."""
        acts = dict[tuple[str, str, str], Change]()
        for change in _read(self._path(job)):
            versions = change.details.get("versions")
            key = (change.action, change.subject, "" if versions else str(change.details))
            if versions and key in acts:
                all_versions = [*acts[key].details["versions"], *versions]
                acts[key] = replace(acts[key], details={**change.details, "versions": all_versions})
            else:
                acts[key] = change
        return [*acts.values()]

    def forget(self, job: str) -> None:
        """Remove the notes of a job whose acts the audit log has."""
        self._path(job).unlink(missing_ok=True)

    def _path(self, job: str) -> Path:
        return self.home.home / FOLDER / f"{job}.acts.jsonl"


def _read(path: Path) -> list[Change]:
    """Return the noted changes; half a line, of a process that was killed while it wrote, is none."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        log.error("not in the audit log", extra={"file": path.name, "why": str(error)})  # noqa: TRY400
        return []
    changes = list[Change]()
    for line in filter(None, lines):
        try:
            fields = orjson.loads(line)
            changes.append(Change(action=fields["action"], subject=fields["subject"], details=fields["details"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            log.warning("half a note", extra={"file": path.name})
    return changes
