"""Making a home from a backup: everything is copied aside and checked, then moved into place.

A killed restore leaves the folder `.restoring` in the home. Before it holds `complete`, nothing else in the home was
touched; afterwards the rest only has to be moved. The same command finishes either, and no other command works on the
home meanwhile. The last step renames the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from refaug.core.errors import Conflict, Corrupt
from refaug.core.files import exclusive, make_folder, remove_tree, sha256_of, storage_errors, sync_folder, write_aside
from refaug.core.home import RESTORING, Settings
from refaug.core.progress import Progress
from refaug.service.backup import backup_files
from refaug.service.backup.backing_up import BackupReport, clear_folder
from refaug.service.database.database import Database
from refaug.service.database.table_rows import write_rows
from refaug.service.database.tables import table_sets

_COMPLETE: Final = "complete"
_RESTORED: Final = ".restored"
_PASSING: Final = frozenset({RESTORING, _RESTORED, ".lock"})


def restore(backup: Path, home: Settings, database_url: str, progress: Progress) -> BackupReport:
    """Restore a backup into an empty home and an empty database; Conflict where either holds something."""
    manifest = backup_files.BackupManifest.read(backup)
    for each in table_sets():
        if manifest.tables.get(each.name, each.newest) != each.newest:
            raise Conflict(
                f"{backup} has the tables of refaug {manifest.refaug}, for {each.name} of step "
                f"{manifest.tables[each.name]}; this refaug has those of step {each.newest}",
                remedy="restore it with that version of refaug, then upgrade",
            )
    staging = home.home / RESTORING
    if not (staging / _COMPLETE).exists():
        _require_empty(home)
    with exclusive(staging, "a restore"), storage_errors(home.home):
        if not (staging / _COMPLETE).exists():
            clear_folder(staging)
            _copy_aside(backup, manifest, staging, progress)
            progress.stage("restoring the database")
            _restore_database(staging, manifest, home, database_url)
            _require_still_empty(home, staging)
            for folder, _, _ in os.walk(staging):
                sync_folder(Path(folder))
            with write_aside(staging / _COMPLETE) as file:
                file.write(sha256_of(backup / backup_files.MANIFEST).encode())
        if (staging / _COMPLETE).read_text() != sha256_of(backup / backup_files.MANIFEST):
            raise Conflict(f"{home.home}: another backup is half restored here", remedy="finish that, or empty it")
        rows = sum(1 for _ in _lines(backup / backup_files.ROWS))
        _move_into_place(home, staging)
    return BackupReport(files=len(manifest.files), bytes=sum(file.size for file in manifest.files.values()), rows=rows)


def _require_empty(home: Settings) -> None:
    if home.home.is_dir() and any(path.name not in _PASSING for path in home.home.iterdir()):
        raise Conflict(
            f"{home.home} is not empty",
            remedy="name an empty home: refaug --home FOLDER admin restore; nothing is replaced",
        )


def _require_still_empty(home: Settings, staging: Path) -> None:
    """Give up where a server or a job has begun to use the home since."""
    try:
        _require_empty(home)
    except Conflict:
        remove_tree(staging)
        raise


def _copy_aside(backup: Path, manifest: backup_files.BackupManifest, staging: Path, progress: Progress) -> None:
    """Copy every file and compare its hash; what versions share in the backup they share in the home."""
    progress.stage("copying the backup", sum(file.size for file in manifest.files.values()), "B")
    copied = dict[tuple[int, int], str]()
    for name, named in manifest.files.items():
        path = backup / name
        if path.is_symlink() or not path.is_file():
            raise Corrupt(f"{path} is missing, or no file", remedy="use another backup")
        status = path.stat()
        same = copied.setdefault((status.st_dev, status.st_ino), name)
        if same != name and backup_files.link_file(staging / same, staging / name):
            backup_files.require_same(path, named, manifest.files[same])
        else:
            backup_files.require_same(path, named, backup_files.copy_file(path, staging / name, progress))
    make_folder(staging / backup_files.HOME)


def _restore_database(staging: Path, manifest: backup_files.BackupManifest, home: Settings, database_url: str) -> None:
    """Write the rows into PostgreSQL, or into a new file that moves into the home with the rest."""
    place = home if database_url else Settings(home=staging / backup_files.HOME)
    with closing(Database.open(place, database_url)) as database:
        rows = staging / backup_files.ROWS
        write_rows(database, _lines(rows), str(rows), manifest.tables)


def _move_into_place(home: Settings, staging: Path) -> None:
    """Move what is copied into the home; the rename of the folder ends the restore."""
    for path in sorted((staging / backup_files.HOME).iterdir()):
        path.replace(home.home / path.name)
    sync_folder(home.home)
    (staging / backup_files.ROWS).unlink(missing_ok=True)
    remove_tree(home.home / _RESTORED)
    staging.rename(home.home / _RESTORED)
    sync_folder(home.home)
    remove_tree(home.home / _RESTORED)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
