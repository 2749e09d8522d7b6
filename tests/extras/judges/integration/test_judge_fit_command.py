"""`refaug train judge-fit`: fitting, scores without training rows, figures out of group, and what cannot be fitted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from integration.conftest import Home

from refaug.core.home import Settings
from refaug.extras.judges.combined import open_judge

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "like", "no", "red", "the", "they", "we", "yes"]
METRICS = ("--metric", "bleu", "--metric", "chrf")
KEYS = ("replies", "ratings")


def rated_items(path: Path, seed: int, items: int = 40) -> Path:
    """Items whose ratings follow the words that a reply shares with the gold."""
    rng, lines = random.Random(seed), list[dict[str, Any]]()
    for number in range(items):
        gold = rng.choices(WORDS, k=8)
        replies = {
            system: " ".join([*gold[: rng.randint(0, 6)], *rng.choices(WORDS, k=rng.randint(1, 5))]) for system in "ab"
        }
        shared = {system: len(set(reply.split()) & set(gold)) for system, reply in replies.items()}
        lines.append(
            {
                "id": f"{seed}-{number}",
                "turns": [" ".join(rng.choices(WORDS, k=7)), " ".join(rng.choices(WORDS, k=6))],
                "references": [" ".join(gold)],
                "replies": replies,
                "ratings": {system: [min(5, 1 + count // 2 + rng.randint(0, 1))] for system, count in shared.items()},
            }
        )
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return path


@pytest.fixture
def fitted(home: Home, tmp_path: Path) -> tuple[Home, list[Path]]:
    files = [rated_items(tmp_path / f"set{seed}.jsonl", seed) for seed in (1, 2)]
    result = home("train", "judge-fit", *files, "--name", "mine", *METRICS, "--length", "held", "--json")
    assert result.code == 0, result.err
    return home, files


def test_a_judge_says_what_it_is_made_of_and_how_good_it_is(fitted: tuple[Home, list[Path]]) -> None:
    home, _ = fitted
    shown = home("artefacts", "show", "judge-fit", "mine", "--json").json
    report = shown["report"]
    assert shown["metrics"] == ["bleu", "chrf"]
    assert report["groups"] == 2
    assert {name: counts["contexts"] for name, counts in report["sets"].items()} == {"set1": 40, "set2": 40}
    assert report["coefficients"].keys() == {"bleu", "chrf"}
    agreement = report["agreement"]
    assert agreement["out of group"]["spearman"] > 0.2
    assert abs(agreement["shuffled ratings"]["spearman"]) < 0.25
    assert "out of group" in home("artefacts", "show", "judge-fit", "mine").out
    assert home("artefacts", "list", "judge-fit", "--json").json["versions"][0]["published"] is True


def test_scores_are_weighted_normal_scores(fitted: tuple[Home, list[Path]], tmp_path: Path) -> None:
    home, _ = fitted
    items = rated_items(tmp_path / "new.jsonl", 3)
    scored = home("judge", "score", "judge-fit", "mine", items, "--json").json
    parts = home("score", items, *METRICS, "--json").json["scores"]
    values = np.array([[row["score"] for row in metric["systems"]["a"]["replies"]] for metric in parts]).T
    judge = open_judge(Settings(home=home.path), "mine").judge
    replies = [orjson.loads(line)["replies"]["a"] for line in items.read_bytes().splitlines()]
    expected = judge.score(values, np.array([len(reply.split()) for reply in replies], dtype=np.float64))
    found = [row["score"] for row in scored["replies"] if row["system"] == "a"]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (scored["scored"], scored["trained_on"], scored["unscored"]) == (80, 0, 0)


def test_rows_that_it_was_fitted_to_are_left_out(fitted: tuple[Home, list[Path]], tmp_path: Path) -> None:
    home, files = fitted
    lines = [
        *files[0].read_bytes().splitlines()[:5],
        *rated_items(tmp_path / "n.jsonl", 4, 3).read_bytes().splitlines(),
    ]
    (tmp_path / "mixed.jsonl").write_bytes(b"\n".join(lines))
    scored = home("judge", "score", "judge-fit", "mine", tmp_path / "mixed.jsonl", "--json").json
    assert (scored["scored"], scored["trained_on"]) == (6, 10)
    assert [row["score"] is None for row in scored["replies"]] == [True] * 10 + [False] * 6
    own = home("judge", "score", "judge-fit", "mine", files[0], "--json")
    assert own.error["code"] == "bad_input"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:10], "at least 50"),
        (
            lambda lines: [{**line, "ratings": {"a": [3], "b": [3]}} for line in lines],
            "few: all 80 ratings are 3: there is nothing to fit",
        ),
        (
            lambda lines: [*lines[:20], *({**line, "references": []} for line in lines[20:])],
            "40 rated replies have a score by every metric; at least 50 are needed. Of 80 rated ones are scored by "
            "bleu 40, chrf 40",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(home: Home, tmp_path: Path, change: Any, message: str) -> None:
    lines = [orjson.loads(line) for line in rated_items(tmp_path / "all.jsonl", 1).read_bytes().splitlines()]
    (tmp_path / "few.jsonl").write_bytes(b"\n".join(map(orjson.dumps, change(lines))))
    result = home("train", "judge-fit", tmp_path / "few.jsonl", "--name", "mine", *METRICS, "--json")
    assert result.error["code"] == "bad_input"
    assert message in result.error["message"]


def test_few_more_rows_than_are_needed_are_fitted_and_measured_on_folds(home: Home, tmp_path: Path) -> None:
    items = rated_items(tmp_path / "few.jsonl", 1, 28)
    report = home("train", "judge-fit", items, "--name", "mine", *METRICS, "--json").json["report"]
    assert report["sets"]["few"]["fitted"] == 56
    assert report["agreement"]["other contexts of the same sets"]["spearman"] > 0.2
    assert report["penalty"] in (0.001, 0.01, 0.1, 1.0, 10.0)
    assert f"penalty        {report['penalty']:g}" in home("artefacts", "show", "judge-fit", "mine").out
    assert report["notes"] == []


def test_a_group_that_nothing_can_be_fitted_to_leaves_the_judge_without_figures_out_of_group(
    home: Home, tmp_path: Path
) -> None:
    items = [rated_items(tmp_path / "large.jsonl", 1), rated_items(tmp_path / "small.jsonl", 2, 20)]
    result = home("train", "judge-fit", *items, "--name", "mine", *METRICS, "--json")
    assert result.code == 0, result.err
    report = result.json["report"]
    assert (report["groups"], "out of group" in report["agreement"]) == (2, False)
    [note] = report["notes"]
    assert "out of group: not measured" in note
    assert "40 rated replies" in note
    assert note in home("artefacts", "show", "judge-fit", "mine").out


def test_rows_of_one_context_serve_equal_weights_alone(home: Home, tmp_path: Path) -> None:
    lines = [orjson.loads(line) for line in rated_items(tmp_path / "all.jsonl", 1).read_bytes().splitlines()]
    joined = {key: {f"{at}{name}": line[key][name] for at, line in enumerate(lines) for name in "ab"} for key in KEYS}
    (tmp_path / "single.jsonl").write_bytes(orjson.dumps({**lines[0], **joined}))
    order = ("train", "judge-fit", tmp_path / "single.jsonl", "--name", "mine", *METRICS, "--json")
    refused = home(*order)
    assert (refused.code, refused.error["code"]) == (3, "bad_input")
    report = home(*order, "--method", "equal").json["report"]
    assert report["coefficients"] == {"bleu": 0.5, "chrf": 0.5}
    assert ["other contexts of the same sets: not measured" in note for note in report["notes"]] == [True]


def test_options_that_are_not_known_are_refused(home: Home, tmp_path: Path) -> None:
    items = rated_items(tmp_path / "all.jsonl", 1)
    for options in (("--method", "forest"), ("--length", "short"), ("--metric", "bleu"), ("--metric", "rater")):
        assert home("train", "judge-fit", items, "--name", "mine", *METRICS, *options).code == 2


@pytest.mark.slow
def test_scales_may_differ_between_files_and_not_within_one(home: Home, tmp_path: Path) -> None:
    ones = [
        {**orjson.loads(line), "scale": [1, 5]}
        for line in rated_items(tmp_path / "a.jsonl", 1).read_bytes().splitlines()
    ]
    others = [orjson.loads(line) for line in rated_items(tmp_path / "b.jsonl", 2).read_bytes().splitlines()]
    stretched = [
        {
            **line,
            "scale": [0, 100],
            "ratings": {name: [20 * each for each in given] for name, given in line["ratings"].items()},
        }
        for line in others
    ]
    (tmp_path / "stretched.jsonl").write_bytes(b"\n".join(map(orjson.dumps, stretched)))
    (tmp_path / "mixed.jsonl").write_bytes(b"\n".join(map(orjson.dumps, [*ones, *stretched])))
    plain, apart = (
        home("train", "judge-fit", tmp_path / "a.jsonl", tmp_path / name, "--name", "mine", *METRICS, "--json").json
        for name in ("b.jsonl", "stretched.jsonl")
    )
    assert apart["report"]["coefficients"] == plain["report"]["coefficients"]
    refused = home("train", "judge-fit", tmp_path / "mixed.jsonl", "--name", "mine", *METRICS, "--json")
    assert (refused.code, refused.error["code"]) == (3, "bad_input")
    assert "100" in refused.error["message"]
