"""`refaug judge estimate`: means of ratings from a few of them and the scores of all replies."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "like", "no", "red", "the", "they", "we", "yes"]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """120 items: the reply repeats some words of the gold, and its rating is one more than it repeats; 40 are rated."""
    rng, lines = random.Random(1), []
    for number in range(120):
        gold = rng.sample(WORDS, k=6)
        replies = {"new": gold[: rng.randint(2, 6)], "old": [*gold[: rng.randint(0, 4)], "well"]}
        line = {
            "id": f"i{number}",
            "turns": [f"question {number}?"],
            "references": [" ".join(gold)],
            "replies": {name: " ".join(words) for name, words in replies.items()},
        }
        if number < 40:
            line["ratings"] = {"new": [len(replies["new"])], "old": [len(replies["old"]) - 1, len(replies["old"]) - 1]}
        lines.append(json.dumps(line))
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_means_of_few_ratings_are_narrower_with_the_scores_of_all(home, items: Path) -> None:
    options = ("-m", "chrf", "--baseline", "old", "--half-width", 0.4)
    found = home("judge", "estimate", items, *options, "--json").json
    for name in ("new", "old"):
        system = found["systems"][name]
        assert (system["labelled"], system["unlabelled"]) == (40, 80)
        assert system["interval"][0] < system["mean"] < system["interval"][1]
        widths = [high - low for low, high in (system["interval"], system["labels_only_interval"])]
        assert widths[0] < 0.8 * widths[1]
        assert 2 < found["labels_needed"][name] < 120
    difference = found["differences"]["new"]
    assert difference["interval"][0] > 0
    assert difference["mean"] == pytest.approx(
        found["systems"]["new"]["mean"] - found["systems"]["old"]["mean"], abs=0.3
    )
    printed = home("judge", "estimate", items, *options)
    assert "labels for ± 0.4" in printed.out
    assert "against old" in printed.out


def test_a_system_without_ratings_is_named(home, items: Path, tmp_path: Path) -> None:
    unrated = tmp_path / "unrated.jsonl"
    unrated.write_text(
        "\n".join(json.dumps({**json.loads(line), "ratings": {}}) for line in items.read_text().splitlines())
    )
    result = home("judge", "estimate", unrated, "-m", "chrf")
    assert (result.code, "system new: 0 contexts" in result.err) == (3, True)
    assert home("judge", "estimate", items, "-m", "chrf", "--baseline", "other").code == 2


def test_ratings_of_two_scales_have_no_mean(home, items: Path) -> None:
    lines = [json.loads(line) for line in items.read_text().splitlines()]
    for number, line in enumerate(lines[:40]):
        line["scale"] = [0, 7] if number else [0, 100]
    items.write_text("\n".join(map(json.dumps, lines)))
    result = home("judge", "estimate", items, "-m", "chrf")
    assert (result.code, "0 to 100 in item i0, 0 to 7 in item i1" in result.err) == (3, True), result.err


def test_systems_that_were_rated_in_other_contexts_have_means_and_no_difference(home, items: Path) -> None:
    lines = [json.loads(line) for line in items.read_text().splitlines()]
    for number, line in enumerate(lines[:40]):
        line["ratings"].pop(("new", "old")[number % 2])
    items.write_text("\n".join(map(json.dumps, lines)))
    found = home("judge", "estimate", items, "-m", "chrf", "--baseline", "old", "--json").json
    assert {name: system["labelled"] for name, system in found["systems"].items()} == {"new": 20, "old": 20}
    assert (found["differences"], list(found["not_estimated"])) == ({}, ["new against old"])
