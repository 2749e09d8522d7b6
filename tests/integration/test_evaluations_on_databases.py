"""Evaluations and their notes on both databases, and upgrades from the first tables to those of today."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from backups import backed_up, restored, rows
from evaluated import asked
from serving import client_of
from sqlalchemy import text

from refaug.core.home import Settings
from refaug.service.database import migrations
from refaug.service.database.database import Database, newest_step
from refaug.service.evaluations.notes import NoteStore
from refaug.service.jobs.store import JobStore
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore, Scope
from refaug.service.server_settings import ServeSettings

pytest_plugins = ("databases",)


def upgraded_to(database: Database, step: str) -> None:
    """Make the tables of an earlier step, or bring them there."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    if database.file is not None:
        database.file.parent.mkdir(parents=True, exist_ok=True)
        database.file.touch()
    with database.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, step)


@pytest.mark.parametrize("step", ["0001", "0002", "0003"])
def test_rows_of_earlier_tables_are_there_after_an_upgrade(empty_database: Database, step: str) -> None:
    upgraded_to(empty_database, step)
    job = "0" * 26
    with empty_database.writing() as connection:
        connection.execute(
            text(
                'INSERT INTO jobs (id, kind, "order", resources, state, created, tries, events, cancel_requested) '
                "VALUES (:id, 'gc', '{}', '[]', 'queued', '2026-01-01T00:00:00.000000Z', 0, 0, false)"
            ),
            {"id": job},
        )
    empty_database.migrate()
    empty_database.require_current()
    with empty_database.reading() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == newest_step()
    assert [(waiting.id, waiting.state) for waiting in JobStore(empty_database).list()[0]] == [(job, "queued")]
    notes = NoteStore(empty_database)
    notes.put("1" * 26, 3, text="why\u202e so low? é", author="ann")
    notes.put("1" * 26, 3, text="again", author="ben")
    assert [(note.place, note.text, note.author) for note in notes.all("1" * 26)] == [(3, "again", "ben")]
    assert notes.remove_orphans(lambda _: False) == 1
    assert notes.all("1" * 26) == []


def test_an_evaluation_is_made_noted_backed_up_and_removed(database_url: str, tmp_path: Path) -> None:
    home, serve = Settings(home=tmp_path / "home"), ServeSettings(database=database_url)
    with closing(Database.open(home, database_url)) as database:
        database.migrate()
        KeyStore(database).create("ann", scopes=[Scope.SCORE])
    with client_of(home, ready=False, database=database_url) as client:
        name = asked(client)
        at = f"/v1/evaluations/{name}"
        assert run_worker(home, serve, once=True) == 0
        assert client.get(at).json()["state"] == "done"
        assert client.put(f"{at}/notes/3", json={"text": "why?"}).status_code == 200
        assert client.get(f"{at}/replies", params={"has_note": True}).json()["total"] == 1
        backed_up(home, tmp_path / "backup", url=database_url)
        elsewhere = restored(tmp_path / "backup", tmp_path / "other")
        assert rows(elsewhere) == rows(home, database_url)
        assert client.delete(at).status_code == 200
        assert client.get(at).status_code == 404
        waiting = asked(client, seed=2)
        assert client.post(f"/v1/evaluations/{waiting}/cancel").json()["state"] == "cancelled"
        assert client.delete(f"/v1/evaluations/{waiting}").status_code == 200
        assert client.get("/v1/evaluations").json()["evaluations"] == []
    with client_of(elsewhere, ready=False) as client:
        assert [note["text"] for note in client.get(f"{at}/notes").json()["notes"]] == ["why?"]
        assert client.get(f"{at}/replies").json()["total"] == 16
