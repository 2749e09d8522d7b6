"""Following jobs, in asyncio; `_sync/jobs.py` is generated from it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Optional

from refaug_client._api.calls.jobs import get_job
from refaug_client._api.models.jobs import Job
from refaug_client._core import errors
from refaug_client._core.progress import Progress, Reporter, make_reporter
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.pausing import async_pause
from refaug_client._jobs.events import Event
from refaug_client._jobs.following import JobFollower, PollingSchedule, require_done


def async_events(
    connection: AsyncConnection,
    id: str,  # noqa: A002  the wire's name
    after: int = 0,
    *,
    timeout_s: Optional[float] = None,
) -> AsyncGenerator[Event, None]:
    """Yield the events of a job, past and coming ones, each once; it ends with the job.

    A lost connection is made again, and goes on after the last event.
    """
    return _follow(connection, JobFollower(connection.settings, id, after, timeout_s))


async def _follow(connection: AsyncConnection, following: JobFollower) -> AsyncGenerator[Event, None]:
    while not following.is_over():
        try:
            call, within_s = following.call(), following.silence_limit_s()
            async with connection.stream(call, timeout_s=within_s, within_s=following.remaining_s()) as response:
                following.note_opened(response.headers)
                async for piece in response.aiter_bytes():
                    for event in following.read(piece):
                        yield following.mark_seen(event)
                    if following.is_over():
                        return
                    if following.must_reopen():
                        break
                else:
                    job = await connection.send(get_job(following.id), within_s=following.remaining_s())
                    if job.is_ended:  # it had ended before `after`, or the server has dropped its last event
                        return
                    raise following.broken_stream()
        except (errors.NoAnswer, errors.Later) as error:
            await async_pause(connection, following.pause_after(error))


async def async_wait(
    connection: AsyncConnection,
    id: str,  # noqa: A002
    *,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> Job:
    """Return the job when it is done; JobFailed or JobCancelled where it ends otherwise, TimedOut where it is late.

    Its events tell when it ends; where those cannot be had, the job is polled.
    """
    following = JobFollower(connection.settings, id, 0, timeout_s)
    job = await connection.send(get_job(id), within_s=following.remaining_s())
    with make_reporter(progress, None, job.kind) as report:
        while not job.is_ended:
            try:
                async for event in _follow(connection, following):
                    report.event(event.kind, event.data)
            except (errors.BadAnswer, errors.Unavailable):
                return require_done(await _poll(connection, following, report))
            job = await connection.send(get_job(id), within_s=following.remaining_s())
    return require_done(job)


async def _poll(connection: AsyncConnection, following: JobFollower, report: Reporter) -> Job:
    looking = PollingSchedule()
    while True:
        job = await connection.send(get_job(following.id), within_s=following.remaining_s())
        looking.show(job, report)
        if job.is_ended:
            return job
        await async_pause(connection, looking.pause_s(following.remaining_s()))
