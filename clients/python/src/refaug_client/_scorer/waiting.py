"""Waiting for the outcomes of replies, in the threads that want them."""

from __future__ import annotations

import time
from typing import Callable, Optional

from refaug_client._core import errors

from .ledger import Ledger
from .pending import Submission
from .workers import Workers

_LOOK_S = 1.0  # between two looks at whether the threads still live, while a caller waits


class Waiter:
    """Waits until submissions are finished; every method takes the ledger's lock unless it says otherwise."""

    def __init__(self, ledger: Ledger, workers: Workers) -> None:
        self._ledger, self._workers = ledger, workers

    def wait(self, submission: Submission, timeout_s: Optional[float]) -> None:
        """Wait until every reply has its outcome; replies whose time is over get theirs here."""
        if submission.missing == 0:
            return
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        with self._ledger.lock:
            self._workers.hurry()
            while not self._ledger.is_finished(submission):
                limits = [limit for limit in (ends, submission.deadline) if limit is not None]
                has_changed = self.wait_for_change(min(limits, default=None))
                if not has_changed and ends is not None and time.monotonic() >= ends:
                    if self._ledger.is_finished(submission):
                        return
                    raise errors.TimedOut(
                        f"{submission.missing:,} of {len(submission):,} replies have no outcome within {timeout_s:g} s",
                        remedy="try again later, or max_wait_s=… to end the waiting for good",
                    )

    def wait_for_change(self, until: Optional[float]) -> bool:
        """Wait for a change; False when the time is over. The caller holds the lock."""
        remaining_s = _LOOK_S if until is None else until - time.monotonic()
        if remaining_s <= 0:
            return False
        self._ledger.changed.wait(min(remaining_s, _LOOK_S))
        self._workers.revive()
        return True

    def is_finished(self, submission: Submission) -> bool:
        """Whether every reply has its outcome now."""
        with self._ledger.lock:
            return self._ledger.is_finished(submission)

    def mark_collected(self, submission: Submission) -> None:
        """Let `collect` leave a submission out whose result was read."""
        with self._ledger.lock:
            self._ledger.collect(submission.number)

    def when_done(self, submission: Submission, callback: Callable[[], None]) -> None:
        """Call back once every reply has its outcome, at once where it has."""
        with self._ledger.lock:
            if submission.missing:
                submission.callbacks.append(callback)
                self._workers.hurry()
                return
        callback()
