"""Following jobs, in asyncio. `_jobs.py` is made of this file by unasync.py."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Optional

from . import _errors as errors
from ._calls import get_job
from ._connection import AsyncConnection
from ._following import Following, Looking, come_to
from ._models import Job
from ._pausing import async_paused
from ._progress import Progress, Reporter, reporter
from ._sse import Event


def async_events(
    connection: AsyncConnection,
    id: str,  # noqa: A002  the wire's name
    after: int = 0,
    *,
    timeout_s: Optional[float] = None,
) -> AsyncGenerator[Event, None]:
    """The events of a job, those that were and those to come, each once; it ends with the job.

    A connection that is lost is made again, and goes on after the last event.
    """
    return _followed(connection, Following(connection.to, id, after, timeout_s))


async def _followed(connection: AsyncConnection, following: Following) -> AsyncGenerator[Event, None]:
    while not following.is_over():
        try:
            call, within_s = following.call(), following.within_s()
            async with connection.stream(call, timeout_s=within_s, within_s=following.left_s()) as response:
                following.opened(response.headers)
                async for piece in response.aiter_bytes():
                    for event in following.take(piece):
                        yield following.see(event)
                    if following.is_over():
                        return
                    if following.must_reopen():
                        break
                else:
                    job = await connection.send(get_job(following.id), within_s=following.left_s())
                    if job.is_ended:  # it had ended before `after`, or its last event is not kept any more
                        return
                    raise following.ended()
        except (errors.NoAnswer, errors.Later) as error:
            await async_paused(connection, following.lost(error))


async def async_wait(
    connection: AsyncConnection,
    id: str,  # noqa: A002
    *,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> Job:
    """The job when it is done; JobFailed or JobCancelled where it ends otherwise, TimedOut where it does not in time.

    It is told of by its events; where those cannot be had, it is looked at now and then.
    """
    following = Following(connection.to, id, 0, timeout_s)
    job = await connection.send(get_job(id), within_s=following.left_s())
    with reporter(progress, None, job.kind) as told:
        while not job.is_ended:
            try:
                async for event in _followed(connection, following):
                    told.event(event.kind, event.data)
            except (errors.BadAnswer, errors.Unavailable):
                return come_to(await _looked_at(connection, following, told))
            job = await connection.send(get_job(id), within_s=following.left_s())
    return come_to(job)


async def _looked_at(connection: AsyncConnection, following: Following, told: Reporter) -> Job:
    looking = Looking()
    while True:
        job = await connection.send(get_job(following.id), within_s=following.left_s())
        looking.tell(job, told)
        if job.is_ended:
            return job
        await async_paused(connection, looking.pause_s(following.left_s()))
