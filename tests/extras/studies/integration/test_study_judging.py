"""Agreement, disagreements and their adjudication, the report, and power before a study begins, over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import LeftInLine, client_of, left_in_line, migrated
from starlette.testclient import TestClient
from studying import FORM, Person, new_study

from refaug.cli.main import main as refaug
from refaug.core.errors import TooLarge
from refaug.core.home import Settings
from refaug.extras.studies.routes.studies.study_judging import report_of, study_agreement
from refaug.metrics.statistics.annotator_agreement import krippendorff_alpha
from refaug.service.web.dependencies import ClientGone

ITEMS = [{"id": f"r{n}", "turns": [f"Question {n}?"], "replies": {"zebra": f"Answer {n}."}} for n in range(4)]
RATINGS = {"r0/zebra": (1, 7), "r1/zebra": (2, 3), "r2/zebra": (5, 5), "r3/zebra": (6, 7)}  # of two participants


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with a study in which two people have rated four replies."""
    folder = tmp_path_factory.mktemp("judging") / "home"
    folder.mkdir()
    with client_of(migrated(Settings(home=folder)), ready=False) as opened:
        protocol = {
            "kind": "rate-reply",
            "form": FORM,
            "consent": "c",
            "per_participant": 4,
            "ratings_per_item": 2,
        }
        token = new_study(opened, "rated", protocol, ITEMS)
        for place in range(2):
            rate_all(opened, token, place)
        yield opened


def rate_all(client: TestClient, token: str, place: int) -> None:
    """Rate every reply as the participant of this place does."""
    person = Person(client)
    state = person.enter(token)
    person.done("consent", {"sha256": state["consent"]["sha256"], "agree": True, "screening": {}})
    for _ in ITEMS:
        task = person.done("tasks/next")["task"]
        number = task["payload"]["turns"][0]["text"].split()[1].rstrip("?")
        answer = RATINGS[f"r{number}/zebra"][place]
        person.done(f"tasks/{task['id']}/answers", {"answers": {"quality": answer}})
        person.done(f"tasks/{task['id']}/finish")


def asked(client: TestClient, path: str) -> dict[str, Any]:
    answer = client.get(f"/v1/studies/rated/{path}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_agreement_is_that_of_the_ratings(client: TestClient) -> None:
    (row,) = asked(client, "agreement")["questions"]
    assert (row["question"], row["rows_are"], row["rows"], row["participants"]) == ("quality", "items", 4, 2)
    matrix = [list(map(float, pair)) for pair in RATINGS.values()]
    assert row["alpha_interval"] == pytest.approx(krippendorff_alpha(matrix, "interval").value)


LONG_WORK = [
    ("agreement", study_agreement),
    ("report", lambda state, name, until: report_of(state, name, 1_000, until)),
]


@pytest.mark.parametrize(
    ("name", "answer", "places"),
    [(*way, places) for way, places in zip(LONG_WORK, (1, 452), strict=True)],
    ids=["agreement", "report"],
)
def test_long_work_waits_in_its_queue_and_ends_with_its_client(
    client: TestClient, name: str, answer: Any, places: int
) -> None:
    app: Any = client.app
    state, far = app.state.refaug, time.monotonic() + 600
    left = asyncio.run(left_in_line(state.batcher, lambda _request: answer(state, "rated", far)))
    assert left == LeftInLine(places=places, short="short", error=ClientGone, waiting=0)
    late = client.get(f"/v1/studies/rated/{name}", headers={"X-Timeout-S": "1e-9"})
    assert (late.status_code, late.json()["code"]) == (503, "expired")


@pytest.mark.parametrize(("name", "answer"), LONG_WORK, ids=["agreement", "report"])
def test_more_work_than_one_request_may_be_is_refused(client: TestClient, name: str, answer: Any) -> None:
    app: Any = client.app
    strict = copy(app.state.refaug)
    strict.serve = replace(strict.serve)
    object.__setattr__(strict.serve, "scoring_s", 1e-3)  # less than the settings allow: the study is small
    with pytest.raises(TooLarge) as refused:
        asyncio.run(answer(strict, "rated", time.monotonic() + 600))
    assert all(fact in refused.value.message for fact in (name, "8 tasks", "scoring_s"))


def test_the_widest_disagreement_is_first_and_is_decided_with_a_reason(client: TestClient) -> None:
    items = asked(client, "disagreements")["items"]
    assert [(entry["item"], entry["spread"]) for entry in items] == [
        ("r0/zebra", pytest.approx(1.0)),
        ("r1/zebra", pytest.approx(1 / 6)),
        ("r3/zebra", pytest.approx(1 / 6)),
    ]
    assert sorted(rating["value"] for rating in items[0]["ratings"]) == [1, 7]
    assert asked(client, "disagreements?limit=1")["items"] == items[:1]
    for value, note in ((3, "first"), (4, "the second look")):
        order = {"item": "r0/zebra", "question": "quality", "value": value, "note": note}
        decided = client.put("/v1/studies/rated/adjudications", json=order)
        assert decided.status_code == 200, decided.text
    first = asked(client, "disagreements")["items"][0]["adjudicated"]
    assert (first["value"], first["note"]) == (4, "the second look")
    wrong = client.put("/v1/studies/rated/adjudications", json={"item": "r0/zebra", "question": "kindness", "value": 1})
    assert (wrong.status_code, "quality" in wrong.json()["remedy"]) == (422, True)


def test_the_report_has_the_means(client: TestClient) -> None:
    report = asked(client, "report?draws=100")["report"]
    (mean,) = report["analyses"]["all"]["ratings"]["quality"]["means"]
    numbers = [number for pair in RATINGS.values() for number in pair]
    assert (mean["bot"], mean["n"], mean["mean"]) == ("zebra", 8, pytest.approx(sum(numbers) / 8))
    assert report["settings"]["draws"] == 100


def test_decisions_enter_the_report_and_the_export_and_come_back(client: TestClient, tmp_path: Path) -> None:
    for item, value in (("r0/zebra", 4), ("r1/zebra", 5)):
        order = {"item": item, "question": "quality", "value": value, "note": "looked"}
        assert client.put("/v1/studies/rated/adjudications", json=order).status_code == 200
    report = asked(client, "report?draws=100")["report"]
    means = {name: part["ratings"]["quality"]["means"][0]["mean"] for name, part in report["analyses"].items()}
    assert means == {"kept": 36 / 8, "all": 36 / 8, "decided": (4 + 4 + 5 + 5 + 5 + 5 + 6 + 7) / 8}
    facts = report["decisions"]
    assert (facts["decisions"], facts["answers"], facts["answers_that_differ"]) == (2, 4, 4)
    exported = client.get("/v1/studies/rated/export").content
    records = [json.loads(line) for line in exported.splitlines()]
    decided = {record["item"]["unit"]: record.get("decisions") for record in records}
    assert [decided[f"r{n}/zebra"] is None for n in range(4)] == [False, False, True, True]
    decision = decided["r1/zebra"]["quality"]
    assert (decision["value"], decision["note"], decision["by"]) == (5, "looked", "anonymous")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", decision["at"])
    source, imported = tmp_path / "exported.jsonl", tmp_path / "imported.jsonl"
    source.write_bytes(exported)
    assert refaug(["--quiet", "studies", "import", str(source), "--output", str(imported)]) == 0
    assert refaug(["--quiet", "studies", "export", str(imported), "--output", str(source)]) == 0
    assert imported.read_bytes() == source.read_bytes() == exported


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"item": "r9/zebra", "question": "quality", "value": 1}, 404, "has no item 'r9/zebra'"),
        ({"item": "r0/zebra", "question": "quality", "value": 9}, 422, "a number from 1 to 7"),
        ({"item": "r0/zebra", "question": "quality", "value": "well"}, 422, "a number from 1 to 7"),
    ],
)
def test_what_nobody_could_have_said_is_no_decision(
    client: TestClient, order: dict[str, Any], status: int, words: str
) -> None:
    refused = client.put("/v1/studies/rated/adjudications", json=order)
    assert (refused.status_code, words in refused.text) == (status, True), refused.text


def test_a_report_is_computed_without_who_was_erased(client: TestClient) -> None:
    protocol = {"kind": "rate-reply", "form": FORM, "consent": "c", "per_participant": 4, "ratings_per_item": 2}
    token = new_study(client, "forgotten", protocol, ITEMS)
    for place in range(2):
        rate_all(client, token, place)

    def means() -> list[tuple[int, int, float]]:
        report = client.get("/v1/studies/forgotten/report?draws=100").json()["report"]
        figures = report["analyses"]["all"]["ratings"]["quality"]["means"]
        return [(figure["n"], figure["participants"], figure["mean"]) for figure in figures]

    assert means() == [(8, 2, pytest.approx(36 / 8))]
    records = [json.loads(line) for line in client.get("/v1/studies/forgotten/export").text.splitlines()]
    first = next(
        record["participant"] for record in records if record["answers"] == {"quality": RATINGS["r0/zebra"][0]}
    )
    assert client.delete(f"/v1/studies/forgotten/participants/{first}").status_code == 200
    assert means() == [(4, 1, pytest.approx(sum(second for _, second in RATINGS.values()) / 4))]
    assert client.get("/v1/studies/forgotten/disagreements").json()["items"] == []


@pytest.mark.parametrize(
    ("order", "n", "participants"),
    [
        ({"difference": 1.0}, 27, 54),
        ({"difference": 0.75}, 48, 96),
        ({"difference": 0.5}, 107, 214),
        ({"difference": 0.3}, 295, 590),
        ({"win_rate": 0.65}, 85, 85),
        ({"win_rate": 0.6}, 194, 194),
        ({"win_rate": 0.55}, 783, 783),
    ],
)
def test_power_says_how_many_are_needed(client: TestClient, order: dict[str, float], n: int, participants: int) -> None:
    answer = client.post("/v1/studies/power", json=order).json()
    assert (answer["n"], answer["participants"], answer["design_effect"]) == (n, participants, 1)


def test_several_ratings_of_one_person_count_for_less(client: TestClient) -> None:
    order = {"difference": 0.5, "ratings_per_participant": 4, "rho": 0.5}
    answer = client.post("/v1/studies/power", json=order).json()
    assert answer["design_effect"] == 2.5
    assert answer["n"] == pytest.approx(2.5 * 106.1, abs=2)
    assert answer["participants"] == 2 * -(-answer["n"] // 4)


@pytest.mark.parametrize("order", [{}, {"difference": 1, "win_rate": 0.6}, {"win_rate": 0.5}, {"difference": 0}])
def test_power_of_nothing_is_refused(client: TestClient, order: dict[str, float]) -> None:
    answer = client.post("/v1/studies/power", json=order)
    assert answer.status_code in (400, 422), answer.text
