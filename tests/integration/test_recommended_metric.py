"""refaug-1 on every face: the command, files of references, HTTP, jobs, the library and frozen sets give one number."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fastapi.testclient import TestClient
from integration.conftest import Home
from recommended_homes import ITEMS, recommended_home
from serving import client_of
from torchless import answers_without_torch

import refaug
from refaug.core.home import Settings
from refaug.metrics.catalogue import METRICS
from refaug.metrics.embeddings import recommended
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.signature import Signature
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

pytestmark = pytest.mark.slow

METRIC = "refaug-1:encoder=tiny"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with items and a home whose index has the vectors of a tiny encoder, and numbers for that encoder."""
    folder = tmp_path_factory.mktemp("recommended")
    calibration = recommended_home(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recommended, "own_calibration", lambda: calibration)
        yield folder


@pytest.fixture
def command(ready: Path, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(ready / "home", capsys)


@pytest.fixture(scope="module")
def web(ready: Path) -> Iterator[TestClient]:
    with client_of(Settings(home=ready / "home")) as client:
        yield client


def replies_of(scores: dict[str, Any]) -> list[float]:
    return [reply["score"] for system in ("a", "b") for reply in scores["systems"][system]["replies"]]


def scored(command: Home, *options: object) -> dict[str, Any]:
    result = command("score", *options, "--threads", "1", "--draws", "0", "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = result.json
    return document


@pytest.fixture
def expected(command: Home, ready: Path) -> dict[str, Any]:
    scores: dict[str, Any] = scored(command, ready / "items.jsonl", "-m", METRIC, "--index", "chat")["scores"][0]
    return scores


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from refaug.cli import main
sys.exit(main.main(sys.argv[1:]))
"""


def test_references_are_found_and_scored_where_torch_is_not_installed(command: Home, ready: Path) -> None:
    words = ["score", ready / "items.jsonl", "--index", "chat", "--threads", "1", "--draws", "0", "--json"]
    words += ["-m", "upsilon-bleu", "--reference-weights", "one", "--mode", "encoder-utterance"]
    expected = command(*words)
    assert expected.code == 0, expected.err
    started = [sys.executable, "-c", WITHOUT_TORCH, "--home", str(ready / "home"), *map(str, words)]
    done = subprocess.run(started, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"] == expected.json["scores"]


def test_the_service_scores_by_the_metric_without_torch(ready: Path, expected: dict[str, Any]) -> None:
    body = {"items": ITEMS, "metrics": [METRIC], "index": "chat"}
    (answer,) = answers_without_torch(ready / "home", [("/v1/scores", body)], recommended.own_calibration())
    (scores,) = answer["scores"]
    assert scores["signature_full"] == expected["signature_full"]
    assert replies_of(scores) == pytest.approx(replies_of(expected), abs=1e-6)


def test_the_metric_finds_its_own_references(expected: dict[str, Any]) -> None:
    settings = Signature.parse(expected["signature"]).settings
    assert {name: settings[name] for name in ("k", "mode", "parrot", "weights", "preset", "calibration")} == {
        "k": "50",
        "mode": "encoder-utterance",
        "parrot": "off",
        "weights": "one",
        "preset": "refaug-1",
        "calibration": "0" * 12,
    }
    assert not {"norm-words", "oov", "weighting"} & Signature.parse(expected["signature_full"]).details.keys()
    assert len(set(replies_of(expected))) > 6


def test_an_explanation_of_the_service_makes_the_score_that_stands_beside_it(web: TestClient) -> None:
    bare = {"id": "bare", "turns": ITEMS[0]["turns"], "references": [], "replies": {"a": "mag ich Tee ?"}}
    body = {"items": [*ITEMS, bare], "metrics": [METRIC], "index": "chat", "explain": True}
    answer = web.post("/v1/scores", json=body)
    assert answer.status_code == 200, answer.text
    rows = [row for system in answer.json()["scores"][0]["systems"].values() for row in system["replies"]]
    explained = [row for row in rows if "combination" in row]
    assert [row["id"] for row in explained] == [
        *(item["id"] for item in ITEMS),
        "bare",
        *(item["id"] for item in ITEMS),
    ]
    for row in explained:
        told = row["combination"]
        total = reduce(add, [part["share"] * part["counted"] for part in told["parts"]])
        odds = told["link"]["a"] + told["link"]["b"] * (total - told["drawn"]["mean"]) / told["drawn"]["deviation"]
        odds -= reduce(add, [guard["takes"] for guard in told["guards"]])
        assert (1 + np.tanh(odds / 2)) / 2 == row["score"]
        parts = {part["part"]: part["value"] for part in told["parts"]}
        assert ("gold" in parts) == (row["id"] != "bare")
        nearest = [like["similarity"] for like in row["likenesses"] if like["kind"] == "retrieved" and like["counts"]]
        assert np.sort(nearest).mean() == parts["retrieved"]
    assert explained[len(ITEMS)]["combination"]["unknown"] > 0
    hundred = web.post("/v1/scores", json={**body, "percent": True}).json()["scores"][0]["systems"]["a"]["replies"][0]
    assert hundred["combination"]["unguarded"] == pytest.approx(100 * explained[0]["combination"]["unguarded"])
    assert web.get("/v1/artefacts/index/chat").json()["published"]["metric"] == "refaug-1"


def test_every_face_gives_the_same_number(
    command: Home, ready: Path, web: TestClient, expected: dict[str, Any], tmp_path: Path
) -> None:
    found = command("sets", "references", ready / "items.jsonl", "--index", "chat", "--preset", "refaug-1")
    assert found.code == 0, found.err
    (tmp_path / "found.jsonl").write_text(found.out)
    by_file = scored(command, tmp_path / "found.jsonl", "-m", METRIC)["scores"][0]
    answer = web.post("/v1/scores", json={"items": ITEMS, "metrics": [METRIC], "index": "chat"})
    assert answer.status_code == 200, answer.text
    by_default_index = web.post("/v1/scores", json={"items": ITEMS, "metrics": [METRIC]}).json()["scores"][0]
    inbox = command.path / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "items.jsonl").write_bytes((ready / "items.jsonl").read_bytes())
    order = {"kind": "score", "items": "items.jsonl", "metrics": [METRIC], "index": "chat", "draws": 0, "threads": 1}
    job = web.post("/v1/jobs", json=order).json()["id"]
    run_worker(Settings(home=command.path), ServeSettings(), once=True)
    done = web.get(f"/v1/jobs/{job}").json()
    assert done["state"] == "done", done
    by_job = web.get(f"/v1/evaluations/{done['result']['evaluation']}/download").json()["scores"][0]
    for scores in (by_file, answer.json()["scores"][0], by_default_index, by_job):
        assert scores["signature_full"] == expected["signature_full"]
        assert replies_of(scores) == pytest.approx(replies_of(expected), abs=1e-6)
    by_library = refaug.score(ITEMS, metric=METRIC, index="chat", home=command.path)
    assert by_library.signature == expected["signature"]
    of_library = [score for system in ("a", "b") for score in by_library[METRIC][system].replies]
    assert of_library == pytest.approx(replies_of(expected), abs=1e-6)


def test_it_is_the_metric_of_an_index_where_none_is_named(
    command: Home, ready: Path, web: TestClient, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = METRICS["refaug-1"]
    with_tiny = replace(info, parameters=(replace(info.parameters[0], default="tiny"),))
    monkeypatch.setitem(cast("dict[str, MetricInfo]", METRICS), "refaug-1", with_tiny)
    by_command = scored(command, ready / "items.jsonl", "--index", "chat")["scores"][0]
    by_request = web.post("/v1/scores", json={"items": ITEMS, "index": "chat"}).json()["scores"][0]
    found = web.post("/v1/scores", json={"items": ITEMS, "references": "find"}).json()["scores"][0]
    (command.path / "inbox").mkdir(exist_ok=True)
    (command.path / "inbox" / "items.jsonl").write_bytes((ready / "items.jsonl").read_bytes())
    order = {"kind": "score", "items": "items.jsonl", "index": "chat", "draws": 0, "threads": 1}
    job = web.post("/v1/jobs", json=order).json()["id"]
    run_worker(Settings(home=command.path), ServeSettings(), once=True)
    done = web.get(f"/v1/jobs/{job}").json()
    assert done["state"] == "done", done
    by_job = web.get(f"/v1/evaluations/{done['result']['evaluation']}/download").json()["scores"][0]
    for scores in (by_command, by_request, found, by_job):
        assert scores["signature_full"] == expected["signature_full"]
        assert replies_of(scores) == pytest.approx(replies_of(expected), abs=1e-6)
    by_library = refaug.score(ITEMS, index="chat", home=command.path)
    assert by_library.signature == expected["signature"]


def test_it_gives_way_to_no_other_metric(command: Home, ready: Path, web: TestClient) -> None:
    """With settings of other references, the error names a metric to name."""
    scoring = ("score", ready / "items.jsonl", "--index", "chat", "--json")
    other = "or name a metric that needs no encoder, such as upsilon-bleu"
    for options, message in (
        (("-k", "3"), "no metric is named, so replies are scored by refaug-1: k=3, which contradicts preset"),
        (("--rater", "base"), "--rater: no metric is named, so replies are scored by refaug-1: nothing is to be rated"),
    ):
        refused = command(*scoring, *options).error
        assert refused["message"].startswith(message)
        assert refused["remedy"].endswith(other)
    with client_of(Settings(home=command.path), default_metric="upsilon-bleu") as client:
        answer = client.post("/v1/scores", json={"items": ITEMS, "index": "chat", "settings": {"weights": "one"}})
        assert answer.json()["scores"][0]["metric"] == "upsilon-bleu"


def test_a_frozen_set_scores_one_reply_as_all_of_them(
    command: Home, ready: Path, web: TestClient, expected: dict[str, Any]
) -> None:
    body = {"items": ITEMS, "purpose": "test", "index": "chat", "settings": {"preset": "refaug-1"}}
    frozen = web.post("/v1/reference-sets", json=body)
    assert frozen.status_code in (200, 201), frozen.text
    known = replies_of(expected)[:6]
    for rows in ([4], [5, 0, 3, 0]):
        replies = {"a": [ITEMS[row]["replies"]["a"] for row in rows]}
        asked = {"items": [f"i{row}" for row in rows], "replies": replies, "metrics": [METRIC]}
        response = web.post(f"/v1/reference-sets/{frozen.json()['id']}/scores", json=asked)
        assert response.status_code == 200, response.text
        found = [reply["score"] for reply in response.json()["scores"][0]["systems"]["a"]["replies"]]
        assert found == pytest.approx([known[row] for row in rows], abs=1e-6)
        how: dict[str, Any] = {"reference_set": frozen.json()["id"], "metric": METRIC, "home": ready / "home"}
        with refaug.scorer(**how) as scorer:
            assert scorer(replies["a"], items=asked["items"]) == found
        reward = refaug.reward(**how, override_purpose=True, on_copy="score")
        assert reward(replies["a"], items=asked["items"]) == found
        reward.close()


def test_with_golds_alone_and_without_any(command: Home, ready: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    golds = scored(command, ready / "items.jsonl", "-m", METRIC)["scores"][0]
    bare = [{name: field for name, field in item.items() if name != "references"} for item in ITEMS]
    (tmp_path / "bare.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))
    without = scored(command, tmp_path / "bare.jsonl", "-m", METRIC, "--index", "chat", "--gold", "none")["scores"][0]
    signatures = [Signature.parse(scores["signature"]).settings for scores in (expected, golds, without)]
    assert ["mode" in settings for settings in signatures] == [True, False, True]
    assert [settings.get("gold") for settings in signatures] == ["one", None, "none"]
    assert len({tuple(replies_of(scores)) for scores in (expected, golds, without)}) == 3
