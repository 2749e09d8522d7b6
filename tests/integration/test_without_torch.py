"""A server without torch scores as one with it: references rated by a rater that was trained elsewhere, and sets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, migrated, small_home, small_items
from torchless import answers_without_torch

from refaug.core.home import Settings
from refaug.metrics.signature import Signature

pytestmark = pytest.mark.slow

ITEMS = small_items(8)
SCORES: dict[str, Any] = {"items": ITEMS, "metrics": ["upsilon-bleu", "rater"], "index": "chat", "rater": "base"}
FREEZING: dict[str, Any] = {"items": ITEMS, "purpose": "test", "index": "chat", "rater": "base"}


def replies_of(scores: dict[str, Any]) -> list[float]:
    return [reply["score"] for system in ("a", "b") for reply in scores["systems"][system]["replies"]]


def test_the_service_rates_and_scores_without_torch(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with client_of(home) as client:
        expected = client.post("/v1/scores", json=SCORES).json()
        frozen = client.post("/v1/reference-sets", json=FREEZING).json()
        of_set = {"items": [item["id"] for item in ITEMS], "metrics": ["upsilon-bleu"]}
        of_set["replies"] = {"a": [item["replies"]["a"] for item in ITEMS]}
        against_set = f"/v1/reference-sets/{frozen['id']}/scores"
        expected_of_set = client.post(against_set, json=of_set).json()
    train = {"kind": "rater-train", "logs": ["chat"], "name": "other"}
    scores, of_known_set, training = answers_without_torch(
        home.home, [("/v1/scores", SCORES), (against_set, of_set), ("/v1/jobs", train)]
    )
    for known, found in zip(expected["scores"], scores["scores"], strict=True):
        assert replies_of(found) == pytest.approx(replies_of(known), abs=1e-6)
        signature = Signature.parse(found["signature_full"])
        assert signature.details["rater-by"] == "numpy"
        assert signature.settings == Signature.parse(known["signature_full"]).settings
        assert "rater-by" not in known["signature_full"]
        assert len(set(replies_of(known))) > 3
    (known_set,), (found_set,) = expected_of_set["scores"], of_known_set["scores"]
    assert [reply["score"] for reply in found_set["systems"]["a"]["replies"]] == [
        reply["score"] for reply in known_set["systems"]["a"]["replies"]
    ]
    assert found_set["signature_full"] == known_set["signature_full"]
    assert (training["state"], training["error"]["code"]) == ("failed", "missing_part")
    assert training["error"]["remedy"].startswith("pip install 'refaug[")


def test_a_nightly_job_updates_and_compares_a_rated_index_without_torch(with_all: Path, tmp_path: Path) -> None:
    home = migrated(Settings(home=Path(shutil.copytree(with_all, tmp_path / "home"))))
    asked = ["where do you buy tea today", "where do you buy soup today", "where do you buy bread today"]
    items = [
        {"id": f"i{number}", "utterance": text, "references": ["at the market"], "replies": {"a": reply, "b": "no"}}
        for number, (text, reply) in enumerate(zip(asked, ["at the market", "near the mill", "no idea"], strict=True))
    ]
    rated: dict[str, Any] = {"index": "chat", "rater": "tiny", "settings": {"k": 4}}
    given = [{name: content for name, content in item.items() if name != "replies"} for item in items]
    with client_of(home) as client:
        frozen = client.post("/v1/reference-sets", json={"items": given, "purpose": "test", **rated}).json()
    said = {"dialogues": [{"id": "new", "turns": [asked[0], "under the old oak"]}]}
    night = {"kind": "nightly", "log": "chat", "index": "chat", "set": frozen["id"], "check_queries": 20, "threads": 1}
    scores = {"items": items, "metrics": ["upsilon-bleu"], **rated}
    requests = [("/v1/logs/chat/dialogues", said), ("/v1/jobs", {**night, "workers": 0})]
    posted, job = answers_without_torch(home.home, requests)
    assert posted["accepted"] == 1
    assert job["state"] == "done", job["error"]
    assert job["result"]["published"]
    assert job["result"]["drift"]["scores"]
    (found,) = answers_without_torch(home.home, [("/v1/scores", scores)])
    with client_of(home) as client:
        known = client.post("/v1/scores", json=scores).json()
    assert replies_of(found["scores"][0]) == pytest.approx(replies_of(known["scores"][0]), abs=1e-6)
    assert len(set(replies_of(known["scores"][0]))) > 2
    signatures = [Signature.parse(answer["scores"][0]["signature_full"]) for answer in (found, known)]
    assert signatures[0].settings == signatures[1].settings
    assert signatures[0].details["rater-by"] == "numpy"
