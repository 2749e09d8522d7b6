"""Export and import as commands: what they say, what they end with, and an artefact going from one home to another."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import orjson
import pytest
import typer
from engines import home_with_versions
from refusals import refusing

from refaug.cli.artefacts.stores import export_command, import_command
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import describe_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt, NotFound, Usage
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.records import Item, Reference
from refaug.indexer.manifest import IndexManifest
from refaug.scoring.home.indexes import places_of
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.service.audit import AuditLog
from refaug.service.database.database import Database

app = typer.Typer()
app.command("export")(export_command)
app.command("import")(import_command)


class Home:
    """A home folder, and the two commands in it."""

    def __init__(self, path: Path, capsys) -> None:
        self.settings, self._capsys = Settings(home=path), capsys

    def __call__(self, *arguments) -> str:
        self._capsys.readouterr()
        app([*map(str, arguments)], standalone_mode=False, obj=self.settings)
        return self._capsys.readouterr().out

    def versions(self, kind: str) -> Versions:
        root = self.settings.home / "raters" if kind == "rater" else self.settings.home / "vectors"
        return Versions(root, kind, lambda: date(2026, 11, 20))

    def publish(self, kind: str, name: str, text: str) -> None:
        versions = self.versions(kind)
        stage = self.settings.home / "stage"
        (stage / "part").mkdir(parents=True)
        (stage / "part/words.txt").write_text(text)
        files = describe_files(stage, ["part/words.txt"])
        write_json(stage / "manifest.json", {"format_version": 1, "files": files})
        versions.publish(name, versions.add(name, stage))


@pytest.fixture
def here(tmp_path, capsys):
    home = Home(tmp_path / "here", capsys)
    home.publish("rater", "chat", "a\nb\n")
    home.publish("vectors", "words", "c\n")
    return home


@pytest.fixture
def there(tmp_path, capsys):
    return Home(tmp_path / "there", capsys)


@pytest.mark.parametrize(("kind", "name"), [("rater", "chat"), ("vectors", "words")])
def test_an_artefact_goes_from_one_home_to_another(here, there, tmp_path, kind, name):
    file = tmp_path / "moved.tar.zst"
    told = here("export", kind, f"{name}@2026-11-20.1", file)
    assert told.startswith(f"{kind} {name}@2026-11-20.1: 1 file, 0.0 MB\n  written to {file}, 0.0 MB\n")
    told = there("import", file)
    assert told.startswith(
        f"{kind} {name}@2026-11-20.1: 1 file, 0.0 MB\n  every hash as the manifest says; published\n"
    )
    folders = [home.versions(kind).folder(name, "2026-11-20.1") for home in (here, there)]
    assert [(folder / "part/words.txt").read_text() for folder in folders] == [
        "a\nb\n" if name == "chat" else "c\n"
    ] * 2
    assert there.versions(kind).current(name) == "2026-11-20.1"
    assert "was there already; published" in there("import", file)


@pytest.mark.parametrize(
    ("kind", "facts", "warning"),
    [
        ("index", {"logs": [{"name": "chat"}, {"name": "empatheticdialogues"}]}, "texts of empatheticdialogues"),
        ("index", {"logs": [{"name": "topical-chat"}]}, ""),
        ("encoder", {"licence": "unknown"}, "its licence (unknown)"),
        ("encoder", {"licence": "mit"}, ""),
    ],
)
def test_a_licence_against_passing_on_is_said_before_an_export(tmp_path, capsys, kind, facts, warning):
    home = Settings(home=tmp_path / "home")
    versions, stage = artefact_stores(home)[kind], tmp_path / "stage"
    stage.mkdir()
    (stage / "words.txt").write_text("a\n")
    write_json(stage / "manifest.json", {"format_version": 1, "files": describe_files(stage, ["words.txt"]), **facts})
    versions.publish("made", versions.add("made", stage))
    app(["export", kind, "made", str(tmp_path / "made.tar.zst")], standalone_mode=False, obj=home)
    said = capsys.readouterr().err
    assert warning in said
    assert ("warning: " in said) == bool(warning)


def test_an_export_is_read_from_a_pipe(here, there, tmp_path):
    file = tmp_path / "moved.tar.zst"
    here("export", "rater", "chat", file)
    descriptor, writing_end = os.pipe()
    os.write(writing_end, file.read_bytes())
    os.close(writing_end)
    try:
        output = there("import", f"/dev/fd/{descriptor}")
    finally:
        os.close(descriptor)
    assert output.startswith("rater chat@2026-11-20.1: 1 file, 0.0 MB\n  every hash as the manifest says; published\n")
    assert (there.versions("rater").folder("chat", "2026-11-20.1") / "part/words.txt").read_text() == "a\nb\n"


def test_json_says_what_was_moved_and_what_became_of_it(here, there, tmp_path):
    file = tmp_path / "chat.tar.zst"
    facts = {"kind": "rater", "name": "chat", "version": "2026-11-20.1", "files": 1, "bytes": 4, "file": str(file)}
    exported = orjson.loads(here("export", "rater", "chat", file, "--json"))
    assert exported == {**facts, "file_bytes": file.stat().st_size}
    assert orjson.loads(there("import", file, "--json")) == {**facts, "was_there": False, "published": True}
    assert orjson.loads(there("import", file, "--json")) == {**facts, "was_there": True, "published": True}


def test_a_frozen_set_goes_from_one_home_to_another(here, there, tmp_path):
    sets = ReferenceSets(here.settings.reference_sets)
    item = Item(id="tea", references=(Reference(text="at the market"),))
    set_id = sets.freeze([item], SetDescription(purpose=Purpose.TEST)).set.id
    file = tmp_path / "set.tar.zst"
    size = sets.path_of(set_id).stat().st_size
    facts = {"kind": "set", "id": set_id, "purpose": "test", "items": 1, "references": 1, "bytes": size}
    exported = orjson.loads(here("export", "set", set_id[:6], file, "--json"))
    moved = {**facts, "withdrawn": False, "file": str(file)}
    assert exported == {**moved, "file_bytes": file.stat().st_size}
    assert orjson.loads(there("import", file, "--json")) == {**moved, "was_there": False, "newly_withdrawn": False}
    assert orjson.loads(there("import", file, "--json")) == {**moved, "was_there": True, "newly_withdrawn": False}
    assert there("import", file).splitlines()[1] == "  was there already"
    ReferenceSets(there.settings.reference_sets).open(set_id).verify()
    with refusing(Usage, "--publish"):
        there("import", file, "--publish")
    with refusing(NotFound):
        here("export", "set", "0123456789abcdef", file)


def test_importing_a_set_is_in_the_audit_log_with_its_withdrawal(here, there, tmp_path):
    sets, file = ReferenceSets(here.settings.reference_sets), tmp_path / "set.tar.zst"
    item = Item(id="tea", references=(Reference(text="at the market"),))
    set_id = sets.freeze([item], SetDescription(purpose=Purpose.TEST)).set.id
    database = Database.open(there.settings)
    try:
        database.migrate()
        here("export", "set", set_id, file)
        there("import", file)
        sets.withdraw(set_id, "a typing error")
        here("export", "set", set_id, file)
        assert there("import", file).splitlines()[1:] == [
            "  was there already",
            "  was in use here, and is withdrawn now",
        ]
        assert there("import", file).splitlines()[1:] == ["  was there already"]
        entries = list(AuditLog(database).entries())
    finally:
        database.close()
    imported = ("import", f"set {set_id}")
    assert [(entry.action, entry.subject, dict(entry.details)) for entry in entries] == [
        (*imported, {"new": True, "withdrawn": False}),
        (*imported, {"new": False, "withdrawn": True}),
        ("withdraw", f"set {set_id}", {}),
        (*imported, {"new": False, "withdrawn": True}),
    ]


def test_another_published_version_stays_until_publishing_is_asked_for(here, there, tmp_path):
    file = tmp_path / "chat.tar.zst"
    here("export", "rater", "chat", file)
    here.publish("rater", "chat", "new\n")
    assert here.versions("rater").current("chat") == "2026-11-20.2"
    assert "another version is published; --publish changes that" in here("import", file)
    assert here.versions("rater").current("chat") == "2026-11-20.2"
    assert "was there already; published" in here("import", file, "--publish")
    assert here.versions("rater").current("chat") == "2026-11-20.1"


def test_an_index_whose_hashes_fit_and_whose_numbers_do_not_is_refused(there, tmp_path, capsys):
    settings = home_with_versions(tmp_path, indexes=1, raters=0)
    places = places_of(settings)
    version = places.indexes.folder("chat", places.indexes.versions("chat")[0])
    starts = np.load(version / "segments/0/pair_start.npy")
    starts[1] = 1 << 40
    np.save(version / "segments/0/pair_start.npy", starts)
    manifest = IndexManifest.read(version)
    replace(manifest, files=describe_files(version, manifest.files)).write(version)
    Home(settings.home, capsys)("export", "index", "chat", tmp_path / "chat.tar.zst")
    shutil.copytree(settings.home / "vectors", there.settings.home / "vectors")
    with refusing(Corrupt, "pair_start.npy", "1,099,511,627,776"):
        there("import", tmp_path / "chat.tar.zst")
    assert places_of(there.settings).indexes.versions("chat") == []
