"""`refaug train hybrid|score|report` and the versions: figures, the guard against leaks, self-play, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from extras.conversations.integration.test_hybrid_command import WORDS, conversation, written
from integration.conftest import Home

ONE = ("--threads", "1")
TURNS = ("-m", "upsilon-bleu", "--index", "chat", "--mode", "bm25-utterance", "--reference-weights", "one")


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=4))}\n" for word in WORDS[:8]))
    return path


def fitted(home: Home, file: Path, vectors: Path, *options: object) -> Any:
    base = ("--vectors", vectors, "--sentiment", "none", "--target", "quality", "--draws", "100", "--json")
    return home("train", "hybrid", file, "--name", "mine", *base, *options)


def test_a_hybrid_is_fitted_reported_and_scores_its_bots_without_them(
    home: Home, home_at: Any, tmp_path: Path, vectors: Path
) -> None:
    talks = [conversation(number) for number in range(120)]
    file = written(tmp_path / "talks.jsonl", talks)
    result = fitted(home, file, vectors, "--columns", "wide")
    assert result.code == 0, result.err
    evaluated = home(
        *("agreement", "hybrid", file, "--vectors", vectors, "--sentiment", "none", "--target", "quality"),
        *("--draws", "100", "--json"),
    ).json
    assert result.json["report"] == evaluated
    shown = home("artefacts", "show", "hybrid", "mine", "--json").json
    assert shown["report"] == evaluated
    assert shown["weights"]["columns"] == evaluated["sets"]["wide"]["columns"]
    assert shown["fitted_to"]["bots"] == [f"b{bot}" for bot in range(6)]
    assert shown["fit"]["seed"] == 1
    text = home("artefacts", "show", "hybrid", "mine").out
    assert "coefficients, a standard deviation of the column" in text

    scored = home("judge", "score", "hybrid", "mine", file, "--vectors", vectors, "--json").json
    assert (scored["scored"], scored["trained_on"]) == (120, [])
    predictions = evaluated["sets"]["wide"]["predictions"]
    assert {row["bot"]: row["mean"] for row in scored["bots"]} == pytest.approx(predictions)
    assert {row["fit"] for row in scored["bots"]} == {"without it"}
    assert scored["agreement"]["pearson"] == pytest.approx(evaluated["sets"]["wide"]["agreement"]["common"]["pearson"])
    assert f"|hybrid:mine@{shown['version']}#{shown['id'][:12]}|" in scored["signature"]
    new = [{**conversation(number), "id": f"n{number}", "bot": "fresh"} for number in range(500, 503)]
    mixed = written(tmp_path / "mixed.jsonl", [{**talks[7], "id": "copy", "bot": "fresh"}, *new])
    of_mixed = home("judge", "score", "hybrid", "mine", mixed, "--vectors", vectors, "--json").json
    assert (of_mixed["trained_on"], of_mixed["scored"]) == (["copy"], 3)
    assert of_mixed["bots"][0]["fit"] == "all bots"
    assert of_mixed["agreement"]["pearson"] is None
    copies = written(tmp_path / "copies.jsonl", [{**talk, "bot": "fresh"} for talk in talks[:3]])
    refused = home("judge", "score", "hybrid", "mine", copies, "--vectors", vectors, "--json")
    assert (refused.code, refused.error["code"]) == (3, "trained_on")

    archive = tmp_path / "mine.tar.zst"
    assert home("artefacts", "export", "hybrid", "mine", archive).code == 0
    other = home_at(tmp_path / "other")
    assert other("artefacts", "import", archive).code == 0
    again = other("judge", "score", "hybrid", "mine", file, "--vectors", vectors, "--json").json
    assert again == scored


@pytest.mark.slow
def test_encoders_that_are_files_have_to_be_the_same(home: Home, tmp_path: Path, vectors: Path) -> None:
    file = written(tmp_path / "talks.jsonl", [conversation(number) for number in range(60)])
    assert fitted(home, file, vectors).code == 0
    unnamed = home("judge", "score", "hybrid", "mine", file, "--json")
    assert (unnamed.code, unnamed.error["remedy"]) == (2, "name it: --vectors …")
    vectors.write_text(vectors.read_text().replace("tea", "teas"))
    changed = home("judge", "score", "hybrid", "mine", file, "--vectors", vectors, "--json")
    assert (changed.error["code"], "was fitted with sem:mean[words#" in changed.error["message"]) == ("conflict", True)
    weights = next((home.path / "hybrids" / "mine").glob("*/weights.json"))
    weights.write_bytes(weights.read_bytes().replace(b"common", b"commom"))
    assert home("artefacts", "show", "hybrid", "mine", "--json").error["code"] == "corrupt"
    assert "hybrid mine" in home("admin", "doctor", "--verify").out


def test_turns_are_judged_by_references_of_an_index_and_self_play_is_scored(
    ready: Home, tmp_path: Path, vectors: Path
) -> None:
    file = written(tmp_path / "talks.jsonl", [conversation(number) for number in range(60)])
    result = fitted(ready, file, vectors, "--columns", "wide", *TURNS, *ONE)
    assert result.code == 0, result.err
    assert "upsilon-bleu" in result.json["report"]["sets"]["wide"]["columns"]
    assert result.json["report"]["alone"]["upsilon-bleu, worst"]["bots"] == 6
    assert "gold:none" in result.json["report"]["turn_signatures"]["upsilon-bleu"]
    manifest = ready("artefacts", "show", "hybrid", "mine", "--json").json
    assert manifest["turns"]["index"].startswith("chat@")
    references = manifest["turns"]["references"]
    assert (references["mode"], references["weights"], references["k"]) == ("bm25-utterance", "one", 15)
    refused = ready("artefacts", "remove", "index", "chat", "--yes", "--json")
    assert (refused.code, refused.error["message"].startswith("hybrid mine@")) == (4, True)
    assert "--yes" in refused.error["remedy"]
    play = (
        "bots",
        "play",
        "retrieval:chat,mode=bm25-utterance",
        "retrieval:chat,k=8",
        "--conversations",
        "6",
        "--turns",
        "6",
    )
    assert ready(*play, "--start", "log:chat", "--name", "pair", *ONE).code == 0
    scored = ready("judge", "score", "hybrid", "mine", "selfplay:pair", "--vectors", vectors, "--json", *ONE)
    assert scored.code == 0, scored.err
    assert [row["conversations"] for row in scored.json["bots"]] == [6, 6]
    assert np.mean([row["score"] for row in scored.json["conversations"]]) == pytest.approx(0.0, abs=1e-9)
    assert "|play:self|" in scored.json["signature"]
    assert "correlation over 2 bots" not in scored.json["agreement"]["reason"] or scored.json["agreement"]["bots"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "all"), "--columns: 'all' is not one of hybrid, wide"),
        (("-m", "rater:refs=none", "--columns", "wide"), "metric `rater` needs a rater"),
        (
            ("-m", "upsilon-bleu", "--reference-weights", "one"),
            "--metric: the eleven components have no metrics of turns",
        ),
        (("--rater", "x"), "--rater: no metric of turns is named"),
        (("--preset", "ghandeharioun19"), "needs sent:deepmoji (here none)"),
        (
            ("--preset", "ghandeharioun19", "--greedy", "user"),
            "--greedy: user with preset ghandeharioun19, which has both",
        ),
        (("--preset", "ghandeharioun20"), "--preset: 'ghandeharioun20' is not one of"),
        (("--intercept", "each"), "--intercept: 'each' is not one of"),
        (("--meaning", "infersent1"), "--meaning: 'infersent1' is not mean, onnx:FOLDER"),
        (("--person-z", "3"), "0 of 60 conversations have a rating called 'quality' by people with 3 of them"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    home: Home, tmp_path: Path, vectors: Path, options: tuple[str, ...], message: str
) -> None:
    file = written(tmp_path / "talks.jsonl", [conversation(number) for number in range(60)])
    result = fitted(home, file, vectors, *options)
    assert result.code in (2, 3)
    assert message in orjson.dumps(result.error).decode()
    assert not (home.path / "hybrids" / "mine").exists()


def test_ratings_are_turned_into_deviations_of_their_person(home: Home, tmp_path: Path, vectors: Path) -> None:
    talks = [{**conversation(number), "participant": f"p{number // 4}"} for number in range(120)]
    talks[3]["participant"] = ""
    file = written(tmp_path / "talks.jsonl", talks)
    report = fitted(home, file, vectors, "--person-z", "4").json["report"]
    assert (report["conversations"], report["few_ratings"]) == (116, 4)
    ratings = np.array([talk["ratings"]["quality"] for talk in talks[4:]], float).reshape(-1, 4)
    standard = ((ratings - ratings.mean(axis=1, keepdims=True)) / ratings.std(axis=1, keepdims=True)).ravel()
    bots = np.array([talk["bot"] for talk in talks[4:]])
    assert {row["bot"]: row["mean"] for row in report["bots"]} == pytest.approx(
        {bot: standard[bots == bot].mean() for bot in sorted(set(bots))}
    )
    assert "|ratings:person-z[4]|" in report["signature"]
