"""`refaug admin backup` and `refaug admin restore`: a whole home as one folder, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.output import JsonFlag, count_of, format_amount, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Corrupt, NotFound
from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from refaug.service.backup.backing_up import BackupReport
    from refaug.service.database.database import Database


def backup_command(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(help="A folder that is not there, or empty.", metavar="FOLDER")],
    share: Annotated[
        Path | None,
        typer.Option(
            help="An earlier backup on the same disk: files that are the same become links.", metavar="FOLDER"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a backup of the home and its database into a folder, also while a server runs."""
    from refaug.service.backup.backing_up import back_up, note_backup  # noqa: PLC0415  sqlalchemy

    home: Settings = context.obj
    if not home.home.is_dir():
        raise NotFound(f"{home.home} is not there", remedy="name the home: refaug --home FOLDER admin backup TARGET")
    with _database_as_it_is(home) as database, display_progress(quiet=home.quiet) as progress:
        report = back_up(home, database, target, progress, share)
        if database is not None:
            note_backup(database, target, report, progress)
    _print(report, target, as_json=as_json)
    if report.damaged:
        raise Corrupt(
            f"{target} is complete, and has files that are damaged in the home too: {'; '.join(report.damaged)}",
            remedy="restore these files from an earlier backup, and keep that one",
        )


@contextmanager
def _database_as_it_is(home: Settings) -> Iterator[Database | None]:
    """Open the database without migrating it, since an older server may run on it; None where there is none yet."""
    from refaug.service.database.database import Database  # noqa: PLC0415  sqlalchemy

    with closing(Database.open(home, ServeSettings.from_env().database)) as database:
        yield database if database.file is None or database.file.exists() else None


def restore_command(
    context: typer.Context,
    backup: Annotated[Path, typer.Argument(help="A folder that refaug admin backup has written.", metavar="FOLDER")],
    as_json: JsonFlag = False,
) -> None:
    """Make an empty home from a backup; every hash is checked before anything is in place."""
    from refaug.service.backup.restoring import restore  # noqa: PLC0415  sqlalchemy

    home: Settings = context.obj
    with display_progress(quiet=home.quiet) as progress:
        report = restore(backup, home, ServeSettings.from_env().database, progress)
    _print(report, home.home, as_json=as_json)


def _print(report: BackupReport, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(report), "folder": str(folder)})
        return
    size = format_amount(report.bytes, "B")
    shared = f", {count_of(report.shared, 'file')} shared" if report.shared else ""
    rows = count_of(report.rows, "row")
    print_line(f"{folder}: {count_of(report.files, 'file')}, {size}{shared}, {rows} of the database")
