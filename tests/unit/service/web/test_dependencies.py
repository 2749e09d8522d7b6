from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from serving import request_of

from refaug.service.web.dependencies import ClientGone, while_connected


def played(scene: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run it; tasks that it leaves behind would be told of by the loop."""

    async def run() -> None:
        complaints = list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        await asyncio.wait_for(scene(asyncio.Event()), 30)
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert complaints == []

    asyncio.run(run())


def test_what_the_work_gives_or_raises_comes_out() -> None:
    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> int:
        raise ValueError("as it is")

    async def scene(hung_up: asyncio.Event) -> None:
        assert await while_connected(request_of(hung_up), good()) == 7
        with pytest.raises(ValueError, match="as it is"):
            await while_connected(request_of(hung_up), bad())

    played(scene)


def test_work_is_dropped_when_the_client_hangs_up_and_the_task_goes_on() -> None:
    said = list[str]()

    async def work(hung_up: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(20):
                hung_up.set()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            said.append("put away")
            raise

    async def scene(hung_up: asyncio.Event) -> None:
        with pytest.raises(ClientGone):
            await while_connected(request_of(hung_up), work(hung_up))
        assert said == ["put away"]
        await asyncio.sleep(0)  # nothing of it is left that would end this task
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    played(scene)


def test_an_end_from_elsewhere_is_no_client_that_has_gone() -> None:
    async def scene(hung_up: asyncio.Event) -> None:
        task = asyncio.ensure_future(while_connected(request_of(hung_up), asyncio.Event().wait()))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    played(scene)


def test_an_answer_that_is_there_when_the_client_hangs_up_stays_one() -> None:
    """Both in one turn of the loop: nothing is to hit the task afterwards."""

    async def scene(hung_up: asyncio.Event) -> None:
        answer = asyncio.get_running_loop().create_future()

        async def play() -> str:
            found: str = await while_connected(request_of(hung_up), answer)
            for _ in range(5):
                await asyncio.sleep(0)  # what is sent now
            return found

        task = asyncio.ensure_future(play())
        for _ in range(5):
            await asyncio.sleep(0)
        hung_up.set()  # the listener ends in the next turn, and the loop calls back in the one after it
        answer.set_result("here")
        assert await task == "here"

    played(scene)


def test_both_at_once_are_an_end_from_elsewhere() -> None:
    async def scene(hung_up: asyncio.Event) -> None:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                task.cancel()

        task = asyncio.ensure_future(while_connected(request_of(hung_up), work()))
        await begun.wait()
        hung_up.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    played(scene)
