"""Shared utterances against counting by hand: which, in what order, in which surface form, cut how."""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict

import pyarrow as pa
import pytest

from core.engine import Engine
from core.errors import Usage
from core.log_store import PartWriter
from core.pairs import PAIR_SCHEMA, SharedSettings, SharedUtterance, erasure_key, shared_utterances, text_key
from core.text import normalise


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
    with Engine(folder / "engine", memory=512 << 20) as engine:
        return list(shared_utterances(engine, paths, settings))


def number(text: str) -> int:
    """The first half of the MD5, little-endian: what decides wherever something must be decided."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "little")


def by_hand(pairs, settings):
    """The definition, in plain Python."""
    utterances, responses = defaultdict(set), defaultdict(lambda: defaultdict(set))
    for utterance, response in pairs:
        words = [word for word in utterance.split() if any(c.isalnum() for c in word)]
        if len(words) < settings.min_words or len(utterance.replace(" ", "")) < settings.min_chars:
            continue
        key = text_key(normalise(utterance))
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
    ],
)
def test_shared_utterances_are_those_counted_by_hand(tmp_path, settings):
    pairs = some_pairs(1)
    assert shared(tmp_path, stored(tmp_path, pairs), settings) == by_hand(pairs, settings)


def test_how_a_log_is_cut_and_ordered_changes_nothing(tmp_path):
    pairs = some_pairs(2)
    first = shared(tmp_path, stored(tmp_path / "1", pairs), SharedSettings())
    random.Random(3).shuffle(pairs)
    assert len(first) > 2
    for parts in (2, 7, 60):
        assert shared(tmp_path, stored(tmp_path / str(parts), pairs, parts), SharedSettings()) == first


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
