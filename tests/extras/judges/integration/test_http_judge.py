"""The metric `judge` in POST /v1/scores: only judges of the home, only hosts of the operator's list, within limits."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, openai, write_judge
from serving import client_of
from starlette.testclient import TestClient

from refaug.bots.endpoint import client
from refaug.bots.endpoint.spending import DailyTokens
from refaug.core.errors import NotFound
from refaug.core.home import Settings
from refaug.service.web import scoring_limits

RATINGS = {"Tea, please.": 5, "Green.": 2, "On the chair.": 4, "No idea.": 1}
ITEMS = [
    {"id": "d1", "turns": ["Hi.", "Tea or coffee?"], "replies": {"a": "Tea, please.", "b": "Green."}},
    {"id": "d2", "utterance": "Where is my hat?", "replies": {"a": "On the chair.", "b": "No idea."}},
]
QUESTION = {"items": ITEMS, "metrics": ["judge:model=local"]}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.ClientSettings, "first_wait_s", 0.001)


def rate(received: Received) -> dict[str, Any]:
    return openai(json.dumps({"overall": RATINGS[received.reply]}))


@contextmanager
def judged(tmp_path: Path, respond: Any = rate, **settings: Any) -> Iterator[tuple[FakeEndpoint, TestClient]]:
    """Yield an endpoint, and a client of a server whose judge `local` asks it."""
    home = Settings(home=tmp_path / "home")
    with endpoint(respond) as fake:
        write_judge(home.home, fake.url)
        with client_of(home, **{"judge_hosts": "127.0.0.1", **settings}) as web:
            yield fake, web


def outcomes(answer: Any) -> list[tuple[str, float | None, str | None]]:
    assert answer.status_code == 200, answer.text
    systems = answer.json()["scores"][0]["systems"]
    return [
        (name, reply["score"], reply.get("problem")) for name in sorted(systems) for reply in systems[name]["replies"]
    ]


def test_a_judge_of_the_home_scores_replies_and_is_asked_once(tmp_path: Path) -> None:
    with judged(tmp_path) as (fake, web):
        first = web.post("/v1/scores", json=QUESTION)
        again = web.post("/v1/scores", json=QUESTION)
        assert outcomes(first) == [("a", 1.0, None), ("a", 0.75, None), ("b", 0.25, None), ("b", 0.0, None)]
        assert outcomes(again) == outcomes(first)
        assert len(fake.received) == 4
    assert "judge|model:local#" in first.json()["scores"][0]["signature"]


def test_without_a_list_of_hosts_no_judge_is_asked(tmp_path: Path) -> None:
    with judged(tmp_path, judge_hosts="") as (fake, web):
        answer = web.post("/v1/scores", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (400, "usage")
        assert "which is not allowed here" in answer.json()["detail"]
        assert fake.received == []


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "judge.example", "10.0.0.0/8"])
def test_a_host_that_is_not_listed_is_not_asked(tmp_path: Path, hosts: str) -> None:
    with judged(tmp_path, judge_hosts=hosts) as (fake, web):
        answer = web.post("/v1/scores", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
        assert "not on the list of allowed hosts" in answer.json()["detail"]
        assert fake.received == []


def test_a_listed_name_that_leads_inside_is_not_asked(tmp_path: Path) -> None:
    with judged(tmp_path, judge_hosts="127.1") as (fake, web):
        path = tmp_path / "home" / "judges" / "local.json"
        path.write_text(path.read_text().replace("127.0.0.1", "127.1"))
        answer = web.post("/v1/scores", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
        assert all(fact in answer.json()["detail"] for fact in ("127.1", "127.0.0.1"))
        assert fake.received == []


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("../judges/local", 400, "usage"),
        ("local.json", 404, "not_found"),
        ("/etc/passwd", 400, "usage"),
        ("absent", 404, "not_found"),
    ],
)
def test_a_request_names_no_file_and_no_unknown_judge(tmp_path: Path, name: str, status: int, code: str) -> None:
    with judged(tmp_path) as (fake, web):
        answer = web.post("/v1/scores", json={**QUESTION, "metrics": [f"judge:model={name}"]})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert fake.received == []


def test_tokens_of_a_day_are_counted_over_requests_and_end_the_asking(tmp_path: Path) -> None:
    with judged(tmp_path, judge_tokens=1_500) as (fake, web):
        first = outcomes(web.post("/v1/scores", json={**QUESTION, "items": ITEMS[:1]}))
        with closing(sqlite3.connect(tmp_path / "home" / "judgements" / "spending.db")) as spending:
            [(spent,)] = spending.execute("select tokens from days")
        assert [problem for _, _, problem in first] == [None, None]
        assert spent == 2 * 107  # what the endpoint counts, not what was reserved
        DailyTokens(tmp_path / "home" / "judgements" / "spending.db", 1_500).add(1_200)
        second = outcomes(web.post("/v1/scores", json=QUESTION))
        assert second == [("a", 1.0, None), ("a", None, "judge_over_budget"), ("b", 0.25, None), *second[3:]]
        assert second[3][2] == "judge_over_budget"
        assert len(fake.received) == 2


@pytest.mark.parametrize("metric", ["judge:model=local", "panel:of=judge;model=local+chrf"])
def test_too_many_replies_are_refused_before_any_is_asked_about(tmp_path: Path, metric: str) -> None:
    with judged(tmp_path, judge_replies=3) as (fake, web):
        answer = web.post("/v1/scores", json={**QUESTION, "metrics": [metric]})
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert fake.received == []


@pytest.mark.parametrize(("follow_ups", "status", "count"), [("default", 413, 0), ("own.txt", 422, 8)])
def test_each_follow_up_is_counted(tmp_path: Path, follow_ups: str, status: int, count: int) -> None:
    (tmp_path / "own.txt").write_text("+ Go on!\n- What?\n")
    named = follow_ups if follow_ups == "default" else str(tmp_path / follow_ups)
    refused, limits = Sent(status=400, body={"error": "no echo"}), {"judge_replies": 31, "sources": str(tmp_path)}
    with judged(tmp_path, lambda _: refused, **limits) as (fake, web):  # 4 replies with 8 follow-ups are 32 questions
        question = {"items": ITEMS, "metrics": [f"followup-endpoint:lm=local,followups={named}"]}
        assert web.post("/v1/scores", json=question).status_code == status
        assert len(fake.received) == count


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/scores", {"items": ITEMS}), ("/v1/reference-sets/abcdef/scores", {"replies": {"a": ["Tea, please."]}})],
)
def test_files_that_metrics_name_are_read_beside_the_event_loop(
    path: str, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()

    def read(*_: object) -> Any:
        threads.append(threading.current_thread().name)
        raise NotFound("no file")

    monkeypatch.setattr(scoring_limits, "resolve_metric_files", read)
    with judged(tmp_path) as (_, web):
        assert web.post(path, json={**body, "metrics": ["judge-fit:mine"]}).status_code == 404
    assert [name.partition(" ")[0] for name in threads] == ["AnyIO"]


def test_at_the_deadline_answers_so_far_are_kept(tmp_path: Path) -> None:
    hanging = {"d2"}

    def respond(received: Received) -> Any:
        return Sent(hangs=True) if hanging and received.reply in ("On the chair.", "No idea.") else rate(received)

    with judged(tmp_path, respond) as (fake, web):
        answer = web.post("/v1/scores", json=QUESTION, headers={"X-Timeout-S": "1"})
        assert (answer.status_code, answer.json()["code"]) == (503, "expired")
        hanging.clear()
        assert outcomes(web.post("/v1/scores", json=QUESTION))[0] == ("a", 1.0, None)
        asked = [received.reply for received in fake.received]
        assert (asked.count("Tea, please."), asked.count("Green.")) == (1, 1)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"items": ITEMS, "metrics": ["judge"]}, "needs a judge behind an endpoint: pass judge:model=NAME"),
    ],
)
def test_a_judge_is_named_where_it_is_asked_and_nowhere_else(tmp_path: Path, body: Any, detail: str) -> None:
    with judged(tmp_path) as (_, web):
        answer = web.post("/v1/scores", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "usage")
        assert detail in answer.json()["detail"]
