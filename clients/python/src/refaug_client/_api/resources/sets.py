"""Reference sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

from refaug_client._api.bodies import SYSTEM, Body, by_system, request_body, to_dict, to_list, with_metrics
from refaug_client._api.items import From, Items, Metrics, OnError, Purpose, Replies
from refaug_client._api.methods import K, Resource, flow, route
from refaug_client._api.models.base import Rows, shorten
from refaug_client._api.models.jobs import Job
from refaug_client._api.models.scores import Scores
from refaug_client._api.models.sets import FrozenSet, ListedSet, ReferenceSet, Withdrawal
from refaug_client._api.readers import read_bytes
from refaug_client._core.errors import BadAnswer
from refaug_client._core.progress import Progress
from refaug_client._http.call import Answer, Call, path
from refaug_client._http.exchange import download
from refaug_client._jobs.following import wait_for_job
from refaug_client._large.batches import AT_ONCE, ROWS
from refaug_client._large.streams import LargeSetScores


def _by_system(body: Body) -> Body:
    replies = by_system(body["replies"], body.pop("system", SYSTEM))
    return with_metrics({**body, "replies": replies})


class Sets(Resource[K]):
    """Frozen reference sets: scores against one keep their meaning for ever."""

    @flow
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
    ) -> FrozenSet:
        """Freeze items with their references: found (`references="find"`), or as they are given (`"given"`).

            frozen = client.sets.freeze(items, purpose="validation")
            client.sets.score(frozen.id, replies)

        The id of a set follows from its content: the same items frozen again are the same set, and `new` is false. More
        items than the server freezes at once are frozen by a job, for which the client waits, `wait_s` at most.
        """
        document = request_body(
            items=to_list(items),
            purpose=purpose,
            references=references,
            index=index,
            rater=rater,
            settings=None if settings is None else to_dict(settings),
            on_error=on_error,
        )
        # the set, or, where there are many items, the job that freezes them
        call = Call("POST", "/v1/reference-sets", _read_set_or_job, body=document, keyed=True, timed=True)
        answer = await self._wire.send(call)
        if isinstance(answer, FrozenSet):
            return answer
        job = await wait_for_job(self._wire, answer.id, progress=progress, timeout_s=wait_s)
        stored = await self._wire.send(Sets.get.call(_frozen_set_id(job)))
        return _frozen_set_from_job(job, answer, stored)

    @route("POST", "/v1/reference-sets/{id}/derive", timed=True)
    def derive(
        self,
        id: str,
        *,
        weights: Optional[str] = None,
        parrot: Union[str, float, None] = None,
        gold: Optional[str] = None,
        k: Optional[int] = None,
        people: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> FrozenSet:
        """Make a set of other weights from what another one has stored; settings that are left out stay the same.

        `people` are weights that people gave: `{"item": …, "reference": …, "weight": …}`, as a study exports them.
        """

    @route("GET", "/v1/reference-sets/{id}")
    def get(self, id: str) -> ReferenceSet:
        """Return how a set was made, and how many references support scores against it; a withdrawn one, too."""

    @route("GET", "/v1/reference-sets", key="sets")
    def list(
        self, *, purpose: Optional[Purpose] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Rows[ListedSet]:
        """Return sets by id, withdrawn ones too: all of them, or the first `limit`."""

    @route("POST", "/v1/reference-sets/{id}/scores", prepare=_by_system, timed=True, large=LargeSetScores)
    def score(
        self,
        id: str,
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
        require_passport: bool = False,
        language: Optional[str] = None,
        on_error: Optional[OnError] = None,
        return_: Optional[Literal["scores", "values", "stats"]] = None,
        batch: int = ROWS,
        at_once: int = AT_ONCE,
        progress: Progress = None,
    ) -> Scores:
        """Return scores of replies to items of a set, by their ids; an id may come several times.

        Without `items` there is a reply to every item of the set, in its order. None is no reply.

            scores = client.sets.score(frozen.id, ["At the market.", "In the shop."], items=["d1", "d1"])
            scores.replies

        More than `batch` `items` go in several requests, `at_once` at a time; the result is the same as of one request.
        `progress=True` shows the progress, a function is called with how many are done and of how many.
        """

    @flow
    async def download(
        self, id: str, *, to: Union[str, os.PathLike[str]], format: Optional[Literal["zst", "jsonl"]] = None
    ) -> Path:
        """Download a set to a file, which is there whole or not at all, and return its path. `to` may be a folder.

        `format="zst"`, or without one: as the server stores it, for `refaug sets`; `"jsonl"`: its lines, not
        compressed. A download that breaks off begins anew, as often as a request is tried.
        """
        route = path("v1", "reference-sets", id, "download")
        call = Call("GET", route, read_bytes, query={"format": format}, headers={"Accept": "*/*"})
        return await download(self._wire, call, to, f"{id}.{'jsonl' if format == 'jsonl' else 'jsonl.zst'}")

    @route("DELETE", "/v1/reference-sets/{id}")
    def withdraw(self, id: str, *, reason: str, instead: Optional[str] = None) -> Withdrawal:
        """Withdraw a set from use; later requests for it are refused with the reason and the set to use instead."""


def _read_set_or_job(answer: Answer) -> Union[FrozenSet, Job]:
    document = answer.json()
    return Job.of(document) if answer.status == 202 else FrozenSet.of(document)


def _frozen_set_id(job: Job) -> str:
    """Return the id of the set that a job has frozen."""
    set_id = (job.result or {}).get("set")
    if not isinstance(set_id, str):
        raise BadAnswer(f"job {job.id} is done, and its result names no set: {shorten(job.result)}")
    return set_id


def _frozen_set_from_job(job: Job, queued: Job, stored: ReferenceSet) -> FrozenSet:
    """Return the set that a job has frozen, with the warnings and problems of the call and of the job."""
    job_result = job.result or {}
    return FrozenSet.of(
        {
            **stored.to_dict(),
            "new": job_result.get("new") is True,
            "problems": [*queued.more.get("problems", []), *job_result.get("problems", [])],
            "warnings": list(queued.more.get("warnings", [])),
        }
    )
