"""Score documents that are being looked at, kept in memory up to a size, so that paging through replies is quick."""

from __future__ import annotations

import threading
from typing import Final

import orjson

from refaug.core.errors import TooLarge
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.evaluation.score_views.score_view import ScoreView
from refaug.service.evaluations.evaluation_store import SCORES, EvaluationStore
from refaug.service.server_settings import MIB

_HELD_BYTES: Final = 64 * MIB  # of files; what is made of them takes some times more


class HeldViews:
    """The views of one web process; a document never changes, so none is ever out of date."""

    def __init__(self, store: EvaluationStore) -> None:
        self._store = store
        self._lock = threading.Lock()  # one document is parsed at a time, and once
        self._views = BoundedCache[str, tuple[ScoreView, int]](_HELD_BYTES, lambda _, held: held[1])

    def get(self, evaluation_id: str) -> ScoreView:
        """Return the view of an evaluation; NotFound where it is gone, TooLarge where it is only to be downloaded."""
        path = self._store.path(evaluation_id, SCORES)
        with self._lock:
            held = self._views.get(evaluation_id)
            if held is None:
                size = path.stat().st_size
                if size > _HELD_BYTES:
                    raise TooLarge(
                        f"the scores take {size / MIB:,.0f} MiB, too much to page through",
                        remedy="download them as JSON or CSV",
                    )
                view = ScoreView.of(orjson.loads(path.read_bytes()), f"evaluation {evaluation_id}")
                held = (view, size)
                self._views.put(evaluation_id, held)
        return held[0]

    def forget(self, evaluation_id: str) -> None:
        """Drop the view of an evaluation that is removed."""
        self._views.pop(evaluation_id)
