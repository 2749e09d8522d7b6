"""`refaug admin schedules …`: jobs that start by the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.server.jobs import brief_order, read_order
from refaug.cli.shared.database import job_store, open_database
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table

if TYPE_CHECKING:
    from refaug.service.jobs.schedules import Schedule, ScheduleStore


NameArgument = Annotated[str, typer.Argument(help="Name of the schedule.", metavar="NAME")]

_SHOWN_TIMES: Final = 5  # of the next due times


def put_command(
    context: typer.Context,
    name: NameArgument,
    cron: Annotated[
        str, typer.Option(help="When: minute, hour, day of the month, month, day of the week.", metavar="CRON")
    ],
    order: Annotated[
        Path, typer.Option(help="The job's order as a JSON object with its kind; - for stdin.", metavar="FILE")
    ],
    timezone: Annotated[str, typer.Option(help="By whose clocks, such as Europe/Berlin.", metavar="ZONE")] = "UTC",
    enabled: Annotated[bool, typer.Option(help="Whether it fires.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Make a schedule, or change it.

    Changing the time, or enabling it again, lets it count from now on. Putting it as it is changes nothing.
    """
    from refaug.service.audit import AuditLog, user_of_machine  # noqa: PLC0415  sqlalchemy
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415

    read = read_order(order)
    with open_database(context.obj) as database:
        schedules = ScheduleStore(database)
        with database.writing():
            schedules.put(name, cron=cron, timezone=timezone, order=read, enabled=enabled)
            AuditLog(database).add(user_of_machine(), "put", f"schedule {name}", kind=str(read.get("kind")))
        _show(schedules, name, as_json=as_json)


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All schedules, when they are due next, and what is wrong with them."""
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415

    with open_database(context.obj) as database:
        schedules = ScheduleStore(database)
        failing = schedules.failing()
        listed = schedules.list()
        dues = [_next_times(schedules, schedule, 1) for schedule in listed]
    if as_json:
        print_json([_as_json(*row, failing) for row in zip(listed, dues, strict=True)])
        return
    columns = ("name", "cron", "timezone", "job", "enabled", "next", "failing")
    print_table(
        "schedules",
        columns,
        [
            [
                schedule.name,
                schedule.cron,
                schedule.timezone,
                schedule.order["kind"],
                schedule.enabled,
                _minute(due[0]) if due else None,
                failing.get(schedule.name),
            ]
            for schedule, due in zip(listed, dues, strict=True)
        ],
    )


def show_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """A schedule, the times to come, and what became of the last ones."""
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415

    with open_database(context.obj) as database:
        _show(ScheduleStore(database), name, as_json=as_json)


def delete_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Take a schedule away; jobs that it has begun go on."""
    from refaug.service.audit import AuditLog, user_of_machine  # noqa: PLC0415
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415

    with open_database(context.obj) as database, database.writing():
        ScheduleStore(database).delete(name)
        AuditLog(database).add(user_of_machine(), "delete", f"schedule {name}")
    if as_json:
        print_json({"schedule": name, "deleted": True})
    else:
        print_line(f"schedule {name} is deleted")


def tick_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Queue the jobs that are due now, as a worker does by itself twice a second: for another program's clock."""
    from refaug.service.jobs.schedules import ScheduleStore  # noqa: PLC0415

    with open_database(context.obj) as database:
        fired = ScheduleStore(database).tick(job_store(database, context.obj), datetime.now(UTC))
    if as_json:
        print_json([asdict(firing) for firing in fired])
    elif not fired:
        print_line("nothing is due")
    for firing in [] if as_json else fired:
        print_line(f"{firing.schedule}, due {_minute(firing.due)} UTC: {firing.note or f'job {firing.job}'}")


def _show(schedules: ScheduleStore, name: str, *, as_json: bool) -> None:
    schedule, failing, last = schedules.get(name), schedules.failing(), schedules.firings(name)
    due_times = _next_times(schedules, schedule, _SHOWN_TIMES)
    if as_json:
        print_json({**_as_json(schedule, due_times, failing), "firings": [asdict(firing) for firing in last]})
        return
    facts = {
        "cron": f"{schedule.cron} ({schedule.timezone})",
        "job": schedule.order["kind"],
        "order": brief_order(schedule.order),
        "enabled": schedule.enabled,
        **({"failing": failing[name]} if name in failing else {}),
        "updated": f"{_minute(schedule.updated)} UTC",
        f"next ({schedule.timezone})": [_minute(due) for due in due_times],
    }
    print_facts(f"schedule {name}", facts)
    if last:
        print_table(
            "last due times (UTC)", ("due", "job", "note"), [[_minute(f.due), f.job, f.note or ""] for f in last]
        )


def _next_times(schedules: ScheduleStore, schedule: Schedule, count: int) -> list[datetime]:
    return schedules.next_times(schedule.name, count) if schedule.enabled else []


def _as_json(schedule: Schedule, due_times: Sequence[datetime], failing: Mapping[str, str]) -> Mapping[str, object]:
    return {**schedule.as_json(), "next": due_times, "failing": failing.get(schedule.name)}


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
