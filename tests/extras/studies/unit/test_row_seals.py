"""A row of a study that was altered is an error with its table, wherever it is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from refusals import refusing
from serving import client_of, migrated
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study

from refaug.core.errors import DamagedDatabase
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.database.row_seals import verify_sealed_rows
from refaug.service.doctor import FindingState, examine


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with a finished chat, a vote in it, and an answer about it."""
    home = migrated(Settings(home=tmp_path_factory.mktemp("seals") / "home"))
    with client_of(home, ready=False) as opened:
        add_bots(opened, "quokka")
        person = Person(opened)
        person.enter(new_study(opened, "sealed", chat_protocol("quokka", votes=True)))
        person.agree()
        task = person.done("tasks/next")["task"]["id"]
        for number in range(3):
            person.say(f"line {number}")
        person.done(f"tasks/{task}/votes", {"n": 2, "value": 1})
        person.done(f"tasks/{task}/votes", {"n": 4, "value": -1})
        person.done("undo")
        person.done(f"tasks/{task}/answers", {"answers": {"quality": 6}})
        person.done(f"tasks/{task}/finish")
        yield opened


@pytest.fixture
def database(client: TestClient) -> Database:
    found: Database = client.app.state.refaug.database  # type: ignore[attr-defined]
    return found


def test_rows_as_they_were_written_hold(client: TestClient, database: Database) -> None:
    assert verify_sealed_rows(database) == 7
    assert client.get("/v1/studies/sealed/export").status_code == 200


@pytest.mark.parametrize(
    ("column", "where", "altered"),
    [
        ("study_messages.vote", "n = 2", -1),
        ("study_messages.vote", "n = 4", 1),
        ("study_messages.text", "n = 1", "nothing"),
        ("study_answers.answer", "turn = 0", "7"),
        ("study_answers.at", "turn = 0", "2000-01-01"),
    ],
)
def test_an_altered_row_is_named_with_its_table_and_the_remedy(
    client: TestClient, database: Database, column: str, where: str, altered: object
) -> None:
    table, _, name = column.partition(".")
    before = _execute(database, f"SELECT {name} FROM {table} WHERE {where}")
    _execute(database, f"UPDATE {table} SET {name} = :cell WHERE {where}", cell=altered)
    try:
        with refusing(DamagedDatabase, table) as damaged:
            verify_sealed_rows(database)
        assert "refaug admin restore" in (damaged.value.remedy or "")
        answer = client.get("/v1/studies/sealed/export")
        assert (answer.status_code, answer.json()["code"]) == (503, "damaged_database")
        found = [one for one in examine(database.home, verify=True) if one.what == "database"]
        assert [one.state for one in found] == [FindingState.WRONG]
    finally:
        _execute(database, f"UPDATE {table} SET {name} = :cell WHERE {where}", cell=before)
    assert verify_sealed_rows(database) == 7


def _execute(database: Database, statement: str, **cells: object) -> object:
    """The first cell that a statement returns."""
    with database.writing() as connection:
        answer = connection.execute(text(statement), cells)
        return answer.scalar() if answer.returns_rows else None
