"""`refaug schedules …`: jobs that begin by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from service.cli.common import JsonFlag, print_facts, print_json, print_line, print_table
from service.cli.database import job_store, opened_database
from service.cli.jobs import brief, read_order

if TYPE_CHECKING:
    from service.schedules import Firing, Schedule, Schedules

app = typer.Typer(help="Let jobs begin by the clock.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the schedule.", metavar="NAME")]

_TIMES: Final = 5  # that are shown of those to come


@app.command("put")
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
    from service.schedules import Schedules  # noqa: PLC0415  sqlalchemy

    read = read_order(order)
    with opened_database(context.obj) as database:
        schedules = Schedules(database)
        schedules.put(name, cron=cron, timezone=timezone, order=read, enabled=enabled)
        _show(schedules, name, as_json=as_json)


@app.command("list")
def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All schedules, when they are due next, and what is wrong with them."""
    from service.schedules import Schedules  # noqa: PLC0415

    with opened_database(context.obj) as database:
        schedules = Schedules(database)
        failing = schedules.failing()
        rows = [_as_json(schedules, one, failing, times=1) for one in schedules.list()]
    if as_json:
        print_json(rows)
        return
    columns = ("name", "cron", "timezone", "job", "enabled", "next", "failing")
    print_table(
        "schedules",
        columns,
        [
            [
                row["name"],
                row["cron"],
                row["timezone"],
                row["order"]["kind"],
                row["enabled"],
                _first(row),
                row["failing"],
            ]
            for row in rows
        ],
    )


@app.command("show")
def show_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """A schedule, the times to come, and what became of the last ones."""
    from service.schedules import Schedules  # noqa: PLC0415

    with opened_database(context.obj) as database:
        _show(Schedules(database), name, as_json=as_json)


@app.command("delete")
def delete_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Take a schedule away; jobs that it has begun go on."""
    from service.schedules import Schedules  # noqa: PLC0415

    with opened_database(context.obj) as database:
        Schedules(database).delete(name)
    if as_json:
        print_json({"schedule": name, "deleted": True})
    else:
        print_line(f"schedule {name} is deleted")


@app.command("tick")
def tick_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Queue the jobs that are due now, as a worker does by itself twice a second: for another program's clock."""
    from service.schedules import Schedules  # noqa: PLC0415

    with opened_database(context.obj) as database:
        fired = Schedules(database).tick(job_store(database), datetime.now(UTC))
    if as_json:
        print_json([_firing(one) for one in fired])
    elif not fired:
        print_line("nothing is due")
    for one in [] if as_json else fired:
        print_line(f"{one.schedule}, due {_minute(one.due)}: {one.note or f'job {one.job}'}")


def _show(schedules: Schedules, name: str, *, as_json: bool) -> None:
    found = _as_json(schedules, schedules.get(name), schedules.failing(), times=_TIMES)
    last = schedules.firings(name)
    if as_json:
        print_json({**found, "firings": [_firing(one) for one in last]})
        return
    facts = {
        "cron": f"{found['cron']} ({found['timezone']})",
        "job": found["order"]["kind"],
        "order": brief(found["order"]),
        "enabled": found["enabled"],
        **({"failing": found["failing"]} if found["failing"] else {}),
        "updated": f"{_minute(found['updated'])} UTC",
        "next": [_minute(due) for due in found["next"]],
    }
    print_facts(f"schedule {name}", facts)
    if last:
        print_table(
            "last due times (UTC)", ("due", "job", "note"), [[_minute(f.due), f.job, f.note or ""] for f in last]
        )


def _as_json(schedules: Schedules, one: Schedule, failing: Mapping[str, str], *, times: int) -> dict[str, Any]:
    return {
        "name": one.name,
        "cron": one.cron,
        "timezone": one.timezone,
        "order": one.order,
        "enabled": one.enabled,
        "created": one.created,
        "updated": one.updated,
        "next": schedules.next_times(one.name, times) if one.enabled else [],
        "failing": failing.get(one.name),
    }


def _firing(one: Firing) -> dict[str, Any]:
    return {"schedule": one.schedule, "due": one.due, "job": one.job, "note": one.note}


def _first(row: dict[str, Any]) -> str | None:
    return _minute(row["next"][0]) if row["next"] else None


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
