"""The asyncio client: calls about scoring and the server, and the resources; `_sync/client.py` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Optional, TypeVar, Union

import httpx

from refaug_client._api import calls, models
from refaug_client._api.calls.bodies import SYSTEM
from refaug_client._api.items import From, Items, Metrics, OnError, Replies
from refaug_client._api.models.scored_item import ScoredItem
from refaug_client._core.progress import Progress
from refaug_client._extras import AsyncExtras
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.retry import Retry
from refaug_client._http.settings import ConnectionSettings
from refaug_client._large.batches import AT_ONCE, BATCH, AsyncInput
from refaug_client._large.documents import LargeRatings, LargeReferences
from refaug_client._large.scores import LargeScores
from refaug_client._large.streams import StreamedRatings, StreamedReferences, StreamedScores

from .access import AsyncAudit, AsyncKeys
from .bots import AsyncBotCalls
from .evaluations import AsyncEvaluations, AsyncUploads
from .large import AsyncStream, async_send_whole, keep_row
from .resources import AsyncIndexes, AsyncJobs, AsyncLogs, AsyncRaters, AsyncSchedules, AsyncSets
from .score_documents import AsyncScoreDocumentCalls
from .server import AsyncServerCalls
from .stored_bots import AsyncBots
from .studies import AsyncStudies

C = TypeVar("C", bound="AsyncClient")


class AsyncClient(AsyncBotCalls, AsyncScoreDocumentCalls, AsyncServerCalls, AsyncExtras):
    """A client of a refaug server.

        async with AsyncClient("http://127.0.0.1:8000") as refaug:
            scores = await refaug.score(items, metric="upsilon-bleu")
        scores.corpus, scores.replies, scores.signature

    Address and key are read from REFAUG_URL and REFAUG_KEY where they are not given. `timeout_s` limits one try of a
    request; transient errors are retried as `retry` says (or so many times). `close()` ends the connections.
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
        to = ConnectionSettings.of(
            url,
            key=key,
            retry=retry,
            timeout_s=timeout_s,
            connections=connections,
            uds=uds,
            verify=verify,
            headers=headers or {},
        )
        self._attach(AsyncConnection(to, http))

    def _attach(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.sets: AsyncSets = AsyncSets(connection)
        self.logs: AsyncLogs = AsyncLogs(connection)
        self.indexes: AsyncIndexes = AsyncIndexes(connection)
        self.raters: AsyncRaters = AsyncRaters(connection)
        self.jobs: AsyncJobs = AsyncJobs(connection)
        self.schedules: AsyncSchedules = AsyncSchedules(connection)
        self.bots: AsyncBots = AsyncBots(connection)
        self.studies: AsyncStudies = AsyncStudies(connection)
        self.uploads: AsyncUploads = AsyncUploads(connection)
        self.evaluations: AsyncEvaluations = AsyncEvaluations(connection)
        self.keys: AsyncKeys = AsyncKeys(connection)
        self.audit: AsyncAudit = AsyncAudit(connection)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.settings.url

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
        """Return weighted references for items, each with its source.

            found = await client.references([{"utterance": "Where do you buy tea?", "references": ["At the market."]}])
            found[0].references[0].text

        More than `batch` items go in several requests, `at_once` at a time, with the same result. `progress` is True,
        or called with how many are done and of how many; with `settings={"show_excluded": 9}` the first pairs that were
        left out come along.
        """
        call = calls.references(items, index=index, rater=rater, settings=settings, on_error=on_error)
        return await async_send_whole(
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
        """Return scores of replies: of those in the items, or of `replies`, one for each item (by system if several).

            scores = await client.score(items, replies=["In the shop next door.", "At noon."], metric="upsilon-bleu")
            scores.corpus, scores.replies, scores.signature

        More than `batch` items go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
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
        return await async_send_whole(
            self._connection,
            call,
            LargeScores,
            (call.body or {})["items"],
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

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
        """Return a rater's ratings of candidates, from -1 to 1.

            pair = {"utterance": "Where do you buy tea?", "golds": ["At the market."], "candidates": ["In the shop."]}
            (await client.rate([pair])).ratings

        More than `batch` pairs go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
        """
        call = calls.rate(pairs, rater=rater, combine=combine, calibrated=calibrated)
        return await async_send_whole(
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
        """Yield items with their references as they come, in the order of the input, which may have no end.

        The input is read while the results are: at most `at_once` + 1 batches ahead of them. Leaving the loop stops the
        sending; an error comes after all results before it.

            async for item in client.references_iter(json.loads(line) for line in open("items.jsonl")):
                print(item.id, len(item.references))
        """
        call = calls.references([], index=index, rater=rater, settings=settings, on_error=on_error)
        return AsyncStream(
            self._connection,
            StreamedReferences(call),
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
        """Yield the scores of each item's replies as they come, as `references_iter` does; no corpus score.

        A metric that looks at all items at once, such as cider, cannot be used here.

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
            settings=settings,
            explain=explain,
            percent=percent,
            language=language,
            on_error=on_error,
        )
        return AsyncStream(
            self._connection,
            StreamedScores(call),
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
        """Yield for each pair the ratings of its candidates as they come, as `references_iter` does."""
        call = calls.rate([], rater=rater, combine=combine, calibrated=calibrated)
        return AsyncStream(
            self._connection,
            StreamedRatings(call),
            pairs,
            keep_row,
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

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
        if kind is not None:  # do not wait for what is on its way
            await self._close_scorers(0.0)
        await self.close()

    def __reduce__(self) -> Any:  # another process makes new connections
        return _rebuild, (type(self), self._connection)

    def __repr__(self) -> str:
        to = self._connection.settings
        return f"{type(self).__name__}({to.url!r}{f', uds={to.uds!r}' if to.uds else ''})"


def _rebuild(kind: type[C], connection: AsyncConnection) -> C:
    client = kind.__new__(kind)
    client._attach(connection)  # noqa: SLF001
    return client
