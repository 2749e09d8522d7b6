"""Finished evaluations: each in a folder that the id of its job names, complete or absent.

evaluations/<id>/evaluation.json   what it is: kind, name, owner, files, counts, times and hashes; written last
evaluations/<id>/scores.json       of a score: what `refaug score --json --details` prints
evaluations/<id>/scores.tex        of a score: what `refaug score --latex` prints
evaluations/<id>/agreement.json    of a meta: what `refaug agreement --json` prints, and its table, page and plots
evaluations/.<id>.part/            an evaluation whose job has not ended

What has expired, of these and of uploads, is removed from time to time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.errors import NotFound, StorageFull
from refaug.core.files import (
    make_folder,
    remove_tree,
    sha256_of,
    storage_errors,
    sync_folder,
    with_checksum,
    write_json,
)
from refaug.core.home import Settings
from refaug.core.memory import BoundedCache
from refaug.scoring.score_views.score_view import ScoreView, open_view
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import is_row_id
from refaug.service.evaluations.notes import NoteStore
from refaug.service.evaluations.uploads import ExpiringFolders, UploadStore, names_in, size_of, unaltered
from refaug.service.server_settings import MIB, ServeSettings

log = logging.getLogger(__name__)

SCORES: Final = "scores.json"
SCORES_LATEX: Final = "scores.tex"
AGREEMENT: Final = "agreement.json"
AGREEMENT_CSV: Final = "agreement.csv"
AGREEMENT_LATEX: Final = "agreement.tex"
AGREEMENT_PAGE: Final = "report.html"
MANIFEST: Final = "evaluation.json"
_ABANDONED_S: Final = 7 * 86_400


@dataclass(frozen=True, kw_only=True)
class StoredEvaluation:
    """A finished evaluation."""

    id: str
    kind: str
    name: str
    owner: str | None  # the name of the key that asked for it; None: only an admin sees it
    created: str
    expires: str
    files: Sequence[str]
    counts: Mapping[str, int]
    bytes: int
    hashes: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of each file beside the manifest

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the evaluation of a manifest."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})


class EvaluationStore(ExpiringFolders[StoredEvaluation]):
    """The evaluations of a home."""

    def __init__(self, home: Settings, serve: ServeSettings) -> None:
        super().__init__(home.home / "evaluations", "evaluation", MANIFEST, StoredEvaluation.of)
        self._serve = serve

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        evaluation_id: str,
        *,
        kind: str,
        name: str,
        owner: str | None,
        files: Sequence[str],
        counts: Mapping[str, int],
        write: Callable[[Path], None],
    ) -> StoredEvaluation:
        """Store what `write` puts into a folder, whole or not at all; an earlier one of this id stays.

        StorageFull where all evaluations together would take too much.
        """
        if (stored := self.find(evaluation_id)) is not None:
            return stored
        part, now = self._part(evaluation_id), datetime.now(UTC)
        remove_tree(part)  # of a job that was killed
        make_folder(part)
        try:
            write(part)
            size = size_of(part)
            self._require_room()
            evaluation = StoredEvaluation(
                id=evaluation_id,
                kind=kind,
                name=name,
                owner=owner,
                created=time_text(now),
                expires=time_text(now + timedelta(days=self._serve.keep_evaluations_days)),
                files=list(files),
                counts=dict(counts),
                bytes=size,
                hashes={path.name: sha256_of(path) for path in sorted(part.iterdir()) if path.is_file()},
            )
            write_json(part / MANIFEST, with_checksum(asdict(evaluation)))
            with storage_errors(part):
                part.rename(self._folder / evaluation_id)
                sync_folder(self._folder)
        except BaseException:
            remove_tree(part)
            raise
        return evaluation

    def _require_room(self) -> None:
        if self.used_bytes() > self._serve.evaluations_mib * MIB:
            raise StorageFull(
                f"evaluations take more than {self._serve.evaluations_mib:,} MiB together",
                remedy="remove some that are not needed, or raise the setting evaluations_mib",
            )

    def remove(self, evaluation_id: str) -> None:
        """Remove an evaluation; none is no error."""
        if is_row_id(evaluation_id):
            self._discard(evaluation_id)

    def remove_expired(self) -> list[str]:
        """Remove what has expired, and parts of jobs that were killed and not run again; return the ids that went."""
        for name in sorted(names_in(self._folder)):
            if name.startswith("."):
                with suppress(FileNotFoundError):
                    if (self._folder / name).stat().st_mtime < time.time() - _ABANDONED_S:
                        remove_tree(self._folder / name)
        expired = self._expired()
        for evaluation_id in expired:
            self._discard(evaluation_id)
        return expired

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def is_there(self, evaluation_id: str) -> bool:
        """Whether an evaluation has a folder, be it expired or damaged."""
        return is_row_id(evaluation_id) and (self._folder / evaluation_id).is_dir()

    def get(self, evaluation_id: str) -> StoredEvaluation:
        """Return an evaluation; NotFound where there is none."""
        if (stored := self.find(evaluation_id)) is None:
            raise evaluation_not_found(evaluation_id)
        return stored

    def path(self, evaluation_id: str, file: str) -> Path:
        """Return a file of an evaluation, one of those that this module names; NotFound where there is none.

        Corrupt where a file of the evaluation is not as its manifest says.
        """
        hashes, path = self.get(evaluation_id).hashes, self._folder / evaluation_id / file
        for name, sha256 in hashes.items():
            unaltered(path.with_name(name), sha256)
        if not path.is_file():
            raise NotFound(f"evaluation {evaluation_id} has no {file}", remedy="ask for another form")
        return path

    def altered_files(self) -> list[str]:
        """Return a sentence for each file that is not as the manifest of its evaluation says; this reads all."""
        return [
            f"{path} is not as its manifest says"
            for stored in filter(None, map(self.find, self.ids()))
            for path, sha256 in ((self.folder(stored.id) / name, sha256) for name, sha256 in stored.hashes.items())
            if not path.is_file() or sha256_of(path) != sha256
        ]


def evaluation_not_found(evaluation_id: str) -> NotFound:
    """Return the error for an evaluation that is not there, or is of another key."""
    return NotFound(f"there is no evaluation {evaluation_id[:40]!r}", remedy="GET /v1/evaluations lists them")


# ── Score documents that are being looked at: their views stay open, up to so many replies ────────────────────────────

_HELD_REPLIES: Final = 2_000_000  # of all open views; a reply takes about 200 bytes, its texts and scores none
_SMALL: Final = 1_000  # what a view takes whatever its replies


class HeldViews:
    """The views of one web process; a document never changes, so none is ever out of date."""

    def __init__(self, store: EvaluationStore) -> None:
        self._store = store
        self._lock = threading.Lock()  # one document is opened at a time, and once
        self._views = BoundedCache[str, ScoreView](_HELD_REPLIES, lambda _, view: _SMALL + len(view))

    def get(self, evaluation_id: str) -> ScoreView:
        """Return the view of an evaluation; NotFound where it is gone."""
        folder = self._store.path(evaluation_id, SCORES).parent
        with self._lock:
            held = self._views.get(evaluation_id)
            if held is None:
                try:
                    held = open_view(folder, f"evaluation {evaluation_id}")
                except FileNotFoundError:  # removed meanwhile
                    raise evaluation_not_found(evaluation_id) from None
                self._views.put(evaluation_id, held)
        return held

    def forget(self, evaluation_id: str) -> None:
        """Drop the view of an evaluation that is removed."""
        self._views.pop(evaluation_id)


# ── The end of uploads and evaluations: those that have expired, and those whose job did not end well ─────────────────


def remove_expired(home: Settings, serve: ServeSettings, database: Database | None = None) -> None:
    """Remove uploads and evaluations that have expired; what cannot be removed stays for the next time.

    With a database, notes on evaluations that are no longer there go as well.
    """
    uploads, evaluations = UploadStore(home, serve), EvaluationStore(home, serve)
    try:
        files, expired = uploads.remove_expired(), evaluations.remove_expired()
    except OSError as error:
        log.warning("expired files stay", extra={"why": str(error)})
        return
    if files or expired:
        log.info("expired", extra={"uploads": files, "evaluations": len(expired)})
    if database is not None and (count := NoteStore(database).remove_orphans(evaluations.is_there)):
        log.info("notes removed", extra={"evaluations": count})
