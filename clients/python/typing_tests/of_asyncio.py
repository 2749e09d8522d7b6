"""The same of the client for asyncio, as far as it differs: what is awaited, and what is looped over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from typing_extensions import assert_type

from refaug_client import (
    AsyncClient,
    AsyncStream,
    Client,
    FrozenSet,
    Health,
    Item,
    Job,
    ListedSet,
    Ready,
    ReferencedItem,
    References,
    ReferenceSet,
    Rows,
    ScoredItem,
    Scores,
)


async def everything_is_awaited(items: Sequence[Item]) -> None:
    async with AsyncClient("http://127.0.0.1:8000") as refaug:
        assert_type(refaug, AsyncClient)
        assert_type(await refaug.health(), Health)
        assert_type(await refaug.references(items), References)
        scores = await refaug.score(items, metric="bleu")
        assert_type(scores, Scores)
        assert_type(scores.replies, list[Optional[float]])
        assert_type(await refaug.sets.freeze(items, purpose="test"), FrozenSet)
        assert_type(await refaug.sets.list(), Rows[ListedSet])
        assert_type(await refaug.jobs.wait("01h"), Job)
        assert_type(await refaug.sets.download("e7043c04b0875353", to="set.jsonl"), Path)
        print(refaug.score(items).corpus)  # type: ignore[attr-defined]
        assert_type(refaug.with_options(timeout_s=600), AsyncClient)
        await assert_type(refaug.ready(), Coroutine[Any, Any, Ready])
        assert_type(asyncio.create_task(refaug.ready()), asyncio.Task[Ready])
        assert_type(refaug.score_iter(items), AsyncStream[ScoredItem])
        get: Callable[[str], Awaitable[ReferenceSet]] = refaug.sets.get
        await get("e7043c04b0875353")
        await refaug.sets.get(3)  # type: ignore[arg-type]
        await refaug.sets.get("e7043c04b0875353", timeout_s=3)  # type: ignore[call-arg]
    with AsyncClient():  # type: ignore[attr-defined]
        pass


async def results_come_one_by_one(refaug: AsyncClient, rows: AsyncIterator[Mapping[str, Any]]) -> None:
    async for referenced_item in refaug.references_iter(rows):
        assert_type(referenced_item, ReferencedItem)
    async for event in refaug.jobs.events("01h"):
        assert_type(event.stage, Optional[str])
    for referenced_item in refaug.references_iter([]):  # type: ignore[attr-defined]
        del referenced_item


async def a_server_of_ones_own(home: Path) -> None:
    async with AsyncClient.local(home) as refaug:
        assert_type(refaug, AsyncClient)
    async with Client.local(home):  # type: ignore[attr-defined]
        pass


async def a_scorer_is_awaited(refaug: AsyncClient) -> None:
    async with refaug:
        scorer = refaug.scorer(reference_set="e7043c04b0875353")
        assert_type(await scorer.submit(["Yes."], items=["d1"]), list[Optional[float]])
