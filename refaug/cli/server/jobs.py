"""`refaug admin jobs …`: queueing jobs, following and cancelling them, and working them off."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from refaug.cli.shared import output
from refaug.cli.shared.database import job_store, open_database
from refaug.core.errors import BadInput, Interrupted, NoSource, RefaugError, Usage
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from refaug.service.jobs.store import Event, Job, JobStore


_POLL_S: Final = 0.5  # as often as a job writes its progress
_MAX_ORDER_BYTES: Final = 16 << 20  # bytes; orders name files, they do not hold them

IdArgument = Annotated[str, typer.Argument(help="Id of the job.", metavar="ID")]


# ── Starting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def start_command(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="What is to be done, such as ingest or nightly.", metavar="KIND")],
    json_order: Annotated[
        Path | None, typer.Option(help="A JSON object with the rest of the order; - for stdin.", metavar="FILE")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the job, and end with its exit code.")] = False,
    as_json: output.JsonFlag = False,
) -> None:
    """Queue a job; a server or `refaug admin jobs work` does it.

    The same job is not queued a second time while it waits: that is a conflict, and names the waiting one.
    """
    from refaug.service.jobs.job_order import parse_order, resources_of  # noqa: PLC0415  pydantic

    order = parse_order(with_kind(kind, read_order(json_order) if json_order is not None else {}))
    with open_database(context.obj) as database:
        jobs = job_store(database, context.obj)
        job = jobs.enqueue(order.kind, order.as_order(), resources_of(order))
        if wait:
            job = _wait_for_end(jobs, job.id, quiet=context.obj.quiet)
        _print_job(job, as_json=as_json)
    if wait:
        _require_done(job)


def read_order(path: Path) -> dict[str, object]:
    """Read a JSON object from a file or from stdin."""
    called = "stdin" if str(path) == "-" else str(path)
    try:
        content = sys.stdin.buffer.read(_MAX_ORDER_BYTES + 1) if called == "stdin" else path.read_bytes()
    except OSError as error:
        raise NoSource(f"{called}: {output.reason_of(error)}") from error
    if len(content) > _MAX_ORDER_BYTES:
        raise BadInput(f"{called}: no order is that long", remedy="an order names files, it does not hold them")
    try:
        order = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{called}: not JSON: {error}") from error
    if not isinstance(order, dict):
        raise BadInput(f"{called}: not an object", remedy='an order is an object, such as {"log": "chat"}')
    return order


def with_kind(kind: str, order: Mapping[str, Any]) -> dict[str, object]:
    """Add the kind that was typed to an order; an order of another kind is refused."""
    if order.get("kind", kind) != kind:
        raise Usage(f"the order is of kind {order['kind']!r}, not {kind!r}", remedy="name the kind of the order")
    return {**order, "kind": kind}


# ── Following ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _wait_for_end(jobs: JobStore, job: str, *, quiet: bool) -> Job:
    """Print what happens to a job until it ends, and return it."""
    try:
        for event in _follow_events(jobs, job, 0):
            if not quiet and event.type != "progress":
                output.print_aside(_event_line(event))
    except KeyboardInterrupt:
        raise Interrupted(
            f"no longer waiting; job {job} goes on",
            remedy=f"refaug admin jobs events {job} --follow, or refaug admin jobs cancel {job}",
        ) from None
    return jobs.get(job)


def _follow_events(jobs: JobStore, job: str, after: int) -> Iterator[Event]:
    """Yield events as they come, up to the last one of a job that has ended."""
    while True:
        is_ended = jobs.get(job).state.is_ended  # read first: the last event is written with the last state
        events = jobs.events(job, after)
        yield from events
        if events:
            after = events[-1].id
        elif is_ended:
            return
        else:
            time.sleep(_POLL_S)


def _require_done(job: Job) -> None:
    """Raise the error with which the job ended, if any."""
    from refaug.service.jobs.store import JobState  # noqa: PLC0415  sqlalchemy

    if job.state is JobState.CANCELLED:
        raise Interrupted(f"job {job.id} was cancelled", remedy="started again, it goes on where it stopped")
    if job.state is JobState.FAILED:
        raise _as_error(job.error or {})


def _as_error(description: Mapping[str, Any]) -> RefaugError:
    """Return the error of a failed job as an exception with the same code and exit code."""
    message, remedy = str(description.get("message") or ""), str(description.get("remedy") or "")
    kind: type[RefaugError] = type(
        "JobError",
        (RefaugError,),
        {"code": str(description.get("code", RefaugError.code)), "exit_code": int(description.get("exit_code", 1))},
    )
    return kind(message, remedy=remedy)


# ── Showing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class StateChoice(StrEnum):
    """The states of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


def list_command(
    context: typer.Context,
    state: Annotated[StateChoice | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only those of a kind.", metavar="KIND")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000)] = 50,
    after: Annotated[
        str | None, typer.Option(help="The next page: those before this one, which ended the page.", metavar="ID")
    ] = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Jobs, the newest first."""
    from refaug.service.jobs.store import JobState  # noqa: PLC0415

    wanted_state = None if state is None else JobState(state.value)
    with open_database(context.obj) as database:
        listed_jobs, following = job_store(database, context.obj).list(
            state=wanted_state, kind=kind, after=after, limit=limit
        )
    if as_json:
        output.print_json({"jobs": [job.as_json() for job in listed_jobs], "next": following})
        return
    rows = [
        [job.id, job.kind, job.state, _to_second(job.created), _to_second(job.finished), _note(job)]
        for job in listed_jobs
    ]
    output.print_table("jobs", ("id", "kind", "state", "asked for", "ended", "note"), rows)
    if following is not None:
        output.print_line(f"there are more: --after {following}")


def show_command(context: typer.Context, name: IdArgument, as_json: output.JsonFlag = False) -> None:
    """A job: its order, its state, its result."""
    with open_database(context.obj) as database:
        _print_job(job_store(database, context.obj).get(name), as_json=as_json)


def events_command(
    context: typer.Context,
    name: IdArgument,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job has ended.")] = False,
    as_json: output.JsonFlag = False,
) -> None:
    """What has happened to a job, the oldest first; with --json one event a line."""
    with open_database(context.obj) as database:
        jobs = job_store(database, context.obj)
        jobs.get(name)  # raise NotFound rather than print no events
        for event in _follow_events(jobs, name, 0) if follow else _all_events(jobs, name):
            if as_json:
                output.print_json_line(
                    {"id": event.id, "job": event.job, "at": event.at, "type": event.type, "data": event.data}
                )
            else:
                output.print_line(_event_line(event))


def _all_events(jobs: JobStore, job: str) -> Iterator[Event]:
    events = jobs.events(job, 0)
    while events:
        yield from events
        events = jobs.events(job, events[-1].id)


def cancel_command(context: typer.Context, name: IdArgument, as_json: output.JsonFlag = False) -> None:
    """Let a job end: at once where it waits, else as soon as it can stop; what it has finished is kept."""
    with open_database(context.obj) as database:
        job = job_store(database, context.obj).cancel(name)
    if as_json:
        output.print_json(job.as_json())
    else:
        output.print_line(f"job {job.id} is cancelled" if job.state.is_ended else f"job {job.id} has been told to stop")


def retry_command(context: typer.Context, name: IdArgument, as_json: output.JsonFlag = False) -> None:
    """Queue a job again that failed or was cancelled; what it had finished is not done again."""
    with open_database(context.obj) as database:
        job = job_store(database, context.obj).retry(name)
    if as_json:
        output.print_json(job.as_json())
    else:
        output.print_line(f"job {job.id} waits")


def _print_job(job: Job, *, as_json: bool) -> None:
    if as_json:
        output.print_json(job.as_json())
        return
    facts = {
        "kind": job.kind,
        "state": f"{job.state}{', told to stop' if job.cancel_requested and not job.state.is_ended else ''}",
        "order": brief_order(job.order),
        "asked for": " by ".join(filter(None, (_to_second(job.created), job.requested_by))),
        "schedule": job.schedule,
        "started": _to_second(job.started),
        "ended": _to_second(job.finished),
        "tries": job.tries,
        "progress": None if job.state.is_ended else job.progress,
        "error": _note(job),
    }
    output.print_facts(f"job {job.id}", {name: fact for name, fact in facts.items() if fact not in (None, "", {})})
    if job.result is not None:
        output.print_facts("result", job.result)


def brief_order(order: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings of an order that are set, without its kind."""
    inner = {name: brief_order(setting) if isinstance(setting, Mapping) else setting for name, setting in order.items()}
    return {name: setting for name, setting in inner.items() if name != "kind" and _is_set(setting)}


def _is_set(setting: object) -> bool:
    """Say whether a setting is worth showing: not null, false or empty; but 0 may be a limit."""
    return setting is not None and setting is not False and setting not in ([], {})


def _note(job: Job) -> str:
    return "" if job.error is None else f"{job.error.get('code')}: {job.error.get('message')}"


def _event_line(event: Event) -> str:
    return f"{_to_second(event.at)}  {event.type:<8}  {_event_text(event)}".rstrip()


def _event_text(event: Event) -> str:
    """Describe an event, without settings that are empty."""
    event_data = event.data
    if event.type in ("warning", "note"):
        return str(event_data.get("message", ""))
    if event.type in ("stage", "progress"):
        done = [output.format_value(event_data["done"])] if "done" in event_data else []
        of = (
            [f"of {output.format_value(event_data['total'])}" if done else output.format_value(event_data["total"])]
            if event_data.get("total")
            else []
        )
        return " ".join(filter(None, (f"{event_data.get('stage', '')}:", *done, *of, event_data.get("unit")))).rstrip(
            ":"
        )
    rest = {name: detail for name, detail in event_data.items() if name not in ("state", "error")}
    error = event_data.get("error") or {}
    why = [str(rest.pop("why"))] if "why" in rest else []
    more = [f"{error.get('code')}: {error.get('message')}"] if error else [output.format_value(rest)] if rest else []
    return "; ".join((str(event_data.get("state", "")), *why, *more))


def _to_second(moment: str | None) -> str | None:
    """Return a time to the second; all times are UTC."""
    return None if moment is None else moment[:19].replace("T", " ")


# ── Working ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def work_command(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Do what waits and is due now, and end.")] = False,
) -> None:
    """Do the jobs that wait, one after the other, and those that schedules begin; until Ctrl-C.

    Several may work beside each other and beside a server. One that is stopped puts its job back, and the next one
    goes on where it was. Logs are JSON lines on stderr.
    """
    from refaug.service.jobs.worker import run_worker  # noqa: PLC0415  sqlalchemy
    from refaug.service.process import json_logging  # noqa: PLC0415

    with open_database(context.obj):
        pass  # creates the tables
    json_logging.configure_logging(context.obj.home, level=logging.WARNING if context.obj.quiet else logging.INFO)
    run_worker(context.obj, ServeSettings.from_env(), once=once)
