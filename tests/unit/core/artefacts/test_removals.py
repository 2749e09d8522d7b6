"""What is removed leaves its manifest, with when and why, and says so when it is asked for."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, describe_files
from refaug.core.artefacts.removals import REMOVED, read_removal
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt, NotFound
from refaug.core.files import read_json, write_json
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    """Two versions of `chat`, the second one published."""
    artefacts = Versions(tmp_path / "indexes", "index", lambda: date(2026, 11, 20))
    for text in "ab":
        staged = tmp_path / text
        staged.mkdir()
        (staged / "content").write_text(text)
        write_json(staged / MANIFEST, {"kind": "index", "files": describe_files(staged, ["content"]), "id": text})
        artefacts.publish("chat", artefacts.add("chat", staged))
    return artefacts


def test_a_version_that_gc_removes_leaves_its_manifest(versions: Versions) -> None:
    manifest = read_json(versions.folder("chat", "2026-11-20.1") / MANIFEST)
    assert versions.gc("chat", keep=1) == ["2026-11-20.1"]
    removal = read_removal(versions.root, "chat", "2026-11-20.1")
    assert removal is not None
    assert (removal.manifest, removal.purpose) == (manifest, "old versions were removed")
    assert datetime.fromisoformat(removal.at).tzinfo is not None
    with refusing(NotFound, "chat@2026-11-20.1", removal.at[:10]) as refused:
        versions.resolve("chat@2026-11-20.1")
    assert "2026-11-20.2" in refused.value.remedy
    assert read_removal(versions.root, "chat", "2026-11-20.2") is None
    assert versions.names() == ["chat"]


@pytest.mark.parametrize("kind", ["index", "rater", "ruber", "vectors"])
def test_old_versions_of_every_kind_leave_their_manifest(tmp_path: Path, kind: str) -> None:
    settings = Settings(home=tmp_path / "home")
    versions = artefact_stores(settings)[kind]
    for text in "ab":
        staged = tmp_path / text
        staged.mkdir()
        (staged / "content").write_text(text)
        files = describe_files(staged, ["content"])
        write_json(staged / MANIFEST, {"kind": kind, "format_version": 1, "files": files, "sha256": text})
        versions.publish("chat", versions.add("chat", staged))
    oldest, _ = versions.versions("chat")
    manifest = read_json(versions.folder("chat", oldest) / MANIFEST)
    assert stored_artefacts(settings, kind).gc("chat", keep=1).removed == [oldest]
    with refusing(NotFound, kind, oldest):
        versions.resolve(f"chat@{oldest}")
    removal = read_removal(versions.root, "chat", oldest)
    assert removal is not None
    assert removal.manifest == manifest


def test_all_versions_of_a_removed_artefact_leave_theirs(versions: Versions) -> None:
    versions.delete("chat")
    for version in ("2026-11-20.1", "2026-11-20.2"):
        with refusing(NotFound):
            versions.resolve(f"chat@{version}")
    with refusing(NotFound, "chat"):
        versions.resolve("chat@2026-11-20.3")
    assert versions.names() == []


def test_a_damaged_note_is_corrupt(versions: Versions) -> None:
    versions.gc("chat", keep=1)
    write_json(versions.root / REMOVED / "chat@2026-11-20.1.json", {"at": "now"})
    with refusing(Corrupt):
        read_removal(versions.root, "chat", "2026-11-20.1")


def test_a_version_with_a_damaged_manifest_is_removed_without_a_note(versions: Versions) -> None:
    (versions.folder("chat", "2026-11-20.1") / MANIFEST).write_text("no JSON")
    assert versions.gc("chat", keep=1) == ["2026-11-20.1"]
    assert read_removal(versions.root, "chat", "2026-11-20.1") is None
