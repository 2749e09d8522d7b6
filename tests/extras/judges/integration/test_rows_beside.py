"""Rows beside ours, as users type it: metrics after papers of others on a board, and items that need references."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from extras.judges.integration.test_adem_commands import PRETRAIN
from integration.conftest import Home
from scipy.stats import spearmanr
from vhreds import SENTENCES

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.scoring.home.networks import open_rater

pytestmark = pytest.mark.slow

CROSS = ("train", "rater", "chat", "--network", "cross", "--preset", "small", "--epochs", "1", "--positives", "96")
BESIDE = {
    "followup:lm=chat": "followup[lm=chat]",
    "masked:model=noise,turns=3": "masked[rater=noise,turns=3]",
    "retrieval:model=noise": "retrieval[rater=noise]",
    "next-utterance:model=noise": "next-utterance[rater=noise]",
}
PAPERS = {
    "followup:lm=chat": "mehri-2020-fed",
    "masked:model=noise,turns=3": "mehri-2020-usr",
    "retrieval:model=noise": "mehri-2020-usr",
    "next-utterance:model=noise": "sinha-2020-maude",
}


@pytest.fixture(scope="module")
def with_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a VHRED, a cross rater that has seen noise and one that has not, and a rated set."""
    folder = tmp_path_factory.mktemp("rows-beside")
    rng = np.random.default_rng(1)
    lines = [
        orjson.dumps({"id": str(number), "turns": rng.choice(SENTENCES, 2 + number % 3, replace=False).tolist()})
        for number in range(260)
    ]
    (folder / "chat.jsonl").write_bytes(b"\n".join(lines))
    home = folder / "home"
    ingest(IngestOrder(sources=(str(folder / "chat.jsonl"),), log="chat"), home / "logs", Silent())
    for command in (
        PRETRAIN,
        (*CROSS, "--name", "noise", "--negatives", "noise", "--embeddings", "random", "--threads", "1"),
        (*CROSS, "--name", "plain", "--negatives", "random", "--embeddings", "random", "--threads", "1"),
    ):
        assert main(["--home", str(home), "--quiet", *command]) == 0, command
    items = [
        {
            "id": f"i{number}",
            "turns": rng.choice(SENTENCES, 1 + number % 3).tolist(),
            "references": rng.choice(SENTENCES, 1 + number % 4, replace=False).tolist(),
            "replies": dict(zip("abcd", rng.choice(SENTENCES, 4, replace=False).tolist(), strict=True)),
            "ratings": {system: rng.integers(1, 6, 3).tolist() for system in "abcd"},
        }
        for number in range(24)
    ]
    (home / "rated.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return home


@pytest.fixture
def ready(home: Home, with_models: Path) -> Home:
    shutil.copytree(with_models, home.path)
    return home


def items_of(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.path / "rated.jsonl").read_text().splitlines()]


def scores_of(home: Home, metric: str) -> list[float]:
    """Every score, item by item."""
    document = home("score", home.path / "rated.jsonl", "-m", metric, "--draws", "0", "--threads", "1", "--json").json
    systems = document["scores"][0]["systems"]
    by_system = [[reply["score"] for reply in systems[system]["replies"]] for system in "abcd"]
    return [score for of_item in zip(*by_system, strict=True) for score in of_item]


def test_rows_beside_have_no_rank_and_are_named_by_what_ran(ready: Home, tmp_path: Path) -> None:
    page, metrics = tmp_path / "board.html", [part for text in ("chrf", *BESIDE) for part in ("-m", text)]
    board = ready(
        *("agreement", "leaderboard", ready.path / "rated.jsonl", *metrics, "--draws", "50", "--threads", "1"),
        *("--corpus", "rated=Own", "--rows", "all", "--html", page, "--json"),
    ).json
    assert [(row["name"], row["rank"]) for row in board["rows"]] == [("chrf", 1), ("length", None)]
    beside = {row["label"]: row for row in board["rows_beside"]}
    assert set(beside) == set(BESIDE.values())
    assert all(row["rank"] is None for row in beside.values())
    ratings = [np.mean(item["ratings"][system]) for item in items_of(ready) for system in "abcd"]
    for text, label in BESIDE.items():
        assert beside[label]["spearman"]["value"] == pytest.approx(spearmanr(scores_of(ready, text), ratings).statistic)
    text = page.read_text("utf-8").replace("<wbr>", "")
    assert all(label in text for label in BESIDE.values())
    assert text.index("rows beside ours") > text.index("chrf")


def test_a_probability_is_that_of_the_rater_and_noise_is_told_from_true_replies(ready: Home) -> None:
    scores = scores_of(ready, "next-utterance:model=noise")
    rated = scores_of(ready, "rater:model=noise,refs=none,combine=first")
    assert scores == pytest.approx([(rating + 1) / 2 for rating in rated], abs=1e-6)
    report = ready("artefacts", "show", "rater", "noise", "--json").json["report"]
    assert set(report["auc_by_kind"]) == {"random", "dropped", "shuffled", "repeated"}
    assert open_rater(Settings(home=ready.path), "noise").turn_separator == "\n"


@pytest.mark.parametrize("metric", BESIDE)
def test_scores_are_cited_with_their_paper_and_verified(ready: Home, metric: str) -> None:
    scored = ready("score", ready.path / "rated.jsonl", "-m", metric, "--draws", "0", "--threads", "1", "--json")
    (ready.path / "scores.json").write_text(scored.out)
    cited = ready("score", "cite", ready.path / "scores.json", "--json").json
    assert PAPERS[metric] in json.dumps(cited)
    verified = ready("score", "verify", ready.path / "scores.json", ready.path / "rated.jsonl")
    assert verified.code == 0, verified.err


def test_a_rater_without_hidden_pieces_and_a_model_that_is_gone_are_refused(ready: Home) -> None:
    rated = ready.path / "rated.jsonl"
    for metric, named in (("masked:model=gone", "gone"), ("followup:lm=gone", "gone"), ("next-utterance", "rater")):
        refused = ready("score", rated, "-m", metric)
        assert refused.code in (2, 3)
        assert named in refused.err
    refused = ready("score", rated, "-m", "next-utterance:model=plain")
    assert refused.code == 3
    assert "random" in refused.err
    assert "--negatives noise" in refused.err
    assert ready("score", rated, "-m", "retrieval:model=plain", "--draws", "0").code == 0


def test_items_that_need_references_are_listed_first(ready: Home) -> None:
    report = ready("agreement", "references", ready.path / "rated.jsonl", "--json").json
    assert 20 <= report["measured"] <= 24  # a reply that is a gold is not fair
    assert len(report["items"]) == 24
    predicted = [item["predicted"] for item in report["items"]]
    assert predicted == sorted(predicted)
    printed = ready("agreement", "references", ready.path / "rated.jsonl", "-m", "multi-bleu", "--listed", "3").out
    assert report["items"][0]["item"] in {item["id"] for item in items_of(ready)}
    assert len([line for line in printed.splitlines() if line.startswith("i")]) <= 4
    refused = ready("agreement", "references", ready.path / "rated.jsonl", "-m", "bleu")
    assert refused.code == 2
