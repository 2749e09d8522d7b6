"""The resources of the API: `client.sets`, `client.logs` and the like; `_sync/resources.py` is generated from it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, TypeVar, Union

from refaug_client._api import calls, models
from refaug_client._api.calls.bodies import SYSTEM
from refaug_client._api.items import Dialogues, From, Items, Metrics, OnError, Purpose, Replies
from refaug_client._core.progress import Progress
from refaug_client._jobs.events import Event
from refaug_client._large.batches import AT_ONCE, ROWS
from refaug_client._large.scores import LargeSetScores

from .jobs import async_events, async_wait
from .large import async_send_whole
from .resource import AsyncResource

T = TypeVar("T")


class AsyncSets(AsyncResource):
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

        The id of a set follows from its content: the same items frozen again are the same set, and `new` is false. More
        items than the server freezes at once are frozen by a job, for which the client waits, `wait_s` at most.
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
        answer = await self._send(call, timeout_s)
        if isinstance(answer, models.FrozenSet):
            return answer
        job = await async_wait(self._connection, answer.id, progress=progress, timeout_s=wait_s)
        stored = await self.get(calls.frozen_set_id(job), timeout_s=timeout_s)
        return calls.frozen_set_from_job(job, answer, stored)

    async def derive(
        self,
        id: str,  # noqa: A002  the wire's name
        *,
        weights: Optional[str] = None,
        parrot: Union[str, float, None] = None,
        gold: Optional[str] = None,
        k: Optional[int] = None,
        people: Optional[Sequence[Mapping[str, Any]]] = None,
        timeout_s: Optional[float] = None,
    ) -> models.FrozenSet:
        """Make a set of other weights from what another one has stored; settings that are left out stay the same.

        `people` are weights that people gave: `{"item": …, "reference": …, "weight": …}`, as a study exports them.
        """
        return await self._send(
            calls.derive_set(id, weights=weights, parrot=parrot, gold=gold, k=k, people=people), timeout_s
        )

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.ReferenceSet:  # noqa: A002
        """Return how a set was made, and how many references support scores against it; a withdrawn one, too."""
        return await self._send(calls.get_set(id), timeout_s)

    async def list(
        self,
        *,
        purpose: Optional[Purpose] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.ListedSet]:
        """Return sets by id, withdrawn ones too: all of them, or the first `limit`."""
        return await self._list_all(
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
        """Return scores of replies to items of a set, by their ids; an id may come several times.

        Without `items` there is a reply to every item of the set, in its order. None is no reply.

            scores = await client.sets.score(frozen.id, ["At the market.", "In the shop."], items=["d1", "d1"])
            scores.replies

        More than `batch` `items` go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
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
        return await async_send_whole(
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
        """Download a set to a file, which is there whole or not at all, and return its path. `to` may be a folder.

        `format="zst"`, or without one: as the server stores it, for `refaug sets`; `"jsonl"`: its lines, not
        compressed. A download that breaks off begins anew, as often as a request is tried.
        """
        call = calls.download_set(id, format=format)
        return await self._download(call, to, f"{id}.{'jsonl' if format == 'jsonl' else 'jsonl.zst'}", timeout_s)

    async def withdraw(
        self,
        id: str,  # noqa: A002
        *,
        reason: str,
        instead: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Withdrawal:
        """Withdraw a set from use; later requests for it are refused with the reason and the set to use instead."""
        return await self._send(calls.withdraw_set(id, reason=reason, instead=instead), timeout_s)


class AsyncLogs(AsyncResource):
    """Logs of dialogues."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Log]:
        """Return logs by name, with their sizes."""
        return await self._list_all(
            lambda after, size: calls.list_logs(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Log:
        """Return the size of a log, and what was posted to it and waits for its next ingest."""
        return await self._send(calls.get_log(name), timeout_s)

    async def ingests(
        self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Ingest]:
        """Return how a log grew: the runs that have added to it, oldest first."""
        return await self._list_all(
            lambda after, size: calls.list_ingests(name, after=after, limit=size), after, limit, timeout_s
        )

    async def post(
        self, name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None, timeout_s: Optional[float] = None
    ) -> models.Posted:
        """Store dialogues for a log; they are in it after its next ingest, once even if they are posted twice.

        await client.logs.post("chat", [{"id": "d-1", "turns": ["Where do you buy tea?", "At the market."]}])
        """
        return await self._send(calls.post_dialogues(name, dialogues, on_error=on_error), timeout_s)

    async def erase(self, name: str, dialogue: str, *, timeout_s: Optional[float] = None) -> models.Job:
        """Erase a dialogue for good, from the log and everything that was made of it; return the job that does it."""
        return await self._send(calls.erase_dialogue(name, dialogue), timeout_s)


class AsyncIndexes(AsyncResource):
    """Indexes of logs, in which references are found."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Index]:
        """Return indexes by name."""
        return await self._list_all(
            lambda after, size: calls.list_indexes(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Index:
        """Return an index, with the details of its published version."""
        return await self._send(calls.get_index(name), timeout_s)

    async def versions(
        self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.IndexVersion]:
        """Return its versions, oldest first."""
        return await self._list_all(
            lambda after, size: calls.list_index_versions(name, after=after, limit=size), after, limit, timeout_s
        )

    async def publish(
        self, name: str, version: str, *, even_refused: bool = False, timeout_s: Optional[float] = None
    ) -> models.Published:
        """Publish another version under the name; one that a check refused only with `even_refused`."""
        return await self._send(calls.publish_index(name, version=version, even_refused=even_refused), timeout_s)

    async def rollback(self, name: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Publish the version that was published before again; never retried, since twice is two back."""
        return await self._send(calls.publish_index(name, rollback=True), timeout_s)


class AsyncRaters(AsyncResource):
    """Raters, which rate how well a text fits."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Rater]:
        """Return raters by name."""
        return await self._list_all(
            lambda after, size: calls.list_raters(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Rater:
        """Return a rater, with the details of its published version."""
        return await self._send(calls.get_rater(name), timeout_s)

    async def versions(
        self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.RaterVersion]:
        """Return its versions, oldest first."""
        return await self._list_all(
            lambda after, size: calls.list_rater_versions(name, after=after, limit=size), after, limit, timeout_s
        )

    async def publish(
        self, name: str, version: str, *, even_refused: bool = False, timeout_s: Optional[float] = None
    ) -> models.Published:
        """Publish another version under the name; one that a check refused only with `even_refused`."""
        return await self._send(calls.publish_rater(name, version=version, even_refused=even_refused), timeout_s)

    async def rollback(self, name: str, *, timeout_s: Optional[float] = None) -> models.Published:
        """Publish the version that was published before again; never retried, since twice is two back."""
        return await self._send(calls.publish_rater(name, rollback=True), timeout_s)


class AsyncJobs(AsyncResource):
    """Work that takes longer than a request."""

    async def start(self, kind: str, *, timeout_s: Optional[float] = None, **order: Any) -> models.Job:
        """Queue a job: `await client.jobs.start("index-update", index="chat")`."""
        return await self._send(calls.start_job(kind, **order), timeout_s)

    async def list(
        self,
        *,
        state: Optional[str] = None,
        kind: Optional[str] = None,
        resource: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Rows[models.Job]:
        """Return jobs, newest first: all of them, or the first `limit`; `resource` is what they write."""
        return await self._list_all(
            lambda after, size: calls.list_jobs(state=state, kind=kind, resource=resource, after=after, limit=size),
            after,
            limit,
            timeout_s,
        )

    async def get(self, id: str, *, timeout_s: Optional[float] = None) -> models.Job:  # noqa: A002
        """Return a job with its state and its result."""
        return await self._send(calls.get_job(id), timeout_s)

    async def cancel(self, id: str, *, timeout_s: Optional[float] = None) -> models.Job:  # noqa: A002
        """Cancel a job; what it had finished is kept for the next one."""
        return await self._send(calls.cancel_job(id), timeout_s)

    async def retry(self, id: str, *, timeout_s: Optional[float] = None) -> models.Job:  # noqa: A002
        """Queue a job again that failed or was cancelled; what it had finished is not done again."""
        return await self._send(calls.retry_job(id), timeout_s)

    async def wait(
        self,
        id: str,  # noqa: A002
        *,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.Job:
        """Return the job when it is done; JobFailed or JobCancelled, with the job, where it ends otherwise.

        `timeout_s` limits all of it (TimedOut; the job goes on); without it there is no end but the job's. A restart of
        the server meanwhile does not matter. `progress=True` shows stage and share.

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
        """Yield the events of a job as they happen: all since the event `after`, and then the new ones.

        It ends with the job. A lost connection is made again, and no event is missed or comes twice; of progress the
        server keeps the last event only.

        async for event in client.jobs.events(job.id):
            print(event.at, event.kind, event.stage, event.share)
        """
        return async_events(self._connection, id, after, timeout_s=timeout_s)


class AsyncSchedules(AsyncResource):
    """Jobs that begin by the clock."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.Schedule]:
        """Return schedules by name."""
        return await self._list_all(
            lambda after, size: calls.list_schedules(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.Schedule:
        """Return a schedule, and what became of its last due times."""
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
        """Delete a schedule; jobs that it has begun stay."""
        await self._send(calls.delete_schedule(name), timeout_s)
