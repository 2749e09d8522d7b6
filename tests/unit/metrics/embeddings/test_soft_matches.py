"""Explanations of soft matches: the best word for each word, in both directions, held to plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refaug.metrics.base import Level, References
from refaug.metrics.specification import build

WORDS = ["tea", "coffee", "milk", "bus", "late"]
VECTORS = np.random.default_rng(3).normal(size=(len(WORDS), 5)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "tiny.txt"
    rows = [" ".join(map(repr, row.tolist())) for row in VECTORS]
    path.write_text("".join(f"{word} {row}\n" for word, row in zip(WORDS, rows, strict=True)))
    return path


def cosine(word: str, other: str) -> float:
    x, y = (VECTORS[WORDS.index(one)].astype(float) for one in (word, other))
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_each_word_is_matched_with_the_most_similar_word(vectors: Path) -> None:
    metric = build(f"greedy:vectors={vectors},measure=precision")
    references = References(("late bus", "coffee blip"), (1.0, 0.5))
    matches = {one["reference"]: one for one in metric.matches("Tea zork milk", references) or ()}
    assert {place: one["weight"] for place, one in matches.items()} == {0: 1.0, 1: 0.5}
    for word in ("tea", "milk"):
        row = next(row for row in matches[0]["reply"] if row["word"] == word)
        best = max(("late", "bus"), key=lambda other: cosine(word, other))
        assert (row["match"], row["similarity"]) == (best, pytest.approx(cosine(word, best), abs=2e-6))
    assert matches[0]["reply"][1] == {"word": "zork", "match": None, "similarity": None}
    assert [row["word"] for row in matches[1]["words"]] == ["coffee", "blip"]
    assert matches[1]["words"][1]["match"] is None
    assert metric.words_of("Tea zork milk") == ["tea", "zork", "milk"]


def test_the_mean_of_the_matches_is_the_score(vectors: Path) -> None:
    metric = build(f"greedy:vectors={vectors},measure=precision")
    references = References.unweighted(["late bus tea"])
    (match,) = metric.matches("coffee milk", references) or ()
    rows = metric.statistics(["coffee milk"], metric.prepare([references]), np.array([0]), np.array([0]))
    mean = np.mean([row["similarity"] for row in match["reply"]])
    assert mean == pytest.approx(float(metric.values(rows, Level.REPLY)[0]), abs=2e-6)


def test_weighted_form_explains_as_its_base_and_others_do_not(vectors: Path) -> None:
    references = References(("late bus", "tea"), (0.2, 1.0))
    weighted = build(f"upsilon-greedy:vectors={vectors},b=0")
    matches = weighted.matches("tea", references) or []
    assert [(one["reference"], one["weight"]) for one in matches] == [(1, 1.0), (0, 0.2)]
    assert matches[0]["reply"] == [{"word": "tea", "match": "tea", "similarity": 1.0}]
    assert weighted.words_of("tea") == ["tea"]
    for name in (f"embedding-average:vectors={vectors}", "chrf", "bleu"):
        assert build(name).matches("tea", references) is None
    assert build("bleu").words_of("Tea, please") == ["tea", ",", "please"]


def test_long_texts_and_many_references_are_cut(vectors: Path) -> None:
    metric = build(f"greedy:vectors={vectors}")
    references = References.unweighted(["tea " * 300] * 50)
    matches = metric.matches("milk " * 300, references) or []
    assert (len(matches), len(matches[0]["reply"]), len(matches[0]["words"])) == (30, 200, 200)
    assert metric.matches("", References.unweighted(["tea"])) == [
        {"reference": 0, "weight": 1.0, "reply": [], "words": [{"word": "tea", "match": None, "similarity": None}]}
    ]
