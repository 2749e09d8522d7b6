"""The doctor finds what is wrong, and says what to do about it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from refaug.cli import main as cli
from refaug.cli.server import doctor as doctor_command
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import describe_files
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.service.database.database import Database
from refaug.service.doctor import Finding, FindingState, examine
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobStore


def found(findings: list[Finding], what: str) -> list[Finding]:
    return [finding for finding in findings if finding.what == what]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    source = tmp_path / "talk.jsonl"
    source.write_text('{"id": "a", "turns": ["How are you?", "Well, thanks."]}\n', "utf-8")
    settings = Settings(home=tmp_path / "home")
    ingest(IngestOrder(sources=(str(source),), log="talk"), settings.logs, Silent())
    return settings


def test_a_sound_installation_has_nothing_wrong(home: Settings) -> None:
    findings = examine(home, verify=True)
    assert [finding for finding in findings if finding.state is FindingState.WRONG] == []
    assert [finding.found for finding in found(findings, "log talk")] == ["1 pair, every hash as the manifest says"]
    assert [finding.found for finding in found(findings, "package refaug")] == ["of this installation"]
    assert found(findings, "torch")[0].found.startswith("2.13.0")
    assert found(findings, "tokenizer mecab")[0].state is FindingState.GOOD


def test_a_flipped_byte_is_found_only_when_it_is_looked_for(home: Settings) -> None:
    part = home.logs / "talk" / "part-00001.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    assert found(examine(home), "log talk")[0].state is FindingState.GOOD
    wrong = found(examine(home, verify=True), "log talk")[0]
    assert (wrong.state, wrong.remedy) == (
        FindingState.WRONG,
        "restore the file from a backup, or ingest the sources again",
    )
    assert "part-00001.parquet has SHA-256" in wrong.found


WITHOUT_SERVICE = """
import sys
sys.modules["sqlalchemy"] = None
from refaug.cli import main
sys.exit(main.main(sys.argv[1:]))
"""


def test_an_installation_without_a_service_is_examined_and_sound(home: Settings) -> None:
    command = [sys.executable, "-c", WITHOUT_SERVICE, "--home", str(home.home), "admin", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert (findings["service"]["state"], findings["log talk"]["state"]) == ("note", "good")


def test_a_missing_part_makes_the_command_fail_with_its_name(home: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    (home.logs / "talk" / "part-00001.parquet").unlink()
    assert cli.main(["--home", str(home.home), "admin", "doctor", "--json"]) == 3
    out, err = capfd.readouterr()
    troubles = [finding for finding in json.loads(out)["findings"] if finding["state"] == "wrong"]
    assert [trouble["what"] for trouble in troubles] == ["log talk"]
    assert "part-00001.parquet is missing" in troubles[0]["found"]
    assert json.loads(err.splitlines()[-1])["error"]["code"] == "corrupt"


def test_findings_are_lines_and_remedies_stand_below_theirs(
    home: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    findings = [
        Finding(what="disk", state=FindingState.GOOD, found="9 GB"),
        Finding(what="torch", state=FindingState.NOTE, found="old", remedy="take the new one"),
        Finding(what="log talk", state=FindingState.WRONG, found="a part is missing", remedy="restore it"),
    ]
    monkeypatch.setattr(doctor_command, "examine", lambda _home, *, verify: findings if verify else findings[:2])
    assert cli.main(["--home", str(home.home), "admin", "doctor"]) == 0
    lines = [
        f"ok   {'disk':<22} 9 GB",
        f"note {'torch':<22} old",
        f"     {'':<22} → take the new one",
    ]
    assert capfd.readouterr().out.splitlines() == lines
    assert cli.main(["--home", str(home.home), "admin", "doctor", "--verify"]) == 3
    out, err = capfd.readouterr()
    assert out.splitlines() == [*lines, f"BAD  {'log talk':<22} a part is missing", f"     {'':<22} → restore it"]
    assert "1 thing to fix: log talk" in err


def test_what_a_stopped_run_left_is_named_with_the_remedy(home: Settings) -> None:
    (home.logs / "talk" / ".staging-0123").mkdir()
    (home.cache / "engine-4194305").mkdir(parents=True)  # above the largest process number there can be
    findings = examine(home)
    assert [finding.found for finding in found(findings, "cache")] == [
        f"scratch of a process that is gone: {home.cache / 'engine-4194305'}"
    ]
    stopped = [finding for finding in found(findings, "log talk") if finding.state is FindingState.NOTE]
    assert [finding.found for finding in stopped] == ["an ingest was stopped before its end"]


@pytest.mark.parametrize(
    ("files", "state"),
    [
        (["libgomp-e985bcbb.so.1.0.0", "libgomp.so.1"], FindingState.GOOD),
        (["libgomp.so.1", "libiomp5.so"], FindingState.NOTE),
    ],
)
def test_openmp_runtimes_of_two_kinds_are_noted(
    home: Settings, monkeypatch: pytest.MonkeyPatch, files: list[str], state: FindingState
) -> None:
    monkeypatch.setattr("refaug.service.doctor._openmp_runtimes", lambda _: files)
    (finding,) = (finding for finding in examine(home) if finding.what == "OpenMP")
    assert (finding.state, bool(finding.remedy)) == (state, state is FindingState.NOTE)
    assert ", ".join(files) in finding.found


def test_more_threads_than_cores_are_noted(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    assert found(examine(home), "threads")[0].state is FindingState.NOTE


def test_a_home_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    finding = found(examine(Settings(home=tmp_path / "later")), "REFAUG_HOME")[0]
    assert (finding.state, finding.remedy) == (FindingState.NOTE, "")
    assert not (tmp_path / "later").exists()


def published(settings: Settings, kind: str, name: str) -> Path:
    """A version of an artefact with two files; the folder it lies in."""
    stage = settings.home / "stage"
    (stage / "segments").mkdir(parents=True)
    for file, text in (("words.txt", "a"), ("segments/rows", "bc")):
        (stage / file).write_text(text, "utf-8")
    files = describe_files(stage, ["words.txt", "segments/rows"])
    write_json(stage / "manifest.json", {"kind": kind, "format_version": 1, "files": files})
    versions = artefact_stores(settings)[kind]
    version = versions.add(name, stage)
    versions.publish(name, version)
    return versions.folder(name, version)


def spec(folder: Path, kind: str) -> str:
    return f"{kind} {folder.parent.name}@{folder.name}"


@pytest.mark.parametrize("kind", ["index", "vectors"])
def test_every_version_is_looked_at_by_size_and_on_demand_by_hash(tmp_path: Path, kind: str) -> None:
    settings = Settings(home=tmp_path / "home")
    old, new = published(settings, kind, "chat"), published(settings, kind, "chat")
    for verify, checked in ((False, "every size"), (True, "every hash")):
        findings = [finding for finding in examine(settings, verify=verify) if "chat" in finding.what]
        assert [(finding.what, finding.state, finding.found) for finding in findings] == [
            (spec(folder, kind), FindingState.GOOD, f"2 files, {checked} as the manifest says") for folder in (old, new)
        ]
    (old / "words.txt").write_text("A", "utf-8")
    assert found(examine(settings), spec(old, kind))[0].state is FindingState.GOOD
    wrong = found(examine(settings, verify=True), spec(old, kind))[0]
    assert (wrong.state, wrong.remedy) == (
        FindingState.WRONG,
        "restore the file from a backup, or make this version again",
    )
    assert "words.txt has SHA-256 559aead08264…; the manifest says ca978112ca1b…" in wrong.found
    (old / "segments/rows").unlink()
    wrong = found(examine(settings, verify=True), spec(old, kind))[0]
    assert "segments/rows is missing; " in wrong.found
    assert "words.txt has SHA-256" in wrong.found
    (old / "manifest.json").write_text("{}", "utf-8")
    assert "names no files" in found(examine(settings), spec(old, kind))[0].found
    assert found(examine(settings), spec(new, kind))[0].state is FindingState.GOOD


def test_missing_published_version_is_wrong_and_none_published_is_noted(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    folder = published(settings, "index", "chat")
    (folder.parent / "CURRENT").unlink()
    note = found(examine(settings), "index chat")[0]
    assert (note.state, note.found) == (FindingState.NOTE, "index chat has versions, but none of them is published")
    (folder.parent / "CURRENT").write_text("2001-01-01.1\n", "utf-8")
    wrong = found(examine(settings), "index chat")[0]
    assert wrong.state is FindingState.WRONG
    assert wrong.found.endswith("CURRENT names 2001-01-01.1, which is not there")
    (folder / "manifest.json").unlink()
    assert found(examine(settings), "index chat")[0].remedy == "publish one that is there: none is"


def test_what_stopped_builds_imports_and_deletions_left_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    folder = published(settings, "index", "chat")
    resumable = [folder.parent / ".staging-1", settings.cache / ".staging-2", settings.cache / "index-chat-0123"]
    vectors = settings.home / "vectors"
    useless = [folder.parent / ".deleted-1", folder.parent / ".importing-2", vectors / ".deleted-words@3"]
    for path in resumable + useless:
        path.mkdir(parents=True)
    (settings.cache / "index-chat-0123/stages.json").write_text("{}", "utf-8")
    findings = found(examine(settings), "leftovers")
    assert {finding.state for finding in findings} == {FindingState.NOTE}
    remedies = {Path(finding.found.split(": ")[1]): finding.remedy for finding in findings}
    assert remedies == {
        **dict.fromkeys(resumable, "run the same command again to finish it, or delete it"),
        **dict.fromkeys(useless, "delete it if none is running"),
    }


def test_the_database_of_a_service_is_looked_at(home: Settings) -> None:
    assert found(examine(home), "database") == []  # nobody has needed one
    database = Database.open(home)
    database.migrate()
    JobStore(database).enqueue("gc", {"kind": "gc"}, ["index/chat"])
    sound = found(examine(home, verify=True), "database")
    assert [(one.state, one.found) for one in sound] == [
        (FindingState.GOOD, "answers, and is up to date; jobs: 1 wait, 0 run")
    ]
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE tables_of_core SET step = 9999")
    newer = found(examine(home), "database")
    assert [one.state for one in newer] == [FindingState.WRONG]
    assert "of step 9999, which refaug" in newer[0].found
    assert "restore the backup from before the upgrade" in newer[0].remedy
    database.close()


def test_a_damaged_database_is_found_when_it_is_looked_for(home: Settings) -> None:
    database = Database.open(home)
    database.migrate()
    jobs = JobStore(database, waiting_jobs=10_000)
    for number in range(300):
        jobs.enqueue("gc", {"kind": "gc", "text": "x" * 900}, [f"index/chat{number}"])
    database.close()
    path = home.home / "refaug.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) * 3 // 4] = b"\xff" * (len(data) * 3 // 4 - len(data) // 2)
    path.write_bytes(bytes(data))
    wrong = found(examine(home, verify=True), "database")
    assert [one.state for one in wrong] == [FindingState.WRONG]


def test_a_schedule_that_fails_is_noted(home: Settings) -> None:
    database = Database.open(home)
    database.migrate()
    order = {"kind": "gc", "artefact": "index", "name": "chat"}
    ScheduleStore(database).put("nightly", cron="30 2 * * *", timezone="UTC", order=order)
    assert found(examine(home), "schedule nightly") == []
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE schedules SET begun = '2024-05-01T12:00:00.000000Z'")
    database.close()
    noted = found(examine(home), "schedule nightly")
    assert [(one.state, one.found, one.remedy) for one in noted] == [
        (
            FindingState.NOTE,
            "due at 2024-05-02 02:30 UTC, and not begun: no worker runs, or too many jobs wait",
            "refaug admin schedules show nightly",
        )
    ]


def test_frozen_sets_are_read_on_demand(home: Settings) -> None:
    item = Item(id="a", turns=("hi",), references=(Reference(text="hello"),))
    sets = ReferenceSets(home.reference_sets)
    sets.freeze([item], SetDescription(purpose=Purpose.TEST))
    (name,) = sets.ids()
    assert [one.found for one in found(examine(home), "reference sets")] == ["1"]
    assert [one.found for one in found(examine(home, verify=True), "reference sets")] == ["1, every one was read"]
    path = sets.path_of(name)
    path.write_bytes(path.read_bytes()[:-1])
    wrong = found(examine(home, verify=True), f"set {name}")
    assert [one.state for one in wrong] == [FindingState.WRONG]
