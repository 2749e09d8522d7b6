"""Versions appear whole, one of them is published, none that somebody reads is removed, and no kill breaks that."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from contextlib import chdir, contextmanager
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.artefacts.manifests import (
    content_id,
    describe_files,
    named_files,
    require_files,
    require_format,
    verify_files,
)
from refaug.core.artefacts.removals import REMOVED
from refaug.core.artefacts.versions import VersionName, Versions, observing_changes
from refaug.core.errors import Conflict, Corrupt, Locked, NotFound, Usage
from refaug.core.files import read_json, write_json

ROOT = Path(__file__).parents[4]
TODAY = date(2026, 11, 20)


def stage(folder: Path, text: str = "x") -> Path:
    """A finished folder: a file, one in a folder, the manifest."""
    (folder / "segments/0").mkdir(parents=True)
    (folder / "words.txt").write_text(text)
    (folder / "segments/0/rows.npy").write_text(text * 3)
    files = describe_files(folder, ["words.txt", "segments/0/rows.npy"])
    write_json(folder / "manifest.json", {"kind": "index", "format_version": 1, "files": files})
    return folder


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path / "indexes", "index", lambda: TODAY)


@pytest.fixture
def three(versions, tmp_path):
    """Three versions, published one after the other."""
    for text in "abc":
        versions.publish("chat", versions.add("chat", stage(tmp_path / text, text)))
    return versions


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


# ── what manifests share ──────────────────────────────────────────────────────────────────────────────────────────


def test_files_are_described_by_size_and_hash(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert describe_files(tmp_path, ["x", "x"]) == {
        "x": {"size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    }


def test_missing_short_and_changed_files_are_named_with_both_values(tmp_path):
    folder = stage(tmp_path / "v", "abc")
    manifest = read_json(folder / "manifest.json")
    verify_files(folder, manifest)
    (folder / "words.txt").write_text("abd")
    require_files(folder, manifest)
    with refusing(Corrupt, "words.txt"):
        verify_files(folder, manifest)
    (folder / "words.txt").write_text("ab")
    with refusing(Corrupt, "words.txt"):
        require_files(folder, manifest)
    (folder / "segments/0/rows.npy").unlink()
    with refusing(Corrupt, "segments/0/rows.npy"):
        require_files(folder, manifest)


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x", "a/../x", "a//b", "./a", "a/", "a\\b", "a\nb", "a\0b", "manifest.json", "x" * 101],
)
def test_file_name_outside_the_folder_is_refused_before_any_file_is_read(tmp_path, name):
    manifest = {"files": {name: {"size": 0, "sha256": "0" * 64}}}
    with refusing(Corrupt):
        require_files(tmp_path, manifest)


@pytest.mark.parametrize(
    "files", [None, [], {"a": 1}, {"a": {}}, {"a": {"size": -1, "sha256": ""}}, {"a": {"size": True, "sha256": ""}}]
)
def test_a_manifest_without_proper_files_is_corrupt(files):
    with refusing(Corrupt, "here/m.json"):
        named_files({"files": files}, Path("here/m.json"))


def test_a_file_cannot_be_a_folder_too(tmp_path):
    facts = {"size": 0, "sha256": "0" * 64}
    with refusing(Corrupt, "a"):
        named_files({"files": {"a": facts, "a/b": facts}}, tmp_path)


def test_a_link_out_of_the_folder_and_a_folder_for_a_file_are_no_files(tmp_path):
    (tmp_path / "secret").write_text("x")
    folder = stage(tmp_path / "v")
    manifest = read_json(folder / "manifest.json")
    (folder / "words.txt").unlink()
    (folder / "words.txt").symlink_to(tmp_path / "secret")
    with refusing(Corrupt):
        require_files(folder, manifest)
    (folder / "words.txt").unlink()
    (folder / "words.txt").mkdir()
    with refusing(Corrupt):
        require_files(folder, manifest)


def test_content_id_depends_on_names_hashes_and_settings_only():
    one = {"files": {"a": {"size": 1, "sha256": "1"}, "b": {"size": 1, "sha256": "2"}}, "created": "today"}
    same = {"files": {"b": {"size": 9, "sha256": "2"}, "a": {"size": 9, "sha256": "1"}}}
    swapped = {"files": {"a": {"sha256": "2"}, "b": {"sha256": "1"}}}
    assert content_id(one) == content_id(same) == content_id(one, {})
    ids = {content_id(one), content_id(swapped), content_id({"files": {}}), content_id(one, {"x": 1, "y": [2]})}
    assert len(ids) == 4
    assert content_id(one, {"x": 1, "y": [2]}) == content_id(one, {"y": [2], "x": 1})
    assert len(content_id(one)) == 64


def test_a_format_of_the_future_says_so_and_other_manifests_are_refused():
    path = Path("v/manifest.json")
    require_format(path, {"kind": "index", "format_version": 2}, "index", 2)
    with refusing(Corrupt):
        require_format(path, {"kind": "index", "format_version": 3}, "index", 2)
    with refusing(Corrupt, "log"):
        require_format(path, {"kind": "log", "format_version": 1}, "index", 2)
    for format_version in (None, "1", True, 0):
        with refusing(Corrupt, "index"):
            require_format(path, {"kind": "index", "format_version": format_version}, "index", 2)


# ── names of versions ─────────────────────────────────────────────────────────────────────────────────────────────

days, numbers = st.dates(date(1000, 1, 1)), st.integers(1, 999_999_999)


@given(st.lists(st.tuples(days, numbers), max_size=8))
def test_versions_are_ordered_by_day_and_then_by_number(pairs):
    names = [VersionName.parse(f"{day.year:04}-{day.month:02}-{day.day:02}.{number}") for day, number in pairs]
    assert [(name.day, name.number) for name in sorted(names)] == sorted(pairs)
    assert [VersionName.parse(str(name)) for name in names] == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-20",
        "2026-11-20.0",
        "2026-11-20.01",
        "2026-02-30.1",
        "2026-11-20.1 ",
        "2026-11-20.1\n",
        "٢٠٢٦-11-20.1",
        "0000-01-01.1",
        "2026-11-20." + "9" * 10,
        "20261120.1",
        ".deleted-2026-11-20.1",
    ],
)
def test_what_is_no_version_is_none(text):
    assert VersionName.parse(text) is None


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(["add", "next day", "day before", "publish", "gc", "rollback"]), max_size=12))
def test_no_name_is_given_twice_and_a_later_version_is_a_newer_one(steps):
    with tempfile.TemporaryDirectory() as folder:
        today = [20]
        versions = Versions(Path(folder) / "i", "index", lambda: date(2026, 11, today[0]))
        given_names = [versions.add("chat", stage(Path(folder) / "first"))]
        for number, step in enumerate(steps):
            if step == "add":
                given_names.append(versions.add("chat", stage(Path(folder) / str(number))))
            elif step == "publish":
                versions.publish("chat", versions.versions("chat")[-1])
            elif step == "gc":
                versions.gc("chat", keep=1)
            elif step == "rollback":
                versions.rollback("chat", to=versions.versions("chat")[0])
            else:
                today[0] = max(1, today[0] + (1 if step == "next day" else -1))
        parsed = [VersionName.parse(name) for name in given_names]
        assert parsed == sorted(set(parsed))


def test_the_next_version_is_of_today_and_numbers_go_past_nine(tmp_path):
    today = [TODAY]
    versions = Versions(tmp_path / "indexes", "index", lambda: today[0])
    added = [versions.add("chat", stage(tmp_path / str(number))) for number in range(11)]
    assert added == [f"2026-11-20.{number}" for number in range(1, 12)]
    today[0] = date(2026, 11, 21)
    assert versions.add("chat", stage(tmp_path / "next")) == "2026-11-21.1"
    assert versions.versions("chat") == [*added, "2026-11-21.1"]
    today[0] = date(2026, 11, 19)  # the clock is set back
    assert versions.add("chat", stage(tmp_path / "back")) == "2026-11-21.2"


def test_an_imported_version_of_a_wrong_clock_does_not_decide_later_names(versions, tmp_path):
    with versions.writing("chat", "test") as writer:
        writer.add(stage(tmp_path / "a"), "2099-01-01.1")
        writer.add(stage(tmp_path / "b"), "2026-11-20.4")
    assert versions.add("chat", stage(tmp_path / "c")) == "2026-11-20.5"
    versions.publish("chat", "2026-11-20.5")
    assert versions.gc("chat", keep=0) == ["2026-11-20.4", "2099-01-01.1"]
    assert versions.add("chat", stage(tmp_path / "d")) == "2026-11-20.6"


def test_an_imported_version_s_name_is_not_given_again_once_it_was_removed(versions, tmp_path):
    versions.publish("chat", versions.add("chat", stage(tmp_path / "a")))
    with versions.writing("chat", "test") as writer:
        writer.add(stage(tmp_path / "b"), "2026-11-20.7")
    assert versions.gc("chat", keep=0) == ["2026-11-20.7"]
    assert versions.add("chat", stage(tmp_path / "c")) == "2026-11-20.8"


# ── publishing, looking up ────────────────────────────────────────────────────────────────────────────────────────


def test_a_version_is_published_only_when_asked(versions, tmp_path):
    version = versions.add("chat", stage(tmp_path / "a"))
    assert (versions.current("chat"), versions.versions("chat"), versions.names()) == (None, [version], ["chat"])
    assert not (tmp_path / "a").exists()
    with refusing(Conflict, "chat@2026-11-20.1"):
        versions.resolve("chat")
    assert versions.resolve("chat@2026-11-20.1") == ("chat", version)
    versions.publish("chat", version)
    assert (versions.folder("chat") / "CURRENT").read_text() == "2026-11-20.1\n"
    assert versions.resolve("chat") == ("chat", version)


def test_what_is_not_there_is_answered_with_what_is(three):
    with refusing(NotFound, "talk"):
        three.resolve("talk")
    for spec in ("chat@2026-11-20.4", "chat@", "chat@newest", "chat@2026-11-20.1@x"):
        with refusing(NotFound, "chat@2026-11-20.1", "chat@2026-11-20.2", "chat@2026-11-20.3"):
            three.resolve(spec)
    with refusing(Usage, "../chat", "stored index"):
        three.resolve("../chat")
    with refusing(NotFound, "none yet"):
        Versions(three.root / "elsewhere", "index").resolve("chat")


def test_asking_for_what_is_not_there_leaves_no_folder(versions):
    for asked in (versions.gc, versions.publish, versions.rollback, versions.delete):
        with pytest.raises(NotFound):
            asked("talk", *([1] if asked == versions.gc else ["2026-11-20.1"] if asked == versions.publish else []))
    with versions.writing("talk", "a build that fails"):
        pass
    assert not versions.root.exists() or list(versions.root.iterdir()) == []


def test_a_folder_without_a_manifest_is_no_version(three):
    (three.folder("chat") / "2026-11-20.9").mkdir()
    (three.folder("chat") / "notes").mkdir()
    assert three.versions("chat") == ["2026-11-20.1", "2026-11-20.2", "2026-11-20.3"]
    with pytest.raises(NotFound):
        three.publish("chat", "2026-11-20.9")


def test_an_incomplete_folder_is_neither_added_nor_published(three, tmp_path):
    (stage(tmp_path / "short", "long") / "words.txt").write_text("l")
    with refusing(Corrupt, "words.txt"):
        three.add("chat", tmp_path / "short")
    assert (tmp_path / "short").exists()
    (three.folder("chat", "2026-11-20.1") / "words.txt").unlink()
    with refusing(Corrupt, "words.txt"):
        three.publish("chat", "2026-11-20.1")
    assert three.current("chat") == "2026-11-20.3"


@pytest.mark.parametrize("text", [b"", b"newest\n", b"\xff\xfe", b"../../x"])
def test_a_damaged_current_is_corrupt_and_can_be_mended(three, text):
    (three.folder("chat") / "CURRENT").write_bytes(text)
    with refusing(Corrupt, "2026-11-20.1", "2026-11-20.2"):
        three.open("chat")
    three.publish("chat", "2026-11-20.2")
    assert three.resolve("chat") == ("chat", "2026-11-20.2")


def test_a_current_that_names_nothing_is_corrupt_and_not_waited_for(three):
    (three.folder("chat") / "CURRENT").write_text("2026-11-20.7\n")
    with refusing(Corrupt, "2026-11-20.7"):
        three.open("chat")


# ── rolling back, removing ────────────────────────────────────────────────────────────────────────────────────────


def test_rollback_steps_back_one_version_until_none_is_older(three):
    assert three.rollback("chat") == "2026-11-20.2"
    assert three.current("chat") == "2026-11-20.2"
    assert three.rollback("chat") == "2026-11-20.1"
    with refusing(Conflict, "2026-11-20.1"):
        three.rollback("chat")
    assert three.rollback("chat", to="2026-11-20.3") == "2026-11-20.3"
    with pytest.raises(NotFound):
        three.rollback("chat", to="2026-11-20.4")
    assert three.current("chat") == "2026-11-20.3"


def test_rollback_passes_over_versions_that_were_never_published(three, tmp_path):
    for text in "de":
        three.add("chat", stage(tmp_path / text))
    three.refuse("chat", "2026-11-20.4", "recall is 0.5")
    three.publish("chat", "2026-11-20.5")
    assert [three.rollback("chat") for _ in range(2)] == ["2026-11-20.3", "2026-11-20.2"]
    assert three.publications("chat").published == {f"2026-11-20.{number}" for number in (1, 2, 3, 5)}


def test_a_version_that_is_refused_again_is_reported_only_for_another_reason(three, tmp_path):
    refused = three.add("chat", stage(tmp_path / "d"))
    reported = []
    with observing_changes(reported.append):
        for reason in ("recall is 0.5", "recall is 0.5", "recall is 0.4"):
            three.refuse("chat", refused, reason)
    assert [change.details["reason"] for change in reported] == ["recall is 0.5", "recall is 0.4"]
    assert three.publications("chat").refused == {refused: "recall is 0.4"}


def test_a_refused_version_is_published_only_with_a_second_word(three, tmp_path):
    refused = three.add("chat", stage(tmp_path / "d"))
    three.refuse("chat", refused, "recall is 0.5")
    for publish in (three.publish, lambda name, version: three.rollback(name, to=version)):
        with refusing(Conflict, "chat@2026-11-20.4", "recall is 0.5") as caught:
            publish("chat", refused)
        assert "--even-refused" in caught.value.remedy
        assert three.current("chat") == "2026-11-20.3"
    assert three.rollback("chat", to=refused, even_refused=True) == three.current("chat") == refused
    three.publish("chat", "2026-11-20.1")
    three.publish("chat", refused)  # it has been published by name, so that it is like any other
    assert three.publications("chat").refused == {}


def test_the_published_version_is_not_refused_and_removed_ones_are_forgotten(three, tmp_path):
    three.refuse("chat", "2026-11-20.3", "late")
    assert three.publications("chat").refused == {}
    for text in "de":
        three.refuse("chat", three.add("chat", stage(tmp_path / text)), "bad")
    assert three.gc("chat", keep=1) == [f"2026-11-20.{number}" for number in (1, 2, 4)]
    three.refuse("chat", "2026-11-20.5", "worse")
    document = json.loads((three.folder("chat") / ".publications.json").read_text())
    assert document == {"published": ["2026-11-20.3"], "refused": {"2026-11-20.5": "worse"}}


def test_without_a_record_only_the_published_version_counts_as_published(three):
    record = three.folder("chat") / ".publications.json"
    record.unlink()
    assert three.publications("chat").published == {"2026-11-20.3"}
    with refusing(Conflict, "index"):
        three.rollback("chat")
    record.write_text('{"published": "all", "refused": {}}')
    with refusing(Corrupt):
        three.rollback("chat")
    three.publish("chat", "2026-11-20.1")
    assert json.loads(record.read_text()) == {"published": ["2026-11-20.1"], "refused": {}}


def test_after_a_rollback_the_next_version_has_a_new_name(three, tmp_path):
    three.rollback("chat")
    assert three.add("chat", stage(tmp_path / "d")) == "2026-11-20.4"


def test_nothing_published_cannot_be_rolled_back(versions, tmp_path):
    versions.add("chat", stage(tmp_path / "a"))
    with refusing(Conflict, "index"):
        versions.rollback("chat")


@pytest.mark.parametrize(
    ("current", "keep", "removed"),
    [(3, 1, [1, 2]), (3, 0, [1, 2]), (1, 1, [2]), (2, 0, [1, 3]), (3, 2, [1]), (1, 3, []), (3, 99, [])],
)
def test_removing_keeps_the_newest_and_the_published_one(three, current, keep, removed):
    three.publish("chat", f"2026-11-20.{current}")
    assert three.gc("chat", keep) == [f"2026-11-20.{number}" for number in removed]
    assert three.versions("chat") == [f"2026-11-20.{number}" for number in (1, 2, 3) if number not in removed]
    assert three.current("chat") == f"2026-11-20.{current}"
    assert not list(three.folder("chat").glob(".deleted-*"))


def test_removing_spares_what_it_is_told_to_and_refuses_a_negative_number(three):
    assert three.gc("chat", 0, lambda name, version: (name, version) == ("chat", "2026-11-20.1")) == ["2026-11-20.2"]
    with refusing(Usage, "-1"):
        three.gc("chat", -1)


def test_a_removed_version_s_name_is_never_given_again(versions, tmp_path):
    for text in "ab":
        versions.publish("chat", versions.add("chat", stage(tmp_path / text)))
    versions.rollback("chat")
    assert versions.gc("chat", keep=0) == ["2026-11-20.2"]
    assert versions.add("chat", stage(tmp_path / "c")) == "2026-11-20.3"


HOLDER = """if True:
    import sys
    from pathlib import Path
    from refaug.core.artefacts.versions import Versions

    with Versions(Path(sys.argv[1]), "index").open(sys.argv[2]) as held:
        print(held.version, flush=True)
        sys.stdin.readline()
"""


@contextmanager
def another_process(program: str, *arguments: object):
    """A process that has printed its first line and goes on when the block ends."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    with process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait() == 0


def test_what_another_process_reads_is_passed_over_until_it_ends(three):
    with another_process(HOLDER, three.root, "chat@2026-11-20.1") as version:
        assert version == "2026-11-20.1"
        assert three.gc("chat", keep=1) == ["2026-11-20.2"]
        with refusing(Conflict, "chat@2026-11-20.1"):
            three.delete("chat")
        assert three.versions("chat") == ["2026-11-20.1", "2026-11-20.3"]
    assert three.gc("chat", keep=1) == ["2026-11-20.1"]


def test_several_may_hold_a_version_and_the_last_one_counts(three):
    first, second = three.open("chat@2026-11-20.1"), three.open("chat@2026-11-20.1")
    assert (first.name, first.version, first.folder) == ("chat", "2026-11-20.1", three.folder("chat", "2026-11-20.1"))
    first.close()
    assert three.gc("chat", keep=1) == ["2026-11-20.2"]
    second.close()
    assert three.gc("chat", keep=1) == ["2026-11-20.1"]


def test_deleting_takes_everything_and_the_name_can_be_used_again(three, tmp_path):
    assert three.delete("chat") == ["2026-11-20.1", "2026-11-20.2", "2026-11-20.3"]
    assert [path.name for path in three.root.iterdir()] == [REMOVED]
    assert three.add("chat", stage(tmp_path / "d")) == "2026-11-20.1"


@pytest.mark.parametrize("when", ["before the lock", "after the lock"])
def test_reader_overtaken_by_removal_gets_the_version_published_since(three, monkeypatch, when):
    three.publish("chat", "2026-11-20.1")
    real, overtaken = fcntl.flock, []

    def flock(file, operation):
        """At the reader's first lock, another one publishes a version and removes the reader's."""
        if operation == fcntl.LOCK_SH and not overtaken:
            overtaken.append(True)
            if when == "after the lock":  # it is passed over, and stays
                real(file, operation)
            three.publish("chat", "2026-11-20.3")
            removed = three.gc("chat", keep=1)
            assert removed == (["2026-11-20.2"] if when == "after the lock" else ["2026-11-20.1", "2026-11-20.2"])
        return real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with three.open("chat") as held:
        assert held.version == ("2026-11-20.1" if when == "after the lock" else "2026-11-20.3")
        require_files(held.folder, read_json(held.folder / "manifest.json"))


CHURN = """if True:
    import sys
    from pathlib import Path
    from refaug.core.artefacts.versions import Versions
    from unit_test_versions import stage

    versions = Versions(Path(sys.argv[1]), "index")
    print("begun", flush=True)
    for number in range(25):
        with versions.writing("chat", "churn") as writer:
            writer.publish(writer.add(stage(Path(sys.argv[2]) / str(number))))
            writer.gc(keep=0)
"""


def test_readers_never_meet_a_version_that_is_going_away(three, tmp_path):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "unit_test_versions.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'path')!r})\n{CHURN}"
    command = [sys.executable, "-c", program, str(three.root), str(tmp_path / "stages")]
    seen = set()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        while process.poll() is None:
            with three.open("chat") as held:
                verify_files(held.folder, read_json(held.folder / "manifest.json"))
                seen.add(held.version)
    assert process.returncode == 0
    assert three.current("chat") in three.versions("chat")
    assert len(seen) > 1


# ── one writer, any number of readers ─────────────────────────────────────────────────────────────────────────────


def test_a_long_build_keeps_other_writers_away_and_no_reader(three, tmp_path):
    before = three.current("chat")
    with three.writing("chat", "building index chat") as writer:
        with refusing(Locked, os.getpid()):
            three.rollback("chat")
        with three.open("chat") as held:
            assert held.version == before
        version = writer.add(stage(tmp_path / "d"))
        assert three.current("chat") == before
        writer.publish(version)
        assert writer.gc(keep=2) == ["2026-11-20.1", "2026-11-20.2"]
        assert writer.version_before() == "2026-11-20.3"
        writer.publish("2026-11-20.3")
    assert three.add("chat", stage(tmp_path / "e")) == "2026-11-20.5"


def test_two_names_can_be_written_at_once(versions, tmp_path):
    with versions.writing("a", "one") as one, versions.writing("b", "two") as two:
        assert one.add(stage(tmp_path / "x")) == two.add(stage(tmp_path / "y")) == "2026-11-20.1"
    assert versions.names() == ["a", "b"]


def test_reading_writes_nothing_and_needs_no_right_to(tmp_path):
    # named from inside: who may look at the folder may have no way through those above it
    with tempfile.TemporaryDirectory() as home, chdir(home):
        versions = Versions(Path("indexes"), "index", lambda: TODAY)
        versions.publish("chat", versions.add("chat", stage(tmp_path / "a")))
        for path in [Path(home), *Path(home).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = everything(Path(home))
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                (versions.root / "new").mkdir()
            with versions.open("chat") as held:
                assert (held.folder / "words.txt").read_text() == "x"
            assert (versions.names(), versions.versions("chat")) == (["chat"], ["2026-11-20.1"])
        finally:
            if root:
                os.seteuid(0)
            for path in [Path(home), *Path(home).rglob("*")]:
                path.chmod(0o755)
        assert everything(Path(home)) == before


# ── killed at any moment ──────────────────────────────────────────────────────────────────────────────────────────

STEPS = """if True:
    import os, signal, sys
    from datetime import date
    from pathlib import Path
    from refaug.core.artefacts.versions import Versions

    seen = {"rename": 0, "fsync": 0, "unlink": 0}
    killed_at = ["", 0]

    def watch(name, event):
        real = getattr(os, name)

        def watched(*given, **named):
            seen[event] += 1
            if [event, seen[event]] == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        setattr(os, name, watched)

    for name, event in (("rename", "rename"), ("replace", "rename"), ("fsync", "fsync"), ("unlink", "unlink"),
                        ("rmdir", "unlink")):
        watch(name, event)

    def steps(root, staged):
        versions = Versions(Path(root), "index", lambda: date(2026, 11, 20))
        with versions.writing("chat", "steps") as writer:
            writer.publish(writer.add(Path(staged)))
            writer.gc(keep=1)
        versions.rollback("talk")
        versions.delete("old")
        os.write(1, b"%d %d %d " % tuple(seen.values()))

    for line in sys.stdin:  # each order in a process of its own, forked before anything has happened
        root, staged, kind, number = line.rstrip().split("\t")
        child = os.fork()
        if child == 0:
            killed_at[:] = kind, int(number)
            steps(root, staged)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def driver():
    """Runs the steps and kills them where it is told to; the answer ends in the exit code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", STEPS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:

        def run(*order: object) -> list[int]:
            process.stdin.write("\t".join(map(str, order)) + "\n")
            process.stdin.flush()
            return [int(number) for number in process.stdout.readline().split()]

        yield run
        process.stdin.close()


def run_steps(driver, folder: Path, kind: str = "", number: int = 0) -> tuple[Versions, list[int]]:
    versions = Versions(folder / "indexes", "index", lambda: TODAY)
    for name, texts in (("chat", "ab"), ("talk", "ab"), ("old", "a")):
        for text in texts:
            versions.publish(name, versions.add(name, stage(folder / "stage", text)))
    return versions, driver(versions.root, stage(folder / "stage", "c"), kind, number)


def complete_versions(versions: Versions, name: str) -> list[str]:
    """All versions of a name, each verified."""
    for version in versions.versions(name):
        folder = versions.folder(name, version)
        verify_files(folder, read_json(folder / "manifest.json"))
    return versions.versions(name)


@pytest.mark.slow
def test_kill_at_any_moment_leaves_a_complete_version_and_later_no_trace(driver, tmp_path):
    whole, (*counts, code) = run_steps(driver, tmp_path / "whole")
    assert code == 0
    assert (whole.versions("chat"), whole.current("chat")) == (["2026-11-20.3"], "2026-11-20.3")
    assert (whole.current("talk"), whole.names()) == ("2026-11-20.1", ["chat", "talk"])
    events = dict(zip(("rename", "fsync", "unlink"), counts, strict=True))
    assert min(events.values()) > 5
    states = set()
    for kind, count in events.items():
        for number in range(1, count + 1):
            versions, answer = run_steps(driver, tmp_path / f"{kind}-{number}", kind, number)
            assert answer == [-9], f"{kind} {number}"
            there, current = complete_versions(versions, "chat"), versions.current("chat")
            assert current in there
            states.add((tuple(there), current, versions.current("talk"), tuple(complete_versions(versions, "old"))))
            require_next_writer_works(versions, tmp_path / f"{kind}-{number}")
    a, b, c = "2026-11-20.1", "2026-11-20.2", "2026-11-20.3"
    assert states == {
        ((a, b), b, b, (a,)),  # before anything
        ((a, b, c), b, b, (a,)),  # added
        ((a, b, c), c, b, (a,)),  # published
        ((b, c), c, b, (a,)),  # the oldest removed
        ((c,), c, b, (a,)),
        ((c,), c, a, (a,)),  # the other one rolled back
        ((c,), c, a, ()),  # the third deleted
    }


def require_next_writer_works(versions: Versions, folder: Path) -> None:
    before = set(versions.versions("chat"))
    for name in ("chat", "talk", "old"):
        version = versions.add(name, stage(folder / "again", "d"))
        versions.publish(name, version)
    assert not before & {versions.current("chat")}
    assert versions.gc("chat", keep=1) == sorted(before)
    left = {path.name for path in versions.root.rglob(".*")} - {".lock", ".newest", ".publications.json"}
    assert left == {REMOVED}
