"""Schedules over HTTP: put, due by the clocks of their zone, fired into jobs, taken away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.web.state import ServiceState

ORDER = {"kind": "index-update", "index": "chat"}
NIGHT = {"cron": "30 4 * * *", "timezone": "Europe/Berlin", "order": ORDER}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    (tmp_path / "home").mkdir()
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as found:
        yield found


def put(client: TestClient, name: str, **values: Any) -> dict[str, Any]:
    answer = client.put(f"/v1/schedules/{name}", json={**NIGHT, **values})
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def at_half_past_four(now: datetime, count: int) -> list[str]:
    """The next so many mornings in Berlin, 04:30 by the clock there, whatever the clocks do between."""
    zone = ZoneInfo("Europe/Berlin")
    today = now.astimezone(zone).date()
    days = (today + timedelta(days=number) for number in range(count + 1))
    times = (datetime(day.year, day.month, day.day, 4, 30, tzinfo=zone) for day in days)
    return [one.isoformat() for one in times if one > now][:count]


def test_a_schedule_is_made_with_its_next_times_and_shown(client: TestClient) -> None:
    before = datetime.now(UTC)
    made = client.put("/v1/schedules/night", json=NIGHT)
    after = datetime.now(UTC)
    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["name"], told["cron"], told["timezone"]) == ("night", "30 4 * * *", "Europe/Berlin")
    assert (told["enabled"], told["firings"]) == (True, [])
    assert (told["order"]["index"], told["order"]["kind"], told["order"]["publish"]) == ("chat", "index-update", True)
    assert told["next"] in (at_half_past_four(before, 5), at_half_past_four(after, 5))
    assert before.isoformat(timespec="milliseconds") <= told["created"] <= after.isoformat()

    shown = client.get("/v1/schedules/night").json()
    assert {**shown, "request_id": ""} == {**told, "request_id": ""}
    row = {name: value for name, value in told.items() if name not in ("request_id", "firings")}
    assert client.get("/v1/schedules").json()["schedules"] == [row]


def test_a_changed_schedule_is_200_and_one_that_is_off_is_never_due(client: TestClient) -> None:
    put(client, "night")
    answer = client.put("/v1/schedules/night", json={"cron": "0 12 * * mon", "order": ORDER, "enabled": False})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["cron"], told["timezone"], told["enabled"], told["next"]) == ("0 12 * * mon", "UTC", False, [])
    put(client, "a-first")
    assert [one["name"] for one in client.get("/v1/schedules").json()["schedules"]] == ["a-first", "night"]


def test_firings_are_shown_with_their_jobs_and_what_became_of_them(client: TestClient) -> None:
    put(client, "night")
    state: ServiceState = client.app.state.refaug
    due = [datetime.fromisoformat(text) for text in client.get("/v1/schedules/night").json()["next"]]
    state.schedules.tick(state.jobs, due[0])
    (first,) = client.get("/v1/jobs").json()["jobs"]
    assert (first["schedule"], first["kind"], first["state"]) == ("night", "index-update", "queued")

    state.schedules.tick(state.jobs, due[1])  # the first one still waits
    client.delete(f"/v1/jobs/{first['id']}")
    state.schedules.tick(state.jobs, due[2])
    (second, _) = client.get("/v1/jobs").json()["jobs"]

    fired = client.get("/v1/schedules/night").json()["firings"]
    assert [datetime.fromisoformat(one["due"]) for one in fired] == [due[2], due[1], due[0]]
    assert [(one["job"], one["state"]) for one in fired] == [
        (second["id"], "queued"),
        (None, None),
        (first["id"], "cancelled"),
    ]
    assert first["id"] in fired[1]["note"]
    assert (fired[0]["note"], fired[2]["note"]) == (None, None)


def test_a_deleted_schedule_is_gone_and_its_jobs_stay(client: TestClient) -> None:
    put(client, "night")
    state: ServiceState = client.app.state.refaug
    state.schedules.tick(state.jobs, datetime.fromisoformat(client.get("/v1/schedules/night").json()["next"][0]))
    put(client, "other")
    assert client.delete("/v1/schedules/night").json()["name"] == "night"
    gone = client.delete("/v1/schedules/night")
    assert (gone.status_code, gone.json()["code"], gone.json()["remedy"]) == (404, "not_found", "there are: other")
    assert client.get("/v1/schedules/night").status_code == 404
    assert [job["schedule"] for job in client.get("/v1/jobs").json()["jobs"]] == ["night"]


def test_names_are_names_and_sources_lie_where_they_may(client: TestClient) -> None:
    for name in ("Night", "a b", "-x"):
        assert client.put(f"/v1/schedules/{name}", json=NIGHT).status_code == 422, name
    outside = {"kind": "ingest", "log": "chat", "sources": ["../refaug.db"]}
    refused = client.put("/v1/schedules/night", json={**NIGHT, "order": outside})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    tonight = {"kind": "ingest", "log": "chat", "sources": ["tonight.jsonl"]}  # it will be there by then
    assert client.put("/v1/schedules/night", json={**NIGHT, "order": tonight}).status_code == 201
