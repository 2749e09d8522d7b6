"""Rated items that lie in a file are compared as those in memory: the same figures, hashes, points and warnings."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from refaug.agreement.meta import agreement, default_metrics
from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.rows import RatedRows, RowsOfItems
from refaug.core.records import Item
from refaug.metrics.specification import build
from refaug.scoring.items import BadItem, item_of
from refaug.scoring.settings import MetaSettings, RowsChoice
from refaug.scoring.spooled_items import item_collection
from refaug.scoring.spooled_items.item_collection import ItemCollection

WORDS = ("tea", "milk", "yes", "no", "please", "thanks", "sugar", "cold", "hot", "maybe", "later")
METRICS = ("bleu", "multi-bleu", "upsilon-bleu", "rouge-l", "ter", "cider")


def text(number: int, length: int) -> str:
    return " ".join(WORDS[(number * 7 + place * (number % 5 + 1)) % len(WORDS)] for place in range(length))


def rated_item(number: int) -> Item:
    """Return an item; some replies are golds, some equal another reference, and some have no rating."""
    gold, other = text(number, 4), text(number + 1, 5)
    replies = {"model": gold if number % 9 == 0 else text(number, 3 + number % 4), "echo": text(number + 3, 6)}
    if number % 7 == 2:
        replies["echo"] = other.upper()
    ratings = {"model": [number % 5 + 1, (number * 3) % 5 + 1, number % 4 + 1]}
    if number % 5:
        ratings["echo"] = [(number * 2) % 5 + 1, None]
    return item_of(
        {
            "id": f"item-{number}",
            "utterance": text(number + 2, 4),
            "references": [gold, {"text": other, "source": "retrieved", "weight": 0.5, "similarity": 0.5}],
            "replies": replies,
            "ratings": ratings,
        },
        fallback_id="",
    )


@pytest.fixture(scope="module")
def read() -> list[Item | BadItem]:
    bad = BadItem(file="items.jsonl", line=50, item=None, field="id", message="it is empty")
    return [*map(rated_item, range(49)), bad, *map(rated_item, range(49, 90))]


@pytest.mark.parametrize("rows", list(RowsChoice))
@pytest.mark.parametrize("block", [1_000, 7])
def test_figures_of_items_in_a_file_are_those_of_items_in_memory(
    read: list[Item | BadItem], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: RowsChoice, block: int
) -> None:
    settings = MetaSettings(rows=rows, draws=20, min_kappa=-1)
    metrics = [ComparedMetric(name=name, metric=build(name)) for name in METRICS]
    in_memory = agreement([RatedItems(name="set", items=read)], metrics, settings)
    monkeypatch.setattr(item_collection, "BLOCK", block)
    collection = ItemCollection(iter(read), tmp_path, most_in_memory=10)
    in_file = agreement([RatedItems(name="set", items=collection)], metrics, settings)
    assert orjson.dumps(in_file.as_json(points=True)) == orjson.dumps(in_memory.as_json(points=True))
    assert in_file.bad_items == in_memory.bad_items
    assert in_file.sets[0].counts.unrated == {"echo": 18}


def test_rows_of_a_file_can_be_asked_for_one_by_one(read: list[Item | BadItem], tmp_path: Path) -> None:
    collection = ItemCollection(iter(read), tmp_path, most_in_memory=10)
    rows = RatedRows.of(RatedItems(name="set", items=collection), MetaSettings()).rows
    expected = RatedRows.of(RatedItems(name="set", items=read), MetaSettings()).rows
    assert isinstance(rows, RowsOfItems)
    assert list(rows) == expected
    assert [rows[place] for place in range(-3, 40)] == [expected[place] for place in range(-3, 40)]
    assert rows[2:30:3] == expected[2:30:3]


def test_default_metrics_are_those_of_all_items(read: list[Item | BadItem], tmp_path: Path) -> None:
    collection = ItemCollection(iter(read), tmp_path, most_in_memory=10)
    assert default_metrics(collection) == default_metrics(read) == ["bleu", "rouge-l", "chrf"]
