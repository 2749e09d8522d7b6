"""Cutting an index into other shards without its logs: the files are those of a build from the logs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from indexes import add_to_log, build, home_of
from plain_search import RawPair

from refaug.core.errors import Conflict, Usage
from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.rebuilding.compaction import compact_index
from refaug.indexer.building.rebuilding.resharding import reshard_index
from refaug.indexer.building.update import erased_keys, order_of, update_index
from refaug.indexer.manifest import IndexManifest

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(30))  # without a vector
FACTORY = "PCAR8,IVF8,PQ4x4fs"


def vectors():
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 16)).astype(np.float32)
    return dict(zip(WORDS, rows, strict=True))


def pairs_of_chance(seed, count, *, speakers=True, first=0):
    """Many utterances occur several times, some with other surface forms."""
    random = Random(seed)
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 3, 5)))) for _ in range(count)]
    return [
        RawPair(
            "chat",
            f"d{number % 97}",
            str(number),
            random.choice(texts).replace("w1", random.choice(("w1", "W1"))),
            random.choice(texts),
            None,
            f"s{number % 50}" if speakers else None,
        )
        for number in range(first, first + count)
    ]


def order_with(shards, factory=FACTORY):
    return {"shards": shards, "check_queries": 50, "limits": Limits(factory=factory, recall=0.6)}


def manifest_of(places, name, version=None):
    return IndexManifest.read(places.indexes.folder(name, version or places.indexes.resolve(name)[1]))


@pytest.mark.parametrize(
    ("before", "after", "factory", "pairs"),
    [
        (1, 3, FACTORY, 1_000),
        pytest.param(3, 5, FACTORY, 1_000, marks=pytest.mark.slow),
        (5, 1, FACTORY, 1_000),
        pytest.param(2, 12, "Flat", 8, marks=pytest.mark.slow),  # empty shards
    ],
)
def test_the_files_are_those_of_a_build_with_as_many_shards(tmp_path, before, after, factory, pairs):
    places = home_of(tmp_path, pairs_of_chance(1, pairs, speakers=before != 5), vectors())
    build(places, "expected", **order_with(after, factory))
    build(places, "chat", **order_with(before, factory))
    shutil.rmtree(places.logs)  # it needs none
    built = reshard_index(places, "chat", after, Silent())
    expected = manifest_of(places, "expected")
    assert built.published
    assert built.manifest.files == expected.files
    assert (built.manifest.id, built.manifest.inputs) == (expected.id, expected.inputs)
    assert built.manifest == replace(
        expected,
        name="chat",
        created=built.manifest.created,
        seconds=built.manifest.seconds,
        check=replace(expected.check, seconds=built.manifest.check.seconds),
        plan=built.manifest.plan,  # it names measured times
    )


@pytest.mark.slow
def test_a_build_of_the_same_then_finds_that_nothing_is_to_do(tmp_path):
    places = home_of(tmp_path, pairs_of_chance(1, 60), vectors())
    build(places, "chat", **order_with(1, "Flat"))
    resharded = reshard_index(places, "chat", 2, Silent())
    order = order_of(resharded.manifest, tmp_path, threads=1, memory=1 << 30, publish=True)
    again = build_index(places, order, Silent())
    assert (again.version, again.is_new) == (resharded.version, False)


@pytest.mark.parametrize("after", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_what_updates_added_and_deletions_masked_is_settled(tmp_path, after):
    places = home_of(tmp_path, pairs_of_chance(1, 1_000), vectors())
    build(places, "chat", **order_with(3))
    add_to_log(places, "chat", pairs_of_chance(2, 80, first=5_000))
    update_index(places, "chat", Silent())
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=["d7", "d8"], speakers=["s3"]))
    updated = manifest_of(places, "chat")
    built = reshard_index(places, "chat", after, Silent())
    manifest = built.manifest
    assert [info.superseded for info in manifest.segments] == [0] * after
    assert (manifest.utterances, manifest.pairs) == (updated.utterances, updated.pairs)
    assert (manifest.erased, manifest.erasures, manifest.inputs) == (updated.erased, updated.erasures, "")
    compacted = compact_index(places, "chat", Silent())  # from the logs, with the settings of the version before
    assert compacted.manifest.files == manifest.files
    assert compacted.manifest.id == manifest.id


class Interrupting(Silent):
    """Interrupts the work when so many stages have begun."""

    def __init__(self, stages):
        self.left = stages

    def stage(self, name, total=None, unit=""):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt(name)


@pytest.mark.slow
def test_an_interrupted_change_goes_on_and_the_version_before_serves(tmp_path):
    places = home_of(tmp_path, pairs_of_chance(1, 1_000), vectors())
    expected = build(places, "expected", **order_with(4))
    first = build(places, "chat", **order_with(1))
    stops = set[str]()
    for attempt in range(80):
        try:
            built = reshard_index(places, "chat", 4, Interrupting(attempt % 3))
            break
        except KeyboardInterrupt as stop:
            stops.add(str(stop))
            assert places.indexes.versions("chat") == [first]
            assert places.indexes.current("chat") == first
    else:
        raise AssertionError(f"no end after stops in {stops}")
    assert len(stops) >= 6, stops
    assert built.manifest.files == manifest_of(places, "expected", expected).files


def test_what_cannot_be_divided_is_refused_by_name(tmp_path):
    places = home_of(tmp_path, pairs_of_chance(1, 60), vectors())
    build(places, "chat", **order_with(3, "Flat"))
    with pytest.raises(Usage, match="index chat has 3 shards already"):
        reshard_index(places, "chat", 3, Silent())
    with pytest.raises(Usage, match="an index cannot have 0 shards"):
        reshard_index(places, "chat", 0, Silent())
    build(places, "graph", factory="HNSW32")
    with pytest.raises(Usage, match="HNSW32 is a graph, which cannot be cut into 2 shards"):
        reshard_index(places, "graph", 2, Silent())
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=[f"d{number}" for number in range(97)]))
    with pytest.raises(Conflict, match="index chat has no utterances that can be found"):
        reshard_index(places, "chat", 2, Silent())


def test_a_version_whose_log_has_lost_pairs_is_not_carried_on(tmp_path):
    places = home_of(tmp_path, pairs_of_chance(1, 60), vectors())
    build(places, "chat", **order_with(1, "Flat"))
    shutil.rmtree(places.logs / "chat")
    add_to_log(places, "chat", pairs_of_chance(3, 50))  # another part takes the place of the first
    with pytest.raises(Conflict, match="holds pairs that have been deleted since"):
        reshard_index(places, "chat", 2, Silent())
