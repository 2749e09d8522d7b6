"""Lists, frames, datasets and items of the client become the same test items; wrong shapes are refused with the fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from refaug_client import Reference, ReferencedItem
from refusals import refusing

import refaug
from refaug.library.inputs import to_rows

PREDICTIONS = ["a cat sat down", "no", "the red boats"]
REFERENCES = [["a cat sat", "the cat"], ["yes"], ["red boats fly", "the blue boats"]]
UTTERANCES = ["what did it do", "do you", "which boats"]
ITEMS = [
    {"id": f"d{place}", "utterance": utterance, "references": own, "replies": {"model": text}}
    for place, (utterance, own, text) in enumerate(zip(UTTERANCES, REFERENCES, PREDICTIONS, strict=True))
]


def scores_of(**given: Any) -> list[float | None]:
    return refaug.score(metric="multi-bleu", **given).replies


@dataclass
class Dataset:
    """The shape of a dataset of Hugging Face: rows on iteration, a column by its name."""

    rows: list[dict[str, Any]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@pytest.mark.parametrize(
    "columns",
    [
        (PREDICTIONS, REFERENCES),
        (tuple(PREDICTIONS), tuple(map(tuple, REFERENCES))),
        (pd.Series(PREDICTIONS), pd.Series(REFERENCES)),
        (pl.Series(PREDICTIONS), pl.Series(REFERENCES)),
        (np.array(PREDICTIONS), [np.array(own) for own in REFERENCES]),
        (iter(PREDICTIONS), iter(REFERENCES)),
        ({"model": PREDICTIONS}, REFERENCES),
    ],
    ids=["lists", "tuples", "pandas", "polars", "numpy", "iterators", "by system"],
)
def test_columns_of_any_kind_are_scored_alike(columns: tuple[Any, Any]) -> None:
    predictions, references = columns
    assert scores_of(predictions=predictions, references=references) == scores_of(items=ITEMS)


@pytest.mark.parametrize(
    "table",
    [
        ITEMS,
        iter(ITEMS),
        pd.DataFrame(ITEMS),
        pl.DataFrame(ITEMS),
        pa.Table.from_pylist(ITEMS),
        pa.Table.from_pylist(ITEMS).to_pandas(),
        Dataset(ITEMS),
    ],
    ids=["list", "iterator", "pandas", "polars", "arrow", "pandas with arrays", "dataset"],
)
def test_tables_of_any_kind_are_scored_alike(table: Any) -> None:
    assert scores_of(items=table) == scores_of(predictions=PREDICTIONS, references=REFERENCES)


def test_items_of_the_client_and_of_refaug_go_in_again() -> None:
    item = ReferencedItem(id="a", references=[Reference(text="a cat sat", source="gold", weight=1.0)])
    assert scores_of(items=[item], predictions=["a cat sat"]) == [1.0]


def test_missing_cells_are_missing_predictions_and_fields() -> None:
    frame = pd.DataFrame({"p": ["yes", None, float("nan")], "q": pd.array(["yes", pd.NA, "no"], dtype="string")})
    scores = refaug.score(predictions={"p": frame["p"], "q": frame["q"]}, references=[["yes"]] * 3, metric="bleu")
    assert scores["bleu"]["p"].replies == [1.0, None, None]
    assert scores["bleu"]["q"].replies == [1.0, None, 0.0]
    assert [reply.problem for reply in scores["bleu"]["p"].details] == [None, "no_reply", "no_reply"]
    table = pd.DataFrame(
        {"references": [["yes"], ["no"]], "replies": [{"a": "yes"}, {"a": None}], "time": [None, pd.NaT]}
    )
    assert [json.dumps(row) for row in to_rows(table)] == [
        '{"references": ["yes"], "replies": {"a": "yes"}}',
        '{"references": ["no"], "replies": {}}',
    ]


def test_numpy_numbers_and_times_become_plain_ones() -> None:
    (row,) = to_rows(
        [{"references": [{"text": "yes", "weight": np.float64(0.5)}], "time": pd.Timestamp("2026-11-20", tz="UTC")}]
    )
    assert row == {"references": [{"text": "yes", "weight": 0.5}], "time": "2026-11-20T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"predictions": "yes"}, "yes"),
        ({"predictions": ["yes"], "references": "yes"}, "references is a text"),
        ({"predictions": ["yes"], "references": ["yes"]}, "references=[[text] for text in references]"),
        ({"predictions": ["a"], "references": [["b"], ["c"]]}, "2 references and 1 predictions"),
        ({"predictions": ["a", "b"], "references": [["c", "d"]]}, "list(zip(*references))"),
        ({"predictions": ["a"], "utterances": []}, "0 utterances and 1 predictions"),
        ({"predictions": {"a": ["x"], "b": ["x", "y"]}}, "predictions['b']"),
        ({"predictions": {"a": "x"}}, "predictions['a']"),
        ({"predictions": {}}, "has no system"),
        ({"predictions": [["a", "b"]], "references": [["c"]]}, "predictions[0]"),
        ({"predictions": [1.5], "references": [["c"]]}, "predictions[0]"),
        ({"predictions": [None], "references": [["c"]]}, "no item has a reply"),
        ({"predictions": [], "references": []}, "there are no items"),
        ({"predictions": ["a"], "references": [[1]]}, "references[0]"),
        ({"predictions": ["a"], "references": [[]]}, "item 1 has no gold"),
        ({"predictions": ["a"], "references": [None]}, "item 1 has no gold"),
        ({}, "nothing to score"),
        ({"items": ["a"]}, "items[0]"),
        ({"items": "a"}, "items is a text"),
        ({"items": {"utterance": "a"}}, "items=[…] around it"),
        ({"items": {"train": [], "test": []}}, "one object with the keys train, test"),
        ({"items": [{"utterance": 3}]}, "items[0].utterance"),
        ({"items": [{"id": "a"}, {"id": "a"}]}, "items[0]"),
        ({"items": ITEMS, "references": REFERENCES}, "items=… and references=…"),
        ({"items": ITEMS, "predictions": ["a"]}, "predictions['model']"),
        ({"items": ITEMS, "on_error": "ignore"}, "on_error"),
        ({"items": ITEMS, "metric": "blue"}, "perhaps bleu"),
        ({"items": ITEMS, "metric": "bleu", "metrics": ["chrf"]}, "one of the two"),
        ({"items": ITEMS, "metrics": []}, "metrics=[]"),
        ({"items": ITEMS, "metric": "bleu", "index": "chat"}, "no metric looks at weighted references"),
        ({"items": ITEMS, "metric": "bleu", "rater": "base"}, "rater: it has no effect without an index"),
        ({"items": ITEMS, "metric": "rater"}, "rater"),
        ({"items": ITEMS, "metric": "ruber"}, "ruber"),
        ({"items": ITEMS, "settings": {"k": 3}}, "settings.k"),
        ({"items": ITEMS, "settings": {"kk": 3}}, "kk: there is no such option; did you mean 'k'"),
        ({"items": ITEMS, "settings": {"after": "soon"}}, "soon"),
        ({"items": ITEMS, "settings": {"k": "3"}}, "k: '3' is not a whole number"),
        ({"items": ITEMS, "settings": {"k": True}}, "k: true is not a whole number"),
        ({"items": ITEMS, "settings": {"k": 0}}, "k: 0 is out of range"),
        ({"items": ITEMS, "settings": {"exclude_logs": "chat"}}, "exclude_logs"),
        ({"items": ITEMS, "settings": [3]}, "is not a dict"),
        ({"items": ITEMS, "metric": "upsilon-bleu", "index": "chat"}, "no rater is named"),
        ({"items": ITEMS, "metric": "bleu", "baseline": "model"}, "baseline: it has no effect without draws"),
    ],
)
def test_wrong_input_is_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with refusing(refaug.RefaugError, message) as caught:
        refaug.score(**given)
    assert isinstance(caught.value, refaug.Usage | refaug.BadInput)


def test_bad_items_are_listed_and_the_rest_is_scored_on_request() -> None:
    items = [*ITEMS, {"id": "bad", "references": "yes", "replies": {"model": "yes"}}, {"id": "worse", "replies": []}]
    with refusing(refaug.BadInput, "items[3].references"):
        refaug.score(items, metric="bleu")
    scores = refaug.score(items, metric="bleu", on_error="report")
    assert scores.replies == refaug.score(ITEMS, metric="bleu").replies
    assert [(problem.item, problem.place, problem.field) for problem in scores.problems] == [
        ("bad", 3, "items[3].references"),
        ("worse", 4, "items[4].replies"),
    ]


def test_a_field_that_no_item_has_is_warned_of() -> None:
    scores = refaug.score([{**ITEMS[0], "refrences": []}], metric="bleu")
    assert "field 'refrences' is not used; did you mean 'references'?" in scores.warnings
