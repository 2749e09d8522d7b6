"""The rows of datasets as items: columns by their names, and mistakes with them."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusing

import refaug
from refaug.core.errors import BadInput, MissingField, Usage
from refaug.library.hugging_face import items_from

ROWS = [
    {"no": 7, "ask": "Tea?", "right": ["Yes.", "Please."], "also": "No.", "a": "Yes.", "b": "Tea."},
    {"no": 8, "ask": "Bus?", "right": ["At nine."], "also": None, "a": "At ten.", "b": None},
]


def test_columns_become_the_fields_of_items() -> None:
    items = list(items_from(ROWS, id="no", utterance="ask", references=["right", "also"], replies={"x": "a", "y": "b"}))
    assert items == [
        {
            "id": "7",
            "utterance": "Tea?",
            "references": ["Yes.", "Please.", "No."],
            "replies": {"x": "Yes.", "y": "Tea."},
        },
        {"id": "8", "utterance": "Bus?", "references": ["At nine."], "replies": {"x": "At ten.", "y": None}},
    ]
    scores = refaug.score(items_from(ROWS, references="right", replies="a"), metric="bleu")
    assert [detail.id for detail in scores.metric.system.details] == ["row-0", "row-1"]
    assert scores.replies[0] == 1.0


def test_turns_may_be_messages_and_answers_those_of_squad() -> None:
    rows = [
        {
            "dialogue": [{"role": "user", "content": "Hello."}, {"role": "user", "content": "Tea?"}],
            "answers": {"text": ["Yes."]},
        },
        {"dialogue": ["Bus?"], "answers": {"text": ["At nine.", "At ten."], "answer_start": [1, 2]}},
    ]
    assert list(items_from(rows, turns="dialogue", references="answers")) == [
        {"id": "row-0", "turns": ["Hello.", "Tea?"], "references": ["Yes."]},
        {"id": "row-1", "turns": ["Bus?"], "references": ["At nine.", "At ten."]},
    ]


@pytest.mark.parametrize(
    ("dataset", "columns", "error", "named"),
    [
        (ROWS, {}, Usage, []),
        (ROWS, {"utterance": "ask", "turns": "ask"}, Usage, ["utterance=", "turns="]),
        ({"test": ROWS}, {"utterance": "ask"}, Usage, ["dataset['test']"]),
        (ROWS, {"references": "gold"}, MissingField, ["row 0", "gold", "no, ask, right"]),
        ([{"d": [1]}], {"turns": "d"}, BadInput, ["row 0", "'d'", "int"]),
        ([{"d": ["Tea?"]}, {"d": "Bus?"}], {"turns": "d"}, BadInput, ["row 1", "'d'", "str, not a list of turns"]),
        ([{"d": None}], {"turns": "d"}, BadInput, ["row 0", "'d'", "NoneType, not a list of turns"]),
        ([{"d": {"content": ["Tea?"]}}], {"turns": "d"}, BadInput, ["row 0", "'d'", "dict, not a list of turns"]),
    ],
)
def test_mistakes_with_columns_are_named(dataset: Any, columns: dict[str, Any], error: Any, named: list[str]) -> None:
    with refusing(error, *named):
        list(items_from(dataset, **columns))
