"""A home with something of everything, its backups, and what of it a backup must hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from goldens.golden_home import unpacked

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.service.backup.backing_up import BackupReport, back_up
from refaug.service.backup.restoring import restore
from refaug.service.database.database import Database
from refaug.service.database.row_ids import new_row_id
from refaug.service.database.table_rows import read_rows
from refaug.service.doctor import FindingState, examine
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.evaluations.notes import NoteStore
from refaug.service.evaluations.uploads import UploadFormat, UploadStore, new_upload_id
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

LOG = "demo"
_UNCOPIED = ("refaug.db", ".rights", "cache", "serving", "workers", ".restored")
_CHECKED = ("log ", "index ", "vectors ", "rater ", "ruber ", "set ", "database", "leftovers", "uploads", "evaluations")


@contextmanager
def full_home() -> Iterator[Settings]:
    """A home with artefacts of every kind, posted dialogues, a job and keys."""
    with unpacked() as path:
        settings = Settings(home=path / "home")
        posted = settings.home / "inbox" / ".posted" / "chat"
        posted.mkdir(parents=True)
        (posted / "request.jsonl").write_text('{"turns": []}\n')
        (posted / "half.aside").write_text("half")
        (settings.home / "inbox" / "source.csv").write_text("a,b\n")
        (settings.home / "cache").mkdir(exist_ok=True)
        (settings.home / "cache" / "loop.nbc").write_bytes(b"compiled")
        with closing(Database.open(settings)) as database:
            database.migrate()
            KeyStore(database).create("reader", scopes=[Scope.READ])
            NoteStore(database).put(stored_evaluation(settings), 3, text="why so low?", author="ann")
        uploaded(settings, b"id,reply\n1,hello\n")
        yield settings


def add_shards(home: Settings) -> None:
    """Build an index in shards with links between versions: some shards are compacted, a later one has masks."""
    places = Places.under(home.home)
    build_index(places, IndexOrder(name="shards", logs=(LOG,), vectors="demo", shards=40, check_queries=10), Silent())
    update_index(places, "shards", Silent(), erase=erased_keys(dialogues=["demo/000004"]))
    compacted = compact_index(places, "shards", Silent()).manifest
    assert compacted.trained_utterances  # some shards are those of the first version
    update_index(places, "shards", Silent(), erase=erased_keys(dialogues=["demo/000007"]))
    with places.indexes.open("shards") as held:
        assert any(info.superseded for info in IndexManifest.read(held.folder).segments)


def uploaded(home: Settings, table: bytes, **settings: int) -> str:
    """The id of an upload of this table."""
    store, name = UploadStore(home, ServeSettings(**settings)), "table.csv"
    with store.incoming(new_upload_id(), name, UploadFormat.AUTO) as incoming:
        incoming.write(table)
        return store.finish(incoming, name, UploadFormat.AUTO, "ann").id


def stored_evaluation(home: Settings, **settings: int) -> str:
    """The id of an evaluation with two files."""

    def write(folder: Path) -> None:
        (folder / "scores.json").write_bytes(b'{"scores": []}\n')
        (folder / "scores.tex").write_bytes(b"% nothing\n")

    counts = {"items": 0, "replies": 0, "bad": 0}
    about = {"kind": "score", "name": "", "owner": "ann", "files": ["table.csv"]}
    store = EvaluationStore(home, ServeSettings(**settings))
    return store.add(new_row_id(), **about, counts=counts, write=write).id


def content(home: Path) -> dict[str, bytes]:
    """The files that a backup keeps."""
    paths = (path for path in sorted(home.rglob("*")) if path.is_file())
    names = {path.relative_to(home).as_posix(): path for path in paths}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith(_UNCOPIED) and not name.endswith((".lock", ".aside", ".adding"))
    }


def rows(home: Settings, url: str = "") -> list[bytes]:
    """Every row of the database."""
    with closing(Database.open(home, url)) as database:
        return list(read_rows(database))


def backed_up(
    home: Settings, target: Path, *, progress: Silent | None = None, earlier: Path | None = None, url: str = ""
) -> BackupReport:
    """Write a backup."""
    with closing(Database.open(home, url)) as database:
        return back_up(home, database, target, progress or Silent(), earlier)


def restored(backup: Path, home: Path, url: str = "") -> Settings:
    """Restore a backup, and return the home."""
    restore(backup, Settings(home=home), url, Silent())
    return Settings(home=home)


def problems(home: Settings) -> list[str]:
    """What `refaug admin doctor --verify` says of artefacts and the database besides good things."""
    findings = examine(home, verify=True)
    return [
        f"{finding.what}: {finding.found}"
        for finding in findings
        if finding.what.startswith(_CHECKED) and finding.state is not FindingState.GOOD
    ]


class Meanwhile(Silent):
    """Progress that does something once, after so many pieces were copied."""

    def __init__(self, pieces, action) -> None:
        self.left, self.action = pieces, action

    def advance(self, amount: int) -> None:
        """Count a piece, and act at the last one."""
        self.left -= 1
        if self.left == 0:
            self.action()
