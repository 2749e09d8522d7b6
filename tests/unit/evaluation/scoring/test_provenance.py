"""Items say how their references were made, and the scores of all ways have one signature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.evaluation.scoring.evaluate import evaluate
from refaug.evaluation.scoring.items import BadItem, item_json, item_of, parse_item
from refaug.evaluation.scoring.provenance import Provenance, ProvenanceWatch
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build

MADE = Provenance(
    settings={"k": "4", "parrot": "off", "index": "chat@2026-11-20.1#9f2c41d07e12"}, details={"oov": "a|b %é"}
)
LINE = "k:4|parrot:off|index:chat@2026-11-20.1#9f2c41d07e12|oov.:a%7Cb %25%C3%A9"


def item(name: str, provenance: str = LINE) -> Item:
    references = ["yes", {"text": "yes of course", "weight": 0.5, "source": "retrieved"}]
    values = {"id": name, "references": references, "replies": {"a": "yes of course"}, "provenance": provenance}
    return item_of(values, fallback_id="")


def signature(items: list[Item], provenance: Provenance | None = None) -> tuple[Signature, tuple[str, ...]]:
    evaluation = evaluate(items, [build("upsilon-bleu")], ScoreSettings(draws=0), provenance=provenance)
    return evaluation.scores[0].signature, evaluation.warnings


def test_a_provenance_is_one_line_and_reads_back() -> None:
    assert MADE.line == LINE
    assert Provenance.parse(LINE) == MADE
    assert Provenance.parse("") == Provenance()
    assert (item("a").provenance, item_json(item("a"))["provenance"]) == (LINE, LINE)
    assert "provenance" not in item_json(item("a", ""))


def test_references_of_items_have_the_signature_of_references_retrieved_now() -> None:
    items = [item("a"), item("b")]
    assert signature(items)[0] == signature([replace(one, provenance="") for one in items], MADE)[0]
    assert signature(items)[0].settings["index"] == MADE.settings["index"]
    bleu = evaluate(items, [build("bleu")], ScoreSettings(draws=0)).scores[0].signature
    assert "index" not in bleu.settings


def test_references_made_in_several_ways_are_named_as_such() -> None:
    other = LINE.replace("k:4", "k:5")
    mixed, warnings = signature([item("a"), item("b", other)])
    assert mixed.settings["references"].startswith("mixed#")
    assert "index" not in mixed.settings
    assert any("made in several ways" in warning for warning in warnings)
    assert signature([item("a", other), item("b")])[0] == mixed
    assert signature([item("a"), item("b", "")])[0] not in (mixed, signature([item("a")])[0])


def test_watched_items_pass_unchanged_and_leave_their_provenance() -> None:
    watch, items = ProvenanceWatch(), [item("a"), item("b")]
    assert list(watch.over(items)) == items
    assert watch.provenance == MADE


@pytest.mark.parametrize("line", ["k", "k:4||x:1", "K:4", "refaug:1", "full:abc", "k:4|k:5", "k:" + "x" * 20_000])
def test_a_line_that_is_no_provenance_is_a_fault_of_the_field(line: str) -> None:
    with pytest.raises(BadInput):
        Provenance.parse(line)
    bad = parse_item({"id": "a", "references": ["x"], "provenance": line}, where="f", line=3, fallback_id="")
    assert isinstance(bad, BadItem)
    assert (bad.field, bad.line) == ("provenance", 3)


def test_a_provenance_that_is_no_text_is_a_fault_too() -> None:
    bad = parse_item({"id": "a", "references": ["x"], "provenance": {"k": 4}}, where="f", line=1, fallback_id="")
    assert isinstance(bad, BadItem)
    assert "a text was expected" in bad.message
