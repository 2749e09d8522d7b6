"""Evaluations and their notes on both databases, and upgrades from the first tables to those of today."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from backups import backed_up, restored, rows
from evaluated import asked
from serving import client_of

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.evaluations.notes import NoteStore
from refaug.service.jobs.store import JobStore
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

pytest_plugins = ("databases",)


def test_rows_are_there_after_the_tables_were_looked_at_again(empty_database: Database) -> None:
    empty_database.migrate()
    job = JobStore(empty_database).enqueue("gc", {}, ["index chat"]).id
    empty_database.migrate()
    empty_database.require_current()
    assert [(waiting.id, waiting.state) for waiting in JobStore(empty_database).list()[0]] == [(job, "queued")]
    notes = NoteStore(empty_database)
    notes.put("1" * 26, 3, text="why\u202e so low? é", author="ann")
    notes.put("1" * 26, 3, text="again", author="ben")
    assert [(note.place, note.text, note.author) for note in notes.all("1" * 26)] == [(3, "again", "ben")]
    assert notes.remove_orphans(lambda _: False) == 1
    assert notes.all("1" * 26) == []


def told(stored: list[bytes]) -> list[bytes]:
    """What is stored, without what a server counts meanwhile."""
    return [row for row in stored if not row.startswith(b'{"table":"hourly_figures"')]


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
        assert told(rows(elsewhere)) == told(rows(home, database_url))
        assert client.delete(at).status_code == 200
        assert client.get(at).status_code == 404
        waiting = asked(client, seed=2)
        assert client.post(f"/v1/evaluations/{waiting}/cancel").json()["state"] == "cancelled"
        assert client.delete(f"/v1/evaluations/{waiting}").status_code == 200
        assert client.get("/v1/evaluations").json()["evaluations"] == []
    with client_of(elsewhere, ready=False) as client:
        assert [note["text"] for note in client.get(f"{at}/notes").json()["notes"]] == ["why?"]
        assert client.get(f"{at}/replies").json()["total"] == 16
