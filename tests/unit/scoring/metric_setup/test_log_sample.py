"""Pairs drawn from an index: what a drawn item is, against the rows of the log that the index was built from."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import add_to_log, build, home_of, pairs_of
from plain_search import RawPair

from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.metrics.specification import Specification
from refaug.scoring.metric_setup.baseline import baseline_in
from refaug.scoring.metric_setup.log_sample import (
    RANDOM,
    TRUE,
    live_segments,
    sample_items,
    unrelated_responses,
)

WORDS = ["tea", "milk", "bread", "road", "house"]
VECTORS = {word: [float(place == number) for place in range(5)] for number, word in enumerate(WORDS)}


def a_log(pairs: int, dialogues: int, utterances: int, seed: int, log: str = "chat") -> list[RawPair]:
    """Pairs of few utterances, several in a dialogue, some repeated."""
    rng = random.Random(seed)
    return [
        RawPair(
            log,
            f"{log}-d{rng.randrange(dialogues)}",
            str(number),
            f"{rng.choice(WORDS)} {rng.randrange(utterances)}",
            f"{' '.join(rng.sample(WORDS, rng.randint(1, 2)))} {rng.randrange(3)}",
        )
        for number in range(pairs)
    ]


def drawn(places: Places, wanted: int = 100, seed: int = 1, index: str = "chat") -> list[Item]:
    with places.indexes.open(index) as held:
        return sample_items(live_segments(held, IndexManifest.read(held.folder)), wanted, seed)


def require_drawn_from(item: Item, pairs: Sequence[RawPair]) -> None:
    """The gold, the true and the random reply are what the log says of their dialogues."""
    utterance, gold = item.utterance, item.references[0].text
    of_true, of_random = item.exclude
    assert (item.dialogue, utterance, gold) in {(one.dialogue, one.utterance, one.response) for one in pairs}
    answers = {(one.dialogue, one.response) for one in pairs if one.utterance == utterance}
    others = {(one.dialogue, one.response) for one in pairs if one.utterance != utterance}
    assert (of_true, item.replies[TRUE]) in answers
    assert (of_random, item.replies[RANDOM]) in others
    assert item.replies[TRUE] != gold
    assert item.dialogue not in (of_true, of_random)


def possible(pairs: Sequence[RawPair]) -> set[tuple[str, str, str]]:
    """Utterance, gold and another response of another dialogue."""
    return {
        (one.utterance, one.response, other.response)
        for one in pairs
        for other in pairs
        if one.utterance == other.utterance
        and one.response != other.response
        and (one.log, one.dialogue) != (other.log, other.dialogue)
    }


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32), st.integers(1, 40))
def test_item_has_an_utterance_two_of_its_responses_and_one_of_another(
    tmp_path_factory: pytest.TempPathFactory, count: int, dialogues: int, utterances: int, seed: int, wanted: int
) -> None:
    pairs = [*a_log(count, dialogues, utterances, seed), *a_log(count // 2, dialogues, utterances, seed + 1, "other")]
    places = home_of(tmp_path_factory.mktemp("home"), pairs, VECTORS)
    build(places)
    items = drawn(places, wanted, seed)
    for item in items:
        require_drawn_from(item, pairs)
    found = [(item.utterance, item.references[0].text, item.replies[TRUE]) for item in items]
    assert len(found) == len(set(found)) <= wanted
    assert set(found) <= possible(pairs)
    if len({one.utterance for one in pairs}) > 2 and dialogues > 4:  # a random reply is always at hand then
        assert len(found) >= min(wanted, len({utterance for utterance, _, _ in possible(pairs)}) // 2)
    assert drawn(places, wanted, seed) == items


def test_there_are_as_many_as_are_wanted_or_as_there_can_be(tmp_path: Path) -> None:
    pairs = a_log(80, 20, 3, 1)
    places = home_of(tmp_path, pairs, VECTORS)
    build(places)
    every = possible(pairs)
    assert len(every) > 100
    assert len(drawn(places, 50)) == 50
    found = drawn(places, 10_000)
    assert 0.8 * len(every) <= len(found) <= len(every)
    assert [item.id for item in found[:3]] == ["0", "1", "2"]


def test_every_utterance_comes_up_before_any_comes_up_again(tmp_path: Path) -> None:
    pairs = [
        RawPair("chat", f"d{number}-{answer}", "1", f"tea {number}", f"milk {answer}")
        for number in range(30)
        for answer in range(4)
    ]
    places = home_of(tmp_path, pairs, VECTORS)
    build(places)
    utterances = [item.utterance for item in drawn(places, 60)]
    assert sorted(utterances[:30]) == sorted({one.utterance for one in pairs})
    assert utterances[:30] != utterances[30:]
    assert max(Counter(utterances).values()) <= 4  # where the second time it was what it was the first time


def test_a_random_reply_comes_up_as_often_as_the_logs_have_it(tmp_path: Path) -> None:
    asked = [RawPair("chat", f"a{n}-{m}", "1", f"tea {n}", f"milk {m}") for n in range(100) for m in range(3)]
    often = [RawPair("chat", f"o{number}", "1", "road", "house") for number in range(900)]
    places = home_of(tmp_path, [*asked, *often], VECTORS)
    build(places)
    items = drawn(places, 400)
    assert len(items) == 400
    share = sum(item.replies[RANDOM] == "house" for item in items) / 400
    assert share == pytest.approx(0.75, abs=0.1)  # 900 of 1,200


def test_responses_of_one_dialogue_are_no_pair(tmp_path: Path) -> None:
    one = [RawPair("chat", "d", str(number), "tea", f"milk {number}") for number in range(9)]
    places = home_of(tmp_path, [*one, *pairs_of(("road", "house"), ("road", "house"))], VECTORS)
    build(places)
    assert drawn(places) == []
    add_to_log(places, "chat", [RawPair("chat", "e", "1", "tea", "bread")])
    update_index(places, "chat", Silent())
    for item in (found := drawn(places)):
        assert "bread" in (item.references[0].text, item.replies[TRUE])
    assert found


def test_no_random_reply_if_all_other_utterances_are_of_the_same_dialogue(tmp_path: Path) -> None:
    pairs = [RawPair("chat", dialogue, "1", "tea", f"milk {dialogue}") for dialogue in ("d", "e")]
    places = home_of(tmp_path, pairs, VECTORS)
    build(places)
    assert drawn(places) == []


def test_what_an_update_has_masked_does_not_come_up_and_what_it_added_does(tmp_path: Path) -> None:
    pairs = a_log(60, 12, 2, 1)
    places = home_of(tmp_path, pairs, VECTORS)
    build(places)
    added = [RawPair("chat", f"new{number}", "1", pairs[0].utterance, f"road {number}") for number in range(20)]
    add_to_log(places, "chat", added)
    update_index(places, "chat", Silent())
    items = drawn(places, 1_000)
    for item in items:
        require_drawn_from(item, [*pairs, *added])
    assert any(item.dialogue == "new3" for item in items)
    gone = {f"chat-d{number}" for number in range(6)}
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=sorted(gone)))
    for item in (found := drawn(places, 1_000)):
        require_drawn_from(item, [one for one in [*pairs, *added] if one.dialogue not in gone])
    assert found


def test_another_seed_draws_others(tmp_path: Path) -> None:
    places = home_of(tmp_path, a_log(80, 20, 3, 1), VECTORS)
    build(places)
    assert drawn(places, 30, 1) != drawn(places, 30, 2)


def texts_of(items: Sequence[Item]) -> list[object]:
    return [(replace(item, replies={}), dict(item.replies)) for item in items]


@pytest.mark.slow
def test_the_same_pairs_are_drawn_whatever_shards_and_updates_an_index_has(tmp_path: Path) -> None:
    pairs = a_log(300, 40, 20, 5)
    places = home_of(tmp_path, pairs[:250], VECTORS)
    build(places, "updated")
    build(places, "shards-updated", shards=3)
    add_to_log(places, "chat", pairs[250:])
    for index in ("updated", "shards-updated"):
        update_index(places, index, Silent())
    build(places, "one")
    build(places, "shards", shards=4)
    expected = {}
    for index in ("one", "shards", "updated", "shards-updated"):
        with places.indexes.open(index) as held:
            manifest = IndexManifest.read(held.folder)
            assert (len(manifest.segments) > 1) == (index != "one")
            responses = unrelated_responses(live_segments(held, manifest), 200, 3)
            items = texts_of(sample_items(live_segments(held, manifest), 60, 3))
        expected.setdefault("responses", responses)
        expected.setdefault("items", items)
        assert responses == expected["responses"], index
        assert items == expected["items"], index
        baseline = baseline_in(Specification.parse("rouge-1"), places.indexes, index, pairs=200)
        assert baseline.b == expected.setdefault("b", baseline.b), index
