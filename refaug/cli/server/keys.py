"""`refaug admin keys …`: the keys of the service, with their scopes and limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.database import open_database
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.service.scopes import Scope

if TYPE_CHECKING:
    from refaug.service.keys import Key


def create_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Whose key it is; a name is not used again.", metavar="NAME")],
    scope: Annotated[
        list[Scope],
        typer.Option(
            help="What it allows; may be repeated. No scope includes another, except admin, which includes all."
        ),
    ],
    rate: Annotated[float | None, typer.Option(help="Requests a second, at most.", metavar="N")] = None,
    quota: Annotated[int | None, typer.Option(help="Requests a day (UTC), at most.", metavar="N")] = None,
    expires: Annotated[
        int | None,
        typer.Option(help="Days that it is good for; without it, for ever.", metavar="DAYS", min=1, max=36_500),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key, and print its token, which is shown only once."""
    from refaug.service.keys import KeyStore  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database:
        token, key = KeyStore(database).create(
            name,
            scope,
            rate_per_s=rate,
            quota_per_day=quota,
            expires=None if expires is None else datetime.now(UTC) + timedelta(days=expires),
        )
    if as_json:
        print_json({"token": token, **key.as_json()})
        return
    print_facts(f"key {key.name}", {"token": token, **_facts(key)})
    print_line("the token is not shown again: keep it where only its user can read it")


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All keys, revoked ones too; never their tokens."""
    from refaug.service.keys import KeyStore  # noqa: PLC0415

    with open_database(context.obj) as database:
        keys = KeyStore(database).list()
    if as_json:
        print_json([key.as_json() for key in keys])
        return
    columns = ("name", "id", "scopes", "rate", "quota", "created", "expires", "note")
    print_table("keys", columns, [[key.name, *_facts(key).values(), _note(key)] for key in keys])


def revoke_command(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Name or id of the key.", metavar="KEY")],
    as_json: JsonFlag = False,
) -> None:
    """Revoke a key; every process of a server knows within two seconds."""
    from refaug.service.keys import KeyStore  # noqa: PLC0415

    with open_database(context.obj) as database:
        revoked = KeyStore(database).revoke(key)
    if as_json:
        print_json(revoked.as_json())
    else:
        print_line(f"key {revoked.name} ({revoked.id}) is revoked")


def _facts(key: Key) -> dict[str, object]:
    return {
        "id": key.id,
        "scopes": sorted(key.scopes),
        "rate": None if key.rate_per_s is None else f"{key.rate_per_s:g}/s",
        "quota": None if key.quota_per_day is None else f"{key.quota_per_day:,}/day",
        "created": f"{key.created:%Y-%m-%d}",
        "expires": None if key.expires is None else f"{key.expires:%Y-%m-%d}",
    }


def _note(key: Key) -> str:
    if key.revoked is not None:
        return f"revoked {key.revoked:%Y-%m-%d}"
    return "expired" if key.expires is not None and key.expires <= datetime.now(UTC) else ""
