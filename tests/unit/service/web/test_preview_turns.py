"""Previews run in turn: those whose clients have left are not begun, or end, and the next client is answered."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest
from serving import request_of

from refaug.core.errors import Expired
from refaug.service.web.dependencies import ClientGone, while_connected
from refaug.service.web.handling.request_lease import DeadlineProgress
from refaug.service.web.routes.evaluations.uploads import MAX_PREVIEWS, PREVIEWS

HOSTILE = 64
FAR = 1e9  # a deadline that never comes


def test_clients_that_leave_do_not_hold_up_another_one() -> None:
    begun, ended = list[int](), list[int]()
    all_begun = threading.Barrier(MAX_PREVIEWS + 1)

    def hostile(number: int, progress: DeadlineProgress) -> None:
        begun.append(number)
        if number < MAX_PREVIEWS:  # one of the others may begin before its hang-up is seen
            all_begun.wait(30)
        try:
            while True:
                progress.check()
        finally:
            ended.append(number)

    def honest(progress: DeadlineProgress) -> tuple[list[int], list[int]]:
        progress.check()
        return sorted(begun), sorted(ended)

    async def scene() -> None:
        hung_up = asyncio.Event()
        clients = [
            asyncio.create_task(while_connected(request_of(hung_up), PREVIEWS.run(partial(hostile, number), FAR)))
            for number in range(HOSTILE)
        ]
        await asyncio.to_thread(all_begun.wait, 30)
        answer = asyncio.create_task(PREVIEWS.run(honest, FAR))
        hung_up.set()
        left = await asyncio.gather(*clients, return_exceptions=True)
        assert [type(error) for error in left] == [ClientGone] * HOSTILE
        running, gone = await asyncio.wait_for(answer, 30)
        assert running[:MAX_PREVIEWS] == list(range(MAX_PREVIEWS))
        assert len(running) < HOSTILE // 4
        assert gone  # one of them at least, in whose thread this ran

    asyncio.run(scene())


def test_at_the_deadline_a_client_in_line_is_told_to_come_again() -> None:
    go_on = threading.Event()

    def slow(progress: DeadlineProgress) -> str:
        go_on.wait(30)
        progress.check()
        return "read"

    async def scene() -> None:
        running = [asyncio.create_task(PREVIEWS.run(slow, FAR)) for _ in range(MAX_PREVIEWS)]
        await asyncio.sleep(0)
        with pytest.raises(Expired) as refusal:
            await PREVIEWS.run(slow, time.monotonic() - 1)
        assert (refusal.value.status, refusal.value.retry_after_s >= 1) == (503, True)
        go_on.set()
        assert await asyncio.gather(*running) == ["read"] * MAX_PREVIEWS

    asyncio.run(scene())
