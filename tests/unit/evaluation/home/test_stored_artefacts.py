"""Publishing, rolling back and removing by kind: what indexes and word vectors forbid, and the others do not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from engines import home_with_versions

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import describe_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, NotFound
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.home.stored_artefacts import stored_artefacts
from refaug.indexer.building.update import erased_keys, update_index


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return home_with_versions(tmp_path_factory.mktemp("stored"), indexes=1, raters=2)


def test_an_index_with_deleted_pairs_cannot_serve_again(home: Settings) -> None:
    indexes, places = stored_artefacts(home, "index"), places_of(home)
    before = places.indexes.current("chat") or ""
    updated = update_index(places, "chat", Silent(), erase=erased_keys(pairs=["chat/d0-0#1"]), threads=1)
    assert updated.built is not None
    for refused in (
        lambda: indexes.require_publishable("chat", before),
        lambda: indexes.publish("chat", before),
        lambda: indexes.rollback("chat"),
        lambda: indexes.rollback("chat", before),
    ):
        with pytest.raises(Conflict, match=f"index chat@{before} holds pairs that have been deleted since"):
            refused()
    assert places.indexes.current("chat") == updated.built.version
    assert indexes.gc("chat", 0) == [before]


def test_vectors_that_an_index_needs_stay(home: Settings) -> None:
    vectors, stored = stored_artefacts(home, "vectors"), artefact_stores(home)["vectors"]
    (name,) = stored.names()
    (needed,) = stored.versions(name)
    with pytest.raises(Conflict, match=f"an index was built with vectors {name}@{needed}"):
        vectors.remove(name)
    assert vectors.gc(name, 0) == []
    assert stored.versions(name) == [needed]
    with pytest.raises(NotFound, match="no vectors 'other'"):
        vectors.remove("other")


def test_raters_depend_on_nothing(home: Settings) -> None:
    raters, stored = stored_artefacts(home, "rater"), artefact_stores(home)["rater"]
    first, second = stored.versions("base")
    raters.publish("base", second)
    assert raters.rollback("base") == first == stored.current("base")
    raters.require_publishable("base", second)
    assert raters.gc("base", 0) == [second]
    assert raters.remove("base") == [first]
    assert stored.names() == []


def test_a_rule_is_asked_with_the_version_and_can_refuse_it(tmp_path: Path) -> None:
    versions, asked = Versions(tmp_path / "things", "rater", lambda: date(2026, 11, 20)), list[tuple[str, str]]()
    for text in "ab":
        folder = tmp_path / text
        folder.mkdir()
        (folder / "file").write_text(text)
        write_json(folder / "manifest.json", {"files": describe_files(folder, ["file"])})
        versions.add("base", folder)

    def refuse(name: str, version: str) -> None:
        asked.append((name, version))
        raise Conflict("not this one", remedy="another one")

    versions.publish("base", "2026-11-20.2")
    for refused in (
        lambda: versions.publish("base", "2026-11-20.1", refuse),
        lambda: versions.rollback("base", require=refuse),
        lambda: versions.rollback("base", require=refuse, choose=lambda: "2026-11-20.2"),
    ):
        with pytest.raises(Conflict, match="not this one"):
            refused()
    assert [version for _, version in asked] == ["2026-11-20.1", "2026-11-20.1", "2026-11-20.2"]
    assert versions.current("base") == "2026-11-20.2"
    assert versions.rollback("base", choose=lambda: "2026-11-20.1") == "2026-11-20.1" == versions.current("base")
