"""Jobs, and the schedules by which they begin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Optional

from refaug_client._api.methods import K, Resource, flow, iteration, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.jobs import Job, Schedule
from refaug_client._core.progress import Progress
from refaug_client._jobs.following import Event, JobFollower, follow, wait_for_job


class Jobs(Resource[K]):
    """Work that takes longer than a request."""

    @route("POST", "/v1/jobs", keyed=True)
    def start(self, /, kind: str, **order: Any) -> Job:
        """Queue a job: `client.jobs.start("index-update", index="chat")`."""

    @route("GET", "/v1/jobs", key="jobs")
    def list(
        self,
        *,
        state: Optional[str] = None,
        kind: Optional[str] = None,
        resource: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> Rows[Job]:
        """Return jobs, newest first: all of them, or the first `limit`; `resource` is what they write."""

    @route("GET", "/v1/jobs/{id}")
    def get(self, id: str) -> Job:
        """Return a job with its state and its result."""

    @route("DELETE", "/v1/jobs/{id}")  # one that has ended stays as it is
    def cancel(self, id: str) -> Job:
        """Cancel a job; what it had finished is kept for the next one."""

    @route("POST", "/v1/jobs/{id}/retry", repeatable=False)  # a second one is refused
    def retry(self, id: str) -> Job:
        """Queue a job again that failed or was cancelled; what it had finished is not done again."""

    @flow
    async def wait(self, id: str, *, progress: Progress = None, timeout_s: Optional[float] = None) -> Job:
        """Return the job when it is done; JobFailed or JobCancelled, with the job, where it ends otherwise.

        `timeout_s` limits all of it (TimedOut; the job goes on); without it there is no end but the job's. A restart of
        the server meanwhile does not matter. `progress=True` shows stage and share.

            job = client.jobs.wait(job.id, progress=True)
        """
        return await wait_for_job(self._wire, id, progress=progress, timeout_s=timeout_s)

    @iteration
    def events(self, id: str, *, after: int = 0, timeout_s: Optional[float] = None) -> AsyncGenerator[Event, None]:
        """Yield the events of a job as they happen: all since the event `after`, and then the new ones.

        It ends with the job. A lost connection is made again, and no event is missed or comes twice; of progress the
        server keeps the last event only.

        for event in client.jobs.events(job.id):
            print(event.at, event.kind, event.stage, event.share)
        """
        return follow(self._wire, JobFollower(self._wire.settings, id, after, timeout_s))


class Schedules(Resource[K]):
    """Jobs that begin by the clock."""

    @route("GET", "/v1/schedules", key="schedules")
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[Schedule]:
        """Return schedules by name."""

    @route("GET", "/v1/schedules/{name}")
    def get(self, name: str) -> Schedule:
        """Return a schedule, and what became of its last due times."""

    @route("PUT", "/v1/schedules/{name}")
    def put(
        self,
        name: str,
        *,
        cron: str,
        order: Mapping[str, Any],
        timezone: Optional[str] = None,
        enabled: Optional[bool] = None,
    ) -> Schedule:
        """Make a schedule, or change one.

        night = {"kind": "nightly", "log": "chat", "index": "chat"}
        client.schedules.put("night", cron="30 2 * * *", timezone="Europe/Berlin", order=night)
        """

    @route("DELETE", "/v1/schedules/{name}", key="name")
    def delete(self, name: str) -> None:
        """Delete a schedule; jobs that it has begun stay."""
