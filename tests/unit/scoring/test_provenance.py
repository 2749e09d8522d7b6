"""Items say how their references were made, and the scores of all ways have one signature."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.combine import combine
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem, item_json, item_of, of_systems, parse_item
from refaug.scoring.provenance import Provenance, ProvenanceWatch
from refaug.scoring.settings import ScoreSettings

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


# ── what made the replies ─────────────────────────────────────────────────────────────────────────────────────────

BOT = "kind:retrieval|index:chat@1#9f2c|mode:bm25-utterance|k:1"


def replied(name: str, lines: dict[str, str], systems: str = "ab") -> Item:
    """The retrieved reference is the reply of b."""
    references = ["yes", {"text": "Of course, yes!", "weight": 0.5, "source": "retrieved"}]
    replies = {system: {"a": "no", "b": "of course yes"}.get(system, "so") for system in systems}
    values = {"id": name, "references": references, "replies": replies, "reply_provenance": lines}
    return item_of(values, fallback_id="")


def test_items_keep_what_made_their_replies() -> None:
    test_item = replied("x", {"b": BOT})
    assert test_item.reply_provenance == {"b": BOT}
    assert item_json(test_item)["reply_provenance"] == {"b": BOT}
    assert "reply_provenance" not in item_json(replied("x", {}))
    assert item_of(item_json(test_item), fallback_id="") == test_item


def test_items_of_some_systems_read_back() -> None:
    (alone,) = of_systems([replied("x", {"a": BOT, "b": BOT})], ["a"])
    assert isinstance(alone, Item)
    assert (alone.replies, alone.reply_provenance) == ({"a": "no"}, {"a": BOT})
    assert parse_item(item_json(alone), where="f", line=1, fallback_id="") == alone


@pytest.mark.parametrize(
    ("lines", "field", "message"),
    [
        ({"c": BOT}, "reply_provenance.c", "the provenance of 'c', which has no reply here"),
        ({"b": "retrieval"}, "reply_provenance.b", "is not part of a signature"),
        ({"b": 3}, "reply_provenance.b", "a text was expected, a number, 3 was found"),
        ([BOT], "reply_provenance", "an object with a system's name as each key was expected"),
    ],
)
def test_what_says_nothing_of_a_reply_is_a_fault_of_the_field(lines, field, message) -> None:
    values = {"id": "x", "replies": {"b": "yes"}, "reply_provenance": lines}
    bad = parse_item(values, where="f", line=1, fallback_id="")
    assert isinstance(bad, BadItem)
    assert bad.field == field
    assert message in bad.message


def test_results_name_bots_and_count_their_replies_that_are_references() -> None:
    items = [replied("x", {"b": BOT}), replied("y", {"b": BOT})]
    evaluation = evaluate(items, [build("bleu")], ScoreSettings(draws=0))
    assert evaluation.as_json()["reply_provenance"] == {"b": BOT}
    assert evaluation.warnings == (
        "replies that are retrieved references of their items: b (2); take both from different logs",
    )
    assert "reply_provenance" not in evaluate([replied("x", {})], [build("bleu")], ScoreSettings(draws=0)).as_json()
    mixed = evaluate([*items, replied("z", {})], [build("bleu")], ScoreSettings(draws=0)).reply_provenance
    digest = sha256(b"\n" + BOT.encode()).hexdigest()
    assert mixed == {"b": f"mixed#{digest[:12]}"}


def test_batches_together_name_the_bots_of_all() -> None:
    def batch(*items: Item) -> dict[str, Any]:
        settings = ScoreSettings(draws=0)
        return evaluate(items, [build("bleu")], settings, is_part=True).as_statistics()

    first, second = batch(replied("x", {"b": BOT})), batch(replied("y", {"b": BOT}))
    third = batch(replied("z", {}))
    together = combine([first, second], ScoreSettings(draws=0))
    assert together["reply_provenance"] == {"b": BOT}
    assert combine([first, third], ScoreSettings(draws=0))["reply_provenance"]["b"].startswith("mixed#")
    assert "reply_provenance" not in combine([third], ScoreSettings(draws=0))
    with refusing(BadInput, "batches[0].reply_provenance.c"):
        combine([{**first, "reply_provenance": {"c": BOT}}])
    with refusing(BadInput, "batches[0].reply_provenance.b"):
        combine([{**first, "reply_provenance": {"b": 3}}])
