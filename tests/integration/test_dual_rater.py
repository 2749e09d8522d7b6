"""Dual raters as users meet them: trained, stopped and resumed, shown, and asked on several faces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from integration.conftest import Home
from trainings import talk

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Reference
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder
from refaug.rater.rating import RatingRequest
from refaug.scoring.home.networks import open_rater

pytestmark = pytest.mark.slow

TRAIN = ("train", "rater", "chat", "--network", "dual", "--preset", "small", "--epochs", "2", "--threads", "1")
REPLIES = ("at the market", "never at the mill", "who sells you soup today")


@pytest.fixture(scope="module")
def with_rater(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log and a dual rater of it."""
    folder = tmp_path_factory.mktemp("with-dual")
    ingesting.ingest(
        IngestOrder(sources=(str(talk(folder / "chat.jsonl", 120)),), log="chat"), folder / "home/logs", Silent()
    )
    assert main(["--home", str(folder / "home"), "--quiet", *TRAIN]) == 0
    return folder / "home"


@pytest.fixture
def trained(home: Home, with_rater: Path) -> Home:
    shutil.copytree(with_rater, home.path)
    return home


def test_lists_reports_and_metrics_have_it(trained: Home, tmp_path: Path) -> None:
    (row,) = trained("artefacts", "list", "rater", "--json").json["versions"]
    assert (row["network"], row["published"]) == ("dual", True)
    shown = trained("artefacts", "show", "rater", "chat", "--json").json
    assert shown["report"]["softmax"]["batch"] == 128
    assert set(shown["report"]["auc_by_kind"]) == {"random", "parrot"}
    assert trained("train", "report", "rater", "chat", "--to", tmp_path / "page").code == 0
    rater = open_rater(Settings(home=trained.path), "chat", threads=1)
    turns = ("where do you buy tea now", "who sells you soup today")
    candidates = tuple(Reference(text=text) for text in REPLIES)
    ratings = rater.rate([RatingRequest(utterance="\n".join(turns), golds=("near the mill",), candidates=candidates)])
    assert ratings == rater.rate([RatingRequest(utterance=turns[1], golds=("near the mill",), candidates=candidates)])
    rated = trained("judge", "score", "rater", "chat", turns[1], "near the mill", *REPLIES, "--json").json
    assert rated["ratings"] == pytest.approx(ratings[0], abs=1e-6)
    item = {
        "id": "a",
        "turns": turns,
        "references": ["near the mill"],
        "replies": dict(zip("xyz", REPLIES, strict=True)),
    }
    (tmp_path / "items.jsonl").write_text(json.dumps(item))
    score = trained("score", tmp_path / "items.jsonl", "--metric", "rater:target=reply,model=chat", "--json")
    assert score.code == 0, score.err
    (metric,) = score.json["scores"]
    assert f"rater|model:{rater.spec}" in score.out
    assert [metric["systems"][name]["replies"][0]["score"] for name in "xyz"] == pytest.approx(ratings[0], abs=1e-6)
