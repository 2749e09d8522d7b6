"""The preset tsuta20 through the commands: one switch from the index to the score, and what it refuses."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home
from integration.test_refs_command import NO_INTERVALS, ONE, items_of, rows_of, signature_of, written
from refusals import refusing
from safeguards import mostly_slow
from serving import client_of, migrated

import refaug
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.service.jobs.kinds import run
from refaug.service.server_settings import ServeSettings

PRESET = ("--preset", "tsuta20")
TOOLS = ("--index", "plain", "--rater", "tiny", *ONE)
BY_HAND = ("-k", "13", "--gold", "rated", "--parrot", "rated")
_JOBS = count(1)
METRIC = "upsilon-bleu:variant=tsuta20"
_BUILD = ("index", "build", "chat", "--name", "plain", "--check-queries", "0", *ONE)


@pytest.fixture
def published(ready: Home) -> Home:
    """A home with an index of the preset beside the one of the defaults."""
    result = ready(*_BUILD, *PRESET)
    assert result.code == 0, result.err
    return ready


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return written(tmp_path / "items.jsonl", items_of(6))


def score_of(home: Home, *arguments: Any) -> dict[str, Any]:
    result = home("score", *arguments, *NO_INTERVALS)
    assert result.code == 0, result.err
    (score,) = result.json["scores"]
    assert isinstance(score, dict)
    return score


def test_an_index_of_the_preset_has_its_sentences_and_contradictions_are_refused(ready: Home) -> None:
    for other, message in (
        (("--oov", "skip"), "oov=skip, which contradicts preset tsuta20: it has oov=unk"),
        (("--no-norm-words",), "norm_words=False, which contradicts preset tsuta20: it has norm_words=True"),
        (("--weighting", "sif"), "weighting=sif, which contradicts preset tsuta20: it has weighting=mean"),
    ):
        result = ready(*_BUILD, *PRESET, *other)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
    assert ready(*_BUILD, *PRESET, "--oov", "unk").code == 0
    shown = ready("artefacts", "show", "index", "plain", "--json").json
    sentence = {name: shown["sentence"][name] for name in ("norm_words", "oov", "weighting")}
    assert sentence == {"norm_words": True, "oov": "unk", "weighting": "mean"}


def test_the_switch_equals_its_settings_one_by_one(published: Home, items: Path, tmp_path: Path) -> None:
    by_switch = score_of(published, items, *TOOLS, *PRESET)
    by_hand = score_of(published, items, *TOOLS, *BY_HAND, "-m", METRIC)
    assert by_switch == by_hand
    settings = signature_of(by_switch).settings
    chosen = {name: settings[name] for name in ("preset", "k", "gold", "parrot", "variant", "smooth", "eff", "bp", "n")}
    assert chosen == {
        "preset": "tsuta20",
        "k": "13",
        "gold": "rated",
        "parrot": "rated",
        "variant": "tsuta20",
        "smooth": "none",
        "eff": "no",
        "bp": "closest",
        "n": "2",
    }
    references = published("sets", "references", items, *TOOLS, *PRESET)
    rows = rows_of(references.out)
    assert [len([one for one in row["references"] if one["source"] == "retrieved"]) for row in rows] == [13] * 6
    assert all("rating" in one for row in rows for one in row["references"] if one["source"] != "supplied")
    again = score_of(published, written(tmp_path / "refs.jsonl", rows), *PRESET)
    assert (again["signature_full"], again["systems"]) == (by_switch["signature_full"], by_switch["systems"])
    (tmp_path / "scores.json").write_text(published("score", items, *TOOLS, *PRESET, "--json").out)
    assert published("score", "verify", tmp_path / "scores.json", *ONE).code == 0
    repeated = published("score", items, *ONE, *NO_INTERVALS, "--signature", by_switch["signature_full"])
    assert repeated.json["scores"][0]["systems"] == by_switch["systems"]
    assert "differs" not in repeated.err


def test_a_frozen_set_of_the_preset_gives_the_same_scores(published: Home, items: Path) -> None:
    by_switch = score_of(published, items, *TOOLS, *PRESET)
    frozen = published("sets", "freeze", items, "--purpose", "test", *TOOLS, *PRESET, "--json")
    assert frozen.code == 0, frozen.err
    scored = published("sets", "score", frozen.json["id"], items, "-m", METRIC, *NO_INTERVALS).json["scores"][0]
    assert (scored["signature_full"], scored["systems"]) == (by_switch["signature_full"], by_switch["systems"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    mostly_slow(
        [
            ((*TOOLS, "-k", "15"), "k=15, which contradicts preset tsuta20: it has k=13"),
            ((*TOOLS, "--gold", "one"), "gold=one, which contradicts preset tsuta20: it has gold=rated"),
            ((*TOOLS, "--parrot", "0.5"), "parrot=0.5, which contradicts preset tsuta20: it has parrot=rated"),
            ((*TOOLS, "--reference-weights", "one"), "weights=one, which contradicts preset tsuta20"),
            ((*TOOLS, "--mode", "bm25-utterance"), "mode=bm25-utterance, which contradicts preset tsuta20"),
            ((*TOOLS, "--calibrated"), "calibrated=True, which contradicts preset tsuta20: it has calibrated=False"),
            ((*TOOLS, "-m", "upsilon-bleu:n=4"), "n=4, which contradicts preset tsuta20: it has n=2"),
            (("--index", "chat", "--rater", "tiny", *ONE), "was built with oov=skip, which contradicts preset tsuta20"),
            (("-m", "bleu"), "preset tsuta20 without a metric that it sets"),
            (("-k", "13"), "-k: it has no effect without an index"),
            (("--preset", "tsuta"), "--preset: 'tsuta' is not one of tsuta20"),
        ],
        quick=[0, 3, 7, 8, 9],
    ),
)
def test_what_contradicts_the_preset_is_refused(
    published: Home, items: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = published("score", items, *PRESET, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_items_with_other_references_are_refused_by_score_and_meta(
    published: Home, items: Path, tmp_path: Path
) -> None:
    rows = rows_of(published("sets", "references", items, *TOOLS, "--gold", "rated", "--parrot", "rated").out)
    others = written(tmp_path / "others.jsonl", [{**row, "ratings": {"a": [4], "b": [2]}} for row in rows])
    for command in ("score", "agreement"):
        result = published(command, others, *PRESET, "-m", "upsilon-bleu")
        assert (result.code, result.out) == (2, "")
        assert "the references of the items have k=15, which contradicts preset tsuta20: it has k=13" in result.err


def test_meta_compares_with_the_metric_of_the_preset(published: Home, items: Path, tmp_path: Path) -> None:
    rows = rows_of(published("sets", "references", items, *TOOLS, *PRESET).out)
    rated = [{**row, "ratings": {"a": [place % 5], "b": [1 + place % 3]}} for place, row in enumerate(rows)]
    path = written(tmp_path / "rated.jsonl", rated)
    options = ("--draws", "20", "--rows", "all", "--json")
    by_switch = published("agreement", path, *PRESET, "-m", "upsilon-bleu", *options)
    by_hand = published("agreement", path, "-m", METRIC, *options)
    assert by_switch.code == by_hand.code == 0, by_switch.err + by_hand.err
    assert METRIC in by_hand.out
    assert orjson.loads(by_switch.out.replace("upsilon-bleu", METRIC, 1)) is not None
    names = by_hand.out.replace(METRIC, "upsilon-bleu")
    assert by_switch.json == orjson.loads(names)
    assert "preset tsuta20 without a metric" in published("agreement", path, *PRESET, "-m", "bleu").err


def test_the_switch_over_http_gives_the_scores_of_the_command(published: Home, items: Path) -> None:
    settings = migrated(Settings(home=published.path))
    rows = items_of(6)
    tools = {"index": "plain", "rater": "tiny", "settings": {"preset": "tsuta20"}}
    with client_of(settings) as client:
        answer = client.post("/v1/scores", json={"items": rows, "metrics": ["upsilon-bleu", "bleu"], **tools})
        references = client.post("/v1/references", json={"items": rows, **tools})
        refused = client.post("/v1/scores", json={"items": rows, **tools, "index": "chat"})
    assert (answer.status_code, references.status_code) == (200, 200), answer.text + references.text
    assert refused.status_code == 400
    assert "was built with oov=skip, which contradicts preset tsuta20: it has oov=unk" in refused.json()["detail"]

    printed = published("score", items, *TOOLS, *PRESET, "-m", "upsilon-bleu", "-m", "bleu", *NO_INTERVALS)
    assert printed.code == 0, printed.err
    for over_http, scored in zip(answer.json()["scores"], printed.json["scores"], strict=True):
        assert over_http["signature_full"] == scored["signature_full"]
        assert replies_of(over_http) == pytest.approx(replies_of(scored), abs=1e-6)
    assert "|preset:tsuta20|k:13|" in answer.json()["scores"][0]["signature"]
    assert "preset:" not in answer.json()["scores"][1]["signature"]
    assert len(set(replies_of(answer.json()["scores"][0]).values())) > 4

    by_command = rows_of(published("sets", "references", items, *TOOLS, *PRESET).out)
    assert [texts_of(row) for row in references.json()["items"]] == [texts_of(row) for row in by_command]


def replies_of(score: dict[str, Any]) -> dict[tuple[str, str], float]:
    """The scores of single replies by system and item."""
    return {
        (system, reply["id"]): reply["score"]
        for system, figures in score["systems"].items()
        for reply in figures["replies"]
    }


def texts_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(reference["source"], reference["text"]) for reference in row["references"]]


@pytest.mark.slow
def test_a_job_compares_with_the_metric_of_the_preset_like_the_command(
    published: Home, items: Path, tmp_path: Path
) -> None:
    rows = rows_of(published("sets", "references", items, *TOOLS, *PRESET).out)
    rated = [{**row, "ratings": {"a": [place % 5], "b": [1 + place % 3]}} for place, row in enumerate(rows)]
    (published.path / "inbox").mkdir()
    path = written(published.path / "inbox" / "rated.jsonl", rated)
    metrics = ["upsilon-bleu", "chrf", "delta-bleu:n=2"]
    named = [option for metric in metrics for option in ("-m", metric)]
    by_command = published("agreement", path, *PRESET, *named, "--draws", "20", "--json")
    assert by_command.code == 0, by_command.err
    order = {"kind": "meta", "data": ["rated.jsonl"], "draws": 20, "settings": {"preset": "tsuta20"}}
    by_job = run_job(published, {**order, "metrics": metrics})
    assert {name: by_job[name] for name in by_command.json} == by_command.json
    assert "variant:tsuta20" in by_command.json["metrics"][0]["signature"]

    others = rows_of(published("sets", "references", items, *TOOLS, "--gold", "rated", "--parrot", "rated").out)
    written(published.path / "inbox" / "others.jsonl", [{**row, "ratings": {"a": [4], "b": [2]}} for row in others])
    for wrong, message in (
        ({"metrics": ["bleu"]}, "preset tsuta20 without a metric that it sets"),
        ({}, "preset tsuta20 without a metric that it sets"),
        ({"metrics": ["upsilon-bleu:n=4"]}, "n=4, which contradicts preset tsuta20: it has n=2"),
        ({"metrics": ["upsilon-bleu"], "data": ["others.jsonl"]}, "have k=15, which contradicts preset tsuta20"),
    ):
        with pytest.raises(Usage, match=message):
            run_job(published, {**order, **wrong})


def run_job(home: Home, order: dict[str, Any]) -> Any:
    return run(order, Settings(home=home.path), ServeSettings(), Silent(), job=f"job-{next(_JOBS)}")


def test_an_index_that_no_metric_looks_at_is_refused_by_the_command_too(published: Home, items: Path) -> None:
    result = published("score", items, "--index", "released", "-m", "bleu")
    assert (result.code, "no metric looks at weighted references" in result.err) == (2, True), result.err


def test_a_preset_without_an_effect_is_refused_in_python_too() -> None:
    with refusing(Usage):
        refaug.score(
            predictions=["In a shop."], references=[["At the market."]], metric="bleu", settings={"preset": "tsuta20"}
        )
