"""The work of jobs: each kind calls the same functions as its command, and returns its result as JSON.

A job that was killed is started again with the same order and id. Its finished stages are marked in the folder
`jobs/<id>` of the home, up to the whole result; the functions it calls resume where they were.

The main names:

- `run`: does the work of a job
- `job_context.JobContext`: the folders, settings and progress of a job
- `nightly.nightly_job`: ingest, rebuild, checks and publication of a night.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from refaug.core.artefacts.versions import observing_changes
from refaug.core.home import Settings
from refaug.core.installation import load
from refaug.core.progress import Progress
from refaug.service.evaluations.evaluation_store import remove_expired
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.job_order import parse_order
from refaug.service.jobs.kinds.job_context import JobContext, as_json, remove_old_jobs
from refaug.service.server_settings import ServeSettings

__all__ = ["run"]


def run(
    order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
) -> Mapping[str, Any]:
    """Do an order and return its result; RefaugError if it failed.

    CheckFailed: the version was built, and not published.
    """
    parsed_order = parse_order(order)
    parsed_order.require_within(partial(getattr, serve))
    remove_old_jobs(home, serve.keep_jobs_days)
    remove_expired(home, serve)
    context = JobContext.of(home, serve, progress, job)
    do: Callable[[Any, JobContext], Mapping[str, Any]] = load(parsed_order.kind, parsed_order.runs)

    def call() -> Mapping[str, Any]:
        outcome = as_json(do(parsed_order, context))
        return {**outcome, "seconds_by_stage": context.progress.seconds}

    with observing_changes(JobActs(home).observer(job)):
        return context.stages.run("result", call)
