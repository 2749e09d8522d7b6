"""The work of a batch: references for all its items are searched at once and rated in pieces."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from refaug.core.errors import Unavailable
from refaug.evaluation.scoring.augmentation import own_texts, retrieve
from refaug.service.serving.batches import queued_requests
from refaug.service.serving.batches.stage_timings import StageObserver, moving_average, notify

log = logging.getLogger(__name__)

PIECE_S: Final = 0.05  # of rating between two checks whether the client still waits
_INITIAL_CANDIDATE_S: Final = 0.002  # for rating one candidate; about twice the time of a new text


class BatchRunner:
    """Runs batches; every request in a batch gets an answer or an error."""

    def __init__(self, observe: StageObserver | None = None) -> None:
        self._observe = observe
        self.candidate_s = _INITIAL_CANDIDATE_S  # moving average; used by the thread of batches only

    def run(self, shares: Sequence[queued_requests.Share]) -> None:
        """Run one batch."""
        begun, items = time.monotonic(), sum(share.end - share.begin for share in shares)
        for share in shares:
            notify(self._observe, "queue", begun - share.entry.entered, share.end - share.begin)
        try:
            first = shares[0].entry  # all of them have the same index and rater
            first.require_unchanged_files()
            if isinstance(first, queued_requests.QueuedCall):
                self._run_call(first)
            else:
                self._rate_items(self._prepare(shares))
        except Unavailable as error:
            log.warning("a batch was refused", extra={"items": items, "why": error.message})
            for share in shares:
                share.entry.end(error=error)
        except BaseException as error:
            log.exception("a batch failed", extra={"items": items})
            for share in shares:
                share.entry.end(error=error)

    def _run_call(self, entry: queued_requests.QueuedCall) -> None:
        begun = time.perf_counter()
        try:
            answer = entry.work()
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            entry.end(error=error)
        else:
            entry.end(answer)
            notify(self._observe, "score", time.perf_counter() - begun, entry.size)

    def _prepare(self, shares: Sequence[queued_requests.Share]) -> list[queued_requests.BatchItem]:
        """Return the items of a batch, ready to be rated; after a failure each request is tried alone."""
        try:
            if isinstance(shares[0].entry, queued_requests.QueuedAugmentation):
                return self._search(shares)
            return _items_to_rate(shares)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            if len(shares) == 1:
                shares[0].entry.end(error=error)
                return []
            return [part for share in shares for part in self._prepare([share])]

    def _search(self, shares: Sequence[queued_requests.Share]) -> list[queued_requests.BatchItem]:
        """Search for the items of all requests at once, and skip requests that were dropped in the meantime."""
        places = [(share.entry, at) for share in shares for at in range(share.begin, share.end)]
        augment_places = [(entry, at) for entry, at in places if isinstance(entry, queued_requests.QueuedAugmentation)]
        first = augment_places[0][0]
        items = [entry.items[at] for entry, at in augment_places]
        begun = time.perf_counter()
        retrievals = retrieve(items, first.index, first.settings)
        notify(self._observe, "search", time.perf_counter() - begun, len(items))
        if first.rater is not None:
            coverages = [first.rater.coverage(own_texts(item)) for item in items]
            for (entry, at), coverage in zip(augment_places, coverages, strict=True):
                entry.coverages[at] = coverage
        return [
            queued_requests.BatchItem(entry, at, retrieval.to_rate, retrieval.with_ratings)
            for (entry, at), retrieval in zip(augment_places, retrievals, strict=True)
        ]

    def _rate_items(self, parts: Sequence[queued_requests.BatchItem]) -> None:
        """Rate in pieces; each request is answered as soon as its last item is done."""
        for part in parts:
            if part.to_rate is None:
                part.store(())
        pending = deque(part for part in parts if part.to_rate is not None)
        begun, items = time.perf_counter(), 0
        while piece := self._next_piece(pending):
            self._rate_piece(piece)
            items += len(piece)
        if items:
            notify(self._observe, "rate", time.perf_counter() - begun, items)

    def _next_piece(self, pending: deque[queued_requests.BatchItem]) -> list[queued_requests.BatchItem]:
        """Return the items to rate until the next check: at least one, of requests that are still wanted."""
        piece, expected_s = list[queued_requests.BatchItem](), 0.0
        while pending:
            if not pending[0].entry.is_wanted():
                pending.popleft()
                continue
            expected_s += self.candidate_s * _rating_size(pending[0])
            if piece and expected_s > PIECE_S:
                break
            piece.append(pending.popleft())
        return piece

    def _rate_piece(self, piece: Sequence[queued_requests.BatchItem]) -> None:
        rater, settings = piece[0].entry.rater, piece[0].entry.rating
        assert rater is not None
        begun = time.perf_counter()
        try:
            ratings = rater.rate([part.to_rate for part in piece if part.to_rate is not None], settings)
        except Exception as error:  # noqa: BLE001  the waiting request raises it
            self._rate_separately(piece, error)
            return
        took = (time.perf_counter() - begun) / max(1, sum(map(_rating_size, piece)))
        self.candidate_s = moving_average(self.candidate_s, took)
        for part, own in zip(piece, ratings, strict=True):
            part.store(own)

    def _rate_separately(self, piece: Sequence[queued_requests.BatchItem], error: Exception) -> None:
        """Rate each request alone after a piece has failed, so that one request does not fail another."""
        by_entry = dict[queued_requests.RatableRequest, list[queued_requests.BatchItem]]()
        for part in piece:
            by_entry.setdefault(part.entry, []).append(part)
        if len(by_entry) == 1:
            piece[0].entry.end(error=error)
            return
        for own in by_entry.values():
            self._rate_piece(own)


def _items_to_rate(shares: Sequence[queued_requests.Share]) -> list[queued_requests.BatchItem]:
    """Return the test pairs of requests that only rate."""
    return [
        queued_requests.BatchItem(entry, at, entry.requests[at], list)
        for entry, begin, end in shares
        if isinstance(entry, queued_requests.QueuedRating)
        for at in range(begin, end)
    ]


def _rating_size(part: queued_requests.BatchItem) -> int:
    """Return the number of pairs of a candidate and a gold; the time of rating grows with it."""
    return 0 if part.to_rate is None else len(part.to_rate.candidates) * len(part.to_rate.golds)
