"""The work of a batch: references for all its items are searched at once and rated in pieces."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from refaug.core.errors import Unavailable
from refaug.evaluation.scoring.augmentation import retrieve
from refaug.service.serving.batches import queued_requests
from refaug.service.serving.batches.request_queue import Share
from refaug.service.serving.batches.stage_timings import StageObserver, moving_average, notify

log = logging.getLogger(__name__)

BatchItem = tuple[queued_requests.RatableRequest, int]  # a request, and which of its items

PIECE_S: Final = 0.05  # of rating between two checks whether the client still waits
_INITIAL_CANDIDATE_S: Final = 0.002  # for rating one candidate; about twice the time of a new text


class BatchRunner:
    """Runs batches; every request in a batch gets an answer or an error."""

    def __init__(self, observe: StageObserver | None = None) -> None:
        self._observe = observe
        self.candidate_s = _INITIAL_CANDIDATE_S  # moving average; used by the thread of batches only

    def run(self, shares: Sequence[Share]) -> None:
        """Run one batch."""
        begun, items = time.monotonic(), sum(len(places) for _, places in shares)
        for entry, places in shares:
            notify(self._observe, "queue", begun - entry.entered, len(places))
        try:
            first, _ = shares[0]  # all of them have the same index and rater
            first.require_unchanged_files()
            if isinstance(first, queued_requests.QueuedCall):
                self._run_call(first)
            else:
                self._rate_items(self._prepare(shares))
        except Unavailable as error:
            log.warning("a batch was refused", extra={"items": items, "why": error.message})
            for entry, _ in shares:
                entry.end(error=error)
        except BaseException as error:
            log.exception("a batch failed", extra={"items": items})
            for entry, _ in shares:
                entry.end(error=error)

    def _run_call(self, entry: queued_requests.QueuedCall) -> None:
        begun = time.perf_counter()
        try:
            answer = entry.work()
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            entry.end(error=error)
        else:
            entry.end(answer)
            notify(self._observe, "score", time.perf_counter() - begun, entry.size)

    def _prepare(self, shares: Sequence[Share]) -> list[BatchItem]:
        """Return the items of a batch, ready to be rated; after a failure each request is tried alone."""
        parts = [
            (entry, at)
            for entry, places in shares
            if isinstance(entry, queued_requests.RatableRequest)
            for at in places
        ]
        try:
            self._search(parts)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            if len(shares) == 1:
                shares[0][0].end(error=error)
                return []
            return [part for share in shares for part in self._prepare([share])]
        return parts

    def _search(self, parts: Sequence[BatchItem]) -> None:
        """Search for the items of all requests at once; those that only rate have none."""
        augmented = [(entry, at) for entry, at in parts if isinstance(entry, queued_requests.QueuedAugmentation)]
        if not augmented:
            return
        first, items = augmented[0][0], [entry.items[at] for entry, at in augmented]
        begun = time.perf_counter()
        retrieved = retrieve(items, first.index, first.settings)
        notify(self._observe, "search", time.perf_counter() - begun, len(items))
        for (entry, at), found in zip(augmented, retrieved, strict=True):
            entry.found(at, *found)

    def _rate_items(self, parts: Sequence[BatchItem]) -> None:
        """Rate in pieces; each request is answered as soon as its last item is done."""
        for entry, at in parts:
            if entry.to_rate[at] is None:
                entry.finish(at, ())
        pending = deque((entry, at) for entry, at in parts if entry.to_rate[at] is not None)
        begun, items = time.perf_counter(), 0
        while piece := self._next_piece(pending):
            self._rate_piece(piece)
            items += len(piece)
        if items:
            notify(self._observe, "rate", time.perf_counter() - begun, items)

    def _next_piece(self, pending: deque[BatchItem]) -> list[BatchItem]:
        """Return the items to rate until the next check: at least one, of requests that are still wanted."""
        piece, expected_s = list[BatchItem](), 0.0
        while pending:
            if not pending[0][0].is_wanted():
                pending.popleft()
                continue
            expected_s += self.candidate_s * _rating_size(pending[0])
            if piece and expected_s > PIECE_S:
                break
            piece.append(pending.popleft())
        return piece

    def _rate_piece(self, piece: Sequence[BatchItem]) -> None:
        first, _ = piece[0]
        assert first.rater is not None
        begun = time.perf_counter()
        try:
            requests = [request for entry, at in piece if (request := entry.to_rate[at]) is not None]
            ratings = first.rater.rate(requests, first.settings)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            self._rate_separately(piece, error)
            return
        took = (time.perf_counter() - begun) / max(1, sum(map(_rating_size, piece)))
        self.candidate_s = moving_average(self.candidate_s, took)
        for (entry, at), own in zip(piece, ratings, strict=True):
            entry.finish(at, own)

    def _rate_separately(self, piece: Sequence[BatchItem], error: Exception) -> None:
        """Rate each request alone after a piece has failed, so that one request does not fail another."""
        by_entry = dict[queued_requests.RatableRequest, list[BatchItem]]()
        for entry, at in piece:
            by_entry.setdefault(entry, []).append((entry, at))
        if len(by_entry) == 1:
            piece[0][0].end(error=error)
            return
        for own in by_entry.values():
            self._rate_piece(own)


def _rating_size(part: BatchItem) -> int:
    """Return the number of pairs of a candidate and a gold; the time of rating grows with it."""
    entry, at = part
    request = entry.to_rate[at]
    return 0 if request is None else len(request.candidates) * len(request.golds)
