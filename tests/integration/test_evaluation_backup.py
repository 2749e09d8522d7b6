"""Backups of uploads and evaluations: each whole or absent, checked by hash, and jobs that go on elsewhere."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from backups import Meanwhile, backed_up, content, problems, restored, stored_evaluation, uploaded
from serving import client_of, migrated

from refaug.core.files import read_json, with_checksum, write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.service.backup.backup_files import MANIFEST
from refaug.service.database.database import Database
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.evaluations.notes import NoteStore
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

TABLE = b"id,utterance,reference,reply:old,reply:new\n" + b"".join(
    b"%d,how are you %d,i am fine %d,i am %d,i am fine %d thanks\n" % (n, n, n, n, n) for n in range(8)
)
FOLDERS = ("uploads", "evaluations")


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return migrated(Settings(home=tmp_path / "home"))


def kept(home: Settings) -> dict[str, dict[str, bytes]]:
    """The files of uploads and evaluations, by their folders."""
    return {name: content(home.home / name) for name in FOLDERS}


def expire(manifest: Path) -> None:
    write_json(manifest, with_checksum({**read_json(manifest), "expires": "2020-01-01T00:00:00.000000Z"}))


def test_what_has_expired_is_not_in_a_backup_and_the_rest_is(home: Settings, tmp_path: Path) -> None:
    upload, old_upload = (uploaded(home, TABLE) for _ in range(2))
    evaluation, old_evaluation = (stored_evaluation(home) for _ in range(2))
    expire(home.home / "uploads" / old_upload / "upload.json")
    expire(home.home / "evaluations" / old_evaluation / "evaluation.json")
    (home.home / "evaluations" / ".half.part").mkdir()
    (home.home / "evaluations" / ".half.part" / "scores.json").write_bytes(b"half")
    elsewhere = restored_from(home, tmp_path)
    before = kept(home)
    assert kept(elsewhere) == {
        "uploads": {name: text for name, text in before["uploads"].items() if name.startswith(upload)},
        "evaluations": {name: text for name, text in before["evaluations"].items() if name.startswith(evaluation)},
    }
    assert [len(files) for files in kept(elsewhere).values()] == [2, 3]


def restored_from(home: Settings, tmp_path: Path, progress: Silent | None = None) -> Settings:
    name = f"b{sum(path.name.startswith('b') for path in tmp_path.iterdir())}"
    backed_up(home, tmp_path / name, progress=progress)
    return restored(tmp_path / name, tmp_path / f"of-{name}")


def test_what_is_removed_meanwhile_is_whole_or_absent(home: Settings, tmp_path: Path) -> None:
    for count in range(1, 8):
        upload, evaluation = uploaded(home, TABLE), stored_evaluation(home)

        def remove(upload: str = upload, evaluation: str = evaluation) -> None:
            UploadStore(home, ServeSettings()).remove(upload)
            EvaluationStore(home, ServeSettings()).remove(evaluation)

        elsewhere = restored_from(home, tmp_path, Meanwhile(count, remove))
        names = {folder: {name.split("/")[1] for name in files} for folder, files in kept(elsewhere).items()}
        assert names["uploads"] in ({"upload.json", "content.csv"}, set())
        assert names["evaluations"] in ({"evaluation.json", "scores.json", "scores.tex"}, set())
        assert EvaluationStore(elsewhere, ServeSettings()).unreadable() == []
        if kept(home)["uploads"]:  # it was removed after the last piece
            remove()


def test_altered_files_are_named(home: Settings, tmp_path: Path) -> None:
    upload, evaluation, other = uploaded(home, TABLE), stored_evaluation(home), stored_evaluation(home)
    table = home.home / "uploads" / upload / "content.csv"
    table.write_bytes(TABLE[:-1] + b"!")
    (home.home / "evaluations" / evaluation / "scores.tex").unlink()
    manifest = home.home / "evaluations" / other / "evaluation.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"ann"', b'"eve"'))
    report = backed_up(home, tmp_path / "backup")
    assert [text.split()[0] for text in report.damaged] == [
        str(table),
        str(home.home / "evaluations" / evaluation / "scores.tex"),
        str(manifest),
    ]
    assert [text.split(" is ")[0] for text in problems(home)] == [
        f"uploads: {table}",
        f"evaluations: {manifest}",
        f"evaluations: {home.home / 'evaluations' / evaluation / 'scores.tex'}",
    ]
    named = orjson.loads((tmp_path / "backup" / MANIFEST).read_bytes())["files"]
    assert not [name for name in named if other in name]


def test_an_evaluation_that_waits_is_done_elsewhere_with_the_same_scores(home: Settings, tmp_path: Path) -> None:
    order: dict[str, Any] = {"kind": "score", "items": f"upload:{uploaded(home, TABLE)}", "metrics": ["chrf"]}
    with client_of(home, ready=False) as client:
        asked = client.post("/v1/evaluations", json=order)
        assert asked.status_code == 202, asked.text
        elsewhere = restored_from(home, tmp_path)
        assert run_worker(home, ServeSettings(), once=True) == 0
        name = asked.json()["id"]
        client.put(f"/v1/evaluations/{name}/notes/3", json={"text": "why?"})
        expected = client.get(f"/v1/evaluations/{name}/download").content
        page = client.get(f"/v1/evaluations/{name}").json()["summary"]
    later = restored_from(home, tmp_path)
    assert run_worker(elsewhere, ServeSettings(), once=True) == 0
    for place in (elsewhere, later):
        with client_of(place, ready=False) as client:
            assert client.get(f"/v1/evaluations/{name}").json()["summary"] == page
            assert client.get(f"/v1/evaluations/{name}/download").content == expected
    with closing(Database.open(later)) as database:
        assert [(note.place, note.text) for note in NoteStore(database).all(name)] == [(3, "why?")]
