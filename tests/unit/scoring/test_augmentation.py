"""Weighted references: those of the index, weighed by the rater one by one, put together in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from unit.conftest import TEXTS, Tools

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.base import NO_UTTERANCE, References
from refaug.metrics.metric_info import Uses
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import COMBINES, RatingSettings
from refaug.scoring.augmentation import augment
from refaug.scoring.cases import references_of
from refaug.scoring.items import BadItem, item_json, parse_item, read_items
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings

CLOSE = 1e-5
K = 4
BAD = BadItem(file="some.jsonl", line=3, item=None, field="id", message="it is empty")

Row = tuple[str, Origin, float | None, float | None, float | None]  # text, source, weight, rating, similarity


def asked(**given: Any) -> AugmentSettings:
    return AugmentSettings(**{"k": K, **given})


def item_of(number: int, golds: int = 1) -> Item:
    """With golds, a supplied reference between them, and what an earlier run has found."""
    rng = random.Random(f"item {number}")
    references = [Reference(text=rng.choice(TEXTS)) for _ in range(golds)]
    references.insert(1, Reference(text=rng.choice(TEXTS), source=Origin.SUPPLIED, weight=rng.uniform(-1, 1)))
    references.insert(0, Reference(text="found before", source=Origin.RETRIEVED, weight=0.5))
    references.insert(2, Reference(text="said before", source=Origin.PARROT, weight=0.25))
    turns = tuple(rng.choices(TEXTS, k=1 + number % 3))
    return Item(
        id=f"item-{number}",
        turns=turns,
        references=tuple(references),
        dialogue=f"d{number + 1}",
        replies={"a": rng.choice(TEXTS), "b": rng.choice(TEXTS)},
        ratings={"a": (1.0, None)},
    )


def expected(tools: Tools, item: Item, wanted: AugmentSettings) -> list[Row]:
    """One search for one test pair, one rating for one reference and one gold at a time."""
    utterance = item.utterance
    assert utterance is not None
    golds = [one.text for one in item.references if one.source is Origin.GOLD]

    def rated(text: str, answered: str | None = None) -> float:
        ratings = [
            tools.rater.rate(
                [
                    RatingRequest(
                        utterance=utterance, golds=(gold,), candidates=(Reference(text=text, utterance=answered),)
                    )
                ],
                wanted,
            )[0][0]
            for gold in golds
        ]
        return sum(ratings) / len(ratings)

    rows = list[Row]()
    for one in item.references:
        if one.source is Origin.GOLD:
            rating = rated(one.text) if wanted.gold == "rated" else None
            rows.append((one.text, Origin.GOLD, rating, rating, None))
        if one.source is Origin.SUPPLIED:
            rows.append((one.text, Origin.SUPPLIED, one.weight, None, None))
    if wanted.parrot == "rated":
        rows.append((utterance, Origin.PARROT, rated(utterance), rated(utterance), None))
    elif wanted.parrot != "off":
        rows.append((utterance, Origin.PARROT, float(wanted.parrot), None, None))
    for one in tools.index.search([item], wanted)[0].references:
        rating = rated(one.text, one.utterance) if wanted.weights == "rated" else None
        weight = 1.0 if rating is None else rating
        rows.append((one.text, Origin.RETRIEVED, weight, rating, one.similarity))
    return rows


def rows_of(item: Item) -> list[Row]:
    return [(one.text, one.source, one.weight, one.rating, one.similarity) for one in item.references]


def require_equal(found: list[Row], wanted: list[Row]) -> None:
    assert [row[:2] for row in found] == [row[:2] for row in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert [number is None for number in one[2:]] == [number is None for number in other[2:]]
        for a, b in zip(one[2:], other[2:], strict=True):
            assert a == (b if b is None else pytest.approx(b, abs=CLOSE))


def augmented(tools: Tools, items: list[Item], wanted: AugmentSettings) -> list[Item]:
    found = list(augment(items, tools.index, tools.rater, wanted))
    assert not any(isinstance(one, BadItem) for one in found)
    return [one for one in found if isinstance(one, Item)]


# Weights


@pytest.mark.parametrize(
    ("gold", "parrot", "weights"), list(product(("one", "rated"), ("rated", "off", -0.3), ("rated", "one")))
)
def test_references_and_weights_are_those_put_together_one_by_one(
    tools: Tools, gold: Any, parrot: Any, weights: Any
) -> None:
    items = [item_of(number, golds=1 + number % 3) for number in range(6)]
    ways = [{"combine": "mean"}, {"calibrated": True}]
    for rating in ways:
        wanted = asked(gold=gold, parrot=parrot, weights=weights, **rating)
        for one, item in zip(augmented(tools, items, wanted), items, strict=True):
            require_equal(rows_of(one), expected(tools, item, wanted))
            assert sum(row[1] is Origin.RETRIEVED for row in rows_of(one)) == K
            assert "note" not in one.search_notes
            assert one == replace(item, references=one.references, search_notes=one.search_notes)


def without_golds(item: Item) -> Item:
    further = tuple(one for one in item.references if one.source is not Origin.GOLD)
    return replace(item, references=further)


@pytest.mark.parametrize(("parrot", "weights"), list(product(("rated", "off"), ("rated", "one"))))
def test_without_golds_scores_stand_on_what_items_without_them_have(tools: Tools, parrot: Any, weights: Any) -> None:
    wanted = asked(gold="none", parrot=parrot, weights=weights)
    items = [item_of(number, golds=1 + number % 3) for number in range(6)]
    bare = [without_golds(item) for item in items]
    for one, other, item in zip(augmented(tools, items, wanted), augmented(tools, bare, wanted), items, strict=True):
        golds = [each for each in one.references if each.source is Origin.GOLD]
        assert [each.text for each in golds] == [r.text for r in item.references if r.source is Origin.GOLD]
        assert [(each.is_unused, each.weight, each.rating) for each in golds] == [(True, None, None)] * len(golds)
        assert references_of(one.references, Uses.WEIGHTED) == references_of(other.references, Uses.WEIGHTED)
        assert references_of(one.references, Uses.OWN) == references_of(item.references, Uses.OWN)
        assert "note" not in {*one.search_notes, *other.search_notes}
        [parsed] = [parse_item(item_json(one), where="line", line=1, fallback_id="1")]
        assert isinstance(parsed, Item)
        assert parsed.references == one.references
        require_equal(rows_of(without_golds(one)), by_the_utterance_alone(tools, other, wanted))
        again = augmented(tools, [one], asked())[0]
        require_equal(rows_of(again), expected(tools, item, asked()))
        assert not any(each.is_unused for each in again.references)


def by_the_utterance_alone(tools: Tools, item: Item, wanted: AugmentSettings) -> list[Row]:
    """One search without golds, and one rating at a time in which the gold's place is empty."""
    utterance, empty = item.utterance or "", ""

    def rating(text: str) -> float:
        request = RatingRequest(utterance=utterance, golds=(empty,), candidates=(Reference(text=text),))
        return tools.rater.rate([request], wanted)[0][0]

    rows = [(one.text, one.source, one.weight, None, None) for one in item.references if one.is_own]
    if wanted.parrot == "rated":
        rows.append((utterance, Origin.PARROT, rating(utterance), rating(utterance), None))
    for one in tools.index.search([without_golds(item)], wanted)[0].references:
        rated = rating(one.text) if wanted.weights == "rated" else None
        rows.append((one.text, Origin.RETRIEVED, 1.0 if rated is None else rated, rated, one.similarity))
    return rows


def test_a_search_that_compares_golds_is_refused_without_them() -> None:
    with refusing(Usage, "bm25-dialog", field="gold") as told:
        asked(gold="none", mode="bm25-dialog")
    assert told.value.remedy == "mode=bm25-utterance, or another gold"


@pytest.mark.parametrize("combine", COMBINES)
def test_every_way_to_combine_weighs_what_is_found(tools: Tools, combine: Any) -> None:
    wanted = asked(gold="rated", combine=combine)
    items = [item_of(number, golds=2) for number in range(10, 15)]
    for one, item in zip(augmented(tools, items, wanted), items, strict=True):
        require_equal(rows_of(one), expected(tools, item, wanted))


def test_second_triplet_of_a_found_reference_starts_with_its_own_utterance(tools: Tools) -> None:
    mean = RatingSettings(combine="mean")
    items = [item_of(number) for number in range(5)]
    differences = []
    for one, item in zip(augmented(tools, items, asked(combine="mean")), items, strict=True):
        found = [each for each in one.references if each.source is Origin.RETRIEVED]
        gold, utterance = item.gold, item.utterance
        assert gold is not None
        assert utterance is not None
        own, none = (
            tools.rater.rate([RatingRequest(utterance=utterance, golds=(gold.text,), candidates=candidates)], mean)[0]
            for candidates in (
                tuple(Reference(text=each.text, utterance=each.utterance) for each in found),
                tuple(Reference(text=each.text) for each in found),
            )
        )
        assert [each.rating for each in found] == pytest.approx(own, abs=CLOSE)
        differences += [abs(a - b) for a, b in zip(own, none, strict=True)]
    assert max(differences) > 0.01


def test_where_nothing_is_rated_a_rater_changes_nothing_and_none_is_needed(tools: Tools) -> None:
    items = [item_of(number) for number in range(5)]
    for parrot in ("off", 0.5, 1, -1):
        wanted = asked(parrot=parrot, weights="one")
        assert not wanted.needs_rater
        without = list(augment(items, tools.index, None, wanted))
        assert without == list(augment(items, tools.index, tools.rater, wanted))


@pytest.mark.parametrize("given", [{}, {"parrot": "off"}, {"parrot": "rated", "weights": "one"}])
@pytest.mark.parametrize("gold", ["one", "rated"])
def test_rating_without_a_rater_is_refused(tools: Tools, given: dict[str, Any], gold: Any) -> None:
    wanted = asked(gold=gold, **given)
    assert wanted.needs_rater
    with refusing(Usage):
        list(augment([item_of(1)], tools.index, None, wanted))


def test_what_was_excluded_is_told_as_the_search_tells_it(tools: Tools) -> None:
    items = [item_of(number) for number in range(30)]
    told = [one.search_notes.get("excluded", {}) for one in tools.index.search(items, SearchSettings(k=K))]
    assert [one.search_notes.get("excluded", {}) for one in augmented(tools, items, asked())] == told
    assert any(told)


# What came with the item


def test_what_was_found_before_is_found_anew_and_not_kept_twice(tools: Tools) -> None:
    items = [item_of(number, golds=2) for number in range(5)]
    for gold in ("one", "rated"):
        once = augmented(tools, items, asked(gold=gold))
        twice = augmented(tools, once, asked(gold=gold))
        for one, other in zip(once, twice, strict=True):
            require_equal(rows_of(other), rows_of(one))
        fewer = augmented(tools, once, asked(gold=gold, k=2, parrot="off"))
        for item, other in zip(items, fewer, strict=True):
            wanted = asked(gold=gold, k=2, parrot="off")
            require_equal(rows_of(other), expected(tools, item, wanted))


def test_rated_gold_weighs_one_again_if_golds_weigh_one(tools: Tools) -> None:
    rated = augmented(tools, [item_of(1)], asked(gold="rated"))[0]
    again = augmented(tools, [rated], asked(gold="one"))[0]
    gold = again.gold
    assert gold is not None
    assert gold.weight in (None, 1.0)
    others = [row for row in rows_of(again) if row[1] is not Origin.GOLD]
    wanted = expected(tools, item_of(1), asked(gold="one"))
    require_equal(others, [row for row in wanted if row[1] is not Origin.GOLD])


def test_a_supplied_weight_is_kept_whatever_is_rated(tools: Tools) -> None:
    supplied = [
        Reference(text="trees are green", source=Origin.SUPPLIED, weight=weight, rating=rating)
        for weight, rating in ((-1.0, None), (0.0, None), (0.75, 0.5))
    ]
    item = replace(item_of(1), id="x", turns=("i like trees",), references=(*supplied, Reference(text="yes")))
    for gold, parrot, weights in product(("one", "rated"), ("rated", "off", 0.5), ("one", "rated")):
        found = augmented(tools, [item], asked(gold=gold, parrot=parrot, weights=weights))[0]
        assert list(found.references[:3]) == supplied


@pytest.mark.parametrize("gold", ["one", "rated"])
@pytest.mark.parametrize("turns", [(), ("",), ("you like apples", " \t")])
def test_item_without_utterance_keeps_its_references_with_a_note(
    tools: Tools, turns: tuple[str, ...], gold: Any
) -> None:
    own = (Reference(text="yes we do"), Reference(text="no", source=Origin.SUPPLIED, weight=-0.5))
    item = Item(id="x", turns=turns, references=own, replies={"a": "yes"})
    found = augmented(tools, [item_of(1), item, item_of(2)], asked(gold=gold))
    assert found[1] == replace(item, search_notes={"note": "no_utterance"})
    assert "note" not in {*found[0].search_notes, *found[2].search_notes}


def test_item_without_a_needed_gold_keeps_its_references_with_a_note(tools: Tools) -> None:
    for own in ((), (Reference(text="we do", source=Origin.SUPPLIED, weight=0.5),), (Reference(text=" "),)):
        item = Item(id="x", turns=("do you like apples",), references=own, replies={"a": "yes"})
        for gold in ("one", "rated"):
            found = augmented(tools, [item], asked(gold=gold))[0]
            assert replace(found, search_notes={}) == item
            assert found.search_notes["note"] == "no_gold"


@pytest.mark.parametrize(("parrot", "weights"), list(product(("rated", "off", 0.5), ("rated", "one"))))
def test_nothing_that_was_found_is_ever_left_without_a_weight(tools: Tools, parrot: Any, weights: Any) -> None:
    with_gold = (Reference(text="yes we do"),)
    supplied = (Reference(text="we do", source=Origin.SUPPLIED, weight=0.5),)
    for turns, own in product(((), ("do you like apples",)), ((), with_gold, supplied)):
        item = Item(id="x", turns=turns, references=own)
        found = augmented(tools, [item], asked(parrot=parrot, weights=weights))[0]
        bare = [one for one in found.references if not one.is_own and one.weight is None]
        assert bare == []
        chosen = references_of(found.references, Uses.WEIGHTED, found.utterance)
        assert (chosen == NO_UTTERANCE) == (own == with_gold and not turns)
        assert not own or chosen == NO_UTTERANCE or isinstance(chosen, References)


def test_only_what_was_found_answers_an_utterance_of_its_own(tools: Tools) -> None:
    """A gold answers the test utterance, whatever else its line says of it."""
    item = item_of(3)
    gold = next(one for one in item.references if one.source is Origin.GOLD)
    for strange in ("do trees fly", None):
        odd = replace(gold, utterance=strange)
        told = replace(item, references=tuple(odd if one is gold else one for one in item.references))
        wanted = asked(gold="rated", combine="max")
        require_equal(rows_of(augmented(tools, [told], wanted)[0]), expected(tools, item, wanted))


def test_without_a_gold_what_needs_no_rating_is_found_all_the_same(tools: Tools) -> None:
    item = Item(id="x", turns=("do you like apples",))
    wanted = asked(parrot=0.5, weights="one")
    found = augmented(tools, [item], wanted)[0]
    require_equal(rows_of(found), expected(tools, item, wanted))
    assert (len(found.references), "note" in found.search_notes) == (1 + K, False)


# Many items


class Listening(Silent):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        self.told = list[str]()

    def warn(self, message: str) -> None:
        self.told.append(message)


def test_test_pairs_in_an_unknown_language_are_warned_of_once(tools: Tools) -> None:
    strange = [replace(one, turns=("切符はどこで買えますか。",)) for one in map(item_of, range(500))]
    for items, weights, expects in (
        (strange, asked(), True),
        (strange, asked(parrot="off", weights="one"), False),
        ([item_of(number) for number in range(3)], asked(), False),
    ):
        listening = Listening()
        for _ in augment(items, tools.index, tools.rater, weights, listening):
            pass
        assert len(listening.told) == expects
        assert all("does not know 6,000 of" in told for told in listening.told)


def test_bad_items_stay_in_their_places(tools: Tools) -> None:
    items: list[Item | BadItem] = [BAD, item_of(1), BAD, BAD, item_of(2), BAD]
    found = list(augment(items, tools.index, tools.rater, asked()))
    assert [one if isinstance(one, BadItem) else one.id for one in found] == [
        BAD, "item-1", BAD, BAD, "item-2", BAD,
    ]  # fmt: skip
    assert list(augment([BAD], tools.index, tools.rater, asked())) == [BAD]
    assert list(augment([], tools.index, tools.rater, asked())) == []


def test_many_items_at_once_get_what_each_gets_alone_in_the_same_order(tools: Tools) -> None:
    items: list[Item | BadItem] = [item_of(number, golds=1 + number % 2) for number in range(450)]
    items[7] = items[211] = items[430] = BAD
    wanted = asked(gold="rated", combine="mean")
    together = list(augment(iter(items), tools.index, tools.rater, wanted))
    alone = [one for item in items for one in augment([item], tools.index, tools.rater, wanted)]
    assert len(together) == len(alone) == 450
    for one, other in zip(together, alone, strict=True):
        if isinstance(one, BadItem) or isinstance(other, BadItem):
            assert one == other == BAD
            continue
        assert (one.id, one.search_notes) == (other.id, other.search_notes)
        assert [each.more for each in one.references] == [each.more for each in other.references]
        require_equal(rows_of(one), rows_of(other))


def test_the_first_items_are_there_before_the_last_are_read(tools: Tools) -> None:
    read = []

    def items() -> Iterator[Item]:
        for number in range(450):
            read.append(number)
            yield item_of(number)

    found = augment(items(), tools.index, tools.rater, asked())
    first = next(found)
    assert isinstance(first, Item)
    assert first.id == "item-0"
    assert len(read) < 450
    assert len(list(found)) == 449


# Settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"gold": "two"}, "two"),
        ({"gold": None}, "gold: null"),
        ({"gold": 1.0}, "gold: 1"),
        ({"weights": "off"}, "off"),
        ({"weights": ""}, "weights: ''"),
        ({"parrot": "on"}, "on"),
        ({"parrot": "0.5"}, "parrot: '0.5'"),
        ({"parrot": 1.5}, "1.5"),
        ({"parrot": -1.0001}, "-1.0001"),
        ({"parrot": float("nan")}, "nan"),
        ({"parrot": float("inf")}, "inf"),
    ],
)
def test_settings_without_a_meaning_are_refused_with_the_value(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Usage) as caught:
        AugmentSettings(**given)
    assert told in caught.value.message
    assert [caught.value.field] == list(given)


# Provenance

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)
BASE = AugmentSettings(mode="embedding-dialog")  # alpha and epsilon mean something
OTHERS: dict[type, dict[str, list[Any]]] = {
    SearchSettings: {
        "k": [14],
        "mode": ["bm25-dialog", "embedding-utterance"],
        "alpha": [0.25],
        "epsilon": [0.2],
        "depth": [100, 101],
        "after": [MOMENT],
        "before": [MOMENT],
        "exclude_logs": [("chat",), ("other",), ("chat", "other")],
        "near": [0.8],
        "near_tokens": [6],
    },
    RatingSettings: {"combine": ["first-literal", "max", "confident", "mean"], "calibrated": [True]},
    AugmentSettings: {"gold": ["rated"], "parrot": ["rated", 0.5, -1.0], "weights": ["one"]},
}


def other_settings() -> Iterator[AugmentSettings]:
    for others in OTHERS.values():
        for name, values in others.items():
            yield from (replace(BASE, **{name: value}) for value in values)


def test_every_setting_is_in_what_signatures_say(tools: Tools) -> None:
    # A preset only refuses other settings than its own; signatures name it by these (test_presets.py).
    # What is shown of excluded pairs changes no reference (tests/unit/indexer/search/test_search.py).
    # Of `partial` the shards that were missing are named, where any was (test_cluster_serving.py).
    silent = {"preset", "show_excluded", "partial"}
    assert {name for others in OTHERS.values() for name in others} == {
        one.name for one in fields(AugmentSettings)
    } - silent
    every = [BASE, *other_settings()]
    said = [
        {**made_by.settings, **made_by.details}
        for made_by in (references_provenance(tools.index, tools.rater, one) for one in every)
    ]
    equal = [(every[a], every[b]) for a in range(len(said)) for b in range(a) if said[a] == said[b]]
    assert equal == []
    for one in said:
        assert all(isinstance(value, str) and value for value in one.values())


def test_numbers_that_differ_by_little_are_told_apart(tools: Tools) -> None:
    others = [replace(BASE, alpha=0.5000001), replace(BASE, near=0.9000001)]
    said = [references_provenance(tools.index, None, one).details for one in (BASE, *others)]
    said += [
        references_provenance(tools.index, tools.rater, replace(BASE, parrot=number)).settings
        for number in (0.5, 0.5000001)
    ]
    assert [said.index(one) for one in said] == list(range(len(said)))


def test_provenance_names_index_and_rater_and_what_weighs(tools: Tools) -> None:
    wanted = asked(gold="rated", combine="max", calibrated=True)
    assert list(references_provenance(tools.index, tools.rater, wanted).settings.items()) == [
        ("k", str(K)),
        ("mode", "embedding-utterance"),
        ("gold", "rated"),
        ("parrot", "off"),
        ("weights", "rated"),
        ("combine", "max"),
        ("cal", "cal"),
        ("index", f"chat@{tools.index.version}#{tools.index.manifest.id[:12]}"),
        ("rater", "tiny@1#0123456789ab"),
    ]
    unrated = references_provenance(tools.index, tools.rater, asked(parrot=0.5, weights="one")).settings
    assert unrated == references_provenance(tools.index, None, asked(parrot=0.5, weights="one")).settings
    assert unrated["parrot"] == "0.5"
    assert {"combine", "cal", "rater"}.isdisjoint(unrated)


def test_another_rater_or_another_index_is_another_provenance(tools: Tools) -> None:
    other_rater = NNRater(tools.rater.model, tools.rater.tokenizer, spec="tiny@2#ba9876543210")
    said = [references_provenance(tools.index, rater, asked()).settings for rater in (tools.rater, other_rater)]
    assert said[0] != said[1]
    other_index = replace(tools.index, version="2020-01-01.9")
    assert references_provenance(other_index, tools.rater, asked()).settings != said[0]


# As a line of a test file

TEXT = st.text(max_size=20)
NUMBER = st.floats(-1, 1)
NAME = st.sampled_from(["a", "b", "Système 1", "人"])
REFERENCE = st.builds(
    Reference,
    text=TEXT,
    source=st.sampled_from(list(Origin)),
    weight=NUMBER,
    similarity=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    rating=st.none() | NUMBER,
    more=st.dictionaries(
        st.sampled_from(["rank", "pair", "mine"]), TEXT | st.integers(0, 99) | st.lists(TEXT, max_size=2)
    ),
) | st.builds(Reference, text=TEXT, source=st.sampled_from([Origin.GOLD, Origin.RETRIEVED]))


@st.composite
def items_of_any_kind(draw: st.DrawFn) -> Item:
    item = Item(
        id=draw(TEXT.filter(str.strip)),
        turns=tuple(draw(st.lists(TEXT, max_size=3))),
        references=tuple(draw(st.lists(REFERENCE, max_size=4))),
        dialogue=draw(st.none() | TEXT),
        time=draw(st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC))),
        exclude=tuple(draw(st.lists(TEXT, max_size=2))),
    )
    replies = draw(st.dictionaries(NAME, TEXT))
    numbers = st.lists(st.none() | st.floats(-1e9, 1e9), max_size=3).map(tuple)
    ratings = {name: draw(numbers) for name in replies if draw(st.booleans())}
    return replace(item, replies=replies, ratings=ratings)


@given(items_of_any_kind())
@settings(max_examples=50, deadline=None)
def test_any_item_reads_back_from_its_line_as_itself(item: Item) -> None:
    line = orjson.dumps(item_json(item))
    assert parse_item(orjson.loads(line), where="here", line=1, fallback_id="none") == item


def test_augmented_items_read_back_from_a_file_as_themselves(tools: Tools, tmp_path: Path) -> None:
    items = augmented(tools, [item_of(number, 2) for number in range(20)], asked(gold="rated"))
    (tmp_path / "items.jsonl").write_bytes(
        b"\n".join(orjson.dumps({**item_json(item), **item.search_notes}) for item in items)
    )
    assert list(read_items(tmp_path / "items.jsonl")) == items
