"""The client of asyncio: every route of the API, by name. `_client.py` is made of this file by unasync.py."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Literal, Optional, TypeVar, Union

import httpx

from . import _calls as calls
from . import _models as models
from ._async_jobs import async_events, async_wait
from ._async_large import AsyncStream, as_it_is, async_answered
from ._batches import AT_ONCE, BATCH, ROWS, AsyncInput
from ._call import Call
from ._calls import SYSTEM
from ._connection import AsyncConnection
from ._errors import NoAnswer
from ._extras import AsyncExtras
from ._files import place_of, written_aside
from ._gathered import EachRating, EachReference, EachScore, LargeRatings, LargeReferences, LargeScores, LargeSetScores
from ._items import Dialogues, From, Items, Metrics, OnError, Purpose, Replies
from ._pausing import async_paused
from ._progress import Progress
from ._retry import Retry
from ._scored import ScoredItem
from ._settings import Connecting
from ._sse import Event

T = TypeVar("T")
C = TypeVar("C", bound="AsyncClient")


class AsyncClient(AsyncExtras):
    """A server of refaug.

        async with AsyncClient("http://127.0.0.1:8000") as refaug:
            scores = await refaug.score(items, metric="upsilon-bleu")
        scores.corpus, scores.replies, scores.signature

    Address and key are read from REFAUG_URL and REFAUG_KEY where they are not given. Every request has `timeout_s` for
    one try; what fails in passing is tried again as `retry` says (a number: so many further tries). Connections are
    made when they are needed, used again, and ended by `close()` or at the end of the block.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        key: Optional[str] = None,
        timeout_s: float = 60.0,
        retry: Union[Retry, int, None] = None,
        connections: int = 8,
        uds: Optional[str] = None,
        verify: Union[bool, str] = True,
        headers: Optional[Mapping[str, str]] = None,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        to = Connecting.of(
            url,
            key=key,
            retry=retry,
            timeout_s=timeout_s,
            connections=connections,
            uds=uds,
            verify=verify,
            headers=headers or {},
        )
        self._over(AsyncConnection(to, http))

    def _over(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.sets: AsyncSets = AsyncSets(connection)
        self.logs: AsyncLogs = AsyncLogs(connection)
        self.indexes: AsyncIndexes = AsyncIndexes(connection)
        self.raters: AsyncRaters = AsyncRaters(connection)
        self.jobs: AsyncJobs = AsyncJobs(connection)
        self.schedules: AsyncSchedules = AsyncSchedules(connection)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._connection.to.url

    # ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def references(
        self,
        items: Items,
        *,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.References:
        """Weighted references for items, each with where it comes from.

            found = await client.references([{"utterance": "Where do you buy tea?", "references": ["At the market."]}])
            found[0].references[0].text

        More than `batch` items go in several requests, `at_once` at a time; what comes is as if it had been one.
        `progress=True` shows how far it is, a function is called with how many are done and of how many.
        """
        call = calls.references(items, index=index, rater=rater, settings=settings, on_error=on_error)
        return await async_answered(
            self._connection,
            call,
            LargeReferences,
            (call.body or {})["items"],
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    async def score(
        self,
        items: Items,
        *,
        replies: Optional[Replies] = None,
        system: str = SYSTEM,
        metric: Optional[str] = None,
        metrics: Metrics = None,
        references: Optional[From] = None,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        ruber: Optional[str] = None,
        sample: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        explain: bool = False,
        percent: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        return_: Optional[Literal["scores", "stats"]] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Scores:
        """Scores of replies: of those in the items, or of `replies`, one for each item (of one system, or by system).

            scores = await client.score(items, replies=["In the shop next door.", "At noon."], metric="upsilon-bleu")
            scores.corpus, scores.replies, scores.signature

        More than `batch` items go in several requests, `at_once` at a time; what comes is as if it had been one.
        `progress=True` shows how far it is, a function is called with how many are done and of how many.
        """
        call = calls.score(
            items,
            replies=replies,
            system=system,
            metric=metric,
            metrics=metrics,
            references=references,
            index=index,
            rater=rater,
            ruber=ruber,
            sample=sample,
            settings=settings,
            draws=draws,
            confidence=confidence,
            seed=seed,
            baseline=baseline,
            explain=explain,
            percent=percent,
            language=language,
            on_error=on_error,
            return_=return_,
        )
        return await async_answered(
            self._connection,
            call,
            LargeScores,
            (call.body or {})["items"],
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    async def combine(
        self,
        batches: Iterable[Any],
        *,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Scores:
        """Corpus scores of several batches, as if all had been scored at once.

        Batches are what `score` and `sets.score` give with `return_="stats"`, all by the same metrics.
        """
        call = calls.combine(batches, draws=draws, confidence=confidence, seed=seed, baseline=baseline)
        return await self._connection.send(call, timeout_s=timeout_s)

    async def rate(
        self,
        pairs: Items,
        *,
        rater: Optional[str] = None,
        combine: Optional[str] = None,
        calibrated: bool = False,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Ratings:
        """What a rater thinks of candidates, from -1 to 1.

            pair = {"utterance": "Where do you buy tea?", "golds": ["At the market."], "candidates": ["In the shop."]}
            (await client.rate([pair])).ratings

        More than `batch` pairs go in several requests, `at_once` at a time; what comes is as if it had been one.
        `progress=True` shows how far it is, a function is called with how many are done and of how many.
        """
        call = calls.rate(pairs, rater=rater, combine=combine, calibrated=calibrated)
        return await async_answered(
            self._connection,
            call,
            LargeRatings,
            (call.body or {})["pairs"],
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    # ── one by one ────────────────────────────────────────────────────────────────────────────────────────────────

    def references_iter(
        self,
        items: AsyncInput[Any],
        *,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> AsyncStream[models.ReferencedItem]:
        """Items with their references as they come, in the order of the input, which may have no end.

        The input is read while the results are: at most `at_once` + 1 batches ahead of them. Leaving the loop ends the
        sending; an error comes after all that came before it.

            async for item in client.references_iter(json.loads(line) for line in open("items.jsonl")):
                print(item.id, len(item.references))
        """
        call = calls.references([], index=index, rater=rater, settings=settings, on_error=on_error)
        return AsyncStream(
            self._connection,
            EachReference(call),
            items,
            models.ReferencedItem.of,
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    def score_iter(
        self,
        items: AsyncInput[Any],
        *,
        metric: Optional[str] = None,
        metrics: Metrics = None,
        references: Optional[From] = None,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        ruber: Optional[str] = None,
        sample: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        explain: bool = False,
        percent: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> AsyncStream[ScoredItem]:
        """The scores of each item's replies as they come, as `references_iter` gives references; no corpus score.

        A metric that looks at all items at once, such as cider, cannot be had so.

            async for item in client.score_iter(items, metric="upsilon-bleu"):
                print(item.id, item.score)
        """
        call = calls.score(
            [],
            metric=metric,
            metrics=metrics,
            references=references,
            index=index,
            rater=rater,
            ruber=ruber,
            sample=sample,
            settings=settings,
            explain=explain,
            percent=percent,
            language=language,
            on_error=on_error,
        )
        return AsyncStream(
            self._connection,
            EachScore(call),
            items,
            ScoredItem.of,
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    def rate_iter(
        self,
        pairs: AsyncInput[Any],
        *,
        rater: Optional[str] = None,
        combine: Optional[str] = None,
        calibrated: bool = False,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> AsyncStream[list[float]]:
        """For each pair the ratings of its candidates as they come, as `references_iter` gives references."""
        call = calls.rate([], rater=rater, combine=combine, calibrated=calibrated)
        return AsyncStream(
            self._connection,
            EachRating(call),
            pairs,
            as_it_is,
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    # ── the server ────────────────────────────────────────────────────────────────────────────────────────────────

    async def metrics(self, *, timeout_s: Optional[float] = None) -> models.Rows[models.MetricInfo]:
        """The metrics that can be asked for: what each needs, its range, its parameters."""
        return await self._connection.send(calls.metrics(), timeout_s=timeout_s)

    # ── health ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def health(self, *, timeout_s: Optional[float] = None) -> models.Health:
        """That the server lives, and its version."""
        return await self._connection.send(calls.health(), timeout_s=timeout_s)

    async def ready(self, *, timeout_s: Optional[float] = None) -> models.Ready:
        """Whether it answers without waiting for anything; true or false, and `missing` says for what."""
        return await self._connection.send(calls.ready(), timeout_s=timeout_s)

    async def server_metrics(self, *, timeout_s: Optional[float] = None) -> str:
        """The server's figures, in Prometheus' text format."""
        return await self._connection.send(calls.server_metrics(), timeout_s=timeout_s)

    async def explain(self, code: str, *, timeout_s: Optional[float] = None) -> models.ProblemCode:
        """What a code of problem means, such as that of an error: `await client.explain(error.code)`."""
        return await self._connection.send(calls.explain(code), timeout_s=timeout_s)

    # ── itself ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """End all scorers and connections; an httpx client that was handed in stays open."""
        await self._close_scorers()
        await self._connection.close()

    async def __aenter__(self: C) -> C:  # noqa: PYI019  Self is of 3.11
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if kind is not None:  # what is on its way is not waited for
            await self._close_scorers(0.0)
        await self.close()

    def __reduce__(self) -> Any:  # another process makes connections of its own
        return _again, (type(self), self._connection)

    def __repr__(self) -> str:
        to = self._connection.to
        return f"{type(self).__name__}({to.url!r}{f', uds={to.uds!r}' if to.uds else ''})"


def _again(kind: type[C], connection: AsyncConnection) -> C:
    made = kind.__new__(kind)
    made._over(connection)  # noqa: SLF001
    return made


class _AsyncNoun:
    """A part of the API."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _send(self, call: Call[T], timeout_s: Optional[float]) -> T:
        return await self._connection.send(call, timeout_s=timeout_s)

    async def _all(
        self,
        page: Callable[[Optional[str], int], Call[models.Rows[T]]],
        after: Optional[str],
        limit: Optional[int],
        timeout_s: Optional[float],
    ) -> models.Rows[T]:
        """The rows of as many pages as it takes."""
        found: models.Rows[T] = models.Rows([], after)
        while limit is None or len(found) < limit:
            size = calls.PAGE if limit is None else min(calls.PAGE, limit - len(found))
            further = await self._connection.send(page(found.next, size), timeout_s=timeout_s)
            found.extend(further)
            found.next = further.next
            if further.next is None:
                break
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.to.url!r})"


class AsyncSets(_AsyncNoun):
    """Frozen reference sets: scores against one keep their meaning for ever."""

    async def freeze(
        self,
        items: Items,
        *,
        purpose: Purpose,
        references: Optional[From] = None,
        index: Optional[str] = None,
        rater: Optional[str] = None,
        settings: Optional[Mapping[str, Any]] = None,
        on_error: Optional[OnError] = None,
        progress: Progress = None,
        wait_s: Optional[float] = None,
        timeout_s: Optional[float] = None,
    ) -> models.FrozenSet:
        """Freeze items with their references: found (`references="find"`), or as they are given (`"given"`).

            frozen = await client.sets.freeze(items, purpose="validation")
            await client.sets.score(frozen.id, replies)

        What a set is called follows from what is in it: the same items frozen again are the same set, and `new` is
        false. More items than the server freezes at once are frozen by a job, which is waited for, `wait_s` at most.
        """
        call = calls.freeze_set(
            items,
            purpose=purpose,
            references=references,
            index=index,
            rater=rater,
            settings=settings,
            on_error=on_error,
        )
        made = await self._send(call, timeout_s)
        if isinstance(made, models.FrozenSet):
            return made
        job = await async_wait(self._connection, made.id, progress=progress, timeout_s=wait_s)
        found = await self.get(calls.set_of(job), timeout_s=timeout_s)
        return calls.frozen_by(job, made, found)

    async def derive(
        self,
        id: str,  # noqa: A002  the wire's name
        *,
        weights: Optional[str] = None,
        parrot: Union[str, float, None] = None,
        gold: Optional[str] = None,
        k: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.FrozenSet:
        """A set of other weights, made of what another one has stored; what is left out stays as it is there."""
        return await self._send(calls.derive_set(id, weights=weights, parrot=parrot, gold=gold, k=k), timeout_s)

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.ReferenceSet:  # noqa: A002
        """How a set was made, and on what scores against it stand; of a withdrawn one, too."""
        return await self._send(calls.get_set(id), timeout_s)

    async def list(
        self,
        *,
        purpose: Optional[Purpose] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.ListedSet]:
        """Sets by id, withdrawn ones too: all of them, or the first `limit`."""
        return await self._all(
            lambda after, size: calls.list_sets(purpose=purpose, after=after, limit=size), after, limit, timeout_s
        )

    async def score(
        self,
        id: str,  # noqa: A002
        replies: Replies,
        *,
        items: Optional[Iterable[str]] = None,
        system: str = SYSTEM,
        metric: Optional[str] = None,
        metrics: Metrics = None,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        explain: bool = False,
        percent: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        return_: Optional[Literal["scores", "values", "stats"]] = None,
        batch: int = ROWS,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Scores:
        """Scores of replies to items of a set, by their ids; an id may come several times.

        Without `items` there is a reply to every item of the set, in its order. None is no reply.

            scores = await client.sets.score(frozen.id, ["At the market.", "In the shop."], items=["d1", "d1"])
            scores.replies

        More than `batch` `items` go in several requests, `at_once` at a time; what comes is as if it had been one.
        `progress=True` shows how far it is, a function is called with how many are done and of how many.
        """
        call = calls.score_set(
            id,
            replies,
            items=items,
            system=system,
            metric=metric,
            metrics=metrics,
            draws=draws,
            confidence=confidence,
            seed=seed,
            baseline=baseline,
            explain=explain,
            percent=percent,
            language=language,
            on_error=on_error,
            return_=return_,
        )
        return await async_answered(
            self._connection,
            call,
            LargeSetScores,
            (call.body or {}).get("items"),
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    async def download(
        self,
        id: str,  # noqa: A002
        *,
        to: Union[str, os.PathLike[str]],
        format: Optional[Literal["zst", "jsonl"]] = None,  # noqa: A002
        timeout_s: Optional[float] = None,
    ) -> Path:
        """A set as a file, which is there whole or not at all: where it is. `to` may be a folder.

        `format="zst"`, or without one: as it lies on the server, for `refaug sets`; `"jsonl"`: its lines, not packed.
        One that breaks off is begun anew, as often as a request is tried.
        """
        call = calls.download_set(id, format=format)
        began, tried = time.monotonic(), 0
        while True:
            tried, is_begun = tried + 1, False
            try:
                async with self._connection.stream(call, timeout_s=timeout_s) as response:
                    is_begun = True
                    found = place_of(to, response.headers, f"{id}.{'jsonl' if format == 'jsonl' else 'jsonl.zst'}")
                    with written_aside(found) as file:
                        async for piece in response.aiter_bytes():
                            file.write(piece)
            except NoAnswer as error:
                spent_s, retry = time.monotonic() - began, self._connection.to.retry
                wait = retry.pause(error, tried=tried, spent_s=spent_s, repeatable=True) if is_begun else None
                if wait is None:
                    raise
                await async_paused(self._connection, wait)
            else:
                return found

    async def withdraw(
        self,
        id: str,  # noqa: A002
        *,
        reason: str,
        instead: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Withdrawal:
        """Let nobody use a set any more; who asks for it is told why, and which one to use instead."""
        return await self._send(calls.withdraw_set(id, reason=reason, instead=instead), timeout_s)


class AsyncLogs(_AsyncNoun):
    """Logs of dialogues."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Log]:
        """Logs by name, with their sizes."""
        return await self._all(lambda after, size: calls.list_logs(after=after, limit=size), after, limit, timeout_s)

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Log:
        """What a log holds, and what was posted to it and waits for its next ingest."""
        return await self._send(calls.get_log(name), timeout_s)

    async def post(
        self, name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None, timeout_s: Optional[float] = None
    ) -> models.Posted:
        """Keep dialogues for a log; they are in it after its next ingest. What is posted twice is kept once.

        await client.logs.post("chat", [{"id": "d-1", "turns": ["Where do you buy tea?", "At the market."]}])
        """
        return await self._send(calls.post_dialogues(name, dialogues, on_error=on_error), timeout_s)

    async def erase(self, name: str, dialogue: str, *, timeout_s: Optional[float] = None) -> models.Job:
        """Erase a dialogue for good, out of the log and all that was made of it: the job that does it."""
        return await self._send(calls.erase_dialogue(name, dialogue), timeout_s)


class AsyncIndexes(_AsyncNoun):
    """Indexes of logs, in which references are found."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Index]:
        """Indexes by name."""
        return await self._all(lambda after, size: calls.list_indexes(after=after, limit=size), after, limit, timeout_s)

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Index:
        """An index, with what is known of its published version."""
        return await self._send(calls.get_index(name), timeout_s)

    async def versions(
        self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.IndexVersion]:
        """Its versions, oldest first."""
        return await self._all(
            lambda after, size: calls.list_index_versions(name, after=after, limit=size), after, limit, timeout_s
        )

    async def publish(self, name: str, version: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Let the name stand for another version."""
        return await self._send(calls.publish_index(name, version=version), timeout_s)

    async def rollback(self, name: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Publish the version before the published one again; sent once and never again, since twice is two back."""
        return await self._send(calls.publish_index(name, rollback=True), timeout_s)


class AsyncRaters(_AsyncNoun):
    """Raters, which say how well a text fits."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Rater]:
        """Raters by name."""
        return await self._all(lambda after, size: calls.list_raters(after=after, limit=size), after, limit, timeout_s)

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Rater:
        """A rater, with what is known of its published version."""
        return await self._send(calls.get_rater(name), timeout_s)

    async def versions(
        self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.RaterVersion]:
        """Its versions, oldest first."""
        return await self._all(
            lambda after, size: calls.list_rater_versions(name, after=after, limit=size), after, limit, timeout_s
        )

    async def publish(self, name: str, version: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Let the name stand for another version."""
        return await self._send(calls.publish_rater(name, version=version), timeout_s)

    async def rollback(self, name: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Publish the version before the published one again; sent once and never again, since twice is two back."""
        return await self._send(calls.publish_rater(name, rollback=True), timeout_s)


class AsyncJobs(_AsyncNoun):
    """Work that takes longer than a request."""

    async def start(self, kind: str, *, timeout_s: Optional[float] = None, **order: Any) -> models.Job:
        """Queue a job: `await client.jobs.start("index-update", index="chat")`."""
        return await self._send(calls.start_job(kind, **order), timeout_s)

    async def list(
        self,
        *,
        state: Optional[str] = None,
        kind: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.Job]:
        """Jobs, newest first: all of them, or the first `limit`."""
        return await self._all(
            lambda after, size: calls.list_jobs(state=state, kind=kind, after=after, limit=size),
            after,
            limit,
            timeout_s,
        )

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.Job:  # noqa: A002
        """A job: where it is, and what came of it."""
        return await self._send(calls.get_job(id), timeout_s)

    async def cancel(self, id: str, *, timeout_s: Optional[float] = None) -> models.Job:  # noqa: A002
        """Tell a job to stop; what it had finished is kept for the next one."""
        return await self._send(calls.cancel_job(id), timeout_s)

    async def wait(
        self,
        id: str,  # noqa: A002
        *,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Job:
        """The job when it is done; JobFailed or JobCancelled, with the job, where it ends otherwise.

        `timeout_s` is for all of it (TimedOut; the job goes on); without it there is no end but the job's. A server
        that is begun anew meanwhile does not matter. `progress=True` shows stage and share.

            job = await client.jobs.wait(job.id, progress=True)
        """
        return await async_wait(self._connection, id, progress=progress, timeout_s=timeout_s)

    def events(
        self,
        id: str,  # noqa: A002
        *,
        after: int = 0,
        timeout_s: Optional[float] = None,
    ) -> AsyncGenerator[Event, None]:
        """What happens to a job, as it happens: all that did since the event `after`, and then what comes.

        It ends with the job. A connection that is lost is made again, and no event is missed or comes twice; of
        progress the server keeps the last word alone.

        async for event in client.jobs.events(job.id):
            print(event.at, event.kind, event.stage, event.share)
        """
        return async_events(self._connection, id, after, timeout_s=timeout_s)


class AsyncSchedules(_AsyncNoun):
    """Jobs that begin by the clock."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Schedule]:
        """Schedules by name."""
        return await self._all(
            lambda after, size: calls.list_schedules(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Schedule:
        """A schedule, and what became of its last due times."""
        return await self._send(calls.get_schedule(name), timeout_s)

    async def put(
        self,
        name: str,
        *,
        cron: str,
        order: Mapping[str, Any],
        timezone: Optional[str] = None,
        enabled: Optional[bool] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Schedule:
        """Make a schedule, or change one.

        night = {"kind": "nightly", "log": "chat", "index": "chat"}
        await client.schedules.put("night", cron="30 2 * * *", timezone="Europe/Berlin", order=night)
        """
        call = calls.put_schedule(name, cron=cron, order=order, timezone=timezone, enabled=enabled)
        return await self._send(call, timeout_s)

    async def delete(self, name: str, *, timeout_s: Optional[float] = None) -> None:
        """Take a schedule away; jobs that it has begun stay."""
        await self._send(calls.delete_schedule(name), timeout_s)
