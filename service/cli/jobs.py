"""`refaug jobs …`: work that takes a while, queued, followed, cancelled and done."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from core.errors import BadInput, Interrupted, NoSource, RefaugError, Usage
from service.cli.common import JsonFlag, print_facts, print_json, print_json_line, print_line, print_table, shown, why
from service.cli.database import job_store, opened_database
from service.serve_settings import ServeSettings

if TYPE_CHECKING:
    from service.job_store import Event, Job, JobStore

app = typer.Typer(help="Queue work, follow it, and do it.", no_args_is_help=True)

_LOOK_S: Final = 0.5  # as often as a job writes where it is
_LONGEST_ORDER: Final = 16 << 20  # bytes; orders name files, they do not hold them

IdArgument = Annotated[str, typer.Argument(help="Id of the job.", metavar="ID")]


# ── beginning ─────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("start")
def start_command(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="What is to be done, such as ingest or nightly.", metavar="KIND")],
    json_order: Annotated[
        Path | None, typer.Option(help="A JSON object with the rest of the order; - for stdin.", metavar="FILE")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the job, and end with its exit code.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Queue a job; a server or `refaug jobs work` does it.

    The same job is not queued a second time while it waits: that is a conflict, and names the one that is there.
    """
    from service.job_kinds.orders import parse_order, resources_of  # noqa: PLC0415  pydantic

    order = parse_order(with_kind(kind, read_order(json_order) if json_order is not None else {}))
    with opened_database(context.obj) as database:
        jobs = job_store(database)
        job = jobs.enqueue(order.kind, order.model_dump(mode="json"), resources_of(order))
        if wait:
            job = _waited(jobs, job.id, quiet=context.obj.quiet)
        _print_job(job, as_json=as_json)
    if wait:
        _require_done(job)


def read_order(path: Path) -> dict[str, Any]:
    """A JSON object out of a file, or out of stdin."""
    called = "stdin" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read(_LONGEST_ORDER + 1) if called == "stdin" else path.read_bytes()
    except OSError as error:
        raise NoSource(f"{called}: {why(error)}") from error
    if len(data) > _LONGEST_ORDER:
        raise BadInput(f"{called}: no order is that long", remedy="an order names files, it does not hold them")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{called}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{called}: not an object", remedy='an order is an object, such as {"log": "chat"}')
    return value


def with_kind(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The order with the kind that was typed; one that says another kind is for another job."""
    if values.get("kind", kind) != kind:
        raise Usage(f"the order is of kind {values['kind']!r}, not {kind!r}", remedy="name the kind of the order")
    return {**values, "kind": kind}


# ── following ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _waited(jobs: JobStore, job: str, *, quiet: bool) -> Job:
    """The job once it has ended; what happens to it is told meanwhile."""
    try:
        for event in _following(jobs, job, 0):
            if not quiet and event.type != "progress":
                print(_line(event), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        raise Interrupted(
            f"no longer waiting; job {job} goes on",
            remedy=f"refaug jobs events {job} --follow, or refaug jobs cancel {job}",
        ) from None
    return jobs.get(job)


def _following(jobs: JobStore, job: str, after: int) -> Iterator[Event]:
    """Events as they come, to the last one of a job that has ended."""
    while True:
        is_ended = jobs.get(job).state.is_ended  # asked first: the last event is written with the last state
        found = jobs.events(job, after)
        yield from found
        if found:
            after = found[-1].id
        elif is_ended:
            return
        else:
            time.sleep(_LOOK_S)


def _require_done(job: Job) -> None:
    """End as the job did."""
    from service.job_store import JobState  # noqa: PLC0415  sqlalchemy

    if job.state is JobState.CANCELLED:
        raise Interrupted(f"job {job.id} was cancelled", remedy="started again, it goes on where it stopped")
    if job.state is JobState.FAILED:
        raise _as_error(job.error or {})


def _as_error(told: Mapping[str, Any]) -> RefaugError:
    """What a job ended with, as the error that it was there."""
    message, remedy = str(told.get("message") or ""), str(told.get("remedy") or "")
    kind: type[RefaugError] = type(
        "Told",
        (RefaugError,),
        {"code": str(told.get("code", RefaugError.code)), "exit_code": int(told.get("exit_code", 1))},
    )
    return kind(message, remedy=remedy)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


class StateChoice(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@app.command("list")
def list_command(
    context: typer.Context,
    state: Annotated[StateChoice | None, typer.Option(help="Only those that are there.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only those of a kind.", metavar="KIND")] = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=1000)] = 50,
    after: Annotated[
        str | None, typer.Option(help="The next page: those before this one, which ended the page.", metavar="ID")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Jobs, the newest first."""
    from service.job_store import JobState  # noqa: PLC0415

    wanted = None if state is None else JobState(state.value)
    with opened_database(context.obj) as database:
        found, following = job_store(database).list(state=wanted, kind=kind, after=after, limit=limit)
    if as_json:
        print_json({"jobs": [_job(job) for job in found], "next": following})
        return
    rows = [[job.id, job.kind, job.state, _second(job.created), _second(job.finished), _note(job)] for job in found]
    print_table("jobs", ("id", "kind", "state", "asked for", "ended", "note"), rows)
    if following is not None:
        print_line(f"there are more: --after {following}")


@app.command("show")
def show_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """A job: what was asked for, where it is, what came of it."""
    with opened_database(context.obj) as database:
        _print_job(job_store(database).get(name), as_json=as_json)


@app.command("events")
def events_command(
    context: typer.Context,
    name: IdArgument,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job has ended.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """What has happened to a job, the oldest first; with --json one event a line."""
    with opened_database(context.obj) as database:
        jobs = job_store(database)
        jobs.get(name)  # NotFound, where nothing would only look like nothing
        for event in _following(jobs, name, 0) if follow else _all_events(jobs, name):
            if as_json:
                print_json_line(
                    {"id": event.id, "job": event.job, "at": event.at, "type": event.type, "data": event.data}
                )
            else:
                print_line(_line(event))


def _all_events(jobs: JobStore, job: str) -> Iterator[Event]:
    found = jobs.events(job, 0)
    while found:
        yield from found
        found = jobs.events(job, found[-1].id)


@app.command("cancel")
def cancel_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """Let a job end: at once where it waits, else as soon as it can stop; what it has finished is kept."""
    with opened_database(context.obj) as database:
        job = job_store(database).cancel(name)
    if as_json:
        print_json(_job(job))
    else:
        print_line(f"job {job.id} is cancelled" if job.state.is_ended else f"job {job.id} has been told to stop")


def _print_job(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json(_job(job))
        return
    facts = {
        "kind": job.kind,
        "state": f"{job.state}{', told to stop' if job.cancel_requested and not job.state.is_ended else ''}",
        "order": brief(job.order),
        "asked for": " by ".join(filter(None, (_second(job.created), job.requested_by))),
        "schedule": job.schedule,
        "started": _second(job.started),
        "ended": _second(job.finished),
        "tries": job.tries,
        "progress": None if job.state.is_ended else job.progress,
        "error": _note(job),
    }
    print_facts(f"job {job.id}", {name: value for name, value in facts.items() if value not in (None, "", {})})
    if job.result is not None:
        print_facts("result", job.result)


def _job(job: Job) -> dict[str, Any]:
    """A job as the service shows it over HTTP; which process does it is nobody's business."""
    values = {field.name: getattr(job, field.name) for field in fields(job)}
    return {name: value for name, value in values.items() if name not in ("worker", "beat")}


def brief(order: Mapping[str, Any]) -> dict[str, Any]:
    """What an order says of its own, without what says nothing."""
    inner = {name: brief(value) if isinstance(value, Mapping) else value for name, value in order.items()}
    return {name: value for name, value in inner.items() if name != "kind" and _says_something(value)}


def _says_something(value: object) -> bool:
    """Of false, of nothing, and of what has nothing in it, no word; but 0 may be a limit."""
    return value is not None and value is not False and value not in ([], {})


def _note(job: Job) -> str:
    return "" if job.error is None else f"{job.error.get('code')}: {job.error.get('message')}"


def _line(event: Event) -> str:
    return f"{_second(event.at)}  {event.type:<8}  {_said(event)}".rstrip()


def _said(event: Event) -> str:
    """What an event tells, without what is plain or empty."""
    data = event.data
    if event.type in ("warning", "note"):
        return str(data.get("message", ""))
    if event.type in ("stage", "progress"):
        done = [shown(data["done"])] if "done" in data else []
        of = [f"of {shown(data['total'])}" if done else shown(data["total"])] if data.get("total") else []
        return " ".join(filter(None, (f"{data.get('stage', '')}:", *done, *of, data.get("unit")))).rstrip(":")
    rest = {name: value for name, value in data.items() if name not in ("state", "error")}
    error = data.get("error") or {}
    more = [f"{error.get('code')}: {error.get('message')}"] if error else [shown(rest)] if rest else []
    return "; ".join((str(data.get("state", "")), *more))


def _second(moment: str | None) -> str | None:
    """A time to the second; all are UTC."""
    return None if moment is None else moment[:19].replace("T", " ")


# ── doing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("work")
def work_command(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Do what waits and is due now, and end.")] = False,
) -> None:
    """Do the jobs that wait, one after the other, and those that schedules begin; until Ctrl-C.

    Several may work beside each other and beside a server. One that is stopped puts its job back, and the next one
    goes on where it was. Logs are JSON lines on stderr.
    """
    from service import logs_json  # noqa: PLC0415
    from service.job_worker import work  # noqa: PLC0415  sqlalchemy

    with opened_database(context.obj):
        pass  # the tables are there
    logs_json.set_up(context.obj.home, level=logging.WARNING if context.obj.quiet else logging.INFO)
    work(context.obj, ServeSettings.from_env(), once=once)
