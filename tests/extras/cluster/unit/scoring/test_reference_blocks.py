"""Blocks of items with their references on disk: what is read is what was written, and damage is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from refusals import refusing

from refaug.core.errors import Corrupt
from refaug.core.records import Item, Origin, Reference
from refaug.extras.cluster.references import BlockFolder, block_key
from refaug.rater.language_coverage import Coverage
from refaug.scoring.items import BadItem

REFERENCES = (
    Reference(text="gold\u2028in two lines", weight=None),
    Reference(text="rated", source=Origin.GOLD, weight=0.1 + 0.2, rating=0.1 + 0.2),
    Reference(text="unused", is_unused=True),
    Reference(text="people", source=Origin.SUPPLIED, weight=-0.25),
    Reference(text="parrot", source=Origin.PARROT, weight=1 / 3, rating=1 / 3),
    Reference(
        text="found",
        source=Origin.RETRIEVED,
        similarity=0.987654,
        rating=-1 / 7,
        weight=-1 / 7,
        more={"rank": 1, "log": "chat", "pair": "chat/d1#2"},
        utterance="when",
    ),
)
WHOLE = Item(
    id="i1",
    turns=("before", "now"),
    references=REFERENCES,
    dialogue="d1",
    time=datetime(2027, 6, 1, 9, tzinfo=UTC),
    exclude=("d2", "d3"),
    replies={"a": "yes", "b": ""},
    ratings={"a": (4.0, None)},
    scale=(1.0, 5.0),
    search_notes={"note": "no_gold"},
)
BARE = Item(id="i2", scale=(0.0, 1.0))
BAD = BadItem(file="items.jsonl", line=3, item=None, field="references", message="a list was expected")
WRITTEN = [
    replace(WHOLE, search_notes={"excluded": {"gold": 2}, "missing_shards": ["1"]}),
    BAD,
    replace(BARE, search_notes={"note": "no_utterance"}),
]
COVERAGE = Coverage(characters=5, pieces=2, unknown=1)


def test_a_block_is_read_as_it_was_written(tmp_path):
    folder = BlockFolder(path=tmp_path)
    assert folder.facts("block") is None
    facts = folder.write("block", WRITTEN, COVERAGE)
    assert (facts.items, facts.coverage) == (3, COVERAGE)
    assert folder.facts("block") == facts
    assert list(folder.read("block")) == WRITTEN


def test_the_key_of_a_block_is_of_all_that_its_items_say():
    keys = {
        block_key(items)
        for items in (
            [WHOLE],
            [BARE],
            [WHOLE, BARE],
            [BARE, WHOLE],
            [BAD],
            [replace(WHOLE, replies={})],
            [replace(BARE, scale=None)],
        )
    }
    assert len(keys) == 7
    assert block_key([WHOLE, BAD]) == block_key([WHOLE, BAD])


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: content.replace(b"gold", b"good")])
def test_a_damaged_block_is_named(tmp_path, damage):
    folder, path = BlockFolder(path=tmp_path), tmp_path / "block.jsonl"
    folder.write("block", WRITTEN, COVERAGE)
    path.write_bytes(damage(path.read_bytes()))
    with refusing(Corrupt, "block.jsonl"):
        list(folder.read("block"))


@pytest.mark.parametrize("head", [b"", b"{}", b"[1]", b"{", b'{"items": "many", "coverage": {}}'])
def test_a_block_without_a_head_is_named(tmp_path, head):
    (tmp_path / "block.jsonl").write_bytes(head + b"\n")
    with refusing(Corrupt, "block.jsonl"):
        BlockFolder(path=tmp_path).facts("block")
