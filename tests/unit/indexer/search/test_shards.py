"""The same answers from any number of shards: references, order and similarities, to the last bit.

Logs are random; the answers are compared with those of one segment, and with a product of numpy's over all pairs.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from indexes import add_to_log, build, built, home_of
from plain_search import MILLION, MODES, UNKNOWN, WORDS, RawPair, chance_tests, sha
from refusals import refusing
from safeguards import mostly_slow
from told import Interrupting

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.search.exact_check import check_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

DIMENSIONS = 16
KINDS = {"Flat": (3, 8), "IVF8,SQ8": (3,), "IVF8,RaBitQfs": (3,), "PCAR8,IVF8,PQ4x4fs": (3, 8)}


def vectors():
    rows = np.random.default_rng(1).standard_normal((len(WORDS), DIMENSIONS)).astype(np.float32)
    return dict(zip(WORDS, rows, strict=True))


def pairs_of_chance(random, count, first=0):
    """Many utterances have the same vector (the same words in another order), and many occur again."""
    pairs = list[RawPair]()
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 2, 3, 4, 6)))) for _ in range(count)]
    for number in range(first, first + count):
        utterance, response = random.choice(texts), random.choice(texts)
        if random.random() < 0.3:
            utterance = " ".join(random.sample(utterance.split(), len(utterance.split())))
        pairs.append(RawPair("chat", f"d{number % 97}", str(number), utterance, response, None, f"s{number % 50}"))
    return pairs


def answers(index, tests, how):
    """All that is answered but the name of the index."""
    return [
        (
            [replace(one, more={**one.more, "index": ""}) for one in found.references],
            found.search_notes.get("excluded", {}),
            found.search_notes.get("note", ""),
            [{**one, "index": ""} for one in found.search_notes.get("excluded_references", [])],
        )
        for found in index.search(tests, how, excluded=1_000)
    ]


def settings_to_try():
    for mode in MODES:
        yield SearchSettings(mode=mode)
        yield SearchSettings(mode=mode, k=3, depth=20)
    yield SearchSettings(k=400)


def assert_same(expected, index, tests):
    for how in settings_to_try():
        assert answers(index, tests, how) == answers(expected, tests, how), how


@pytest.fixture(scope="module")
def log():
    random = Random(1)
    pairs = pairs_of_chance(random, 1_000)
    return pairs, chance_tests(random, pairs, 40)


@pytest.fixture(scope="module")
def places(log, tmp_path_factory):
    return home_of(tmp_path_factory.mktemp("shards"), log[0], vectors())


def order_of(factory, shards):
    return {"shards": shards, "check_queries": 50, "limits": Limits(factory=factory, recall=0.6)}


@pytest.mark.parametrize("factory", mostly_slow(KINDS, quick=[1]))
def test_any_number_of_shards_answers_as_one_segment_does(places, log, factory):
    tests = log[1]
    with built(places, "one", **order_of(factory, 1)) as one:
        assert [info.folder for info in one.manifest.segments] == ["segments/0"]
        for shards in KINDS[factory]:
            with built(places, "many", **order_of(factory, shards)) as many:
                manifest = many.manifest
                assert [info.folder for info in manifest.segments] == [f"shards/{number}" for number in range(shards)]
                assert (manifest.utterances, manifest.pairs) == (one.manifest.utterances, one.manifest.pairs)
                assert manifest.check.recall == one.manifest.check.recall
                assert {info.effort for info in manifest.segments} == {one.manifest.segments[0].effort}
                assert_same(one, many, tests)


@pytest.mark.slow
@pytest.mark.parametrize("factory", ["Flat", "PCAR8,IVF8,PQ4x4fs"])
def test_shards_answer_alike_after_updates_and_deletions(log, tmp_path, factory):
    pairs, tests = log
    random = Random(9)
    places = home_of(tmp_path / "home", pairs, vectors())
    for name, shards in (("one", 1), ("many", 3)):
        build(places, name, **order_of(factory, shards))
    add_to_log(places, "chat", pairs_of_chance(random, 150, first=5_000))
    for name in ("one", "many"):
        update_index(places, name, Silent())
        update_index(places, name, Silent(), erase=erased_keys(dialogues=["d7", "d8"], speakers=["s3"]))
    with ReferenceIndex.open(places, "one") as one, ReferenceIndex.open(places, "many", threads=2) as many:
        assert (len(one.segments), len(many.segments)) == (3, 5)
        assert many.manifest.check == replace(one.manifest.check, seconds=many.manifest.check.seconds)
        assert_same(one, many, tests)
    for name in ("one", "many"):
        compact_index(places, name, Silent())
    with ReferenceIndex.open(places, "one") as one, ReferenceIndex.open(places, "many") as many:
        assert (len(one.segments), len(many.segments)) == (1, 3)
        assert many.manifest.shards == 3
        assert_same(one, many, tests)


def test_a_check_draws_the_same_pairs_for_any_number_of_shards(places):
    found = []
    for shards in (1, 3):
        with built(places, "many", **order_of("PCAR8,IVF8,PQ4x4fs", shards)) as index:
            found.append(check_index(index, SearchSettings(k=5), queries=60, seed=1, progress=Silent()))
    assert found[0] == found[1]
    assert found[0].queries == 55  # the other texts have no word with a vector


def test_the_order_of_segments_changes_no_answer(places, log):
    """A shard may answer before or after another."""
    with built(places, "many", **order_of("PCAR8,IVF8,PQ4x4fs", 3)) as many:
        turned = replace(many, segments=(many.segments[2], many.segments[0], many.segments[1]))
        assert_same(many, turned, log[1])


@pytest.mark.parametrize("shards", mostly_slow([1, 3, 8], quick=[1]))
def test_exact_shards_find_what_a_product_of_matrices_finds(places, log, shards):
    pairs, tests = log
    words = {word: vector.astype(float) / np.linalg.norm(vector.astype(float)) for word, vector in vectors().items()}

    def vector_of(text):
        total = sum((words[word] for word in text.split() if word in words), np.zeros(DIMENSIONS))
        return total / (np.linalg.norm(total) or 1.0)

    shown = {normalise(pair.utterance): pair.utterance for pair in pairs}
    matrix = np.stack([vector_of(text) for text in shown.values()])
    responses = {}
    for pair in pairs:
        responses.setdefault(normalise(pair.utterance), set()).add(pair.response)
    with built(places, "many", **order_of("Flat", shards)) as index:
        plain = [replace(test, references=(), dialogue=None, exclude=()) for test in tests]
        for test, found in zip(plain, index.search(plain, SearchSettings(near_tokens=100)), strict=True):
            similarities = np.rint(matrix @ vector_of(test.utterance) * MILLION) / MILLION
            known = matrix.any(axis=1)
            ranked = sorted(
                (-similarity, sha(response), sha(text), response)
                for similarity, (key, text), is_known in zip(similarities.tolist(), shown.items(), known, strict=True)
                if is_known and vector_of(test.utterance).any()
                for response in responses[key]
                if normalise(response) != normalise(test.utterance)
            )
            expected, texts = [], set()
            for similarity, _, _, response in ranked:
                if normalise(response) not in texts and len(expected) < 15:
                    expected.append((-similarity, response))
                    texts.add(normalise(response))
            assert [one.text for one in found.references] == [response for _, response in expected]
            assert [one.similarity for one in found.references] == pytest.approx(
                [similarity for similarity, _ in expected], abs=1.1e-6
            )


@pytest.mark.slow
def test_more_shards_than_utterances_leave_some_out(tmp_path):
    pairs = pairs_of_chance(Random(4), 4)
    places = home_of(tmp_path, pairs, vectors())
    tests = chance_tests(Random(5), pairs, 10)
    with built(places, "one") as one, built(places, "many", shards=16) as many:
        assert 1 <= len(many.segments) <= 4
        assert many.manifest.shards == 16
        assert_same(one, many, tests)


def test_numbers_of_shards_that_cannot_be_meant(tmp_path):
    places = home_of(tmp_path, pairs_of_chance(Random(4), 4), vectors())
    for shards in (0, -1, 1_025):
        with refusing(Usage, shards):
            build(places, shards=shards)
    with refusing(Usage):
        build(places, factory="HNSW32", shards=2)
    add_to_log(places, "other", pairs_of_chance(Random(4), 1))
    with refusing(BadInput):
        build(places, shards=2, least_coverage=1.0)


@pytest.mark.slow
def test_a_build_that_is_stopped_again_and_again_goes_on_and_ends_the_same(log, tmp_path):
    """Whatever stage it is stopped in, the version before keeps serving, and no finished stage is done again."""
    places = home_of(tmp_path, log[0], vectors())
    order = order_of("PCAR8,IVF8,PQ4x4fs", 3)
    whole = build(places, "whole", **order)
    first = build(places, "many")
    stops = set()
    for attempt in range(60):
        try:
            build(places, "many", progress=Interrupting(attempt % 7), **order)
            break
        except KeyboardInterrupt as stop:
            stops.add(str(stop))
            assert places.indexes.current("many") == first
            assert places.indexes.versions("many") == [first]
    else:
        raise AssertionError(f"no end after stops in {stops}")
    assert len(stops) >= 8, stops
    with ReferenceIndex.open(places, "whole") as expected, ReferenceIndex.open(places, "many") as index:
        assert expected.version == whole
        assert index.manifest.id == expected.manifest.id
        assert_same(expected, index, log[1][:10])
