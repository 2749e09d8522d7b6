"""Cross raters as users meet them: trained, shown, asked by the command and over HTTP, and named in signatures."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home
from serving import client_of, migrated
from trainings import interrupting, talk

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Reference
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder
from refaug.rater.rating import WITHOUT_GOLD, RatingRequest
from refaug.rater.stored_raters import network_of
from refaug.scoring.home.networks import open_rater

pytestmark = pytest.mark.slow

TRAIN = (
    *("train", "rater", "chat", "--network", "cross", "--preset", "small", "--epochs", "1", "--threads", "1"),
    *("--max-tokens", "32", "--positives", "96", "--embeddings", "random"),
)
TURNS = ("who sells you soup today", "my aunt gets it by the mill", "where do you buy tea now")


@pytest.fixture(scope="module")
def with_rater(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log and a cross rater of it."""
    folder = tmp_path_factory.mktemp("with-cross")
    order = IngestOrder(sources=(str(talk(folder / "chat.jsonl", 120)),), log="chat")
    ingesting.ingest(order, folder / "home/logs", Silent())
    assert main(["--home", str(folder / "home"), "--quiet", *TRAIN]) == 0
    return folder / "home"


@pytest.fixture
def trained(home: Home, with_rater: Path) -> Home:
    shutil.copytree(with_rater, home.path)
    return home


def test_lists_and_reports_name_the_network(trained: Home, tmp_path: Path) -> None:
    (row,) = trained("artefacts", "list", "rater", "--json").json["versions"]
    assert (row["name"], row["network"], row["published"]) == ("chat", "cross", True)
    shown = trained("artefacts", "show", "rater", "chat", "--json").json
    assert (shown["network"], shown["kind"]) == ("cross", "rater")
    assert shown["config"]["layers"] == 2
    assert shown["report"]["parameters"] == open_rater(Settings(home=trained.path), "chat").model.parameter_count  # type: ignore[attr-defined]
    assert "auc_good_vs_dialogue" in trained("artefacts", "show", "rater", "chat").out
    page = trained("train", "report", "rater", "chat", "--to", tmp_path / "page")
    assert page.code == 0, page.err
    assert "is rated above a wrong one" in (tmp_path / "page/index.html").read_text("utf-8")


def test_command_service_and_metric_rate_alike(trained: Home, tmp_path: Path) -> None:
    home = Settings(home=trained.path)
    rater = open_rater(home, "chat", threads=1)
    replies = ("at the market", "never at the mill")
    candidates = tuple(Reference(text=text) for text in replies)
    joined = rater.rate([RatingRequest(utterance="\n".join(TURNS), golds=("near the mill",), candidates=candidates)])[0]
    alone = rater.rate([RatingRequest(utterance=TURNS[-1], golds=("near the mill",), candidates=candidates)])[0]
    assert joined != pytest.approx(alone, abs=1e-5)
    rated = trained("judge", "score", "rater", "chat", TURNS[-1], "near the mill", *replies, "--json").json
    assert rated["ratings"] == pytest.approx(alone, abs=1e-5)
    item = {
        "id": "a",
        "turns": TURNS,
        "references": ["near the mill"],
        "replies": dict(zip("xy", replies, strict=True)),
    }
    (tmp_path / "items.jsonl").write_bytes(orjson.dumps(item))
    score = trained(
        *("score", tmp_path / "items.jsonl", "--rater", "chat", "--metric"),
        *("rater:target=reply,turns=3", "--json"),
    )
    assert score.code == 0, score.err
    assert f"rater|model:{rater.spec}" in score.out
    assert _reply_scores(score.json) == pytest.approx(joined, abs=1e-5)
    migrated(home)
    with client_of(home) as client:
        pair = {"utterance": TURNS[-1], "golds": ["near the mill"], "candidates": [{"text": text} for text in replies]}
        answer = client.post("/v1/ratings", json={"rater": "chat", "pairs": [pair]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ratings"][0] == pytest.approx(alone, abs=1e-5)
        (version,) = client.get("/v1/artefacts/rater/chat/versions").json()["versions"]
        assert (version["network"], version["hidden"]) == ("cross", 256)


def _reply_scores(answer: Any) -> list[float]:
    (metric,) = answer["scores"]
    return [metric["systems"][system]["replies"][0]["score"] for system in "xy"]


def test_a_gold_is_not_needed(trained: Home) -> None:
    rater = open_rater(Settings(home=trained.path), "chat", threads=1)
    request = RatingRequest(utterance=TURNS[-1], golds=(), candidates=(Reference(text="at the market"),))
    ((rating,),) = rater.rate([request])
    assert -1 < rating < 1
    assert rater.rate([replace(request, golds=WITHOUT_GOLD)]) == [[rating]]
    assert rater.rate([replace(request, golds=("",) * 2)]) != [[rating]]


def test_a_stopped_training_goes_on_as_it_was_ordered(home: Home, with_rater: Path, monkeypatch: Any) -> None:
    shutil.copytree(with_rater / "logs", home.logs)
    with interrupting(monkeypatch) as stop:
        stop(2)
        assert home(*TRAIN).code != 0
    result = home("train", "resume", "rater", "chat", "--json")
    assert result.code == 0, result.err
    expected = artefact_stores(Settings(home=with_rater))["rater"]
    (version,) = expected.versions("chat")
    assert network_of(home.path / "raters/chat" / version) == "cross"
    weights = [root / "raters/chat" / version / "weights.safetensors" for root in (home.path, with_rater)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
