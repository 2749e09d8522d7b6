"""Scores for a training loop: submitted at once, collected later, and one outcome for every reply whatever happens.

    scorer = client.scorer(reference_set="e7043c04b0875353", metric="upsilon-bleu")
    scorer(replies, items=ids)                     # floats, in order
    scorer.submit(replies, items=ids, tag=step)    # at once; a thread in the background asks the server
    for pending in scorer.collect():               # those that are finished, in the order they were submitted
        log(pending.tag, pending.result())

Replies that wait are grouped: while a request is on its way, the replies of later submits gather, and are sent as one
request when it has come back, a batch is full, a quarter of a second is over, or a caller waits for them. A request
that the server refuses is split, so that one bad reply fails alone.

`Scorer` is what users see. Beside it: the ledger knows what was submitted and what became of it, the workers are the
threads, a group scorer asks cache and server about a group of replies, the set client sends the requests.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Optional

import httpx

from refaug_client._core import errors
from refaug_client._http.settings import ConnectionSettings

from .ledger import Ledger
from .pending import Counts, Pending, Submission
from .settings import OnFull, OnUnavailable, ScorerSettings, require_replies
from .sources.cache import MemoryCache, open_cache
from .sources.groups import CorpusScorer, GroupScorer
from .sources.set_client import Facts, SetClient, is_unavailable
from .waiting import Waiter
from .workers import Piece, Workers

_END_S = 2.0  # that threads have to end
_LAST_CORPORA = 1_000  # corpus scores that are kept for on_unavailable="last"


class Scorer:
    """Scores replies to the items of one frozen set, by one metric; safe in threads and after fork, and picklable.

    `cache` is "memory", a path (a file that outlives the process and is shared with others), or None. With
    `max_wait_s`, every reply has its outcome that many seconds after it was submitted, and until then it is retried;
    without it, as often as the client's `retry` says, or for 90 seconds where it says nothing and errors are raised.
    What happens to replies that were not scored in time is `on_unavailable`: `raise` the error, `skip` them (None), or
    take the `last` value of the same item, which is for curves and never for training: all of it is counted. With the
    latter two, a server that did not answer is left alone for half a second, later for up to ten, and what would be
    sent meanwhile has its outcome at once, so that not every step waits as long as the first. `queue` is how many
    replies may wait; with more, submit waits for room (`on_full="block"`), raises, or drops them.
    """

    def __init__(self, to: ConnectionSettings, settings: ScorerSettings, http: Optional[httpx.Client] = None) -> None:
        self._settings = settings
        self._to, self._http = to, http
        self.reference_set: str = settings.reference_set
        self.metric: Optional[str] = settings.metric
        self.language: Optional[str] = settings.language
        self.percent: bool = settings.percent
        self.on_unavailable: OnUnavailable = settings.on_unavailable
        self.max_wait_s: Optional[float] = settings.max_wait_s
        self.on_full: OnFull = settings.on_full
        self._cache = open_cache(settings.cache, settings.cache_entries, settings.cache_mib)
        last_scores: MemoryCache[str] = MemoryCache(settings.cache_entries)
        self._last_corpora: MemoryCache[bytes] = MemoryCache(_LAST_CORPORA)
        self._ledger = Ledger(settings, last_scores)
        self._server = SetClient(to, settings, self._ledger, http, (last_scores, self._last_corpora))
        self.signatures: list[str] = self._server.signatures
        self._groups = GroupScorer(settings, self._ledger, self._server, self._cache, last_scores)
        self._corpora = CorpusScorer(settings, self._server)
        self._workers = Workers(settings, self._ledger, self._score)
        self._waiter = Waiter(self._ledger, self._workers)
        self._begin()
        _ALIVE.add(self)

    def _begin(self) -> None:
        """Number submits from 1, and have the counts printed at the end of a scorer that is never closed, too."""
        self._submits = 0
        self._report_at_end = weakref.finalize(self, _report_replaced, self._name, self._ledger.tally)
        self._report_at_end.atexit = False  # scorers that exist then are closed

    def _score(self, pieces: Sequence[Piece]) -> None:
        """Score a group, in a thread of the workers: it keeps the scorer alive as long as there is work."""
        self._groups.score(pieces)

    # ── submitting ────────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, replies: Iterable[Optional[str]], items: Iterable[str]) -> list[Optional[float]]:
        """Return the scores of these replies, in order; `items` are the ids of what they reply to, one for each.

        None where the server has no score for a reply, or where it was skipped.
        """
        submission, pending = self._submit(replies, items, None, on_full="block", is_listed=False)
        try:
            return pending.result()
        finally:
            if not pending.done():  # Ctrl-C: the result is not wanted any more
                self._ledger.abandon([submission], errors.Usage("the call was interrupted"))

    def submit(self, replies: Iterable[Optional[str]], items: Iterable[str], tag: Any = None) -> Pending:
        """Submit replies and go on; this never waits for the network, only for room in the queue when it is full.

        What is submitted should be collected: by `collect()`, `drain()`, or the pending's own `result()`.
        """
        return self._submit(replies, items, tag, on_full=self.on_full, is_listed=True)[1]

    def _submit(
        self, replies: Iterable[Optional[str]], items: Iterable[str], tag: Any, *, on_full: OnFull, is_listed: bool
    ) -> tuple[Submission, Pending]:
        texts, ids = require_replies(replies, items)
        max_wait_s = self.max_wait_s
        deadline = None if max_wait_s is None else time.monotonic() + max_wait_s
        with self._ledger.lock:
            self._require_open()
            self._submits += 1
            submission = Submission(texts, ids, self._submits, deadline=deadline, max_wait_s=max_wait_s)
            pending = Pending(self._waiter, submission, tag)
            has_room = self._has_room(submission, on_full)
            self._ledger.add(submission, pending if is_listed else None)
            if None in texts:
                nothing = (((submission, place), None) for place, text in enumerate(texts) if text is None)
                self._ledger.settle(nothing, "no-reply")
            if has_room:
                self._enqueue(submission)
            elif on_full == "drop":
                self._ledger.settle(((place, None) for place in submission.places()), "dropped")
            else:
                self._ledger.expire(submission)
        return submission, pending

    def _has_room(self, submission: Submission, on_full: OnFull) -> bool:
        """Whether the queue has room, waiting for it where told to; an empty queue takes more than its size."""
        ledger, size = self._ledger, len(submission)
        while ledger.waiting and size and ledger.waiting + size > self._settings.queue:
            if on_full == "raise":
                raise errors.QueueFull(
                    f"{ledger.waiting:,} replies wait, and {size:,} more than {self._settings.queue:,} do not fit",
                    remedy='queue=… for more, or on_full="block" or "drop"',
                )
            self._workers.hurry()
            if on_full == "drop" or not self._waiter.wait_for_change(submission.deadline):
                return False
            self._require_open()
        return True

    def _enqueue(self, submission: Submission) -> None:
        if submission.missing:
            self._workers.queue.add(submission)
            self._workers.call()
        elif not len(submission):
            self._ledger.finish(submission)

    def _require_open(self) -> None:
        if self._workers.is_closed:
            raise errors.Usage("this scorer is closed", remedy="a new one: client.scorer(…)")

    # ── collecting ────────────────────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> Iterator[Pending]:
        """Yield finished submissions in their order, each once; stop, without waiting, at the first unfinished one."""
        while (pending := self._ledger.collect_next()) is not None:
            yield pending

    def drain(self, timeout_s: Optional[float] = None) -> list[Pending]:
        """Wait for all that was submitted and not collected yet, and return it; TimedOut if that takes longer."""
        uncollected = self._ledger.uncollected()
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        for submission, _ in uncollected:
            self._waiter.wait(submission, None if ends is None else max(0.0, ends - time.monotonic()))
        with self._ledger.lock:
            return [pending for submission, pending in uncollected if self._ledger.collect(submission.number)]

    # ── facts and counts ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def facts(self) -> Facts:
        """Which set it is, its purpose, and the signature of scores against it; the server is asked once."""
        if self._server.facts is None:
            self._require_open()
            return self._server.learn()
        return self._server.facts

    @property
    def signature(self) -> str:
        """The line that belongs beside every score."""
        return self.facts.signature

    @property
    def set_purpose(self) -> str:
        """The purpose of the set: train, validation or test."""
        return self.facts.purpose

    @property
    def counts(self) -> Counts:
        """What became of all replies so far."""
        return self._ledger.counts()

    @property
    def report(self) -> str:
        """The counts in a line."""
        return f"{self._name}: {self.counts}"

    @property
    def _name(self) -> str:
        return f"{self.metric or 'scores'} against {self.reference_set}"

    def __repr__(self) -> str:
        return f"<Scorer {self.report}>"

    # ── corpus scores ─────────────────────────────────────────────────────────────────────────────────────────────

    def corpus(self, replies: Iterable[Optional[str]], items: Iterable[str]) -> Optional[float]:
        """Return the corpus score of these replies, which is not their mean; exact, however many they are.

        None where none of them has a score, and where the server was unavailable and `on_unavailable` skips that.
        """
        texts, ids = require_replies(replies, items)
        if not ids:
            return None
        self._require_open()
        name = blake2b("\0".join(ids).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        now = time.monotonic()
        deadline = None if self.max_wait_s is None else now + self.max_wait_s
        try:
            self._server.rest.require_over(now)
            score = self._corpora.score(texts, ids, deadline)
        except errors.RefaugError as error:
            if self.on_unavailable == "raise" or not is_unavailable(error):
                raise
            with self._ledger.lock:
                self._server.rest.begin(time.monotonic())
            last = self._last_corpora.get([name]) if self.on_unavailable == "last" else {}
            self._ledger.count("corpora_last" if last else "corpora_skipped")
            return last.get(name)
        self._last_corpora.put({name: score})
        self._ledger.count("corpora")
        return score

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self, wait_s: Optional[float] = None) -> None:
        """Wait for what is on its way, at most `wait_s` (else `exit_wait_s`); what is left fails; end the threads.

        Scores that are there can still be collected. Where replies were skipped, repeated or dropped, a line on stderr
        says so.
        """
        ends = time.monotonic() + (self._settings.exit_wait_s if wait_s is None else wait_s)
        try:
            with self._ledger.lock:
                if self._workers.is_closed:
                    return
                self._workers.is_closed = True
                self._workers.hurry()
                while self._ledger.unfinished and self._waiter.wait_for_change(ends):
                    pass
        finally:  # Ctrl-C ends the waiting, and everything else still has to end
            self._end()
        if self._report_at_end.detach() is not None:  # at exit, it would do nothing any more
            _report_replaced(self._name, self._ledger.tally)

    def _end(self) -> None:
        with self._ledger.lock:
            unfinished = list(self._ledger.unfinished.values())
            threads = self._workers.stop()
        self._ledger.abandon(unfinished, errors.Usage("the scorer was closed before this reply was scored"))
        self._server.close()
        ends = time.monotonic() + _END_S
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, ends - time.monotonic()))
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> Scorer:  # noqa: PYI034  Self is of 3.11
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        self.close(None if kind is None else 0.0)

    def forked(self) -> None:
        """In a forked process: begin empty, with new threads and connections; what was submitted is the parent's."""
        self._ledger.begin_empty()
        self._workers.begin_empty()
        self._report_at_end.detach()  # the parent reports what it has counted
        self._begin()
        self._server.begin_again()

    def __reduce__(self) -> Any:
        if self._http is not None:
            raise errors.Usage(
                "a scorer of refaug itself, or of a client with an httpx client that was handed in, cannot be pickled",
                remedy="make it in the worker, or have the client make its own connections",
            )
        return type(self), (self._to, self._settings)


def _report_replaced(name: str, tally: Mapping[str, int]) -> None:
    """Write a line to stderr where not every score is the server's."""
    counts = Counts(**tally)
    if counts.skipped or counts.last or counts.dropped or counts.corpora_skipped or counts.corpora_last:
        sys.stderr.write(f"refaug: {name}: {counts}\n")


_ALIVE: weakref.WeakSet[Scorer] = weakref.WeakSet()


def _after_fork() -> None:
    for scorer in list(_ALIVE):
        scorer.forked()


def _at_exit() -> None:
    """Wait for what is on its way, unless the program was interrupted or failed."""
    has_failed = getattr(sys, "last_type", None) is not None
    for scorer in list(_ALIVE):
        scorer.close(0.0 if has_failed else None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
