"""Raters over an encoder's vectors as users meet them: made, shown, asked on every face, and named in signatures."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder
from integration.conftest import Home
from serving import client_of, migrated

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.rater.frozen.artefact import FrozenRater
from refaug.rater.rating import WITHOUT_GOLD, RatingRequest
from refaug.rater.stored_raters import network_of
from refaug.scoring.home.networks import open_rater

pytestmark = pytest.mark.slow

TRAIN = ("train", "rater", "chat", "--encoder", "tiny", "--threads", "1")
NETWORKS = {"linear": (), "encoder": ("--preset", "small", "--epochs", "2", "--seeds", "2")}
SAID = [
    f"{who} {does} {what}"
    for who, does, what in product(("i", "you", "the dog", "a cat"), ("like", "drink"), ("tea", "a cat", "the dog"))
]
TURNS = ("i like tea", "you drink tea ?")
REPLIES = ("i drink tea .", "the dog likes a cat", "you drink tea ?")


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    """The kind of the rater."""
    return str(request.param)


@pytest.fixture(scope="module")
def with_rater(tmp_path_factory: pytest.TempPathFactory, network: str) -> Path:
    """A home with a log in which replies take up what was said, a tiny encoder, and a rater over it."""
    folder = tmp_path_factory.mktemp(f"with-{network}")
    home, encoder = folder / "home", write_encoder(folder / "tiny", weights=TinyEncoder.seeded())
    lines = [
        {"id": f"{first}-{second}", "turns": [f"{SAID[first]} . {SAID[second]} ?", f"{SAID[second]} {mark}"]}
        for first, second in product(range(24), range(24))
        for mark in ("really !", ".")[: 1 + first % 2]
    ]
    (folder / "chat.jsonl").write_text(
        "".join(json.dumps(line | {"id": str(n)}) + "\n" for n, line in enumerate(lines))
    )
    for command in (
        ("log", "ingest", str(folder / "chat.jsonl"), "--log", "chat", "--language", "en"),
        ("index", "encoder", "add", "tiny", str(encoder)),
        (*TRAIN, "--network", network, *NETWORKS[network]),
    ):
        assert main(["--home", str(home), "--quiet", *command]) == 0
    return home


@pytest.fixture
def trained(home: Home, with_rater: Path) -> Home:
    shutil.copytree(with_rater, home.path)
    return home


def test_lists_and_reports_name_network_and_encoder(trained: Home, network: str, tmp_path: Path) -> None:
    (row,) = trained("artefacts", "list", "rater", "--json").json["versions"]
    assert (row["name"], row["network"], row["tokenizer"]) == ("chat", network, None)
    shown = trained("artefacts", "show", "rater", "chat", "--json").json
    assert shown["report"]["encoder"].startswith("tiny@")
    assert shown["report"]["auc_by_kind"]["random"] > 0.6
    curves = {"curves.png"} if network == "encoder" else set()
    assert set(shown["files"]) == {"weights.safetensors", "report.json", "reliability.png", "ratings.png", *curves}
    page = trained("train", "report", "rater", "chat", "--to", tmp_path / "page")
    assert page.code == 0, page.err


def test_its_encoder_stays_as_long_as_a_rater_needs_it(trained: Home, tmp_path: Path) -> None:
    other = write_encoder(tmp_path / "other", weights=TinyEncoder.seeded(8))
    assert trained("index", "encoder", "add", "tiny", other).code == 0
    assert trained("artefacts", "gc", "encoder", "tiny", "--keep", "1").code == 0
    assert trained("judge", "score", "rater", "chat", TURNS[-1], "i drink tea .", "the cat").code == 0


def test_an_encoder_goes_after_its_raters_and_says_that_its_vectors_stay(trained: Home) -> None:
    content = trained("artefacts", "show", "encoder", "tiny", "--json").json["id"]
    refused = trained("artefacts", "remove", "encoder", "tiny", "--yes", "--json").error
    assert refused["message"].startswith("an index or a rater was made with encoder tiny@")
    assert trained("artefacts", "remove", "rater", "chat", "--yes").code == 0
    removed = trained("artefacts", "remove", "encoder", "tiny", "--yes")
    assert removed.code == 0
    assert f"texts: refaug index encoder forget {content}" in removed.err
    assert trained("index", "encoder", "forget", content, "--json").json["freed"] > 0
    assert trained("index", "encoder", "forget", content).code == 3


def test_texts_that_the_encoder_does_not_know_are_told(trained: Home) -> None:
    rated = trained(
        "judge", "score", "rater", "chat", TURNS[-1], "i like tea", "du magst Tee nicht und Katzen auch nicht"
    )
    assert rated.code == 0
    assert "the rater's encoder does not know 8 of" in rated.err


def test_command_service_and_metric_rate_alike(trained: Home, tmp_path: Path) -> None:
    home = Settings(home=trained.path)
    rater = open_rater(home, "chat", threads=1)
    candidates = tuple(Reference(text=text) for text in REPLIES)
    alone = rater.rate([RatingRequest(utterance=TURNS[-1], golds=WITHOUT_GOLD, candidates=candidates)])[0]
    assert alone == rater.rate([RatingRequest(utterance=TURNS[-1], golds=(), candidates=candidates)])[0]
    for text, rating in zip(REPLIES, alone, strict=True):
        ((single,),) = rater.rate([RatingRequest(utterance=TURNS[-1], golds=(), candidates=(Reference(text=text),))])
        assert single == pytest.approx(rating, abs=1e-6)
    rated = trained("judge", "score", "rater", "chat", TURNS[-1], "i like tea", *REPLIES, "--json").json["ratings"]
    item = {"id": "a", "turns": TURNS, "references": [], "replies": dict(zip("xyz", REPLIES, strict=True))}
    (tmp_path / "items.jsonl").write_text(json.dumps(item))
    score = trained(
        *("score", tmp_path / "items.jsonl", "--rater", "chat", "--metric", "rater:target=reply,refs=none", "--json")
    )
    assert score.code == 0, score.err
    (metric,) = score.json["scores"]
    assert f"rater|model:{rater.spec}" in score.out
    assert [metric["systems"][name]["replies"][0]["score"] for name in "xyz"] == pytest.approx(alone, abs=1e-6)
    migrated(home)
    with client_of(home) as client:
        pair = {"utterance": TURNS[-1], "golds": ["i like tea"], "candidates": [{"text": text} for text in REPLIES]}
        answer = client.post("/v1/ratings", json={"rater": "chat", "pairs": [pair]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ratings"][0] == pytest.approx(rated, abs=1e-6)


def test_several_turns_are_the_last_one_and_all_as_one_text(trained: Home) -> None:
    rater = open_rater(Settings(home=trained.path), "chat", threads=1)
    assert isinstance(rater, FrozenRater)

    def odds(utterance: str) -> float:
        ((rating,),) = rater.rate([RatingRequest(utterance=utterance, golds=(), candidates=(Reference(text="tea"),))])
        return float(np.log((1 + rating) / (1 - rating)))

    joined = odds(rater.turn_separator.join(TURNS))
    assert joined == pytest.approx((odds(TURNS[-1]) + odds(" ".join(TURNS))) / 2, abs=1e-4)


def test_the_same_inputs_make_the_same_rater(trained: Home, network: str, with_rater: Path) -> None:
    (version,) = [path.name for path in (with_rater / "raters/chat").iterdir() if path.is_dir()]
    command = (*TRAIN, "--network", network, *NETWORKS[network])
    assert network_of(with_rater / "raters/chat" / version) == network
    assert trained(*command, "--json").json["version"] == version
    again = trained(*command, "--again", "--json").json
    assert again["version"] != version
    weights = [trained.path / "raters/chat" / name / "weights.safetensors" for name in (version, again["version"])]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_without_its_encoder_a_rater_says_what_it_needs(trained: Home) -> None:
    shutil.rmtree(trained.path / "encoders")
    result = trained("judge", "score", "rater", "chat", TURNS[-1], "i drink tea .", "the cat")
    assert result.code != 0
    assert "the rater needs the encoder tiny@" in result.err
    assert "refaug index encoder add NAME FOLDER" in result.err
