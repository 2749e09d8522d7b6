"""`refaug admin schedules` as a command: putting, listing, showing, ticking, deleting."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update

from refaug.core.home import Settings
from refaug.service.database.database import Database, time_text
from refaug.service.database.tables import SCHEDULES

ORDER = {"kind": "gc", "artefact": "index", "name": "chat"}


@pytest.fixture
def order(tmp_path):
    path = tmp_path / "order.json"
    path.write_text(json.dumps(ORDER), "utf-8")
    return path


def set_back(home, **by) -> None:
    """Let a schedule have been put earlier than it was."""
    then = time_text(datetime.now(UTC) - timedelta(**by))
    with closing(Database.open(Settings(home=home.path))) as database, database.writing() as connection:
        connection.execute(update(SCHEDULES).values(begun=then))


def test_a_schedule_is_put_shown_listed_and_deleted(home, order) -> None:
    put = home(
        "admin",
        "schedules",
        "put",
        "nightly",
        "--cron",
        "30 2 * * *",
        "--timezone",
        "Asia/Tokyo",
        "--order",
        order,
    )
    assert put.code == 0
    found = home("admin", "schedules", "show", "nightly", "--json").json
    assert (found["cron"], found["timezone"], found["enabled"], found["failing"]) == (
        "30 2 * * *",
        "Asia/Tokyo",
        True,
        None,
    )
    assert found["order"] == {**ORDER, "keep": 3, "even_pinned": False}
    assert found["firings"] == []
    lines = [" ".join(line.split()) for line in put.out.splitlines()]
    assert lines[1:4] == ["cron 30 2 * * * (Asia/Tokyo)", "job gc", "order artefact index, name chat, keep 3"]
    first = datetime.fromisoformat(found["next"][0])
    tokyo = datetime.now(ZoneInfo("Asia/Tokyo"))
    assert (first.hour, first.minute) == (2, 30)
    assert timedelta(0) < first - tokyo <= timedelta(hours=24)
    lines = [" ".join(line.split()) for line in home("admin", "schedules", "list").out.splitlines()]
    assert lines[1:] == [
        "name cron timezone job enabled next failing",
        f"nightly 30 2 * * * Asia/Tokyo gc yes {first:%Y-%m-%d %H:%M} -",
    ]
    assert home("admin", "schedules", "delete", "nightly").out == "schedule nightly is deleted\n"
    assert home("admin", "schedules", "list", "--json").json == []
    gone = home("admin", "schedules", "show", "nightly", "--json")
    assert (gone.code, gone.error["message"]) == (3, "there is no schedule 'nightly'")


def test_a_tick_queues_what_is_due_once(home, order) -> None:
    home("admin", "schedules", "put", "often", "--cron", "*/5 * * * *", "--order", order)
    set_back(home, minutes=11)
    fired = home("admin", "schedules", "tick", "--json").json
    assert [one["note"] for one in fired[:-1]] == ["missed: a later one fired"] * (len(fired) - 1)
    assert 2 <= len(fired) <= 3
    [job] = home("admin", "jobs", "list", "--json").json["jobs"]
    assert (fired[-1]["job"], job["schedule"], job["order"]) == (
        job["id"],
        "often",
        {**ORDER, "keep": 3, "even_pinned": False},
    )
    shown = home("admin", "schedules", "show", "often")
    assert f"{job['id']}" in shown.out
    assert "missed: a later one fired" in shown.out
    home("admin", "schedules", "tick")  # nothing is due, or five minutes are over and the job still waits
    assert [one["id"] for one in home("admin", "jobs", "list", "--json").json["jobs"]] == [job["id"]]


def test_a_schedule_that_nobody_looks_after_is_listed_as_failing(home, order) -> None:
    home("admin", "schedules", "put", "often", "--cron", "* * * * *", "--order", order)
    set_back(home, minutes=30)
    assert "no worker runs, or too many jobs wait" in home("admin", "schedules", "list", "--json").json[0]["failing"]
    assert "no worker runs, or too many jobs wait" in home("admin", "schedules", "show", "often").out


def test_what_makes_no_sense_is_refused_by_name(home, order, tmp_path) -> None:
    def refused(*options, order=order):
        found = home("admin", "schedules", "put", "s", "--order", order, *options, "--json")
        return found.code, found.error["message"]

    assert refused("--cron", "0 25 * * *") == (3, "'0 25 * * *' is not a cron expression: its hour cannot be read")
    assert refused("--cron", "0 2 * * *", "--timezone", "Berlin") == (3, "there is no time zone 'Berlin'")
    assert refused("--cron", "0 2 * * *", order=tmp_path / "none") == (
        3,
        f"{tmp_path / 'none'}: no such file or directory",
    )
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"kind": "gc", "artefact": "index", "name": "chat", "kep": 1}', "utf-8")
    assert refused("--cron", "0 2 * * *", order=wrong) == (
        3,
        "the order of a job: kep: there is no such option; did you mean 'keep'?",
    )
    wrong.write_text("[]", "utf-8")
    assert refused("--cron", "0 2 * * *", order=wrong) == (3, f"{wrong}: not an object")
    wrong.write_text("{", "utf-8")
    code, message = refused("--cron", "0 2 * * *", order=wrong)
    assert (code, message.startswith(f"{wrong}: not JSON: ")) == (3, True)
    assert home("admin", "schedules", "list", "--json").json == []
