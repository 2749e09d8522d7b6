"""Backup and restore: what is in the home is in the copy, whatever changes meanwhile, and nothing is overwritten."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from backups import LOG, Meanwhile, backed_up, content, full_home, problems, restored, rows
from disks import small_disk
from refusals import refusing
from told import Told

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.removals import REMOVED, read_removal
from refaug.core.errors import Conflict, Corrupt, Locked, NotFound, StorageFull
from refaug.core.home import RESTORING, Settings
from refaug.core.progress import Silent
from refaug.logs.deletion import delete, delete_log
from refaug.logs.store import StoredLog
from refaug.operations.logs import CleaningOptions
from refaug.service.backup.backing_up import back_up
from refaug.service.backup.backup_files import MANIFEST, ROWS
from refaug.service.database.database import Database
from refaug.service.jobs.inbox import Inbox
from refaug.service.jobs.kinds.ingesting import ingest_posted
from refaug.service.jobs.kinds.job_context import JobContext, TimedProgress
from refaug.service.keys import KeyStore
from refaug.service.process.server import lock_home
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

pytest_plugins = ("databases",)


@pytest.fixture(scope="module")
def home():
    with full_home() as settings:
        yield settings


@pytest.fixture
def own_home(home: Settings, tmp_path: Path) -> Settings:
    """A copy of the home that a test may change."""
    shutil.copytree(home.home, tmp_path / "own")
    return Settings(home=tmp_path / "own")


@pytest.fixture
def backup(home: Settings, tmp_path: Path) -> Path:
    backed_up(home, tmp_path / "backup")
    return tmp_path / "backup"


def files_of(backup: Path) -> dict[str, dict[str, object]]:
    files: dict[str, dict[str, object]] = orjson.loads((backup / MANIFEST).read_bytes())["files"]
    return files


class Restless(Silent):
    """Progress beside which a log is written to again and again."""

    def __init__(self, manifest: Path) -> None:
        self.manifest, self.changes = manifest, 0

    def advance(self, _amount: int) -> None:
        """Change the manifest whenever something is copied."""
        self.changes += 1
        content = orjson.loads(self.manifest.read_bytes())
        self.manifest.write_bytes(orjson.dumps({**content, "updated": f"2026-11-20T00:00:{self.changes:02}"}))


def test_a_log_that_never_rests_ends_the_backup_with_a_conflict(own_home: Settings, tmp_path: Path) -> None:
    posted = own_home.home / "inbox" / ".posted" / LOG
    posted.mkdir(parents=True)
    (posted / "1.jsonl").write_text('{"turns": []}\n')  # copied at each attempt
    progress = Restless(own_home.logs / LOG / "manifest.json")
    with refusing(Conflict, LOG):
        backed_up(own_home, tmp_path / "backup", progress=progress)
    assert progress.changes >= 20
    assert not (tmp_path / "backup").exists()


def test_links_to_folders_and_names_that_are_no_utf8_are_left_out(own_home: Settings, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("of another folder")
    (own_home.home / "inbox" / "link").symlink_to(elsewhere)
    (own_home.home / "inbox" / os.fsdecode(b"caf\xe9.csv")).write_text("a,b\n")
    told = Told()
    backed_up(own_home, tmp_path / "backup", progress=told)
    names = [name for name in files_of(tmp_path / "backup") if name.startswith("home/inbox/")]
    assert sorted(names) == ["home/inbox/.posted/chat/request.jsonl", "home/inbox/source.csv"]
    [warning] = told.warnings
    assert "its name is not UTF-8" in warning


# ── what is in a backup ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_restored_home_elsewhere_has_every_file_and_row(home: Settings, tmp_path: Path) -> None:
    report = backed_up(home, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    elsewhere = restored(tmp_path / "backup", tmp_path / "other" / "home")
    assert content(elsewhere.home) == content(home.home)
    assert rows(elsewhere) == rows(home)
    assert report.rows == len(rows(home)) >= 1
    assert report.files == len(files_of(tmp_path / "backup")) == len(content(home.home)) + 1
    assert sorted(path.name for path in elsewhere.home.iterdir() if path.name.startswith(".")) == []
    assert problems(elsewhere) == []


def test_no_secret_cache_or_lock_is_in_a_backup(home: Settings, backup: Path) -> None:
    names = [name for name in files_of(backup) if name.endswith((".aside", ".lock", ".adding", ".db", ".nbc"))]
    assert names == []
    keys = [orjson.loads(line)["row"] for line in rows(home) if orjson.loads(line)["table"] == "keys"]
    assert {len(key["hash"]) for key in keys} == {64}
    assert "refaug_" not in (backup / ROWS).read_text()


def test_what_is_known_of_removed_versions_is_in_a_backup(own_home: Settings, tmp_path: Path) -> None:
    indexes = artefact_stores(own_home)["index"]
    oldest, *_, newest = indexes.versions("demo")
    removed = indexes.gc("demo", keep=1)
    assert removed[0] == oldest
    removal = read_removal(indexes.root, "demo", oldest)
    assert removal is not None
    (indexes.root / REMOVED / f".demo@{newest}.json.half.aside").write_text("half")
    backed_up(own_home, tmp_path / "backup")
    elsewhere = artefact_stores(restored(tmp_path / "backup", tmp_path / "other"))["index"]
    assert read_removal(elsewhere.root, "demo", oldest) == removal
    notes = [path.name for path in sorted((elsewhere.root / REMOVED).iterdir())]
    assert notes == [f"demo@{version}.json" for version in removed]
    with pytest.raises(NotFound) as refused:
        elsewhere.resolve(f"demo@{oldest}")
    assert refused.value.message == f"index demo@{oldest} was removed at {removal.at}: old versions were removed"


def test_versions_share_files_in_the_backup_and_after_it(home: Settings, backup: Path, tmp_path: Path) -> None:
    elsewhere = restored(backup, tmp_path / "other")
    name = "indexes/demo/{}/segments/0/utterance_key.npy"
    for folder in (home.home, backup / "home", elsewhere.home):
        first, second = (folder / name.format(version) for version in ("2026-01-02.1", "2026-01-02.2"))
        assert first.samefile(second)
    assert not (backup / "home" / name.format("2026-01-02.1")).samefile(elsewhere.home / name.format("2026-01-02.1"))


def test_files_that_are_the_same_are_shared_with_an_earlier_backup(own_home: Settings, tmp_path: Path) -> None:
    first = backed_up(own_home, tmp_path / "1")
    (own_home.home / "inbox" / "source.csv").write_text("c,d\n")
    (own_home.home / "inbox" / "later.csv").write_text("e,f\n")
    victim = tmp_path / "1" / "home" / "vectors" / "demo" / "2026-01-02.1" / "words.txt"
    victim.write_bytes(victim.read_bytes()[::-1])
    second = backed_up(own_home, tmp_path / "2", earlier=tmp_path / "1")
    assert (first.shared, first.files) == (0, second.files - 1)
    source, later, words = "home/inbox/source.csv", "home/inbox/later.csv", "home/vectors/demo/2026-01-02.1/words.txt"
    before = files_of(tmp_path / "1")
    own = {
        name
        for name in files_of(tmp_path / "2")
        if name not in before or not (tmp_path / "2" / name).samefile(tmp_path / "1" / name)
    }
    assert own >= {source, later, words, ROWS}
    assert not [name for name in own if name.startswith("home/indexes/") and not name.endswith("CURRENT")]
    shutil.rmtree(tmp_path / "1")
    assert content(restored(tmp_path / "2", tmp_path / "other").home) == content(own_home.home)


def test_files_that_are_damaged_in_the_home_are_named(own_home: Settings, tmp_path: Path, capsys) -> None:
    victim = own_home.home / "raters" / "demo" / "2026-01-02.1" / "weights.safetensors"
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    part = own_home.logs / LOG / "part-00002.parquet"
    part.unlink()
    code = main(["--home", str(own_home.home), "--quiet", "admin", "backup", str(tmp_path / "backup"), "--json"])
    out, err = capsys.readouterr()
    assert code == 3
    assert [text.split()[0] for text in orjson.loads(out)["damaged"]] == [str(part), str(victim)]
    assert str(victim) in err
    elsewhere = restored(tmp_path / "backup", tmp_path / "other")
    assert [problem.split(":")[0] for problem in problems(elsewhere)] == ["log demo", "rater demo@2026-01-02.1"]


@pytest.mark.slow
def test_the_commands_of_the_page_back_up_twice_and_restore(own_home: Settings, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page[page.index("## Backup and restore") :], re.MULTILINE | re.DOTALL)
    (tmp_path / "backups").mkdir()
    places = {"/srv/refaug": own_home.home, "/mnt/backups": tmp_path / "backups", "/srv/elsewhere": tmp_path / "other"}
    nightly, restoring = (re.sub("|".join(places), lambda match: str(places[match[0]]), block) for block in blocks[:2])
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "REFAUG_DATABASE": ""}
    for script in (nightly, nightly.replace("date -u +%F", "echo tomorrow"), restoring.split("refaug admin doctor")[0]):
        done = subprocess.run(["sh", "-c", script], env=tools, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "backups" / "latest").readlink() == Path("tomorrow")
    assert content(tmp_path / "other") == content(own_home.home)


# ── databases ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.machine
@pytest.mark.parametrize("target", ["", "postgresql"])
def test_rows_move_between_sqlite_and_postgresql(home: Settings, tmp_path: Path, cluster, target: str) -> None:
    cluster.ask(f"CREATE DATABASE moved{len(target)}")
    cluster.ask(f"CREATE DATABASE back{len(target)}")
    url = cluster.url(f"moved{len(target)}")
    backed_up(home, tmp_path / "first")
    middle = restored(tmp_path / "first", tmp_path / "middle", url)
    assert rows(middle, url) == rows(home)
    assert not (middle.home / "refaug.db").exists()
    backed_up(middle, tmp_path / "second", url=url)
    end = cluster.url(f"back{len(target)}") if target else ""
    assert rows(restored(tmp_path / "second", tmp_path / "end", end), end) == rows(home)


@pytest.mark.machine
def test_a_database_with_other_rows_is_left_alone(home: Settings, backup: Path, tmp_path: Path, cluster) -> None:
    cluster.ask("CREATE DATABASE used")
    restored(backup, tmp_path / "first", cluster.url("used"))
    assert rows(restored(backup, tmp_path / "same", cluster.url("used")), cluster.url("used")) == rows(home)
    cluster.ask("CREATE DATABASE other")
    with closing(Database.open(home, cluster.url("other"))) as database:
        database.migrate()
        KeyStore(database).create("eve", scopes=[Scope.READ])
    before = rows(home, cluster.url("other"))
    with refusing(Conflict, "database"):
        restored(backup, tmp_path / "second", cluster.url("other"))
    assert rows(home, cluster.url("other")) == before


def test_a_home_without_a_database_is_backed_up_and_none_is_made(own_home: Settings, tmp_path: Path) -> None:
    (own_home.home / "refaug.db").unlink()
    assert main(["--home", str(own_home.home), "--quiet", "admin", "backup", str(tmp_path / "backup")]) == 0
    assert not (own_home.home / "refaug.db").exists()
    assert rows(restored(tmp_path / "backup", tmp_path / "other")) == []


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_overwritten(home: Settings, backup: Path, tmp_path: Path) -> None:
    before = content(backup)
    with refusing(Conflict):
        backed_up(home, backup)
    with refusing(Conflict):
        backed_up(home, home.home / "backup")
    assert content(backup) == before
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    with refusing(Conflict):
        restored(backup, full)
    assert content(full) == {"mine": b"mine"}


def test_an_altered_or_missing_file_is_named_and_nothing_restored(
    home: Settings, backup: Path, tmp_path: Path, capsys
) -> None:
    other = Settings(home=tmp_path / "other")
    with refusing(NotFound):
        restored(tmp_path, other.home)
    victim = next((backup / "home" / "indexes").rglob("manifest.json"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-2] + b" \n")
    with refusing(Corrupt, victim):
        restored(backup, other.home)
    victim.unlink()
    with refusing(Corrupt, victim):
        restored(backup, other.home)
    assert [path.name for path in other.home.iterdir()] == [RESTORING]
    with refusing(Conflict), lock_home(other, ServeSettings()):
        pass
    assert main(["--home", str(other.home), "artefacts", "list", "index"]) == 4
    assert "half restored" in capsys.readouterr().err
    victim.write_bytes(whole)
    restored(backup, other.home)
    assert content(other.home) == content(home.home)


@pytest.mark.parametrize("name", ["home/../../out", "/etc/passwd", "home", "home//a", "database.db"])
def test_a_path_that_leads_out_of_the_home_is_refused(backup: Path, tmp_path: Path, name: str) -> None:
    manifest = orjson.loads((backup / MANIFEST).read_bytes())
    manifest["files"][name] = {"size": 0, "sha256": "0"}
    (backup / MANIFEST).write_bytes(orjson.dumps(manifest))
    with refusing(Corrupt):
        restored(backup, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_other_tables_are_refused_with_the_version_that_has_them(backup: Path, tmp_path: Path) -> None:
    manifest = orjson.loads((backup / MANIFEST).read_bytes())
    (backup / MANIFEST).write_bytes(orjson.dumps({**manifest, "tables": {"core": 99}, "refaug": "0.0.9"}))
    with refusing(Conflict, "0.0.9", 99):
        restored(backup, tmp_path / "other")


def test_two_backups_into_one_folder_at_once_are_refused(home: Settings, tmp_path: Path) -> None:
    def again() -> None:
        with pytest.raises(Locked):
            backed_up(home, tmp_path / "backup")

    backed_up(home, tmp_path / "backup", progress=Meanwhile(3, again))
    assert content(restored(tmp_path / "backup", tmp_path / "other").home) == content(home.home)


# ── what changes meanwhile ────────────────────────────────────────────────────────────────────────────────────────────


class Pieces(Silent):
    """Progress that counts the pieces that are copied."""

    count = 0

    def advance(self, amount: int) -> None:
        self.count += 1


def moments(home: Settings, folder: Path) -> range:
    """Five moments of a backup, evenly spread, the first one early."""
    pieces = Pieces()
    backed_up(home, folder / "counted", progress=pieces)
    return range(1, pieces.count, max(1, pieces.count // 5))


@pytest.mark.slow
def test_versions_that_come_and_go_meanwhile_are_whole(own_home: Settings, tmp_path: Path) -> None:
    indexes = artefact_stores(own_home)["index"]

    def publish_and_remove() -> None:
        indexes.publish("demo", indexes.versions("demo")[-2])
        indexes.gc("demo", 0)

    for count in moments(own_home, tmp_path):
        shutil.rmtree(own_home.home / "indexes")
        shutil.copytree(tmp_path / "counted" / "home" / "indexes", own_home.home / "indexes")
        backed_up(own_home, tmp_path / f"b{count}", progress=Meanwhile(count, publish_and_remove))
        other = restored(tmp_path / f"b{count}", tmp_path / f"r{count}")
        assert problems(other) == []
        assert artefact_stores(other)["index"].current("demo") in {"2026-01-02.2", "2026-01-02.3"}


@pytest.mark.slow
@pytest.mark.faults
def test_a_log_that_is_erased_from_meanwhile_is_as_before_or_after(own_home: Settings, tmp_path: Path) -> None:
    names = sorted({pair.dialogue for pair in StoredLog.open(own_home.logs, LOG).pairs()})
    states = [content(own_home.logs)]
    for count, name in zip(moments(own_home, tmp_path), names, strict=False):
        erase = Meanwhile(count, lambda name=name: delete(own_home.logs, LOG, dialogues=[name]))
        backed_up(own_home, tmp_path / f"b{count}", progress=erase)
        states.append(content(own_home.logs))
        other = restored(tmp_path / f"b{count}", tmp_path / f"r{count}")
        assert problems(other) == []
        assert content(other.logs) in states[-2:]
    assert len({len(state) for state in states}) == 1


@pytest.mark.slow
@pytest.mark.faults
def test_a_log_that_is_deleted_meanwhile_is_there_whole_or_not(own_home: Settings, tmp_path: Path) -> None:
    before = content(own_home.logs)
    without = {name: file for name, file in before.items() if not name.startswith(f"{LOG}/")}
    for count in moments(own_home, tmp_path):
        shutil.rmtree(own_home.logs, ignore_errors=True)
        shutil.copytree(tmp_path / "counted" / "home" / "logs", own_home.logs)
        gone = Meanwhile(count, lambda: delete_log(own_home.logs, LOG))
        backed_up(own_home, tmp_path / f"b{count}", progress=gone)
        other = restored(tmp_path / f"b{count}", tmp_path / f"r{count}")
        assert problems(other) == []
        assert content(other.logs) in (before, without)


def ingest_all(home: Settings) -> None:
    context = JobContext.of(home, ServeSettings(), Silent(), "j1")
    assert isinstance(context.progress, TimedProgress)
    ingest_posted(LOG, CleaningOptions(), 512 << 20, 0, context)


@pytest.mark.slow
def test_a_dialogue_that_is_ingested_meanwhile_is_there_once(own_home: Settings, tmp_path: Path) -> None:
    def post(name: str) -> None:
        dialogue = {"id": name, "turns": [f"who sells {name} here", f"the mill has {name}"]}
        Inbox(own_home, ServeSettings()).add(LOG, [dialogue])

    def post_and_ingest() -> None:
        post(f"late{count}")
        ingest_all(own_home)

    for count in moments(own_home, tmp_path):
        post(f"early{count}")
        backed_up(own_home, tmp_path / f"b{count}", progress=Meanwhile(count, post_and_ingest))
        other = restored(tmp_path / f"b{count}", tmp_path / f"r{count}")
        ingest_all(other)
        names = [pair.dialogue for pair in StoredLog.open(other.logs, LOG).pairs()]
        assert names.count(f"early{count}") == 1
        assert names.count(f"late{count}") in {0, 1}
        assert problems(other) == []


# ── disks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.machine
def test_a_full_disk_is_told_and_leaves_nothing_that_looks_whole(home: Settings, backup: Path, tmp_path: Path) -> None:
    with small_disk("size=400k") as disk:
        for command in (lambda: backed_up(home, disk / "b"), lambda: restored(backup, disk / "r")):
            with pytest.raises(StorageFull):
                command()
        assert sorted(path.name for path in disk.iterdir()) == [".b.partial", "r"]
        with refusing(NotFound):
            restored(disk / ".b.partial", tmp_path / "other")


def test_a_disk_without_links_gets_copies(home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_paths: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", refused)
    backed_up(home, tmp_path / "1")
    assert backed_up(home, tmp_path / "2", earlier=tmp_path / "1").shared == 0
    assert content(restored(tmp_path / "2", tmp_path / "other").home) == content(home.home)


def test_the_folder_may_be_filled_meanwhile_and_is_left_alone(home: Settings, tmp_path: Path) -> None:
    def fill() -> None:
        (tmp_path / "backup").mkdir()
        (tmp_path / "backup" / "mine").write_text("mine")

    with closing(Database.open(home)) as database, refusing(Conflict):
        back_up(home, database, tmp_path / "backup", Meanwhile(5, fill))
    assert content(tmp_path / "backup") == {"mine": b"mine"}
