"""Rated files as scorers learn from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item
from refaug.extras.judges.adem import parse_scale, rated_file, reply_lengths
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.scoring.items import item_of


def _item(name: str = "a", **fields: Any) -> Item:
    plain = {
        "id": name,
        "turns": ["Hello.", "Tea?"],
        "references": ["Yes, please.", "No."],
        "replies": {"old": "Thanks, yes.", "new": "What?"},
        "ratings": {"old": [4, 2], "new": [0]},
        "scale": [0, 4],
    }
    return item_of({**plain, **fields}, fallback_id=name)


def test_ratings_are_means_mapped_to_one_to_five() -> None:
    file = rated_file("f", [_item()], Form.FULL)
    assert file.rated.ratings.tolist() == [4.0, 1.0]
    assert file.rated.triples[0].context == ("Hello.", "Tea?")
    assert file.rated.triples[0].reference == "Yes, please."
    assert file.scale == (0, 4)


def test_replies_that_are_golds_are_left_out_and_counted() -> None:
    file = rated_file("f", [_item(replies={"old": "yes please", "new": "What?"})], Form.FULL)
    assert [triple.reply for triple in file.rated.triples] == ["What?"]
    assert file.counts == {"rated": 2, "golds_themselves": 1, "without_context": 0, "without_gold": 0, "used": 1}


def test_a_file_without_context_serves_the_reference_form_alone() -> None:
    items = [_item(turns=None)]
    assert len(rated_file("f", items, Form.REFERENCE).rated) == 2
    with refusing(BadInput):
        rated_file("f", items, Form.FULL)


def test_a_file_without_golds_serves_the_context_form_alone() -> None:
    items = [_item(references=[])]
    assert len(rated_file("f", items, Form.CONTEXT).rated) == 2
    with refusing(BadInput):
        rated_file("f", items, Form.REFERENCE)


def test_items_of_different_scales_are_refused() -> None:
    with refusing(BadInput):
        rated_file("f", [_item(), _item("b", scale=[1, 5], ratings={"old": [2]})], Form.FULL)
    with refusing(BadInput):
        rated_file("f", [_item(), _item("b", scale=None, ratings={"old": [2]})], Form.FULL)


def test_without_a_scale_ratings_outside_one_to_five_are_refused() -> None:
    items = [_item(scale=None)]
    with refusing(BadInput):
        rated_file("f", items, Form.FULL)
    assert rated_file("f", items, Form.FULL, scale=(0, 4)).rated.ratings.tolist() == [4.0, 1.0]


def test_lengths_are_words_of_the_language() -> None:
    replies = {"old": "今日はとても良い天気ですね", "new": "何"}
    assert reply_lengths(rated_file("f", [_item(replies=replies)], Form.FULL).rated).tolist() == [7, 1]


@pytest.mark.parametrize("text", ["4", "4..0", "a..b", "0..inf", ""])
def test_a_text_that_is_no_scale_is_refused(text: str) -> None:
    with refusing(Usage):
        parse_scale(text)


def test_systems_and_contexts_can_be_left_out() -> None:
    file = rated_file("f", [_item(name, turns=["Hello.", name], references=[name]) for name in "abcdefgh"], Form.FULL)
    assert set(file.without_systems(["old"]).rated.systems) == {"new"}
    half = file.fraction(0.5, seed=1)
    assert len(np.unique(half.rated.contexts)) == 4
    with refusing(BadInput):
        file.without_systems(["old", "new"])
