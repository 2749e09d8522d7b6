"""Shared utterances against counting by hand: which, in what order, in which surface form, cut how."""

from __future__ import annotations

import hashlib
import random
import re
import tempfile
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from refaug.core.errors import Usage
from refaug.core.query_engine import QueryEngine
from refaug.core.text.normalisation import normalise
from refaug.logs.pairs import PAIR_SCHEMA, SharedSettings, SharedUtterance, erasure_key, shared_utterances, text_key
from refaug.logs.part_files import PartWriter


def rows_of(pairs):
    return [
        {
            "dialogue": f"d{number}",
            "position": "1",
            "utterance": utterance,
            "response": response,
            "utterance_key": text_key(normalise(utterance)),
            "response_key": text_key(normalise(response)),
        }
        for number, (utterance, response) in enumerate(pairs)
    ]


def stored(folder, pairs, parts=1):
    folder.mkdir(parents=True, exist_ok=True)
    size, paths = -(-len(pairs) // parts), []
    for number in range(parts):
        writer = PartWriter(folder / f"part-{number}.parquet")
        writer.add(pa.RecordBatch.from_pylist(rows_of(pairs[number * size : (number + 1) * size]), schema=PAIR_SCHEMA))
        writer.close()
        paths.append(writer.path)
    return paths


def shared(folder, paths, settings):
    with QueryEngine(folder / "engine", memory=512 << 20) as engine:
        return list(shared_utterances(engine, paths, settings))


def number(text: str) -> int:
    """The first half of the MD5, little-endian: what decides wherever something must be decided."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "little")


def is_long(utterance, settings):
    words = [word for word in utterance.split() if any(c.isalnum() for c in word)]
    return len(words) >= settings.min_words and len(utterance.replace(" ", "")) >= settings.min_chars


def by_hand(pairs, settings):
    """The definition, in plain Python."""
    utterances, responses = defaultdict(set), defaultdict(lambda: defaultdict(set))
    long = {text_key(normalise(utterance)) for utterance, _ in pairs if is_long(utterance, settings)}
    for utterance, response in pairs:
        key = text_key(normalise(utterance))
        if key in long if settings.too_short else not is_long(utterance, settings):
            continue
        utterances[key].add(utterance)
        responses[key][text_key(normalise(response))].add(response)
    found = []
    for key, answers in responses.items():
        if len(answers) < settings.min_responses:
            continue
        order = sorted(answers, key=lambda a: (number(f"{a} {key} {settings.seed}"), a))[: settings.max_responses]
        shown = tuple(min(answers[answer], key=number) for answer in order)
        place = (number(f"{key} {settings.seed}"), key)
        found.append((place, SharedUtterance(utterance=min(utterances[key], key=number), responses=shown)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def some_pairs(seed, count=600):
    rng = random.Random(seed)
    first = [
        "where are you going now",
        "is there any tea left ?",
        "ok",
        "so - what do we do",
        "紅茶はまだ残っていますか今日は",
    ]
    second = ["home", "nowhere", "yes", "no", "maybe later", "ask the cook", "not any more"]

    def form(text):
        return rng.choice([text, text, text.upper(), f"{text}!", f"{text} .."])

    return [(form(rng.choice(first)), form(rng.choice(second))) for _ in range(count)]


@pytest.mark.parametrize(
    "settings",
    [
        SharedSettings(),
        SharedSettings(seed=2, max_responses=2),
        SharedSettings(min_words=1),
        SharedSettings(min_words=1, min_chars=10),
        SharedSettings(min_responses=6, max_responses=7),
        SharedSettings(min_words=6),
        SharedSettings.for_language("ja", max_responses=3),
        SharedSettings(too_short=True),
        SharedSettings(too_short=True, seed=2, max_responses=2),
        SharedSettings(too_short=True, min_words=6),
        replace(SharedSettings.for_language("ja"), too_short=True),
    ],
)
def test_shared_utterances_are_those_counted_by_hand(tmp_path, settings):
    pairs = some_pairs(1)
    assert shared(tmp_path, stored(tmp_path, pairs), settings) == by_hand(pairs, settings)


def test_regions_of_languages_without_spaces_have_shortest_utterances_in_characters():
    assert SharedSettings.for_language("zh-TW") == SharedSettings(min_words=1, min_chars=10)
    assert SharedSettings.for_language("en-GB") == SharedSettings()


# Words, and what is none: marks on their own, and what is one word to some and two to others.
SAID = ["ok", "tea", "-", "?!", "so-what", "Don't", "7", "½", "_", "紅茶", "ｔｅａ", "ΟΔΟΣ", "c'est"]
UTTERANCES = st.lists(st.sampled_from(SAID), min_size=1, max_size=5).map(" ".join)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with QueryEngine(tmp_path_factory.mktemp("engine"), memory=512 << 20) as opened:
        yield opened


@trying(deadline=None, max_examples=10)
@given(
    st.lists(st.tuples(UTTERANCES, st.sampled_from(["yes", "Yes!", "no", "later", "why ?"])), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_what_is_too_short_is_all_that_is_not_long_enough(engine, pairs, min_words, min_chars):
    long = SharedSettings(min_words=min_words, min_chars=min_chars)
    with tempfile.TemporaryDirectory() as folder:
        paths = stored(Path(folder), [*pairs, *pairs[:20]])
        for settings in (long, replace(long, too_short=True)):
            assert list(shared_utterances(engine, paths, settings)) == by_hand(pairs, settings)


def test_an_utterance_is_long_enough_or_too_short_and_never_both(tmp_path):
    utterances = [" ".join(words) for count in (1, 2, 3) for words in product(("red", "tea", "now"), repeat=count)]
    paths = stored(tmp_path, [(one, said) for one in utterances for said in ("yes", "no")])
    everything = {one.utterance for one in shared(tmp_path, paths, SharedSettings(min_words=1))}
    long, short = (
        [one.utterance for one in shared(tmp_path, paths, SharedSettings(min_words=3, min_chars=9, too_short=which))]
        for which in (False, True)
    )
    assert sorted([*long, *short]) == sorted(everything) == sorted(utterances)
    assert {len(one.split()) for one in long} == {3}
    assert {len(one.split()) for one in short} == {1, 2}


def test_utterance_with_any_long_enough_spelling_is_not_too_short(tmp_path):
    same = ["so-what do you", "So what do you ..."]
    assert len({normalise(one) for one in same}) == 1
    paths = stored(tmp_path, [(one, said) for one in [*same, "tea"] for said in ("yes", "no")])
    found = {
        which: [one.utterance for one in shared(tmp_path, paths, SharedSettings(too_short=which))]
        for which in (False, True)
    }
    assert found == {False: [same[1]], True: ["tea"]}


def test_how_a_log_is_cut_and_ordered_changes_nothing(tmp_path):
    pairs = some_pairs(2)
    first = shared(tmp_path, stored(tmp_path / "1", pairs), SharedSettings())
    random.Random(3).shuffle(pairs)
    assert len(first) > 2
    for parts in (2, 7, 60):
        assert shared(tmp_path, stored(tmp_path / str(parts), pairs, parts), SharedSettings()) == first


@pytest.mark.slow
def test_a_log_of_very_many_parts_can_be_asked(tmp_path):
    pairs = [(f"what is number {n % 300}", f"answer {n}") for n in range(600)]
    found = shared(tmp_path, stored(tmp_path, pairs, 600), SharedSettings())
    expected = {(f"what is number {n}", frozenset({f"answer {n}", f"answer {n + 300}"})) for n in range(300)}
    assert {(one.utterance, frozenset(one.responses)) for one in found} == expected


def test_another_seed_gives_another_order(tmp_path):
    pairs = [(f"where is the lamp {n}", f"{side} {n}") for n in range(50) for side in ("left", "right")]
    paths = stored(tmp_path, pairs)
    one, other = (shared(tmp_path, paths, SharedSettings(seed=seed)) for seed in (1, 2))
    assert one != other
    assert sorted(s.utterance for s in one) == sorted(s.utterance for s in other)


def test_nothing_stored_gives_nothing_shared(tmp_path):
    assert shared(tmp_path, [], SharedSettings()) == []


@pytest.mark.parametrize(("least", "most"), [(1, 5), (3, 2), (0, 0)])
def test_less_than_two_responses_are_not_shared(least, most):
    with pytest.raises(Usage):
        SharedSettings(min_responses=least, max_responses=most)


def test_an_erasure_key_tells_neither_the_name_nor_that_two_logs_share_it():
    key = erasure_key("ann", "chat")
    assert re.fullmatch(r"[0-9a-f]{32}", key)
    assert erasure_key("ann", "chat") == key
    assert len({key, erasure_key("ann", "other"), erasure_key("bob", "chat")}) == 3
