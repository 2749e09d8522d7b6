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


def test_order_and_batch_do_not_matter_and_answers_are_items_that_can_be_scored(client: TestClient) -> None:
    together = replied(client)["items"]
    assert [replied(client, items=[item])["items"][0] for item in ITEMS] == together
    assert replied(client, items=ITEMS[::-1])["items"] == together[::-1]
    scores = client.post("/v1/scores", json={"items": together, "metrics": ["bleu"], "references": "given"}).json()
    assert scores["warnings"] == []
    assert scores["reply_provenance"] == together[0]["reply_provenance"]
    assert list(scores["scores"][0]["systems"]) == ["a", "b", "c-bm25", "drawn"]


def test_what_references_noted_stays_and_no_field_is_unknown(client: TestClient) -> None:
    mute = {"id": "mute", "references": ["yes"]}
    settings = {"settings": {"weights": "one"}}
    found = client.post("/v1/references", json={"items": [*ITEMS[:2], mute], **settings}).json()["items"]
    answer = replied(client, items=found)
    assert [item.get("excluded") for item in answer["items"]] == [item.get("excluded") for item in found]
    assert [item["references"] for item in answer["items"]] == [item["references"] for item in found]
    assert [item["provenance"] for item in answer["items"]] == [item["provenance"] for item in found]
    last = answer["items"][-1]
    assert (last["note"], last["no_reply"]) == ("no_utterance", {"c-bm25": "no_utterance", "drawn": "no_utterance"})
    assert answer["warnings"] == [
        "c-bm25 has no reply to 1 item: mute (no_utterance)",
        "drawn has no reply to 1 item: mute (no_utterance)",
    ]
    again = client.post("/v1/scores", json={"items": answer["items"], "metrics": ["bleu"], "references": "given"})
    assert not any("is not used" in warning for warning in again.json()["warnings"])


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


def test_a_clash_is_a_bad_item_unless_the_system_is_replaced(client: TestClient) -> None:
    rated = [{**ITEMS[0], "ratings": {"a": [4], "b": [5]}}, {"id": "new", "utterance": "i like boats"}]
    clash = {
        "item": ITEMS[0]["id"],
        "place": 0,
        "field": "items[0].replies.a",
        "message": "a system of this name has replied already",
    }
    assert refused(client, 422, "bad_input", items=rated, bots={"a": BM25})["errors"] == [clash]
    reported = replied(client, items=rated, bots={"a": BM25}, on_error="report")
    assert (reported["problems"], [item["id"] for item in reported["items"]]) == ([clash], ["new"])
    (item, _) = replied(client, items=rated, bots={"a": BM25}, replace=True)["items"]
    assert item["replies"]["a"] == replied(client, items=[ITEMS[0]], bots={"x": BM25})["items"][0]["replies"]["x"]
    assert item["ratings"] == {"b": [5.0]}


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
