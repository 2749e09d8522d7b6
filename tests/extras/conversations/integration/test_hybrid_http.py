"""The hybrid metric over HTTP: a job that fits it, scores of conversations and of self-play, and what is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from extras.conversations.integration.test_hybrid_command import WORDS, conversation, written
from integration.conftest import Home
from serving import LeftInLine, client_of, left_in_line, migrated
from starlette.testclient import TestClient

from refaug.core.errors import Expired, Interrupted
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.extras.conversations.routes import HybridScoresIn, HybridScoring, conversation_units
from refaug.service.jobs import kinds
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.batches.queued_requests import UNITS_PER_ITEM
from refaug.service.web.dependencies import ClientGone

pytestmark = pytest.mark.slow

SERVE = ServeSettings()
BYTES = {"Content-Type": "application/octet-stream"}
TALKS = [conversation(number) for number in range(60)]
FIT = {"kind": "hybrid-fit", "name": "mine", "vectors": "words", "sentiment": "none", "target": "quality", "draws": 100}
LINES = b"".join(orjson.dumps(talk) + b"\n" for talk in TALKS)


@pytest.fixture
def words(home: Home, tmp_path: Path) -> Home:
    """A home with the word vectors `words`."""
    rng = np.random.default_rng(5)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=4))}\n" for word in WORDS[:8]))
    assert home("index", "vectors", "import", "words", path).code == 0
    migrated(Settings(home=home.path))
    return home


@pytest.fixture
def client(words: Home) -> Iterator[TestClient]:
    with client_of(Settings(home=words.path), ready=False, replies=600) as opened:
        yield opened


def run_job(home: Home, client: TestClient, content: bytes = LINES, **more: Any) -> Mapping[str, Any]:
    """Upload conversations, queue a job that fits to them, do it, and return it."""
    sent = client.post("/v1/uploads?name=talks.jsonl", content=content, headers=BYTES).json()
    queued = client.post("/v1/jobs", json={**FIT, "conversations": f"upload:{sent['id']}", **more})
    assert (queued.status_code, queued.json()["resources"]) == (202, ["hybrid/mine"]), queued.text
    assert run_worker(Settings(home=home.path), SERVE, once=True) == 0
    job: Mapping[str, Any] = client.get(queued.headers["location"]).json()
    return job


def test_a_job_fits_what_the_command_fits_and_a_request_scores_what_it_scores(
    words: Home, client: TestClient, tmp_path: Path
) -> None:
    job = run_job(words, client, columns="wide", without=["b5"])
    assert job["state"] == "done", job["error"]
    file = written(tmp_path / "talks.jsonl", list(TALKS))
    options = ("--vectors", "words", "--sentiment", "none", "--target", "quality", "--draws", "100")
    by_command = words(
        "train", "hybrid", file, "--name", "command", *options, "--columns", "wide", "--without", "b5", "--json"
    )
    assert by_command.code == 0, by_command.err
    assert job["result"]["report"] == by_command.json["report"]
    acts = client.get("/v1/audit").json()["entries"]
    assert f"hybrid mine@{job['result']['version']}" in [entry["subject"] for entry in acts]

    answer = client.post("/v1/hybrids/mine/scores", json={"conversations": TALKS})
    assert answer.status_code == 200, answer.text
    scored = words("judge", "score", "hybrid", "mine", file, "--json").json
    assert {name: answer.json()[name] for name in scored} == scored
    assert (scored["scored"], answer.json()["problems"], answer.json()["warnings"]) == (60, [], [])
    pinned = client.post(f"/v1/hybrids/mine@{job['result']['version']}/scores", json={"conversations": TALKS})
    assert pinned.json()["conversations"] == scored["conversations"]


def test_self_play_is_scored_and_a_job_that_was_killed_publishes_once(words: Home, client: TestClient) -> None:
    assert run_job(words, client)["state"] == "done"
    home = Settings(home=words.path)
    replies = [" ".join(WORDS[place : place + 4]) for place in range(6)]
    for bot, texts in (("fixed", replies), ("other", replies[:2])):
        specification = {"kind": "replay", "replies": texts, "pick": "sample"}
        assert client.put(f"/v1/bots/{bot}", json={"specification": specification}).status_code == 201
    for name, bots in (("alone", ("fixed",)), ("both", ("fixed", "other"))):
        played = words("bots", "play", *bots, "--conversations", "20", "--turns", "6", "--name", name, "--json")
        assert played.code == 0, played.err
    alone = client.post("/v1/hybrids/mine/scores", json={"self_play": "alone"})
    assert (alone.status_code, "fixed alone" in alone.json()["detail"]) == (422, True)
    answer = client.post("/v1/hybrids/mine/scores", json={"self_play": "both"}).json()
    scored = words("judge", "score", "hybrid", "mine", "selfplay:both", "--json").json
    assert {name: answer[name] for name in scored} == scored
    assert "|play:self|" in answer["signature"]
    (home.home / "inbox").mkdir(exist_ok=True)
    (home.home / "inbox" / "talks.jsonl").write_bytes(LINES)
    order = {**FIT, "name": "again", "conversations": "talks.jsonl"}
    first = kinds.run(order, home, SERVE, Silent(), job="fit")
    [marks] = [path for path in (home.home / "jobs" / "fit").iterdir() if path.is_file()]
    marks.write_bytes(orjson.dumps({"fitted": orjson.loads(marks.read_bytes())["fitted"]}))  # killed before its end
    second = kinds.run(order, home, SERVE, Silent(), job="fit")
    assert second["version"] == first["version"]
    assert len(words("artefacts", "list", "hybrid", "--json").json["versions"]) == 2
    many = {"self_play": "alone", "on_error": "report"}
    with client_of(home, ready=False, replies=19) as small:
        refused = small.post("/v1/hybrids/mine/scores", json=many)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


def test_bad_conversations_are_named_by_their_place(words: Home, client: TestClient) -> None:
    assert run_job(words, client)["state"] == "done"
    silent = {"bot": "b1", "turns": [{"role": "user", "text": "Hi"}, {"role": "bot", "text": ""}]}
    unknown = {"bot": "b1", "turns": [{"role": "user", "text": "Hi"}, {"role": "cat", "text": "Miaow"}]}
    body = {"conversations": [TALKS[0], silent, unknown]}
    refused = client.post("/v1/hybrids/mine/scores", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_input")
    assert [error["field"] for error in refused.json()["errors"]] == [
        "conversations[1].turns",
        "conversations[2].turns[1].role",
    ]
    reported = client.post("/v1/hybrids/mine/scores", json={**body, "on_error": "report"}).json()
    assert ([row["id"] for row in reported["conversations"]], len(reported["problems"])) == (["c0"], 2)
    copies = [{**talk, "bot": "fresh"} for talk in TALKS[:3]]
    for content, status, code in (
        ({"conversations": TALKS, "self_play": "both"}, 422, "bad_input"),
        ({}, 422, "bad_input"),
        ({"self_play": "absent"}, 404, "not_found"),
        ({"self_play": "../talks"}, 422, "bad_input"),
        ({"conversations": copies}, 422, "trained_on"),
        ({"conversations": [{**talk, "id": f"{n}{talk['id']}"} for n in range(2) for talk in TALKS]}, 413, "too_large"),
    ):
        answer = client.post("/v1/hybrids/mine/scores", json=content)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert client.post("/v1/hybrids/absent/scores", json={"conversations": TALKS}).status_code == 404


def test_scores_wait_in_the_queue_of_long_work_and_end_with_their_client(words: Home, client: TestClient) -> None:
    assert run_job(words, client)["state"] == "done"
    app: Any = client.app
    state, body = app.state.refaug, HybridScoresIn(conversations=TALKS)
    scoring = HybridScoring(state, "mine", body, time.monotonic() + 600)
    stored, talks, bad = scoring.read()
    answer = client.post("/v1/hybrids/mine/scores", json={"conversations": TALKS}).json()
    assert {**scoring.score(stored, talks, bad), "request_id": answer["request_id"]} == answer  # made in one thread
    units = conversation_units(talks)
    left = asyncio.run(left_in_line(state.batcher, scoring.answer))
    assert left == LeftInLine(places=ceil(units / UNITS_PER_ITEM), short="short", error=ClientGone, waiting=0)
    with pytest.raises(Interrupted):
        scoring.score(stored, talks, bad)
    late = HybridScoring(state, "mine", body, 0.0)
    with pytest.raises(Expired):
        late.score(stored, talks, bad)
    expired = client.post("/v1/hybrids/mine/scores", json={"conversations": TALKS}, headers={"X-Timeout-S": "1e-9"})
    assert (expired.status_code, expired.json()["code"]) == (503, "expired")


def test_conversations_that_may_take_too_long_are_refused_with_limit_and_figure(
    words: Home, client: TestClient
) -> None:
    assert run_job(words, client)["state"] == "done"
    short = [{"role": "user", "text": "Hi"}, {"role": "bot", "text": "yes"}]
    long = {"bot": "b", "turns": [{"role": "user", "text": "hi " * 5_001}, {"role": "bot", "text": "yes"}]}
    emojis = {"bot": "b", "turns": [{"role": "user", "text": "Hi"}, {"role": "bot", "text": "\U0001f600" * 834}]}
    joined = {"bot": "b", "turns": [*[{"role": "user", "text": "hi " * 2_501}] * 2, {"role": "bot", "text": "yes"}]}
    last = {"bot": "b", "turns": [*short, {"role": "user", "text": "hi " * 200_000}]}
    opening = {"bot": "b", "turns": [{"role": "bot", "text": "hi " * 200_000}, *short]}
    for talk, count in (
        (long, "5,001"),
        (emojis, "5,005"),
        (joined, "5,002"),
        (last, "200,000"),
        (opening, "200,000"),
    ):
        refused = client.post("/v1/hybrids/mine/scores", json={"conversations": [talk]})
        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
        assert all(fact in refused.json()["detail"] for fact in (count, "5,000"))
    hindi = {
        "bot": "b",
        "turns": [{"role": "user", "text": "नमस्ते दुनिया " * 500}, {"role": "bot", "text": "да" * 5_001}],
    }
    assert client.post("/v1/hybrids/mine/scores", json={"conversations": [hindi]}).status_code == 200
    turns = [{"role": role, "text": "hi " * 4_000} for role in ("user", "bot") * 2]
    with client_of(Settings(home=words.path), ready=False, scoring_s=5) as strict:
        refused = strict.post("/v1/hybrids/mine/scores", json={"conversations": [{"bot": "b", "turns": turns}]})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert all(fact in refused.json()["detail"] for fact in ("9 s", "hybrid mine", "5 s"))


def test_an_order_of_self_play_beyond_the_limit_is_neither_queued_nor_scheduled(words: Home) -> None:
    order = {"kind": "self-play", "bots": ["retrieval:chat"], "name": "n", "conversations": 1_000, "turns": 1_000}
    with client_of(Settings(home=words.path), ready=False, self_play_s=42_499) as client:
        cron = {"cron": "0 3 * * *", "timezone": "UTC", "order": order}
        for refused in (client.post("/v1/jobs", json=order), client.put("/v1/schedules/often", json=cron)):
            assert (refused.status_code, refused.json()["code"]) == (413, "too_large"), refused.text
            assert "self_play_s" in refused.json()["detail"]
        assert (client.get("/v1/jobs").json()["jobs"], client.get("/v1/schedules").json()["schedules"]) == ([], [])


def test_files_outside_and_wrong_orders_are_refused(words: Home, client: TestClient) -> None:
    few = run_job(words, client, content=b"".join(LINES.splitlines(keepends=True)[:10]))
    assert (few["state"], few["error"]["code"]) == ("failed", "bad_input")
    (words.path / "inbox").mkdir(exist_ok=True)
    (words.path / "inbox" / "talks.jsonl").write_bytes(LINES)
    for more, status in (
        ({"conversations": "/etc/passwd"}, 403),
        ({"sentiment": "lexicon:/etc/passwd"}, 403),
        ({"meaning": "onnx:/etc"}, 403),
        ({"conversations": "absent.jsonl"}, 422),
        ({"vectors": "/etc/passwd"}, 403),
        ({"vectors": "words", "columns": "wide", "metrics": ["upsilon-greedy:vectors=/etc/passwd"]}, 400),
    ):
        answer = client.post("/v1/jobs", json={**FIT, "conversations": "talks.jsonl", **more})
        assert answer.status_code == status, answer.text


def test_a_hybrid_of_files_or_of_judges_is_for_the_command(words: Home, client: TestClient, tmp_path: Path) -> None:
    (words.path / "inbox").mkdir(exist_ok=True)
    (words.path / "inbox" / "glad.tsv").write_text("great\t3\nawful\t-3\n")
    assert run_job(words, client, sentiment="lexicon:glad.tsv")["state"] == "done"
    answer = client.post("/v1/hybrids/mine/scores", json={"conversations": TALKS})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "was fitted with sentiment of a file" in answer.json()["detail"]
    file = written(tmp_path / "talks.jsonl", list(TALKS))
    scored = words(
        "judge",
        "score",
        "hybrid",
        "mine",
        file,
        "--sentiment",
        f"lexicon:{words.path / 'inbox' / 'glad.tsv'}",
        "--json",
    )
    assert scored.json["scored"] == 60
