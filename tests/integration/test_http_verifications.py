"""POST /v1/verifications: what the server answered before, made again; what differs, is missing, or is refused."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, small_home, small_items, wait_until
from starlette.testclient import TestClient

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.scoring.score_files.score_file import sealed
from refaug.service.web.schemas.scoring import VerificationOut
from refaug.service.web.state import ServiceState

ITEMS = small_items(6)
METRICS = ["upsilon-bleu", "upsilon-chrf", "rater", "bleu"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, draws=100) as client:
        yield client


@pytest.fixture(scope="module")
def scores(client: TestClient) -> dict[str, Any]:
    body = {"items": ITEMS, "metrics": METRICS, "draws": 40, "baseline": "a"}
    answer = client.post("/v1/scores", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def verified(client: TestClient, scores: dict[str, Any], items: list[dict[str, Any]]) -> dict[str, Any]:
    answer = client.post("/v1/verifications", json={"scores": scores, "items": items})
    assert answer.status_code == 200, answer.text
    VerificationOut.model_validate_json(answer.content)
    document: dict[str, Any] = answer.json()
    return document


def states(document: dict[str, Any], state: str) -> dict[str, str]:
    return {part["part"]: part["message"] for part in document["parts"] if part["state"] == state}


def test_an_answer_holds_over_http_and_saved_as_a_file(
    client: TestClient, home: Settings, scores: dict[str, Any], tmp_path: Path, capfdbinary: Any
) -> None:
    found = verified(client, scores, ITEMS)
    assert (found["verdict"], {part["state"] for part in found["parts"]}) == ("holds", {"holds"})
    parts = [(part.get("metric"), part["part"]) for part in found["parts"]]
    assert parts[:4] == [(None, "file"), (None, "software"), (None, "index"), (None, "vectors")]
    assert [metric for metric, part in parts if part == "comparisons"] == METRICS
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    capfdbinary.readouterr()
    arguments = [
        "score",
        "verify",
        str(tmp_path / "scores.json"),
        str(tmp_path / "items.jsonl"),
        "--threads",
        "1",
        "--json",
    ]
    assert main(["--quiet", "--home", str(home.home), *arguments]) == 0
    printed = json.loads(capfdbinary.readouterr().out)
    assert [(part.get("metric"), part["part"], part["state"]) for part in printed["parts"]] == [
        (*part, "holds") for part in parts
    ]


def test_answers_against_a_set_hold_if_they_have_a_reply_to_each_item(client: TestClient) -> None:
    frozen = client.post("/v1/reference-sets", json={"items": ITEMS, "purpose": "test", "references": "find"}).json()
    path, replies = f"/v1/reference-sets/{frozen['id']}/scores", [item["replies"]["a"] for item in ITEMS]
    whole = client.post(path, json={"replies": {"a": replies}, "metrics": ["upsilon-bleu"], "draws": 30}).json()
    answered = [{"id": item["id"], "replies": {"a": reply}} for item, reply in zip(ITEMS, replies, strict=True)]
    found = verified(client, whole, answered)
    assert (found["verdict"], states(found, "differs")) == ("holds", {})
    assert list(states(found, "unchecked")) == ["file", "utterances", "replies"]
    assert "reply scores" in states(found, "holds")
    some = {"items": [ITEMS[0]["id"]] * 2, "replies": {"a": replies[:2]}, "metrics": ["bleu"]}
    found = verified(client, client.post(path, json=some).json(), answered)
    assert found["verdict"] == "missing"
    assert "2 replies to some of the 6 items of the set" in states(found, "missing")["items"]


def test_a_version_that_is_gone_is_missing_and_no_path_is_told(scores: dict[str, Any], tmp_path: Path) -> None:
    home = small_home(tmp_path / "gone")
    artefact_stores(home)["rater"].delete("base")
    with client_of(home) as client:
        found = verified(client, scores, ITEMS)
        missing = states(found, "missing")
        assert (found["verdict"], list(missing)) == ("missing", ["rater"])
        assert "was removed at" in missing["rater"]
        shutil.rmtree(home.home / "indexes")
        again = verified(client, scores, ITEMS)
        assert list(states(again, "missing")) == ["index", "rater"]
        assert str(tmp_path) not in json.dumps(again)


def test_versions_stay_until_a_verification_that_waits_is_done(tmp_path: Path) -> None:
    home = small_home(tmp_path, raters=2)
    raters, begun, go_on = artefact_stores(home)["rater"], threading.Event(), threading.Event()
    with client_of(home, old_versions=0) as client, ThreadPoolExecutor(2) as pool:
        state: ServiceState = client.app.state.refaug  # type: ignore[attr-defined]
        scores = client.post("/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu", "rater"]}).json()

        def hold() -> None:
            begun.set()
            go_on.wait(60)

        async def take() -> None:
            await state.batcher.run(hold, items=1, deadline=float("inf"), is_long=True)

        assert client.portal is not None
        holding = client.portal.start_task_soon(take)
        try:
            assert begun.wait(60)
            verifying = pool.submit(verified, client, scores, ITEMS)
            wait_until(lambda: state.batcher.waiting() > 0)
            older, newer = raters.versions("base")
            raters.publish("base", newer)
            state.open_versions.refresh()
            raters.gc("base", 1)
            assert raters.versions("base") == [older, newer]
        finally:
            go_on.set()
        holding.result(60)
        found = verifying.result(60)
        assert (found["verdict"], states(found, "missing")) == ("holds", {})
        assert f"base@{older}" in states(found, "holds")["rater"]

        def is_newer_alone() -> bool:
            state.open_versions.refresh()
            raters.gc("base", 1)
            return raters.versions("base") == [newer]

        wait_until(is_newer_alone)  # the request's hold ends just after its answer
        assert "was removed at" in states(verified(client, scores, ITEMS), "missing")["rater"]


def test_a_served_file_that_was_written_to_differs_and_is_not_read_by_scores(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with client_of(home) as client:
        scores = client.post("/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"]}).json()
        indexes = artefact_stores(home)["index"]
        folder = indexes.folder(*indexes.resolve("chat"))
        largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        content = largest.read_bytes()
        largest.write_bytes(bytes([content[0] ^ 1]) + content[1:])  # in place: the same inode
        found = verified(client, scores, ITEMS)
        assert list(states(found, "differs")) == ["index"]
        assert "is damaged" in states(found, "differs")["index"]
        assert states(found, "unchecked")["scores"] == "not computed again: the index is not at hand as it was"


def test_limits_of_requests_hold_for_verifications(client: TestClient, scores: dict[str, Any]) -> None:
    drawn = sealed({**scores, "resampling": {**scores["resampling"], "draws": 101}})
    answer = client.post("/v1/verifications", json={"scores": drawn, "items": ITEMS})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    many = {**scores, "scores": scores["scores"] * 100}
    answer = client.post("/v1/verifications", json={"scores": many, "items": ITEMS})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert client.post("/v1/verifications", json={"scores": scores}).status_code == 422


def test_metrics_name_no_files_outside_of_the_inbox(client: TestClient, home: Settings) -> None:
    line = "embedding-average|vectors:../../etc/passwd#000000000000|weighting:none|refs:own|multi:best|refaug:0.1.0"
    resampling = {"draws": 0, "seed": 1, "confidence": 0.95}
    document = {"scores": [{"signature_full": line, "systems": {"a": {"corpus": 0.5}}}], "resampling": resampling}
    found = states(verified(client, document, ITEMS), "missing")
    assert found["scores"].startswith("it cannot be computed here: ../../etc/passwd is a path")
    (home.home / "inbox").mkdir(exist_ok=True)
    (home.home / "inbox" / "linked.txt").symlink_to("/etc/passwd")
    document["scores"][0]["signature_full"] = line.replace("../../etc/passwd", "linked")
    answer = client.post("/v1/verifications", json={"scores": document, "items": ITEMS})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
