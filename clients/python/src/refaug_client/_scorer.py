"""Scores for a training loop: handed in at once, collected later, and one outcome for every reply whatever happens.

    scorer = client.scorer(reference_set="e7043c04b0875353", metric="upsilon-bleu")
    scorer(replies, items=ids)                     # floats, in order
    scorer.submit(replies, items=ids, tag=step)    # at once; a thread in the background asks the server
    for pending in scorer.collect():               # those that are finished, in the order they were submitted
        log(pending.tag, pending.result())

What waits is put together: while a request is on its way, the replies of later submits gather, and go as one when it
has come back, a batch is full, a quarter of a second is over, or somebody waits for them. A request that the server
refuses is taken apart again, so that one bad reply fails alone.
"""

# ruff: noqa: SLF001  what is known of pending replies is theirs and the scorer's, and nobody else's

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Callable, Literal, Optional, TypeVar, Union

import httpx

from . import _errors as errors
from ._batches import is_too_large
from ._cache import Both, Recent, key_of
from ._call import Answer, Call, path
from ._gathered import _only_sums, _sums
from ._pending import Counts, Pending, Source
from ._queue import Piece, Place, Queue
from ._scoring import (
    SYSTEM,
    Answered,
    Facts,
    Line,
    cache_of,
    checked,
    is_unavailable,
    patient,
    require_known,
    require_settings,
)
from ._settings import Connecting

T = TypeVar("T")
OnUnavailable = Literal["raise", "skip", "last"]
OnFull = Literal["block", "raise", "drop"]
Text = tuple[str, str]  # an item and a reply to it
logger = logging.getLogger(__name__)

_IDLE_S = 10.0  # that a thread waits for work until it ends; it is begun again when there is some
_LOOK_S = 1.0  # between two looks at whether the threads still live, while something is waited for
_END_S = 2.0  # that threads have to end
_FIRST_REST_S, _MOST_REST_S = 0.5, 10.0
_CORPUS = 2_000  # replies of which a corpus score is asked for in one request; of more, it is put together
_AGAIN = 3  # times that a group is asked for anew, since the server was replaced in the middle
_FORGOTTEN = 10  # times `queue`: so many replies, finished and never collected, look like a mistake


class Scorer:
    """Scores replies to the items of one frozen set, by one metric; safe in threads and after fork, and picklable.

    `cache` is "memory", a path (a file that outlives the process and is shared with others), or None. With
    `max_wait_s`, every reply has its outcome that many seconds after it was handed in, and until then it is tried
    again; without it, as often as the client's `retry` says. What happens to replies that nobody scored is
    `on_unavailable`: `raise` the error, `skip` them (None), or take the `last` value of the same item, which is for
    curves that are looked at and never for training: all of it is counted. With the latter two, a server that did not
    answer is left alone for half a second, later for up to ten, and what is sent for meanwhile has its outcome at once,
    so that not every step waits as long as the first. `queue` is how many replies may wait;
    with more, submit waits for room (`on_full="block"`), raises, or drops them.
    """

    def __init__(
        self,
        to: Connecting,
        *,
        reference_set: str,
        metric: Optional[str] = "upsilon-bleu",
        cache: Union[str, os.PathLike[str], None] = "memory",
        on_unavailable: OnUnavailable = "raise",
        max_wait_s: Optional[float] = None,
        batch: int = 512,
        queue: int = 10_000,
        on_full: OnFull = "block",
        at_once: int = 2,
        purpose: Optional[str] = None,
        language: Optional[str] = None,
        percent: bool = False,
        cache_entries: int = 100_000,
        cache_mib: float = 256,
        exit_wait_s: float = 5.0,
        http: Optional[httpx.Client] = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "to", "http", "__class__")}
        require_settings(given)
        self._to, self._given, self._http = to, given, http
        self.reference_set: str = reference_set
        self.metric: Optional[str] = metric
        self.language: Optional[str] = language
        self.percent: bool = percent
        self.on_unavailable: OnUnavailable = on_unavailable
        self.max_wait_s: Optional[float] = max_wait_s
        self.on_full: OnFull = on_full
        self._batch, self._queue_size, self._at_once, self._exit_wait_s = batch, queue, at_once, exit_wait_s
        self._purpose = purpose
        self._cache = cache_of(cache, cache_entries, cache_mib)
        self._has_file = isinstance(self._cache, Both)
        self._last: Recent[str] = Recent(cache_entries)
        self._last_corpus: Recent[bytes] = Recent(1_000)
        self._facts: Optional[Facts] = None
        self.signatures: list[str] = []
        self._closed = False
        self._line = self._new_line()
        self._told: Any = None
        self._begin_empty()
        _ALIVE.add(self)

    def _new_line(self) -> Line:
        return Line(patient(self._to, self.max_wait_s), self._sent_again, self._http)

    def _begin_empty(self) -> None:
        """No replies, no threads: at first, and in a process that was forked."""
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._changed = threading.Condition(self._lock)
        self._queue = Queue(self._batch, self.max_wait_s)
        self._uncollected: dict[int, Pending] = {}
        self._unfinished: dict[int, Pending] = {}
        self._forgotten = 0  # replies among the uncollected that are finished
        self._threads: set[threading.Thread] = set()
        self._idle = self._gathering = self._submits = 0
        self._tally = dict.fromkeys(Counts.__dataclass_fields__, 0)
        if self._told is not None:
            self._told.detach()  # the parent says what it has counted
        self._told = weakref.finalize(self, _tell, self._name, self._tally)  # of one that nobody closes, too
        self._told.atexit = False  # those that are there then are closed
        self._rest_s = self._rest_until = 0.0
        self._waiting = 0  # replies without an outcome
        self._warned = False

    # ── handing in ────────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, replies: Iterable[Optional[str]], items: Iterable[str]) -> list[Optional[float]]:
        """The scores of these replies, in order; `items` are the ids of what they reply to, one for each.

        None where the server has no score for a reply, or where it was skipped.
        """
        pending = self._submitted(replies, items, None, on_full="block", listed=False)
        try:
            return pending.result()
        finally:
            if not pending.done():  # Ctrl-C: nobody will ask for it any more
                self._abandon([pending], errors.Usage("the call was interrupted"))

    def submit(self, replies: Iterable[Optional[str]], items: Iterable[str], tag: Any = None) -> Pending:
        """Hand replies in and go on; the network is never waited for, only room in the queue when it is full.

        What is submitted should be collected: by `collect()`, `drain()`, or the pending's own `result()`.
        """
        return self._submitted(replies, items, tag, on_full=self.on_full, listed=True)

    def _submitted(
        self, replies: Iterable[Optional[str]], items: Iterable[str], tag: Any, *, on_full: OnFull, listed: bool
    ) -> Pending:
        texts, ids = checked(replies, items)
        deadline = None if self.max_wait_s is None else time.monotonic() + self.max_wait_s
        with self._lock:
            self._require_open()
            self._submits += 1
            pending = Pending(self, texts, ids, tag, deadline, self._submits)
            has_room = self._has_room(pending, on_full)
            self._tally["submitted"] += len(ids)
            self._waiting += len(ids)
            if listed:
                self._uncollected[pending._number] = pending
            self._unfinished[pending._number] = pending
            if None in texts:
                nothing = (((pending, place), None) for place, text in enumerate(texts) if text is None)
                self._settle(nothing, "no-reply")
            if has_room:
                self._enqueue(pending)
            elif on_full == "drop":
                self._settle((((pending, place), None) for place in range(len(ids))), "dropped")
            else:
                self._expire(pending)
        return pending

    def _has_room(self, pending: Pending, on_full: OnFull) -> bool:
        """Whether it fits, waiting for that where it is to; more than the whole queue fits when nothing waits."""
        while self._waiting and len(pending) and self._waiting + len(pending) > self._queue_size:
            if on_full == "raise":
                raise errors.QueueFull(
                    f"{self._waiting:,} replies wait, and {len(pending):,} more than {self._queue_size:,} do not fit",
                    remedy='queue=… for more, or on_full="block" or "drop"',
                )
            self._hurry()
            if on_full == "drop" or not self._wait_a_little(pending._deadline):
                return False
            self._require_open()
        return True

    def _enqueue(self, pending: Pending) -> None:
        if pending._missing:
            self._queue.add(pending)
            self._call_thread()
        elif not len(pending):
            self._finish(pending)

    def _require_open(self) -> None:
        if self._closed:
            raise errors.Usage("this scorer is closed", remedy="a new one: client.scorer(…)")

    # ── collecting ────────────────────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> Iterator[Pending]:
        """What is finished, in the order of submission, each once; ends at the first that is not, without waiting."""
        while True:
            with self._lock:
                pending = next(iter(self._uncollected.values()), None)
                if pending is None or not self._finished(pending):
                    return
                self._taken(pending)  # by us alone: the lock is held since it was found
            yield pending

    def drain(self, timeout_s: Optional[float] = None) -> list[Pending]:
        """All that was submitted and not collected yet, when it is finished; TimedOut if that takes longer."""
        with self._lock:
            waited = list(self._uncollected.values())
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        for pending in waited:
            self._wait(pending, None if ends is None else max(0.0, ends - time.monotonic()))
        with self._lock:
            return [pending for pending in waited if self._taken(pending)]

    def _wait(self, pending: Pending, timeout_s: Optional[float]) -> None:
        """Until every reply has its outcome; those whose time is over get it here."""
        if pending._missing == 0:
            return
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            self._hurry()
            while not self._finished(pending):
                limits = [one for one in (ends, pending._deadline) if one is not None]
                if not self._wait_a_little(min(limits, default=None)) and ends is not None and time.monotonic() >= ends:
                    if self._finished(pending):
                        return
                    raise errors.TimedOut(
                        f"{pending._missing:,} of {len(pending):,} replies have no outcome within {timeout_s:g} s",
                        remedy="ask again later, or max_wait_s=… to end the waiting for good",
                    )

    def _wait_a_little(self, until: Optional[float]) -> bool:
        """Wait for a change; False when the time is over. The lock is held before and after."""
        left = _LOOK_S if until is None else until - time.monotonic()
        if left <= 0:
            return False
        self._changed.wait(min(left, _LOOK_S))
        if self._queue and not self._threads:
            self._call_thread()
        return True

    def _finished(self, pending: Pending) -> bool:
        if pending._missing and pending._pid != os.getpid():
            raise errors.Usage(
                "these replies were submitted in another process, which alone learns their scores",
                remedy="submit in the process that collects",
            )
        if pending._missing and pending._deadline is not None and time.monotonic() >= pending._deadline:
            self._expire(pending)
        return pending._missing == 0

    def _look(self, pending: Pending) -> bool:
        with self._lock:
            return self._finished(pending)

    def _collected(self, pending: Pending) -> None:
        with self._lock:
            self._taken(pending)

    def _taken(self, pending: Pending) -> bool:
        """Nobody is handed it again; False where somebody has been handed it already, in another thread perhaps."""
        if self._uncollected.pop(pending._number, None) is None:
            return False
        self._forgotten -= len(pending)
        return True

    def _when_done(self, pending: Pending, tell: Any) -> None:
        with self._lock:
            if pending._missing:
                pending._then.append(tell)
                self._hurry()
                return
        tell()

    # ── what became of replies (with the lock held) ───────────────────────────────────────────────────────────────

    def _settle(self, outcomes: Iterable[tuple[Place, Optional[float]]], source: Source) -> None:
        """Give replies their outcome; whatever has one keeps it."""
        settled = scored = 0
        for (pending, place), score in outcomes:
            if pending._sources[place] is None:
                pending._sources[place], pending._scores[place] = source, score
                pending._missing -= 1
                settled += 1
                scored += score is not None
                if pending._missing == 0:
                    self._finish(pending)
        self._waiting -= settled
        if source in ("server", "cache", "no-reply"):
            self._tally["scored"] += scored
            self._tally["unscored"] += settled - scored
            self._tally["from_cache"] += settled if source == "cache" else 0
        else:
            self._tally[source] += settled

    def _finish(self, pending: Pending) -> None:
        self._unfinished.pop(pending._number, None)
        pending._replies = []
        if pending._number in self._uncollected:
            self._forgotten += len(pending)
        for tell in pending._then:
            tell()
        pending._then = []
        self._changed.notify_all()
        if self._forgotten > _FORGOTTEN * self._queue_size and not self._warned:
            self._warned = True
            logger.warning("%d replies have scores that nobody collects: scorer.collect()", self._forgotten)

    def _fail(self, places: Iterable[Place], error: errors.RefaugError) -> None:
        for pending, place in places:
            if pending._sources[place] is None and pending._error is None:
                pending._error = error
            self._settle([((pending, place), None)], "failed")

    def _unanswered(self, wanted: Mapping[Text, Sequence[Place]], error: errors.RefaugError) -> None:
        """Nobody scored these in time: they are what `on_unavailable` says."""
        if self.on_unavailable == "raise":
            for places in wanted.values():
                self._fail(places, error)
            return
        last = self._last.get(item for item, _ in wanted) if self.on_unavailable == "last" else {}
        for (item, _), places in wanted.items():
            score = last.get(item)
            self._settle([(place, score) for place in places], "last" if item in last else "skipped")

    def _expire(self, pending: Pending) -> None:
        wanted = _wanted([(pending, range(len(pending)))])
        self._unanswered(wanted, errors.TimedOut(f"no score within max_wait_s={self.max_wait_s:g} s"))

    def _abandon(self, some: Iterable[Pending], error: errors.RefaugError) -> None:
        with self._lock:
            for pending in some:
                self._fail([(pending, place) for place in range(len(pending))], error)

    # ── threads ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _call_thread(self) -> None:
        """See to it that somebody takes what is in the queue; the lock is held."""
        if self._gathering and self._queue.due_in():
            return
        if self._idle or self._gathering:
            self._work.notify()
            return
        if len(self._threads) >= self._at_once:
            return
        thread = threading.Thread(target=self._run, name=f"refaug-scorer-{len(self._threads) + 1}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter ends, or there are too many
            self._threads.discard(thread)
            if not self._threads:
                failed = errors.RefaugError(f"no thread could be started to score them: {error}")
                while self._queue:
                    self._fail(self._queue.next().places(), failed)

    def _hurry(self) -> None:
        """Somebody waits for what is in the queue."""
        if self._queue.hurry() and self._queue.under_way:
            self._call_thread()

    def _run(self) -> None:
        while pieces := self._take():
            try:
                self._score(pieces)
            except Exception as error:  # noqa: BLE001  none may be lost
                failed = error if isinstance(error, errors.RefaugError) else _unexpected(error)
                with self._lock:
                    for piece in pieces:
                        self._fail(piece.places(), failed)
            finally:
                with self._lock:
                    self._queue.under_way -= 1

    def _take(self) -> list[Piece]:
        """What goes into the next request: what waits, up to a batch; nothing when the thread is to end."""
        me = threading.current_thread()
        with self._lock:
            while True:
                while self._queue and (gather_s := self._queue.due_in()):
                    self._gathering += 1
                    self._work.wait(gather_s)
                    self._gathering -= 1
                if taken := self._group():
                    self._queue.under_way += 1
                    if self._queue:
                        self._call_thread()
                    return taken
                self._idle += 1
                was_called = not self._closed and self._work.wait(_IDLE_S)
                self._idle -= 1
                if not self._queue and (self._closed or not was_called):
                    self._threads.discard(me)
                    return []

    def _group(self) -> list[Piece]:
        """What waits, up to a batch, without that whose time is over."""
        taken: list[Piece] = []
        size = 0
        while self._queue.fits(size):
            piece = self._queue.next()
            if not self._finished(piece.pending):
                taken.append(piece)
                size += piece.size
        return taken

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _score(self, pieces: Sequence[Piece]) -> None:
        """Find out the scores of a group, and give them to those that wait."""
        with self._lock:
            wanted = _wanted((piece.pending, range(piece.first, piece.end)) for piece in pieces)
        wanted = self._without_halves(wanted)
        deadline = _latest(piece.pending._deadline for piece in pieces)
        for _ in range(_AGAIN):
            if not wanted or self._try(wanted, deadline):
                return
        with self._lock:
            self._unanswered(wanted, errors.BadAnswer("the server scores by another signature each time it is asked"))

    def _try(self, wanted: dict[Text, list[Place]], deadline: Optional[float]) -> bool:
        """Score them all by one signature; False where the server was replaced meanwhile, and nothing is settled."""
        facts = self._facts
        try:
            if facts is None and self._has_file:
                facts = self._learn(deadline)
        except errors.RefaugError as error:
            self._refused(wanted, error)
            return True
        keys = {} if facts is None else self._keys(wanted, facts)
        known = {} if self._cache is None else self._cache.get(keys.values())
        found = {text: known[key] for text, key in keys.items() if key in known} if known else {}
        missing = {text: places for text, places in wanted.items() if text not in found} if found else wanted
        answers = self._asked(missing, deadline, facts, keys) if missing else []
        if answers is None:
            return False
        with self._lock:
            if facts is not None:
                self._give(wanted, found, facts, "cache")
            for scores, facts in answers:
                self._give(wanted, scores, facts, "server")
        return True

    def _keys(self, texts: Iterable[Text], facts: Facts) -> dict[Text, bytes]:
        """What scores are called in the cache."""
        return {} if self._cache is None else {text: key_of(facts.space, *text) for text in texts}

    def _give(
        self,
        wanted: Mapping[Text, Sequence[Place]],
        scores: Mapping[Text, Optional[float]],
        facts: Facts,
        source: Source,
    ) -> None:
        outcomes = [(place, score) for text, score in scores.items() for place in wanted[text]]
        for pending in {place[0] for place, _ in outcomes}:
            if facts.signature not in pending._signatures:
                pending._signatures.append(facts.signature)
        self._settle(outcomes, source)
        if self.on_unavailable == "last":
            self._last.put({item: score for (item, _), score in scores.items() if score is not None})

    def _asked(
        self,
        missing: dict[Text, list[Place]],
        deadline: Optional[float],
        facts: Optional[Facts],
        keys: Mapping[Text, bytes],
    ) -> Optional[list[tuple[Mapping[Text, Optional[float]], Facts]]]:
        """What the server says of them; what it refuses is settled here. None: it scores by another signature now."""
        waiting = deque([missing])
        given: list[tuple[Mapping[Text, Optional[float]], Facts]] = []
        while waiting:
            asked = waiting.popleft()
            try:
                answer = self._send(list(asked), deadline)
            except errors.RefaugError as error:
                parts, refused = _taken_apart(asked, error)
                waiting.extendleft(reversed(parts))
                if refused:
                    self._refused(refused, error)
                continue
            if facts is not None and answer.facts.space != facts.space:
                return None
            facts = answer.facts
            scores = dict(zip(asked, answer.values))
            if answer.unknown:
                self._unknown(asked, scores, answer.unknown)
            if self._cache is not None:
                keys = keys or self._keys(missing, facts)
                self._cache.put({keys[text]: score for text, score in scores.items()})
            given.append((scores, facts))
        return given

    def _unknown(
        self,
        asked: Mapping[Text, Sequence[Place]],
        scores: dict[Text, Optional[float]],
        unknown: Mapping[int, errors.RefaugError],
    ) -> None:
        """Items that the set does not have: their replies fail, and no others."""
        texts = list(asked)
        with self._lock:
            for place, error in unknown.items():
                scores.pop(texts[place], None)
                self._fail(asked[texts[place]], error)

    def _send(self, texts: Sequence[Text], deadline: Optional[float]) -> Answered:
        """One request; while the server is known to be away, none, unless an error is what is wanted."""
        now = time.monotonic()
        with self._lock:
            if now < self._rest_until:
                raise errors.TimedOut("not asked for, since the server did not answer just before")
            self._tally["requests"] += 1
            self._tally["sent"] += len(texts)
        answer = self._line.send(self._call(texts), within_s=None if deadline is None else deadline - now)
        self._noted(answer.facts)
        return answer

    def _call(self, texts: Sequence[Text]) -> Call[Answered]:
        body = {
            **self._asking(),
            "items": [item for item, _ in texts],
            "replies": {SYSTEM: [text for _, text in texts]},
        }
        count = len(texts)
        return Call(
            "POST", self._path(), lambda answer: Answered.of(answer, self._asking(), count), body=body, timed=True
        )

    def _asking(self) -> dict[str, Any]:
        more: dict[str, Any] = {"on_error": "report", "return": "values"}
        if self.metric is not None:
            more["metrics"] = [self.metric]
        if self.language is not None:
            more["language"] = self.language
        return {**more, "percent": True} if self.percent else more

    def _path(self) -> str:
        return path("v1", "reference-sets", self.reference_set if self._facts is None else self._facts.set, "scores")

    def _noted(self, facts: Facts) -> None:
        """Remember what scores are made of; WrongPurpose where the set is for something else."""
        self._require_purpose(facts)  # at first: what is remembered is what scores are taken out of the cache by
        with self._lock:
            before, self._facts = self._facts, facts
            self._rest_s = self._rest_until = 0.0
            if facts.signature not in self.signatures:
                self.signatures.append(facts.signature)
            has_changed = before is not None and before.space != facts.space
            if has_changed:  # what was the last value means something else now
                self._last, self._last_corpus = self._last.emptied(), self._last_corpus.emptied()
            self._tally["signature_changes"] += has_changed
        if before is not None and has_changed:
            logger.warning("scores change their meaning: %s now, %s before", facts.full, before.full)

    def _require_purpose(self, facts: Facts) -> None:
        if self._purpose is not None and facts.purpose != self._purpose:
            raise errors.WrongPurpose(
                f"the set {facts.set} is for {facts.purpose}, not {self._purpose}",
                remedy="another set, or another purpose=…",
            )
        if self.on_unavailable == "last" and facts.purpose == "train":
            raise errors.WrongPurpose(
                f"the set {facts.set} is for training, and values of earlier replies would be trained on",
                remedy='on_unavailable="skip", or a set for validation',
            )

    def _refused(self, wanted: Mapping[Text, Sequence[Place]], error: errors.RefaugError) -> None:
        """There are no scores for these, for this reason."""
        with self._lock:
            if not is_unavailable(error):
                for places in wanted.values():
                    self._fail(places, error)
                return
            now = time.monotonic()
            if self.on_unavailable != "raise" and now >= self._rest_until:
                self._rest_s = min(max(2 * self._rest_s, _FIRST_REST_S), _MOST_REST_S)
                self._rest_until = now + self._rest_s
            self._unanswered(wanted, error)

    def _without_halves(self, wanted: dict[Text, list[Place]]) -> dict[Text, list[Place]]:
        """Without texts that cannot be sent at all: half a surrogate pair is no character."""
        if _is_sound("".join(map("".join, wanted))):
            return wanted
        sound = {text: places for text, places in wanted.items() if _is_sound(text[0]) and _is_sound(text[1])}
        error = errors.Usage("half a surrogate pair in a text", remedy="text that can be written as UTF-8")
        with self._lock:
            for text, places in wanted.items():
                if text not in sound:
                    self._fail(places, error)
        return sound

    def _sent_again(self) -> None:
        with self._lock:
            self._tally["retries"] += 1

    # ── what is known ─────────────────────────────────────────────────────────────────────────────────────────────

    def _learn(self, deadline: Optional[float] = None) -> Facts:
        """Ask what scores are made of, without any reply."""
        body = {**self._asking(), "items": [""], "replies": {SYSTEM: [None]}}
        call = Call(
            "POST", self._path(), lambda answer: Answered.of(answer, self._asking(), 1).facts, body=body, timed=True
        )
        facts = self._line.send(call, within_s=None if deadline is None else max(0.0, deadline - time.monotonic()))
        self._noted(facts)
        return facts

    @property
    def facts(self) -> Facts:
        """Which set it is, what for, and how scores against it are signed; the server is asked once."""
        if self._facts is None:
            self._require_open()
            return self._learn()
        return self._facts

    @property
    def signature(self) -> str:
        """The line that belongs beside every score."""
        return self.facts.signature

    @property
    def set_purpose(self) -> str:
        """What the set is there for: train, validation or test."""
        return self.facts.purpose

    @property
    def counts(self) -> Counts:
        """What became of all replies so far."""
        with self._lock:
            return Counts(**self._tally)

    @property
    def report(self) -> str:
        """The same in a line."""
        return f"{self._name}: {self.counts}"

    @property
    def _name(self) -> str:
        return f"{self.metric or 'scores'} against {self.reference_set}"

    def __repr__(self) -> str:
        return f"<Scorer {self.report}>"

    # ── corpus scores ─────────────────────────────────────────────────────────────────────────────────────────────

    def corpus(self, replies: Iterable[Optional[str]], items: Iterable[str]) -> Optional[float]:
        """The corpus score of these replies, which is no mean of theirs; exact, however many they are.

        None where none of them has a score, and where nobody answered and that is to be skipped.
        """
        texts, ids = checked(replies, items)
        if not ids:
            return None
        self._require_open()
        name = blake2b("\0".join(ids).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        ends = None if self.max_wait_s is None else time.monotonic() + self.max_wait_s
        try:
            score = self._corpus(texts, ids, ends)
        except errors.RefaugError as error:
            if self.on_unavailable == "raise" or not is_unavailable(error):
                raise
            last = self._last_corpus.get([name]) if self.on_unavailable == "last" else {}
            with self._lock:
                self._tally["corpora_last" if last else "corpora_skipped"] += 1
            return last.get(name)
        self._last_corpus.put({name: score})
        with self._lock:
            self._tally["corpora"] += 1
        return score

    def _corpus(self, texts: Sequence[Optional[str]], ids: Sequence[str], ends: Optional[float]) -> Optional[float]:
        size, asking = _CORPUS, self._asking()
        while True:
            try:
                if len(ids) <= size:
                    read = partial(Answered.of, asking=asking, count=len(ids))
                    answered = self._sent(self._corpus_call(asking, texts, ids, read), ends)
                    answered.require_known()
                    self._noted(answered.facts)
                    return answered.corpus
                batches = self._summed(texts, ids, size, ends)
            except (errors.BadInput, errors.BadAnswer) as error:
                if not is_too_large(error) or size == 1:
                    raise
                size = max(1, min(size, len(ids)) // 2)
            else:
                return self._combined(batches, ends)

    def _summed(
        self, texts: Sequence[Optional[str]], ids: Sequence[str], size: int, ends: Optional[float]
    ) -> list[dict[str, Any]]:
        """The sums that a corpus score is made of, of so many replies a request."""
        asking = {key: value for key, value in self._asking().items() if key != "percent"}
        if self._facts is None:
            self._learn(ends)  # sums do not say what the set is for
        asking["return"] = "stats"
        batches = []
        for at in range(0, len(ids), size):
            some = ids[at : at + size]
            call = self._corpus_call(asking, texts[at : at + size], some, partial(_sums_of, count=len(some)))
            batch, problems = self._sent(call, ends)
            require_known(problems)
            batches.append(batch)
        return batches

    def _combined(self, batches: Sequence[dict[str, Any]], ends: Optional[float]) -> Optional[float]:
        """Sums of several requests, added by the server as if all had been one."""
        if all(row is None for batch in batches for row in batch["stats"][0]["systems"][SYSTEM]["rows"]):
            return None
        call = Call("POST", "/v1/scores/combine", _corpus_of, body={"batches": batches}, timed=True)
        try:
            corpus = self._sent(call, ends)
        except errors.RefaugError as error:
            if is_too_large(error):  # smaller requests for sums would not make them fewer
                error.remedy = "fewer replies at once, or a server that takes larger bodies"
            raise
        return corpus * 100.0 if self.percent and corpus is not None else corpus

    def _corpus_call(
        self,
        asking: Mapping[str, Any],
        texts: Sequence[Optional[str]],
        ids: Sequence[str],
        read: Callable[[Answer], T],
    ) -> Call[T]:
        return Call("POST", self._path(), read, body={**asking, "items": ids, "replies": {SYSTEM: texts}}, timed=True)

    def _sent(self, call: Call[T], ends: Optional[float]) -> T:
        with self._lock:
            self._tally["requests"] += 1
        return self._line.send(call, within_s=None if ends is None else ends - time.monotonic())

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self, wait_s: Optional[float] = None) -> None:
        """Wait for what is on its way, at most `wait_s` (else `exit_wait_s`); what is left fails; end the threads.

        Scores that are there can still be collected. Where replies were skipped, repeated or dropped, that is said.
        """
        ends = time.monotonic() + (self._exit_wait_s if wait_s is None else wait_s)
        try:
            with self._lock:
                if self._closed:
                    return
                self._closed = True
                self._hurry()
                while self._unfinished and self._wait_a_little(ends):
                    pass
        finally:  # Ctrl-C ends the waiting, and everything else still has to end
            self._end()
        if self._told.detach() is not None:  # at exit, it would do nothing any more
            _tell(self._name, self._tally)

    def _end(self) -> None:
        with self._lock:
            left, threads = list(self._unfinished.values()), list(self._threads)
            self._queue.clear()
            self._work.notify_all()
        self._abandon(left, errors.Usage("the scorer was closed before this reply was scored"))
        self._line.close()
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
        """In a child: begin empty, with threads and connections of its own; what was submitted is the parent's."""
        self._begin_empty()
        if self._http is None:  # one that was handed in says itself that it is of no use here
            self._line = self._new_line()

    def __reduce__(self) -> Any:
        if self._http is not None:
            raise errors.Usage(
                "a scorer of a client with an httpx client that was handed in cannot be pickled",
                remedy="make both in the worker, or let the client make its own connections",
            )
        return _again, (self._to, self._given)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _sums_of(answer: Answer, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The sums in an answer, as they are sent back to be added, and its problems."""
    found = _sums(answer)
    problems = list(found["problems"])
    if not problems and len(found["stats"][0]["systems"][SYSTEM]["rows"]) != count:
        raise ValueError(f"sums of {count} replies are expected")
    batch: dict[str, Any] = {key: found[key] for key in ("data", "set") if key in found}
    batch["stats"] = [_only_sums(sheet) for sheet in found["stats"]]
    return batch, problems


def _corpus_of(answer: Answer) -> Optional[float]:
    """The corpus score in an answer."""
    corpus = answer.json()["scores"][0]["systems"][SYSTEM]["corpus"]
    if corpus is None:
        return None
    if type(corpus) not in (float, int) or not math.isfinite(corpus):
        raise ValueError("a finite number or null is expected")
    return float(corpus)


def _taken_apart(
    asked: dict[Text, list[Place]], error: errors.RefaugError
) -> tuple[list[dict[Text, list[Place]]], dict[Text, list[Place]]]:
    """What of a refused request is worth sending again, in parts; and what is refused for good."""
    texts = list(asked)
    if is_too_large(error) and len(texts) > 1:
        half = len(texts) // 2
        return [{text: asked[text] for text in some} for some in (texts[:half], texts[half:])], {}
    if not isinstance(error, errors.BadInput) or len(texts) == 1:
        return [], asked
    named = {one.get("place") for one in error.errors}
    if named and all(type(place) is int and 0 <= place < len(texts) for place in named):
        good = {text: asked[text] for place, text in enumerate(texts) if place not in named}
        return [good] if good else [], {text: asked[text] for text in texts if text not in good}
    whose: dict[int, dict[Text, list[Place]]] = {}
    for text in texts:
        whose.setdefault(asked[text][0][0]._number, {})[text] = asked[text]
    return (list(whose.values()), {}) if len(whose) > 1 else ([], asked)


def _wanted(some: Iterable[tuple[Pending, Iterable[int]]]) -> dict[Text, list[Place]]:
    """Replies of submits without an outcome, each text once; the lock is held."""
    wanted: dict[Text, list[Place]] = {}
    for pending, places in some:
        if pending._missing:
            items, replies, sources = pending._items, pending._replies, pending._sources
            for place in places:
                if sources[place] is None:
                    wanted.setdefault((items[place], replies[place] or ""), []).append((pending, place))
    return wanted


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _latest(deadlines: Iterable[Optional[float]]) -> Optional[float]:
    found = list(deadlines)
    return None if None in found else max(one for one in found if one is not None)


def _unexpected(error: Exception) -> errors.RefaugError:
    found = errors.RefaugError(f"{type(error).__name__} while they were scored: {error}")
    found.__cause__ = error
    return found


def _again(to: Connecting, given: Mapping[str, Any]) -> Scorer:
    return Scorer(to, **given)


def _tell(name: str, tally: Mapping[str, int]) -> None:
    """Say that not every score is the server's, where that is so."""
    counts = Counts(**tally)
    if counts.skipped or counts.last or counts.dropped or counts.corpora_skipped or counts.corpora_last:
        sys.stderr.write(f"refaug: {name}: {counts}\n")


_ALIVE: weakref.WeakSet[Scorer] = weakref.WeakSet()


def _after_fork() -> None:
    for scorer in list(_ALIVE):
        scorer.forked()


def _at_exit() -> None:
    """What is on its way may come in, unless the program was interrupted or failed."""
    failed = getattr(sys, "last_type", None) is not None
    for scorer in list(_ALIVE):
        scorer.close(0.0 if failed else None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
