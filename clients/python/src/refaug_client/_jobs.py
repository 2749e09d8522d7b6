"""Following jobs, in threads: written by unasync.py out of `_async_jobs.py`, which is the one to change."""

from __future__ import annotations

from collections.abc import Generator
from typing import Optional

from . import _errors as errors
from ._calls import get_job
from ._connection import Connection
from ._following import Following, Looking, come_to
from ._models import Job
from ._pausing import paused
from ._progress import Progress, Reporter, reporter
from ._sse import Event


def events(
    connection: Connection,
    id: str,  # noqa: A002  the wire's name
    after: int = 0,
    *,
    timeout_s: Optional[float] = None,
) -> Generator[Event, None]:
    """The events of a job, those that were and those to come, each once; it ends with the job.

    A connection that is lost is made again, and goes on after the last event.
    """
    return _followed(connection, Following(connection.to, id, after, timeout_s))


def _followed(connection: Connection, following: Following) -> Generator[Event, None]:
    while not following.is_over():
        try:
            call, within_s = following.call(), following.within_s()
            with connection.stream(call, timeout_s=within_s, within_s=following.left_s()) as response:
                following.opened(response.headers)
                for piece in response.iter_bytes():
                    for event in following.take(piece):
                        yield following.see(event)
                    if following.is_over():
                        return
                    if following.must_reopen():
                        break
                else:
                    job = connection.send(get_job(following.id), within_s=following.left_s())
                    if job.is_ended:  # it had ended before `after`, or its last event is not kept any more
                        return
                    raise following.ended()
        except (errors.NoAnswer, errors.Later) as error:
            paused(connection, following.lost(error))


def wait(
    connection: Connection,
    id: str,  # noqa: A002
    *,
    progress: Progress = None,
    timeout_s: Optional[float] = None,
) -> Job:
    """The job when it is done; JobFailed or JobCancelled where it ends otherwise, TimedOut where it does not in time.

    It is told of by its events; where those cannot be had, it is looked at now and then.
    """
    following = Following(connection.to, id, 0, timeout_s)
    job = connection.send(get_job(id), within_s=following.left_s())
    with reporter(progress, None, job.kind) as told:
        while not job.is_ended:
            try:
                for event in _followed(connection, following):
                    told.event(event.kind, event.data)
            except (errors.BadAnswer, errors.Unavailable):
                return come_to(_looked_at(connection, following, told))
            job = connection.send(get_job(id), within_s=following.left_s())
    return come_to(job)


def _looked_at(connection: Connection, following: Following, told: Reporter) -> Job:
    looking = Looking()
    while True:
        job = connection.send(get_job(following.id), within_s=following.left_s())
        looking.tell(job, told)
        if job.is_ended:
            return job
        paused(connection, looking.pause_s(following.left_s()))
