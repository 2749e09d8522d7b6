"""Publishing, rolling back and removing by kind: what indexes and word vectors forbid, and the others do not."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from encoders import write_encoder
from engines import home_with_versions
from indexes import build
from refusals import refusing

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import describe_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, NotFound
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.building.update import erased_keys, update_index
from refaug.scoring.home.encoders import import_encoder
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.stored_artefacts import stored_artefacts
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets, pinned_versions


def staged_version(folder: Path) -> Path:
    """A folder with one file and its manifest."""
    folder.mkdir()
    (folder / "content").write_text(folder.name)
    write_json(folder / "manifest.json", {"files": describe_files(folder, ["content"])})
    return folder


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
        with refusing(Conflict, f"chat@{before}"):
            refused()
    assert places.indexes.current("chat") == updated.built.version
    assert indexes.gc("chat", 0).removed == [before]


def test_facts_tell_of_which_logs_a_version_is_made(home: Settings) -> None:
    versions = places_of(home).indexes
    assert stored_artefacts(home, "index").facts(versions.folder("chat", versions.current("chat") or "")).logs == [
        "chat"
    ]


def test_vectors_that_an_index_needs_stay(home: Settings) -> None:
    vectors, stored = stored_artefacts(home, "vectors"), artefact_stores(home)["vectors"]
    (name,) = stored.names()
    (needed,) = stored.versions(name)
    with refusing(Conflict, f"{name}@{needed}"):
        vectors.remove(name)
    assert vectors.gc(name, 0).removed == []
    assert stored.versions(name) == [needed]
    with refusing(NotFound, "'other'"):
        vectors.remove("other")


def test_an_encoder_that_an_index_needs_stays(home: Settings, tmp_path: Path) -> None:
    encoders, stored = stored_artefacts(home, "encoder"), artefact_stores(home)["encoder"]
    places = places_of(home)
    import_encoder(stored, home.cache, "small", write_encoder(tmp_path / "small"))
    build(places, "coded", vectors=None, encoder="small", check_queries=0)
    (needed,) = stored.versions("small")
    with refusing(Conflict, f"small@{needed}"):
        encoders.remove("small")
    assert encoders.gc("small", 0).removed == []
    places.indexes.delete("coded")
    assert encoders.remove("small") == [needed]


def frozen_set(settings: Settings, provenance: dict[str, str]) -> str:
    """A frozen set of one item whose references were made so."""
    item = Item(id="d1", turns=("hi",), references=(Reference(text="hello", source=Origin.GOLD),))
    description = SetDescription(purpose=Purpose.TEST, provenance=provenance)
    return ReferenceSets(settings.reference_sets).freeze([item], description).set.id


@pytest.mark.parametrize("kind", ["index", "rater"])
def test_versions_that_frozen_sets_name_stay(tmp_path: Path, kind: str) -> None:
    settings = Settings(home=tmp_path / "home")
    versions = artefact_stores(settings)[kind]
    for text in "abcd":
        versions.publish("chat", versions.add("chat", staged_version(tmp_path / text)))
    oldest, second, third, newest = versions.versions("chat")
    sets = [frozen_set(settings, {"k": k, kind: f"chat@{oldest}#0123456789ab"}) for k in ("2", "3")]
    withdrawn = frozen_set(settings, {kind: f"chat@{second}#0123456789ab"})
    ReferenceSets(settings.reference_sets).withdraw(withdrawn, "wrong", None)
    frozen_set(settings, {kind: f"other@{third}#0123456789ab"})
    on_newest = frozen_set(settings, {kind: f"chat@{newest}#0123456789ab"})
    stored, pins = stored_artefacts(settings, kind), pinned_versions(settings, kind, "chat")
    assert pins == {oldest: sorted(sets), newest: [on_newest]}
    old = stored.gc("chat", 1, pins)
    assert old.as_json() == {"removed": [second, third], "pinned": {oldest: sorted(sets)}, "needed_by_judges": {}}
    assert versions.versions("chat") == [oldest, newest]
    assert stored.gc("chat", 2, pins).as_json() == {"removed": [], "pinned": {}, "needed_by_judges": {}}
    assert stored.gc("chat", 1).as_json() == {"removed": [oldest], "pinned": {}, "needed_by_judges": {}}


def test_the_command_says_for_which_sets_versions_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(home=tmp_path / "home")
    versions = artefact_stores(settings)["rater"]
    for text in "ab":
        versions.publish("chat", versions.add("chat", staged_version(tmp_path / text)))
    oldest = versions.versions("chat")[0]
    set_id = frozen_set(settings, {"rater": f"chat@{oldest}#0123456789ab"})
    command = ["--home", str(settings.home), "artefacts", "gc", "rater", "chat", "--keep", "1"]
    for more, expected in (
        ((), f"rater chat: 0 versions removed\n  {oldest} stays for the frozen set {set_id}\n"),
        (
            ("--json",),
            {"kind": "rater", "name": "chat", "removed": [], "pinned": {oldest: [set_id]}, "needed_by_judges": {}},
        ),
        (("--even-pinned",), f"rater chat: 1 version removed: {oldest}\n"),
    ):
        assert main([*command, *more]) == 0
        printed = capsys.readouterr().out
        assert (json.loads(printed) if isinstance(expected, dict) else printed) == expected


def test_a_damaged_set_pins_nothing(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    set_id = frozen_set(settings, {"rater": "base@2026-11-20.1#0123456789ab"})
    assert pinned_versions(settings, "rater", "base") == {"2026-11-20.1": [set_id]}
    assert pinned_versions(settings, "vectors", "base") == pinned_versions(settings, "rater", "other") == {}
    ReferenceSets(settings.reference_sets).path_of(set_id).write_bytes(b"no archive")
    assert pinned_versions(settings, "rater", "base") == {}


def test_raters_depend_on_nothing(home: Settings) -> None:
    raters, stored = stored_artefacts(home, "rater"), artefact_stores(home)["rater"]
    first, second = stored.versions("base")
    raters.publish("base", second)
    assert raters.rollback("base") == first == stored.current("base")
    raters.require_publishable("base", second)
    assert raters.gc("base", 0).removed == [second]
    assert raters.remove("base") == [first]
    assert stored.names() == []


def test_a_rule_is_asked_with_the_version_and_can_refuse_it(tmp_path: Path) -> None:
    versions, asked = Versions(tmp_path / "things", "rater", lambda: date(2026, 11, 20)), list[tuple[str, str]]()
    for text in "ab":
        folder = tmp_path / text
        folder.mkdir()
        (folder / "file").write_text(text)
        write_json(folder / "manifest.json", {"files": describe_files(folder, ["file"])})
        versions.publish("base", versions.add("base", folder))

    def refuse(name: str, version: str) -> None:
        asked.append((name, version))
        raise Conflict("not this one", remedy="another one")

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
