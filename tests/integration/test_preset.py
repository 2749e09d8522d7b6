"""The preset tsuta20 through the commands: one switch from the index to the score, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home
from integration.test_refs_command import NO_INTERVALS, ONE, items_of, rows_of, signature_of, written
from refusals import refusing

import refaug
from refaug.core.errors import Usage

PRESET = ("--preset", "tsuta20")
TOOLS = ("--index", "plain", "--rater", "tiny", *ONE)
BY_HAND = ("-k", "13", "--gold", "rated", "--parrot", "rated")
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


def test_a_preset_without_an_effect_is_refused_in_python_too() -> None:
    with refusing(Usage):
        refaug.score(
            predictions=["In a shop."], references=[["At the market."]], metric="bleu", settings={"preset": "tsuta20"}
        )
