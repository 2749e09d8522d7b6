"""Score documents that are being looked at: their views stay open, up to so many replies."""

from __future__ import annotations

import threading
from typing import Final

from refaug.core.memory.bounded_cache import BoundedCache
from refaug.evaluation.score_views.score_view import ScoreView
from refaug.evaluation.score_views.stored_view import open_view
from refaug.service.evaluations.evaluation_store import SCORES, EvaluationStore, evaluation_not_found

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
