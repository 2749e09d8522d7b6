"""Replies of bots over HTTP: those that the command writes, and every refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from engines import pairs_said
from serving import client_of, small_home, small_items
from starlette.concurrency import run_in_threadpool
from starlette.testclient import TestClient

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.service.serving.batches.batcher import Batcher
from refaug.service.web.routes.bots.replies import RepliesOut
from refaug.service.web.state import ServiceState

ITEMS = small_items(8)
BM25 = "retrieval:chat,mode=bm25-utterance"
DRAWN = "retrieval:chat,k=6,seed=3"
BOTS = {"c-bm25": BM25, "drawn": DRAWN}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, replies=40) as client:
        yield client


def replied(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/replies", json={"items": ITEMS, "bots": BOTS, **body})
    assert answer.status_code == 200, answer.text
    RepliesOut.model_validate_json(answer.content)
    document: dict[str, Any] = answer.json()
    return document


def refused(client: TestClient, status: int, code: str, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/replies", json={"items": ITEMS, "bots": BOTS, **body})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_the_items_are_those_that_the_command_writes(
    client: TestClient, home: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "items.jsonl"
    file.write_bytes(b"".join(orjson.dumps(item) + b"\n" for item in ITEMS))
    pairs = [part for name, text in BOTS.items() for part in ("--bot", f"{name}={text}")]
    capfd.readouterr()
    assert main(["--home", str(home.home), "bots", "reply", str(file), *pairs, "--threads", "1"]) == 0
    written = [orjson.loads(line) for line in capfd.readouterr().out.splitlines()]
    answer = replied(client)
    assert answer["items"] == written
    assert [sorted(item["replies"]) for item in written] == [["a", "b", "c-bm25", "drawn"]] * len(ITEMS)
    assert answer["reply_provenance"] == written[0]["reply_provenance"]
    assert (answer["problems"], answer["warnings"]) == ([], [])
    responses = {pair.response for number in range(2) for pair in pairs_said(number)}
    assert {item["replies"]["drawn"] for item in written} <= responses


def test_bots_of_one_index_reply_from_one_version_whatever_is_published_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = small_home(tmp_path, indexes=2)
    indexes = artefact_stores(home)["index"]
    older, newer = indexes.versions("chat")
    with client_of(home) as client:
        state: ServiceState = client.app.state.refaug  # type: ignore[attr-defined]
        run = Batcher.run

        async def publish_after(*args: Any, **settings: Any) -> Any:
            done = await run(*args, **settings)
            indexes.publish("chat", newer)
            await run_in_threadpool(state.open_versions.refresh)
            return done

        monkeypatch.setattr(Batcher, "run", publish_after)
        answer = replied(client, bots={**BOTS, "third": f"retrieval:chat@{newer}"})
        monkeypatch.undo()
        assert answer["bots"] == {
            "c-bm25": f"retrieval:chat@{older},mode=bm25-utterance",
            "drawn": f"retrieval:chat@{older},k=6,seed=3",
            "third": f"retrieval:chat@{newer}",
        }
        assert replied(client)["bots"]["drawn"].startswith(f"retrieval:chat@{newer},")


def test_items_without_a_reply_are_left_out_or_refused_on_request(client: TestClient) -> None:
    items = [ITEMS[0], {"id": "mute", "references": ["yes"]}, ITEMS[1]]
    skipped = replied(client, items=items, bots={"c-bm25": BM25}, without_reply="skip")
    assert [item["id"] for item in skipped["items"]] == [ITEMS[0]["id"], ITEMS[1]["id"]]
    assert skipped["warnings"][-1] == "1 item without a reply left out"
    problem = refused(client, 422, "bad_input", items=items, bots={"c-bm25": BM25}, without_reply="refuse")
    assert problem["errors"] == [
        {"item": "mute", "place": 1, "field": "items[1].replies.c-bm25", "message": "no reply: no_utterance"}
    ]
    refused(client, 422, "bad_input", without_reply="ignore")


def test_bad_items_and_bots_are_refused_with_what_would_be_right(client: TestClient) -> None:
    problem = refused(client, 422, "bad_input", items=[ITEMS[0], {"id": "x", "references": "none"}])
    assert problem["errors"][0]["field"] == "items[1].references"
    assert len(replied(client, items=[{"id": "x", "references": "none"}], on_error="report")["problems"]) == 1
    for bot, detail in (
        ("oracle:chat", "there is no kind of bot 'oracle'"),
        ("retrieval:chat,mode=bm25", "no mode is called 'bm25'"),
        ("retrieval:chat,seed=3", "seed has no effect"),
        ("retrieval:chat,exclude-log=other", "the index has no log 'other'"),
    ):
        assert detail in refused(client, 400, "usage", bots={"x": bot})["detail"]
    refused(client, 404, "not_found", bots={"x": "retrieval:nope"})
    refused(client, 422, "bad_input", bots={})
    refused(client, 422, "bad_input", bots={" ": BM25})
    refused(client, 422, "bad_input", bots=["retrieval:chat"])
    problem = refused(client, 413, "too_large", bots={str(number): BM25 for number in range(6)})


def test_a_dialog_mode_warns_and_a_version_may_be_named(client: TestClient) -> None:
    line = replied(client)["reply_provenance"]["c-bm25"]
    version = line.split("index:")[1].split("#")[0]
    answer = replied(client, bots={"x": f"retrieval:{version},mode=bm25-dialog"})
    assert answer["warnings"] == ["x: bm25-dialog compares with the gold, which a system under test never sees"]
    assert answer["reply_provenance"]["x"] == line.replace("bm25-utterance", "bm25-dialog")
    assert answer["bots"] == {"x": f"retrieval:{version},mode=bm25-dialog"}
    assert replied(client)["bots"] == {
        "c-bm25": f"retrieval:{version},mode=bm25-utterance",
        "drawn": f"retrieval:{version},k=6,seed=3",
    }
