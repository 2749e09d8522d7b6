"""`refaug admin audit`: who did what, from the audit log of the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer

from refaug.cli.shared.database import open_database
from refaug.cli.shared.output import JsonFlag, count_of, print_json_line, print_table
from refaug.core.errors import Usage

_SHORT_DETAILS = 60


def audit_command(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(help="A time such as 2026-11-20 or 2026-11-20T08:30+01:00; UTC without a zone.", metavar="TIME"),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="First compare each row with its checksum, and with the row before.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say who published, removed, erased, withdrew, queued, and made or revoked keys.

    With --json, each act is a line.
    """
    from refaug.service.audit import AuditLog  # noqa: PLC0415  sqlalchemy

    moment = None if since is None else _time_of(since)
    with open_database(context.obj) as database:
        if verify:
            count = AuditLog(database).verify()
            typer.echo(
                f"{count_of(count, 'row')} checked: none was altered, and none is missing before another", err=True
            )
        entries = AuditLog(database).entries(moment)
        if as_json:
            for entry in entries:
                print_json_line(entry.as_json())
            return
        rows = [
            (
                entry.at[:19],
                entry.actor,
                entry.action,
                entry.subject,
                orjson.dumps(entry.details).decode()[:_SHORT_DETAILS],
            )
            for entry in entries
        ]
    print_table("audit log", ("at", "actor", "action", "subject", "details"), rows)


def _time_of(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Usage(f"--since {text!r} is not a time", remedy="such as 2026-11-20 or 2026-11-20T08:30") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
