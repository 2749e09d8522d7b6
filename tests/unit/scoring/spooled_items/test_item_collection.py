"""Items that are gone through several times: those in a file are those in memory, and so are their scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.metrics.specification import build
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem, item_of
from refaug.scoring.score_files.score_document import details_of, indented_pieces, passing_details
from refaug.scoring.score_files.score_file import sealed
from refaug.scoring.settings import ScoreSettings
from refaug.scoring.spooled_items import item_collection
from refaug.scoring.spooled_items.item_collection import _READ_AT_ONCE, ItemCollection, SpooledItems

WORDS = ("tea", "milk", "yes", "no", "please", "thanks", "sugar", "cold", "hot", "maybe", "later")
METRICS = (
    "bleu",
    "multi-bleu",
    "upsilon-bleu",
    "delta-bleu",
    "rouge-l",
    "rouge-2",
    "chrf",
    "ter",
    "cider",
    "upsilon-chrf",
)


def text(number: int, length: int) -> str:
    return " ".join(WORDS[(number * 7 + place * (number % 5 + 1)) % len(WORDS)] for place in range(length))


def drawn_item(number: int) -> Item:
    """Return an item with all fields; every few lack a reply, a gold, an utterance, or have an empty reply."""
    replies = {"model": text(number, number % 6), "echo": text(number + 3, 6)}
    if number % 11 == 3:
        del replies["echo"]
    references = [
        *([text(number, 4)] if number % 13 else []),
        {"text": text(number + 1, 5), "source": "supplied", "weight": 0.5 - (number % 4) / 4},
        {"text": text(number + 2, 3), "source": "retrieved", "weight": 0.25, "similarity": 0.5, "index": "chat@1"},
        {"text": text(number + 5, 0), "weight": 1.0},
    ]
    values = {
        "id": f"item-{number} ü",
        "references": references,
        "replies": replies,
        "ratings": {"model": [number % 5 + 1, None]},
        "dialogue": f"d{number}",
        "time": "2027-06-01T09:00:00+02:00",
        "exclude": [f"log/d{number}#1"],
        "provenance": "k:5|mode:bm25-utterance",
        "reply_provenance": {"model": f"bot:{number % 2}"},
        "note": "none",
        **({"turns": [text(number, 2), text(number + 3, 6)]} if number % 3 else {"utterance": text(number, 3)}),
    }
    return item_of(values, fallback_id="")


def bad(line: int) -> BadItem:
    return BadItem(file="items.jsonl", line=line, item=None, field="id", message="it is empty")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return [drawn_item(number) for number in range(2 * _READ_AT_ONCE + 7)]


@pytest.fixture(scope="module")
def read(items: Sequence[Item]) -> list[Item | BadItem]:
    """The items with bad ones before, among and behind them."""
    return [bad(1), *items[:700], bad(702), bad(703), *items[700:], bad(2_000)]


def test_items_in_a_file_are_those_that_were_put_there(items: list[Item], tmp_path: Path) -> None:
    spooled = SpooledItems(tmp_path / "cache")
    for test_item in items:
        spooled.append(test_item)
    spooled.finish()
    assert list(spooled) == items
    assert list(spooled) == items  # again, from the beginning
    places = (0, _READ_AT_ONCE, _READ_AT_ONCE - 1, -1)
    assert [spooled[place] for place in places] == [items[place] for place in places]
    assert spooled[_READ_AT_ONCE - 2 : _READ_AT_ONCE + 2] == items[_READ_AT_ONCE - 2 : _READ_AT_ONCE + 2]
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("most", [0, 1, 700, 5_000])
def test_a_collection_yields_items_and_bad_ones_in_their_order(
    read: list[Item | BadItem], tmp_path: Path, most: int
) -> None:
    collection = ItemCollection(iter(read), tmp_path, most_in_memory=most)
    assert list(collection) == read
    assert list(ItemCollection.of(iter(read))) == read
    assert [one.line for one in collection.bad] == [1, 702, 703, 2_000]
    assert collection.count == len(read)


def test_without_usable_items_the_first_bad_one_is_the_reason(tmp_path: Path) -> None:
    for bad_items, place in (([], ""), ([bad(3)], "items.jsonl, line 3")):
        with refusing(BadInput, place):
            evaluate(ItemCollection(iter(bad_items), tmp_path), [build("bleu")])


@pytest.mark.parametrize(
    "block", [300, pytest.param(1_000_000, marks=pytest.mark.slow), pytest.param(64, marks=pytest.mark.slow)]
)
def test_scores_of_items_in_a_file_are_those_of_items_in_memory(
    read: list[Item | BadItem], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    settings = ScoreSettings(draws=20, baseline="echo")
    metrics = [build(name) for name in METRICS]
    few = read[:720]  # three blocks of 300, with bad items among them
    expected = evaluate(few, metrics, settings)
    monkeypatch.setattr(item_collection, "BLOCK", block)
    found = evaluate(ItemCollection(iter(few), tmp_path, most_in_memory=10), metrics, settings)
    assert orjson.dumps(found.as_json()) == orjson.dumps(expected.as_json())
    assert orjson.dumps(found.as_statistics()) == orjson.dumps(expected.as_statistics())


def test_a_sealed_document_of_items_in_a_file_is_written_in_pieces_with_the_same_bytes(
    read: list[Item | BadItem], tmp_path: Path
) -> None:
    settings = ScoreSettings(draws=20)
    metrics = [build("upsilon-bleu"), build("rouge-l")]
    collection = ItemCollection(iter(read), tmp_path, most_in_memory=10)
    of_file, in_memory = evaluate(collection, metrics, settings), evaluate(read, metrics, settings)
    pieces = sealed({**of_file.as_json(passing=True), "details": passing_details(of_file, collection)})
    whole = sealed({**in_memory.as_json(), "details": details_of(in_memory, read)})
    rows = whole["details"]["sums"][0]["systems"]["echo"]
    assert len(rows) == len(of_file.scores[0].systems["echo"].ids)
    assert (rows[3], len(rows[4])) == (None, len(metrics[0].columns))  # item-3 has no reply of echo
    assert b"".join(indented_pieces(pieces)) == orjson.dumps(whole, option=orjson.OPT_INDENT_2)
