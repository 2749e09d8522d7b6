"""The threads of a scorer: they take groups of replies out of the queue and have them scored."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Callable

from refaug_client._core import errors

from .ledger import Ledger
from .queue import Piece, Queue
from .settings import ScorerSettings

_IDLE_S = 10.0  # that a thread waits for work until it ends; a new one starts when there is some


class Workers:
    """Starts threads when replies are queued, and ends idle ones; a caller holds the ledger's lock."""

    def __init__(self, settings: ScorerSettings, ledger: Ledger, score: Callable[[Sequence[Piece]], None]) -> None:
        self._settings, self._ledger, self._score = settings, ledger, score
        self.is_closed = False
        self.begin_empty()

    def begin_empty(self) -> None:
        """Begin without queue and threads: at first, and in a forked process."""
        self._work = threading.Condition(self._ledger.lock)
        self.queue: Queue = Queue(self._settings.batch, self._settings.max_wait_s)
        self.threads: set[threading.Thread] = set()
        self._idle = self._gathering = 0

    def call(self) -> None:
        """Wake a thread, or start one, unless the queue has time or all threads are busy."""
        if self._gathering and self.queue.due_in():
            return
        if self._idle or self._gathering:
            self._work.notify()
            return
        if len(self.threads) >= self._settings.at_once:
            return
        thread = threading.Thread(target=self._run, name=f"refaug-scorer-{len(self.threads) + 1}", daemon=True)
        self.threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter ends, or there are too many
            self.threads.discard(thread)
            if not self.threads:
                failure = errors.RefaugError(f"no thread could be started to score them: {error}")
                while self.queue:
                    self._ledger.fail(self.queue.next().places(), failure)

    def hurry(self) -> None:
        """Send what is queued without gathering more, since a caller waits for it."""
        if self.queue.hurry() and self.queue.under_way:
            self.call()

    def revive(self) -> None:
        """Start a thread where replies are queued and none is left."""
        if self.queue and not self.threads:
            self.call()

    def stop(self) -> list[threading.Thread]:
        """Clear the queue, and return the threads, which are about to end."""
        self.queue.clear()
        self._work.notify_all()
        return list(self.threads)

    def _run(self) -> None:
        while pieces := self._take():
            try:
                self._score(pieces)
            except Exception as error:  # noqa: BLE001  none may be lost
                failure = error if isinstance(error, errors.RefaugError) else _unexpected(error)
                with self._ledger.lock:
                    for piece in pieces:
                        self._ledger.fail(piece.places(), failure)
            finally:
                with self._ledger.lock:
                    self.queue.under_way -= 1

    def _take(self) -> list[Piece]:
        """Wait for the next group; an empty one ends the thread."""
        thread = threading.current_thread()
        with self._ledger.lock:
            while True:
                while self.queue and (gather_s := self.queue.due_in()):
                    self._gathering += 1
                    self._work.wait(gather_s)
                    self._gathering -= 1
                if group := self._next_group():
                    self.queue.under_way += 1
                    if self.queue:
                        self.call()
                    return group
                self._idle += 1
                was_called = not self.is_closed and self._work.wait(_IDLE_S)
                self._idle -= 1
                if not self.queue and (self.is_closed or not was_called):
                    self.threads.discard(thread)
                    return []

    def _next_group(self) -> list[Piece]:
        """Take what is queued, up to a batch, without replies whose time is over."""
        group: list[Piece] = []
        size = 0
        while self.queue.fits(size):
            piece = self.queue.next()
            if not self._ledger.is_finished(piece.submission):
                group.append(piece)
                size += piece.size
        return group


def _unexpected(error: Exception) -> errors.RefaugError:
    failure = errors.RefaugError(f"{type(error).__name__} while they were scored: {error}")
    failure.__cause__ = error
    return failure
