"""`refaug judge conversations`: courses of scores beside single scores, formats of conversations, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from extras.conversations.integration.test_hybrid_command import written
from integration.conftest import Home
from scipy import stats
from serving import client_of, migrated

from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

TURNS = ("-m", "upsilon-bleu", "--index", "chat", "--mode", "bm25-utterance", "--reference-weights", "one")
ONE = ("--threads", "1", "--json")


@pytest.fixture
def talks(ready: Home) -> list[dict[str, Any]]:
    """Conversations made of utterances of the log, so that the index has references for them."""
    pairs = list(ready.open().pairs())[:240]
    texts = [text for pair in pairs for text in (pair.utterance, pair.response)]
    return [
        {
            "id": f"c{number}",
            "bot": f"b{number % 6}",
            "turns": [
                {"role": ("user", "assistant")[place % 2], "text": texts[(number * 7 + place * (1 + number % 3)) % 480]}
                for place in range(6)
            ],
            "ratings": {"quality": (number * 5) % 7 + 1},
            "scale": [1, 7],
        }
        for number in range(36)
    ]


def judged(home: Home, file: Path, *options: object) -> Any:
    result = home("judge", "conversations", file, *TURNS, *options, *ONE)
    assert result.code == 0, result.err
    return result.json


def scores_of(report: Any) -> dict[str, list[float | None]]:
    return {talk["id"]: talk["scores"]["upsilon-bleu"]["turns"] for talk in report["conversations"]}


def test_turns_have_the_scores_that_items_have(ready: Home, tmp_path: Path, talks: list[dict[str, Any]]) -> None:
    report = judged(ready, written(tmp_path / "talks.jsonl", talks))
    items = [
        {
            "id": f"{talk['id']}/{place}",
            "turns": [turn["text"] for turn in talk["turns"][:place]],
            "replies": {"bot": talk["turns"][place]["text"]},
        }
        for talk in talks
        for place in (1, 3, 5)
    ]
    file = written(tmp_path / "items.jsonl", items)
    scored = ready("score", file, *TURNS, "--gold", "none", *ONE).json
    by_item = {row["id"]: row["score"] for row in scored["scores"][0]["systems"]["bot"]["replies"]}
    for talk in report["conversations"]:
        figures = talk["scores"]["upsilon-bleu"]
        expected = [by_item[f"{talk['id']}/{place}"] for place in (1, 3, 5)]
        assert figures["turns"] == pytest.approx(expected, abs=1e-12, nan_ok=True)
        defined = [score for score in expected if score is not None]
        assert figures["mean"] == pytest.approx(np.mean(defined))
        assert (figures["worst"], figures["scored"], figures["replies"]) == (min(defined), len(defined), 3)
        assert (figures["first"], figures["second"]) == pytest.approx((expected[0], expected[2]))
        assert figures["slope"] == pytest.approx(np.polyfit([0, 1, 2], expected, 1)[0])
    means = [
        (
            np.mean([talk["scores"]["upsilon-bleu"]["mean"] for talk in report["conversations"] if talk["bot"] == bot]),
            np.mean([talk["ratings"]["quality"] for talk in talks if talk["bot"] == bot]),
        )
        for bot in sorted({talk["bot"] for talk in talks})
    ]
    assert report["agreement"]["figures"]["upsilon-bleu"]["mean"]["pearson"] == pytest.approx(
        stats.pearsonr(*zip(*means, strict=True)).statistic
    )
    assert "gold:none" in report["metrics"][0]["signature"]
    text = ready("judge", "conversations", tmp_path / "talks.jsonl", *TURNS, "--threads", "1").out
    assert "agreement with mean over 36 rated conversations" in text


def test_every_format_of_conversations_is_read_alike(ready: Home, tmp_path: Path, talks: list[dict[str, Any]]) -> None:
    talks = talks[:12]
    expected = scores_of(judged(ready, written(tmp_path / "talks.jsonl", talks)))
    openai = [
        {
            "id": talk["id"],
            "model": talk["bot"],
            "messages": [
                {"role": "system", "content": "Be kind."},
                *({"role": turn["role"], "content": turn["text"]} for turn in talk["turns"]),
            ],
        }
        for talk in talks
    ]
    sharegpt = [
        {
            "id": talk["id"],
            "conversations": [
                {"from": {"user": "human", "assistant": "gpt"}[turn["role"]], "value": turn["text"]}
                for turn in talk["turns"]
            ],
        }
        for talk in talks
    ]
    (tmp_path / "array.json").write_bytes(orjson.dumps(openai))
    pq.write_table(pa.Table.from_pylist(openai), tmp_path / "talks.parquet")
    with (tmp_path / "turns.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["chat", "who", "said", "bot", "grade"])
        for talk in talks:
            for turn in talk["turns"]:
                writer.writerow([talk["id"], turn["role"], turn["text"], talk["bot"], talk["ratings"]["quality"]])
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["conversation_id", "messages", "model"])
        for talk in openai:
            writer.writerow([talk["id"], json.dumps(talk["messages"]), talk["model"]])
    named = ("--map", "conversation=chat", "--map", "role=who", "--map", "text=said", "--map", "rating:quality=grade")
    assert scores_of(judged(ready, written(tmp_path / "openai.jsonl", openai))) == expected
    assert scores_of(judged(ready, written(tmp_path / "gpt.jsonl", sharegpt), "--bot", "mine")) == expected
    assert scores_of(judged(ready, tmp_path / "array.json")) == expected
    assert scores_of(judged(ready, tmp_path / "talks.parquet")) == expected
    assert scores_of(judged(ready, tmp_path / "rows.csv")) == expected
    of_csv = judged(ready, tmp_path / "turns.csv", *named, "--scale", "1-7")
    assert scores_of(of_csv) == expected
    assert (of_csv["agreement"]["conversations"], of_csv["agreement"]["target"]) == (12, "mean")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "chat"),
        (("--map", "words=said"), "is not FIELD=COLUMN"),
        (("--map", "rating=grade"), "is not FIELD=COLUMN"),
        (("--map", "text=said", "--map", "text=who"), "--map"),
        (("--scale", "7-1"), "--scale"),
    ],
)
def test_columns_that_are_not_there_are_named(
    ready: Home, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "turns.csv").write_text("id,who,said\nc1,user,hi\nc1,bot,hello\n")
    result = ready(
        "judge", "conversations", tmp_path / "turns.csv", *TURNS, "--map", "conversation=chat", *options, *ONE
    )
    assert result.code in (2, 3)
    assert message in result.error["message"]


def test_bad_rows_and_conversations_of_a_table_are_named_and_left_out(
    ready: Home, tmp_path: Path, talks: list[dict[str, Any]]
) -> None:
    lines = ["conversation_id,role,text,bot"]
    lines += [f'{talk["id"]},{turn["role"]},"{turn["text"]}",b' for talk in talks[:3] for turn in talk["turns"]]
    lines += ["short,user,hi,b", "cat,user,hi,b", "cat,cat,meow,b", ",,,b", "silent,user,hi,b", "silent,bot,,b"]
    (tmp_path / "turns.csv").write_text("\n".join(lines))
    result = ready("judge", "conversations", tmp_path / "turns.csv", *TURNS, *ONE)
    assert len(result.json["conversations"]) == 3
    for message in (
        "turns: a conversation has two turns at least, and this has 1",
        "turns[1].role: 'cat' is none of the roles",
        "no conversation: it says which one the turn is of",
        "turns: the bot says nothing",
    ):
        assert message in result.err


def test_what_cannot_be_judged_is_refused(ready: Home, tmp_path: Path, talks: list[dict[str, Any]]) -> None:
    file = written(tmp_path / "talks.jsonl", talks[:4])

    def message(*options: object) -> str:
        result = ready("judge", "conversations", file, *options, *ONE)
        assert result.code in (2, 3), result.out
        return str(result.error["message"])

    assert "--metric: it is missing" in message()
    assert "no reply has a score by bleu" in message("-m", "bleu")
    assert "comes twice" in message(*TURNS, "-m", "upsilon-bleu")
    assert "to be rated, and no rater is named" in message("-m", "upsilon-bleu", "--index", "chat")
    assert "no conversation has a rating called 'fun'" in message(*TURNS, "--target", "fun")
    few = judged(ready, file)
    assert "a correlation over 4 bots says nothing" in few["agreement"]["figures"]["upsilon-bleu"]["mean"]["reason"]
    mixed = written(tmp_path / "mixed.jsonl", [talks[0], {**talks[1], "scale": [1, 10]}])
    result = ready("judge", "conversations", mixed, *TURNS, *ONE)
    first, second = (talk["id"] for talk in talks[:2])
    assert all(str(fact) in result.error["message"] for fact in (first, second))
    assert "score turns" not in result.err


def test_a_job_judges_what_the_command_judges(ready: Home, tmp_path: Path, talks: list[dict[str, Any]]) -> None:
    home = migrated(Settings(home=ready.path))
    wrong = {**talks[0], "id": "w", "turns": [{"role": "user", "text": "Hi"}, {"role": "cat", "text": "Mew"}]}
    file = written(tmp_path / "talks.jsonl", [*talks, wrong])
    by_command = judged(ready, file)
    order = {
        "kind": "judge-conversations",
        "metrics": ["upsilon-bleu"],
        "index": "chat",
        "settings": {"mode": "bm25-utterance", "weights": "one"},
        "threads": 1,
    }
    with client_of(home, ready=False) as client:

        def done(**more: Any) -> dict[str, Any]:
            queued = client.post("/v1/jobs", json={**order, **more})
            assert queued.status_code == 202, queued.text
            assert run_worker(home, ServeSettings(), once=True) == 0
            job: dict[str, Any] = client.get(queued.headers["location"]).json()
            return job

        headers = {"Content-Type": "application/octet-stream"}
        sent = client.post("/v1/uploads?name=talks.jsonl", content=file.read_bytes(), headers=headers).json()
        job = done(conversations=f"upload:{sent['id']}")
        assert job["state"] == "done", job["error"]
        result = job["result"]
        assert {name: result[name] for name in ("metrics", "bots", "agreement")} == {
            name: by_command[name] for name in ("metrics", "bots", "agreement")
        }
        assert (result["conversations"], result["file"]) == (36, "talks-scores.jsonl")
        content = client.get(f"/v1/uploads/{job['id']}/content").content
        assert list(map(orjson.loads, content.splitlines())) == by_command["conversations"]
        events = client.get(f"/v1/jobs/{job['id']}/events", headers={"Accept": "application/json"}).text
        assert "talks.jsonl, line 37, turns[1].role: 'cat' is none of the roles" in events + str(job)

        for more, message in (
            ({"target": "nice"}, "no conversation has a rating called 'nice'"),
            ({"without": ["b9"]}, "no conversation is with a bot called 'b9'"),
            ({"rater": "base"}, "nothing is to be rated"),
            ({"name": "\n"}, "is not a name for a file"),
        ):
            failed = done(conversations=f"upload:{sent['id']}", **more)
            assert (failed["state"], message in str(failed["error"])) == ("failed", True), failed
        assert client.post("/v1/jobs", json={**order, "conversations": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab"}).is_error
        unknown = done(conversations="selfplay:none")
        assert (unknown["state"], "none" in str(unknown["error"])) == ("failed", True), unknown
        begin = tmp_path / "starts.txt"
        begin.write_text("Hello there.\nHow are you?\n")
        play = (
            "bots",
            "play",
            "retrieval:chat",
            "--conversations",
            "2",
            "--turns",
            "4",
            "--name",
            "two",
            "--threads",
            "1",
        )
        assert ready(*play, "--start", f"file:{begin}").code == 0
        of_play = done(conversations="selfplay:two")
        told = ready("judge", "conversations", "selfplay:two", *TURNS, *ONE)
        by_command = told.json
        assert "retrieved references of their items: retrieval:chat (3)" in told.err
        assert of_play["result"]["bots"] == by_command["bots"]
        content = client.get(f"/v1/uploads/{of_play['id']}/content").content
        assert list(map(orjson.loads, content.splitlines())) == by_command["conversations"]
