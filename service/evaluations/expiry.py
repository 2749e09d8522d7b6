"""The end of uploads and evaluations that have expired."""

from __future__ import annotations

import logging

from refaug.core.home import Settings
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.server_settings import ServeSettings

log = logging.getLogger(__name__)


def remove_expired(home: Settings, serve: ServeSettings) -> None:
    """Remove uploads and evaluations that have expired; a folder that cannot be removed stays for the next time."""
    try:
        uploads, evaluations = UploadStore(home, serve).remove_expired(), EvaluationStore(home, serve).remove_expired()
    except OSError as error:
        log.warning("expired files stay", extra={"why": str(error)})
        return
    if uploads or evaluations:
        log.info("expired", extra={"uploads": uploads, "evaluations": len(evaluations)})
