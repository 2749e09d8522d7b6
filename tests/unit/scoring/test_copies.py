"""Replies that copy the utterance are found whatever their punctuation, and only where people do not answer so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.metrics.specification import build
from refaug.scoring.combine import combine, statistics_of
from refaug.scoring.copies import CopiedReplies, UtteranceTable, find_copies
from refaug.scoring.evaluate import evaluate
from refaug.scoring.provenance import Provenance
from refaug.scoring.settings import ScoreSettings
from refaug.scoring.spooled_items.item_collection import ItemCollection

UTTERANCE = "Could you tell me where the old station is, please?"  # ten words
PLAIN = ScoreSettings(draws=0)


def item(utterance: str | None, *golds: str, name: str = "one", **replies: str) -> Item:
    references = tuple(Reference(text=gold) for gold in golds)
    return Item(id=name, turns=() if utterance is None else (utterance,), references=references, replies=replies)


@pytest.mark.parametrize(
    ("utterance", "reply", "expected"),
    [
        (UTTERANCE, UTTERANCE, True),
        (UTTERANCE, "COULD you tell me -- where the old station is... please", True),
        (UTTERANCE, "please is station old the where me tell you could", True),  # the same words
        (UTTERANCE, UTTERANCE + " Yes.", True),  # 10 of 11 words
        (UTTERANCE, UTTERANCE + " Yes. No.", False),  # 10 of 12
        (UTTERANCE, "Could you tell me where the old station is?", True),  # 9 of 10
        (UTTERANCE, "Could you tell me where the old", False),
        ("Tea or milk?", "tea or milk", True),
        ("Tea or milk?", "tea or milk or", False),  # too short to be nearly the same
        ("Tea or milk for you?", "tea or milk for", False),
        ("", "", False),
        (None, "Yes.", False),
        (UTTERANCE, "", False),
        ("駅はどこにありますか。", "駅はどこにありますか", True),
        ("古い駅はどこにありますか。", "古い駅はどこにありますかね。", True),  # 11 of 12 different characters
        ("古い駅はどこにありますか。", "駅はそこにあります。", False),
    ],
)
def test_a_copy_is_the_utterance_or_nearly_so(utterance: str | None, reply: str, expected: bool) -> None:
    table = UtteranceTable.of([item("Another one, before it."), item(utterance, "Down the road.")])
    assert table.copies([reply], [1]) == [0] * expected


WORDS = st.lists(st.sampled_from([*"abcdefgh", "I'm", "C.", "駅は", "É"]), max_size=24).map(" ".join)


@given(WORDS, WORDS, st.integers(0, 3))
def test_a_copy_is_what_the_plain_rule_says(utterance: str, other: str, kept_words: int) -> None:
    """The rule as the page states it, over sets of words; some replies are the utterance with words taken away."""
    reply = " ".join(utterance.split()[kept_words:]) if kept_words else other
    texts = [normalise(utterance), normalise(reply)]
    words = [[p for w in text.split() for p in (w if "駅" in w else [w])] for text in texts]
    both, any_of = set(words[0]) & set(words[1]), set(words[0]) | set(words[1])
    near = min(len(words[0]), len(words[1])) >= 5 and 10 * len(both) >= 9 * len(any_of)
    expected = bool(texts[0]) and bool(texts[1]) and (texts[0] == texts[1] or near)
    assert UtteranceTable.of([item(utterance, "zzz")]).copies([reply], [0]) == [0] * expected


@pytest.mark.parametrize("gold", [UTTERANCE, UTTERANCE.upper() + "!", UTTERANCE + " Yes."])
def test_where_a_gold_repeats_the_utterance_no_reply_is_a_copy(gold: str) -> None:
    assert UtteranceTable.of([item(UTTERANCE, "Down the road.", gold)]).copies([UTTERANCE], [0]) == []


def test_only_golds_excuse_a_copy() -> None:
    parrot = Reference(text=UTTERANCE, source=Origin.PARROT, weight=0.9)
    with_parrot = Item(id="a", turns=(UTTERANCE,), references=(Reference(text="No."), parrot))
    assert UtteranceTable.of([with_parrot]).copies([UTTERANCE], [0]) == [0]


def test_copies_are_listed_by_row_and_item_of_each_system_that_has_any() -> None:
    table = UtteranceTable.of([item("Tea?", name="a"), item("Milk?", name="b")])
    replies = {"m": ["milk", None, "tea", "Milk!"], "n": ["no", "no", "no", "no"]}
    copies = find_copies(table, [1, 1, -1, 1], ["b", "b", "unknown", "b"], replies)
    assert copies == {"m": CopiedReplies(rows=(0, 3), items=("b", "b"))}


@given(WORDS, WORDS, WORDS, st.integers(0, 3))
def test_copies_among_items_are_those_that_their_table_finds(
    utterance: str, gold: str, other: str, kept_words: int
) -> None:
    """Golds and replies are drawn so that some repeat the utterance, whole or nearly so."""
    nearly = " ".join(utterance.split()[kept_words:])
    items = [
        item(utterance, gold, name="a", model=nearly, echo=utterance),
        item(utterance, nearly, other, name="b", model=utterance),
        item(None, gold, name="c", model=other),
    ]
    replies = {system: [test_item.replies.get(system) for test_item in items] for system in ("model", "echo")}
    expected = find_copies(UtteranceTable.of(items), range(3), ["a", "b", "c"], replies)
    assert ItemCollection.of(items).copies == expected


def items_with_echo() -> list[Item]:
    return [
        item("Tea?", "Yes, please.", name="a", echo="Tea?", model="Yes."),
        item("Milk?", "No, thanks.", name="b", echo="MILK", model="milk"),
        item("Now?", "Later.", name="c", model="Later."),
    ]


def test_an_evaluation_counts_and_names_copies_once_for_all_metrics() -> None:
    answer = evaluate(items_with_echo(), [build("bleu"), build("chrf")], PLAIN).as_json()
    assert answer["copies"] == {
        "echo": {"rows": [0, 1], "items": ["a", "b"]},
        "model": {"rows": [1], "items": ["b"]},
    }
    assert [text for text in answer["warnings"] if "repeat the utterance: echo (2), model (1)" in text]


def test_an_evaluation_without_copies_says_nothing_of_them() -> None:
    answer = evaluate([item("Tea?", "Yes.", model="Yes.")], [build("bleu")], PLAIN).as_json()
    assert "copies" not in answer
    assert answer["warnings"] == []


def batches() -> list[dict[str, Any]]:
    parts = (items_with_echo()[:1], items_with_echo()[1:])
    return [statistics_of(evaluate(part, [build("bleu")], PLAIN, is_part=True)) for part in parts]


def test_combined_batches_have_the_copies_of_all_of_them() -> None:
    whole = evaluate(items_with_echo(), [build("bleu")], PLAIN).as_json()
    combined = combine(batches(), PLAIN)
    assert combined["copies"] == whole["copies"]
    assert [text for text in combined["warnings"] if "repeat" in text] == whole["warnings"][-1:]


@pytest.mark.parametrize("copies", [{"echo": {"rows": [2]}}, {"other": {"rows": [0]}}, {"echo": {"rows": [True]}}, []])
def test_copies_that_are_none_of_the_batch_are_refused(copies: Any) -> None:
    first, second = batches()
    with refusing(BadInput, "batches[1].copies"):
        combine([first, {**second, "copies": copies}], PLAIN)


@pytest.mark.parametrize("parrot", ["rated", "0.5"])
def test_batches_scored_with_different_parrots_are_not_combined(parrot: str) -> None:
    weighed = Reference(text="Yes.", source=Origin.RETRIEVED, weight=0.5)
    parts = []
    for name, setting in (("a", "off"), ("b", parrot)):
        golds = (Reference(text="Please."), weighed)
        scored = evaluate(
            [Item(id=name, turns=("Tea?",), references=golds, replies={"model": "Yes."})],
            [build("upsilon-bleu")],
            PLAIN,
            provenance=Provenance(settings={"mode": "embedding-utterance", "parrot": setting}),
            is_part=True,
        )
        parts.append(statistics_of(scored))
    with refusing(BadInput):
        combine(parts, PLAIN)


def test_where_a_search_found_nothing_the_gold_alone_is_scored_and_thin() -> None:
    test_item = item("Tea?", "Yes, please.", model="Yes.")
    with refusing(BadInput):
        evaluate([test_item], [build("upsilon-bleu")], PLAIN)
    searched = Provenance(settings={"mode": "embedding-utterance"})
    answer = evaluate([test_item], [build("upsilon-bleu")], PLAIN, provenance=searched).as_json()
    assert 0 < answer["scores"][0]["systems"]["model"]["corpus"] < 1
    assert [text for text in answer["warnings"] if "thin evidence for 1 of 1 items" in text]
