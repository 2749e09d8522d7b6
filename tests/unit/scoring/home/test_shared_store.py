"""An index of several shards goes to another home, by a store and by a file, and answers there as it does here."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from encoders import write_encoder
from indexes import add_to_log, build, home_of
from plain_search import RawPair
from refusals import refusing

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.store.collecting import collect_unused
from refaug.core.artefacts.store.objects import Store
from refaug.core.artefacts.store.store_files import LocalFiles
from refaug.core.artefacts.transfer import export_artefact, import_artefact, open_export
from refaug.core.errors import NotFound, Usage
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.scoring.home.encoders import import_encoder
from refaug.scoring.home.shared_store import fetch_into, outdated_in, push_from

WORDS = tuple(f"w{number}" for number in range(30))
TESTS = [Item(id=word, turns=(f"{word} w1",)) for word in WORDS]


@pytest.fixture
def places(tmp_path) -> Places:
    random = Random(1)
    texts = [" ".join(random.choices(WORDS, k=3)) for _ in range(80)]
    pairs = [RawPair("chat", f"d{n % 9}", str(n), random.choice(texts), random.choice(texts)) for n in range(200)]
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    return home_of(tmp_path / "home", pairs, dict(zip(WORDS, rows, strict=True)))


def answers(home: Path) -> list[list[tuple[str, float]]]:
    with ReferenceIndex.open(Places.under(home), "chat") as index:
        return [[(hit.text, hit.similarity) for hit in found.references] for found in index.search(TESTS)]


def push(home: Path, store: Store):
    return push_from(Settings(home=home), store, "index", "chat", Silent())


def fetch(home: Path, store: Store, *, erasing=None):
    return fetch_into(Settings(home=home), store, "index", "chat", Silent(), publish=True, erasing=erasing)


def test_shards_come_with_their_vectors_and_answer_alike(places, tmp_path):
    build(places, shards=3)
    store = Store(LocalFiles(tmp_path / "store"))
    pushed = push(tmp_path / "home", store)
    assert [version.record.kind for version in pushed] == ["vectors", "index"]
    assert [part.folder for part in pushed[1].record.parts] == ["shards/0", "shards/1", "shards/2"]
    fetched = fetch(tmp_path / "node", store).versions
    assert [(version.record.kind, version.published) for version in fetched] == [("vectors", True), ("index", True)]
    assert answers(tmp_path / "node") == answers(tmp_path / "home")


@pytest.mark.slow
def test_an_update_sends_its_segment_and_not_the_shards(places, tmp_path):
    build(places, shards=3)
    store = Store(LocalFiles(tmp_path / "store"))
    push(tmp_path / "home", store)
    fetch(tmp_path / "node", store)
    add_to_log(places, "chat", [RawPair("chat", "new", "1", "w1 w2 w3", "w4 w5")])
    update_index(places, "chat", Silent())
    shards = [part.sha256 for part in store.records()[0].parts if part.folder.startswith("shards/")]
    pushed = push(tmp_path / "home", store)[1]
    sent = {part.folder: part.sha256 for part in pushed.record.parts}
    assert [sent[f"shards/{number}"] for number in range(3)] == shards
    assert "segments/3" in sent
    fetched = fetch(tmp_path / "node", store).versions[1]
    assert fetched.linked_files > fetched.fetched_files
    assert answers(tmp_path / "node") == answers(tmp_path / "home")


@pytest.mark.slow
def test_deleted_text_leaves_the_store_and_the_node(places, tmp_path):
    build(places, shards=3)
    store, node = Store(LocalFiles(tmp_path / "store")), tmp_path / "node"
    push(tmp_path / "home", store)
    first = fetch(node, store).versions[1].record
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=["chat/d1"]))
    compact_index(places, "chat", Silent())
    second = push(tmp_path / "home", store)[1].record
    assert outdated_in(store, second) == [first]
    collected = collect_unused(store, np.timedelta64(1, "D").astype(object), Silent(), erased=True)
    assert (collected.removed_versions, collected.erased_until) == ((f"index {first.spec}",), None)
    fetched = fetch(node, store, erasing=lambda _name: {})
    assert (fetched.erased, fetched.erased_later) == ([first.version], [])
    indexes = artefact_stores(Settings(home=node))["index"]
    assert indexes.versions("chat") == [second.version]
    assert answers(node) == answers(tmp_path / "home")


def test_an_index_comes_with_its_encoder(places, tmp_path):
    import_encoder(places.encoders, places.cache, "small", write_encoder(tmp_path / "small"))
    build(places, vectors=None, encoder="small")
    store = Store(LocalFiles(tmp_path / "store"))
    assert [version.record.kind for version in push(tmp_path / "home", store)] == ["encoder", "index"]
    fetched = fetch(tmp_path / "node", store).versions
    assert [version.record.kind for version in fetched] == ["encoder", "index"]
    assert answers(tmp_path / "node") == answers(tmp_path / "home")


def test_a_version_that_is_read_stays_and_is_named(places, tmp_path):
    build(places, shards=2)
    store, node = Store(LocalFiles(tmp_path / "store")), tmp_path / "node"
    push(tmp_path / "home", store)
    first = fetch(node, store).versions[1].record.version
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=["chat/d1"]))
    push(tmp_path / "home", store)
    with artefact_stores(Settings(home=node))["index"].open(f"chat@{first}"):
        fetched = fetch(node, store, erasing=lambda _name: {})
    assert (fetched.erased, fetched.erased_later) == ([], [first])


def test_shards_go_through_a_file_too(places, tmp_path):
    build(places, shards=3)
    there = artefact_stores(Settings(home=tmp_path / "other"))
    for kind, name in (("vectors", "glove"), ("index", "chat")):
        file = tmp_path / f"{kind}.tar.zst"
        export_artefact(artefact_stores(Settings(home=tmp_path / "home"))[kind], name, file, Silent())
        with open_export(file) as export:
            import_artefact(export, there, Silent())
    assert answers(tmp_path / "other") == answers(tmp_path / "home")


def test_what_is_not_there_is_named(tmp_path):
    store = Store(LocalFiles(tmp_path / "store"))
    with refusing(NotFound, "chat"):
        fetch(tmp_path / "node", store)
    with refusing(Usage, "bot"):
        push_from(Settings(home=tmp_path), store, "bot", "chat", Silent())
