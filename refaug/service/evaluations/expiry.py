"""The end of uploads and evaluations: those that have expired, and those whose job did not end well."""

from __future__ import annotations

import logging

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.evaluations.notes import NoteStore
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.server_settings import ServeSettings

log = logging.getLogger(__name__)


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
