"""The ledger of a scorer: what was submitted, the outcome of every reply, and the counts of all of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from refaug_client._core import errors

from .pending import Counts, Pending, Place, Source, Submission, Text
from .settings import ScorerSettings
from .sources.cache import MemoryCache

logger = logging.getLogger(__name__)

_UNCOLLECTED_QUEUES = 10  # times `queue`: so many scored replies that no call collects look like a mistake


class Ledger:
    """Keeps submissions and gives replies their outcomes; a caller holds `lock` unless a method says otherwise."""

    def __init__(self, settings: ScorerSettings, last_scores: MemoryCache[str]) -> None:
        self._settings, self._last_scores = settings, last_scores
        self.begin_empty()

    def begin_empty(self) -> None:
        """Forget every submission, with new locks: at first, and in a forked process."""
        self.lock: threading.Lock = threading.Lock()
        self.changed: threading.Condition = threading.Condition(self.lock)
        self.tally: dict[str, int] = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self.waiting: int = 0  # replies without an outcome
        self.unfinished: dict[int, Submission] = {}
        self._uncollected: dict[int, tuple[Submission, Pending]] = {}
        self._ready = 0  # replies among the uncollected that have their outcome
        self._has_warned = False

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of the counts; takes the lock."""
        with self.lock:
            self.tally[name] += number

    def counts(self) -> Counts:
        """Return all counts so far; takes the lock."""
        with self.lock:
            return Counts(**self.tally)

    # ── submissions ───────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, submission: Submission, pending: Optional[Pending]) -> None:
        """Take a submission in; `pending` is what `collect` hands out for it, None where it is not to be collected."""
        self.tally["submitted"] += len(submission)
        self.waiting += len(submission)
        if pending is not None:
            self._uncollected[submission.number] = (submission, pending)
        self.unfinished[submission.number] = submission

    def uncollected(self) -> list[tuple[Submission, Pending]]:
        """Return what was submitted and not collected yet, oldest first; takes the lock."""
        with self.lock:
            return list(self._uncollected.values())

    def collect_next(self) -> Optional[Pending]:
        """Take out the oldest submission if it is finished; takes the lock."""
        with self.lock:
            oldest = next(iter(self._uncollected.values()), None)
            if oldest is None or not self.is_finished(oldest[0]):
                return None
            submission, pending = oldest
            self.collect(submission.number)
            return pending

    def collect(self, number: int) -> bool:
        """Take a submission out; False where another thread has collected it already."""
        uncollected = self._uncollected.pop(number, None)
        if uncollected is None:
            return False
        self._ready -= len(uncollected[0])
        return True

    def is_finished(self, submission: Submission) -> bool:
        """Whether every reply has its outcome; replies whose time is over get theirs here."""
        if submission.missing and submission.pid != os.getpid():
            raise errors.Usage(
                "these replies were submitted in another process, which alone learns their scores",
                remedy="submit in the process that collects",
            )
        if submission.missing and submission.deadline is not None and time.monotonic() >= submission.deadline:
            self.expire(submission)
        return submission.missing == 0

    # ── outcomes ──────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, outcomes: Iterable[tuple[Place, Optional[float]]], source: Source) -> None:
        """Give replies their outcome; a reply that has one keeps it."""
        settled = scored = 0
        for (submission, place), score in outcomes:
            if submission.sources[place] is None:
                submission.sources[place], submission.scores[place] = source, score
                submission.missing -= 1
                settled += 1
                scored += score is not None
                if submission.missing == 0:
                    self.finish(submission)
        self.waiting -= settled
        if source in ("server", "copied", "cache", "no-reply"):
            self.tally["scored"] += scored
            self.tally["unscored"] += settled - scored
            self.tally["from_cache"] += settled if source == "cache" else 0
        else:
            self.tally[source] += settled

    def finish(self, submission: Submission) -> None:
        """Close a submission that has all its outcomes, and notify the threads that wait for it."""
        self.unfinished.pop(submission.number, None)
        submission.replies = []
        if submission.number in self._uncollected:
            self._ready += len(submission)
        for callback in submission.callbacks:
            callback()
        submission.callbacks = []
        self.changed.notify_all()
        if self._ready > _UNCOLLECTED_QUEUES * self._settings.queue and not self._has_warned:
            self._has_warned = True
            logger.warning("%d replies have scores that nobody collects: scorer.collect()", self._ready)

    def fail(self, places: Iterable[Place], error: errors.RefaugError) -> None:
        """Let replies fail; the first error of a submission is the one that `result()` raises."""
        for submission, place in places:
            if submission.sources[place] is None:
                submission.errors[place] = error
            self.settle([((submission, place), None)], "failed")

    def give_up(self, texts: Mapping[Text, Sequence[Place]], error: errors.RefaugError) -> None:
        """Give replies that were not scored in time the outcome that `on_unavailable` asks for."""
        if self._settings.on_unavailable == "raise":
            for places in texts.values():
                self.fail(places, error)
            return
        repeats = self._settings.on_unavailable == "last"
        last = self._last_scores.get(item_id for item_id, _ in texts) if repeats else {}
        for (item_id, _), places in texts.items():
            score = last.get(item_id)
            self.settle([(place, score) for place in places], "last" if item_id in last else "skipped")

    def expire(self, submission: Submission) -> None:
        """Give up what a submission still misses, since its time is over."""
        texts = missing_texts([(submission, range(len(submission)))])
        self.give_up(texts, errors.TimedOut(f"no score within max_wait_s={submission.max_wait_s:g} s"))

    def abandon(self, submissions: Iterable[Submission], error: errors.RefaugError) -> None:
        """Let all replies without an outcome fail; takes the lock."""
        with self.lock:
            for submission in submissions:
                self.fail(submission.places(), error)


def missing_texts(parts: Iterable[tuple[Submission, Iterable[int]]]) -> dict[Text, list[Place]]:
    """Return the replies without an outcome, each text once with its places; the lock is held."""
    texts: dict[Text, list[Place]] = {}
    for submission, places in parts:
        if submission.missing:
            items, replies, sources = submission.items, submission.replies, submission.sources
            for place in places:
                if sources[place] is None:
                    texts.setdefault((items[place], replies[place] or ""), []).append((submission, place))
    return texts
