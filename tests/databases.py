"""The databases that tests of jobs, schedules and keys run on: SQLite, and a PostgreSQL of the test run's own.

A module that wants them says `pytest_plugins = ("databases",)`. Its tests take `database` (with tables; each test runs
on both), `empty_database` (without), `database_url` (for processes; "" is SQLite in the home) or `cluster`. PostgreSQL
is started once a session from the binaries that are installed, on a Unix socket, and does not wait for the disk; each
test has a database of its own in it.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from new_tables import add_tables
from safeguards import POSTGRESQL, require

from refaug.core.files import unique_suffix
from refaug.core.home import Settings
from refaug.service.database.database import Database

BOTH = ("sqlite", POSTGRESQL)
_USER = "refaug"


def _binaries() -> Path | None:
    """The folder of initdb and postgres, of the newest version."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    found = shutil.which("initdb")
    folders = ([Path(found).resolve().parent] if found else []) + folders
    whole = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    return whole[-1] if whole else None


def _unprivileged() -> dict[str, object]:
    """PostgreSQL refuses to run as root: who it runs as instead, for subprocess."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Cluster:
    """A PostgreSQL that is ours."""

    def __init__(self, binaries: Path) -> None:
        self._binaries, self._as = binaries, _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="refaug-pg-"))  # not pytest's folder: others may not enter that one
        if "user" in self._as:
            os.chown(self.folder, self._as["user"], self._as["group"])  # type: ignore[arg-type]
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", "data", "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "32MB",
            "max_connections": "60",
            "autovacuum": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", "data", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._as,
            )
        deadline = time.monotonic() + 60
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(host=str(self.folder), user=_USER, dbname="postgres").close()
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """As after a power cut: connections end without a word, and nothing is written down."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def ask(self, statement: str) -> None:
        """One statement, outside of transactions."""
        with psycopg.connect(host=str(self.folder), user=_USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)

    def url(self, name: str) -> str:
        return f"postgresql://{_USER}@/{name}?host={quote(str(self.folder), safe='')}"

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def the_cluster():
    binaries = _binaries()
    require("postgresql", found=binaries is not None, why="no initdb and postgres in PATH or /usr/lib/postgresql")
    cluster = Cluster(binaries)
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(the_cluster):
    """The running PostgreSQL; a test may stop it, and it runs again afterwards."""
    yield the_cluster
    the_cluster.stop()
    the_cluster.start()


@pytest.fixture(params=BOTH)
def database_url(request):
    """What REFAUG_DATABASE is, for a database that has no tables yet."""
    if request.param == "sqlite":
        yield ""
        return
    running = request.getfixturevalue("the_cluster")
    name = f"t{re.sub(r'[^0-9a-z]', '', unique_suffix())}"
    running.ask(f"CREATE DATABASE {name} TEMPLATE template0")
    yield running.url(name)
    running.ask(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty_database(database_url, tmp_path):
    """A database without tables."""
    database = Database.open(Settings(home=tmp_path / "home"), database_url)
    yield database
    database.close()


@pytest.fixture
def database(empty_database):
    """A database with all tables."""
    add_tables(empty_database)
    return empty_database
