"""Agreement in a program is that of the command."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from engines import TEXTS, home_with_versions
from refusals import refusing

import refaug
from refaug.cli.main import main

DRAWN = random.Random(5)


def rated_items(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"d{place}",
            "utterance": DRAWN.choice(TEXTS),
            "references": [DRAWN.choice(TEXTS), DRAWN.choice(TEXTS)],
            "replies": {"a": DRAWN.choice(TEXTS), "b": DRAWN.choice(TEXTS)},
            "ratings": {name: [DRAWN.randint(1, 5), DRAWN.randint(1, 5)] for name in "ab"},
        }
        for place in range(count)
    ]


ITEMS, MORE = rated_items(40), rated_items(30)


def by_command(
    sets: dict[str, list[dict[str, Any]]], folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    for name, items in sets.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, items)))
    files = [str(folder / f"{name}.jsonl") for name in sets]
    assert (
        main(["--quiet", "--home", str(folder / "home"), "agreement", *files, "--json", "--draws", "100", *options])
        == 0
    )
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def plain(document: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(json.dumps(document))
    return answer


def test_agreement_is_that_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = {"first": ITEMS, "second": MORE}
    printed = by_command(sets, tmp_path, capsys, "-m", "bleu", "-m", "chrf", "--baseline", "chrf")
    table = refaug.meta(sets, metrics=["bleu", "chrf"], baseline="chrf", draws=100)
    assert plain(table.to_dict()) == printed
    (mean,) = (row for row in printed["mean"]["rows"] if row["name"] == "bleu")
    assert table["bleu"].set == "mean"
    assert table["bleu"].spearman == mean["spearman"]["value"]
    assert table["bleu"].difference == mean["difference"]["spearman"]["value"]
    assert table.baseline == "chrf"
    assert table["chrf"].is_baseline
    frame = table.to_pandas()
    assert list(frame.columns[:5]) == ["set", "name", "spearman", "low", "high"]
    assert list(frame["set"]) == [*["first"] * 4, *["second"] * 4, *["mean"] * (len(frame) - 8)]
    assert table._repr_html_().startswith("<table>")


def test_the_default_metrics_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plain(refaug.meta({"items": ITEMS}, draws=100).to_dict()) == by_command({"items": ITEMS}, tmp_path, capsys)


def test_references_are_retrieved_first_where_an_index_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = home_with_versions(tmp_path, indexes=1, raters=1)
    named = ["--index", "chat", "--rater", "base", "-m", "upsilon-bleu", "-m", "rater"]
    printed = by_command({"items": ITEMS}, tmp_path, capsys, *named)
    table = refaug.meta(
        pd.DataFrame(ITEMS), metrics=["upsilon-bleu", "rater"], index="chat", rater="base", home=home.home, draws=100
    )
    assert plain(table.to_dict())["metrics"] == printed["metrics"]
    assert plain(table.to_dict())["sets"][0]["rows"] == printed["sets"][0]["rows"]
    assert str(table.versions.index).startswith("chat@")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"items": [{"id": "a", "references": ["b"], "replies": {"m": "c"}}]}, "rating"),
        ({"items": {}}, "has no test set"),
        ({"items": ITEMS, "rows": "some"}, "some"),
        ({"items": ITEMS, "draws": 0}, "draws: 0 is out of range"),
        ({"items": ITEMS, "metrics": ["rater"]}, "rater"),
        ({"items": ITEMS, "metrics": ["bleu"], "index": "chat"}, "no metric looks at weighted references"),
        ({"items": ITEMS[0]}, "items=[…] around it"),
    ],
)
def test_wrong_input_is_refused(given: dict[str, Any], message: str) -> None:
    with refusing(refaug.RefaugError, message):
        refaug.meta(**given)
