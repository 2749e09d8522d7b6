"""Tables for an empty database: a file gets those that were made once, since hundreds of tests need some."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.database.stored_cells import FILE


def add_tables(database: Database) -> None:
    file = database.file
    if file is None or file.exists():
        database.migrate()
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_file_with_tables())


@cache
def _file_with_tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(Settings(home=Path(folder)))
        database.migrate()
        database.close()
        return (Path(folder) / FILE).read_bytes()
