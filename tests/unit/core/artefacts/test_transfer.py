"""What is exported comes back as it was; what was tampered with does not come in, and leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tracemalloc
from datetime import date
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from told import Told

from refaug.core.artefacts.manifests import describe_files, verify_files
from refaug.core.artefacts.transfer import (
    ImportedVersion,
    TransferredVersion,
    export_artefact,
    import_artefact,
    open_export,
)
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import (
    BadInput,
    CheckFailed,
    Conflict,
    Corrupt,
    DamagedSource,
    Locked,
    NoSource,
    NotFound,
    StorageFull,
    UnknownFormat,
)
from refaug.core.files import read_json, write_json
from refaug.core.progress import Silent

ROOT = Path(__file__).parents[4]
TODAY = date(2026, 11, 20)
FILES = {"words.txt": b"a\nb\n", "segments/0/rows.npy": bytes(range(256)) * 700, "empty": b""}


def stage(folder: Path, files=FILES) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    described = describe_files(folder, files)
    write_json(folder / "manifest.json", {"kind": "index", "format_version": 1, "files": described})
    return folder


def versions_in(folder: Path) -> Versions:
    return Versions(folder / "indexes", "index", lambda: TODAY)


@pytest.fixture
def here(tmp_path):
    """Where an index is published."""
    versions = versions_in(tmp_path / "here")
    versions.publish("chat", versions.add("chat", stage(tmp_path / "stage")))
    return versions


@pytest.fixture
def there(tmp_path):
    """Where there is nothing yet."""
    return versions_in(tmp_path / "there")


@pytest.fixture
def file(here, tmp_path):
    """The exported version."""
    export_artefact(here, "chat", tmp_path / "chat.tar.zst", Silent())
    return tmp_path / "chat.tar.zst"


def into(versions: Versions, file: Path, **more) -> ImportedVersion:
    with open_export(file) as export:
        return import_artefact(export, {versions.kind: versions}, Silent(), **more)


def everything(versions: Versions) -> dict[str, bytes]:
    return {
        str(path.relative_to(versions.root)): path.read_bytes()
        for path in sorted(versions.root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


# ── there and back ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_version_comes_back_as_it_was_under_its_own_name(here, there, tmp_path):
    moved = export_artefact(here, "chat@2026-11-20.1", tmp_path / "x.tar.zst", Silent())
    size = sum(map(len, FILES.values()))
    assert moved == TransferredVersion(kind="index", name="chat", version="2026-11-20.1", files=3, bytes=size)
    imported = into(there, tmp_path / "x.tar.zst")
    assert (imported.kind, imported.name, imported.version) == ("index", "chat", "2026-11-20.1")
    assert (imported.files, imported.bytes, imported.was_there, imported.published) == (3, size, False, True)
    assert everything(there) == everything(here)
    folder = there.folder("chat", "2026-11-20.1")
    verify_files(folder, read_json(folder / "manifest.json"))


def test_the_file_is_a_tar_inside_zstd_that_other_programs_read(here, file):
    with zstandard.open(file) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        found = [(member.name, member.mtime, member.uid, member.mode, tar.extractfile(member).read()) for member in tar]
    manifest = (here.folder("chat", "2026-11-20.1") / "manifest.json").read_bytes()
    label = b'{"kind":"index","name":"chat","version":"2026-11-20.1","format_version":1}\n'
    expected = [("refaug.json", label), ("manifest.json", manifest), *sorted(FILES.items())]
    assert found == [(name, 0, 0, 0o644, data) for name, data in expected]


def test_the_same_version_gives_the_same_file_wherever_it_lies(file, there, tmp_path):
    into(there, file)
    for path in there.folder("chat", "2026-11-20.1").iterdir():
        os.utime(path, (1, 1))
    export_artefact(there, "chat", tmp_path / "again.tar.zst", Silent())
    assert (tmp_path / "again.tar.zst").read_bytes() == file.read_bytes()


@settings(deadline=None, max_examples=25)
@given(
    st.dictionaries(
        st.lists(st.text("abé. -", min_size=1, max_size=5).filter(lambda part: part.strip(".")), min_size=1, max_size=3)
        .map("/".join),
        st.binary(max_size=1500),
        max_size=5,
    )
)  # fmt: skip
def test_whatever_files_a_version_has_come_back(tmp_path_factory, files):
    if any(other.startswith(f"{name}/") for name in files for other in files):
        return  # no folder can hold both
    folder = tmp_path_factory.mktemp("any")
    (folder / "stage").mkdir()
    here, there = versions_in(folder / "here"), versions_in(folder / "there")
    here.add("chat", stage(folder / "stage", files))
    export_artefact(here, "chat@2026-11-20.1", folder / "x", Silent())
    into(there, folder / "x")
    for name, data in files.items():
        assert (there.folder("chat", "2026-11-20.1") / name).read_bytes() == data


def test_progress_counts_the_bytes_of_the_files(here, there, tmp_path):
    size = sum(map(len, FILES.values()))
    exported, imported = Told(), Told()
    export_artefact(here, "chat", tmp_path / "x", exported)
    with open_export(tmp_path / "x") as export:
        import_artefact(export, {"index": there}, imported)
    assert (exported.stages, exported.done) == ([("exporting chat@2026-11-20.1", size, "B")], size)
    assert (imported.stages, imported.done) == ([("importing chat@2026-11-20.1", size, "B")], size)


def test_damaged_or_missing_version_is_not_exported_and_old_file_stays(here, tmp_path):
    (tmp_path / "x.tar.zst").write_bytes(b"old")
    with pytest.raises(NotFound):
        export_artefact(here, "talk", tmp_path / "x.tar.zst", Silent())
    (here.folder("chat", "2026-11-20.1") / "words.txt").write_bytes(b"a\nc\n")
    with refusing(Corrupt, "words.txt"):
        export_artefact(here, "chat", tmp_path / "x.tar.zst", Silent())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "x.tar.zst"]
    assert (tmp_path / "x.tar.zst").read_bytes() == b"old"


# ── what is there already ─────────────────────────────────────────────────────────────────────────────────────────


def test_importing_again_changes_nothing(there, file):
    into(there, file)
    before = everything(there)
    again = into(there, file)
    assert (again.was_there, again.published) == (True, True)
    assert everything(there) == before


def test_another_content_under_the_same_version_is_a_conflict(there, file, tmp_path):
    there.publish("chat", there.add("chat", stage(tmp_path / "other", {"words.txt": b"z"})))
    before = everything(there)
    with refusing(Conflict, "chat@2026-11-20.1"):
        into(there, file)
    assert everything(there) == before


def test_what_was_there_but_is_damaged_is_said(there, file):
    into(there, file)
    (there.folder("chat", "2026-11-20.1") / "empty").unlink()
    with refusing(Corrupt):
        into(there, file)


def test_a_published_version_stays_published_unless_told_otherwise(there, file, tmp_path):
    for text in (b"y", b"z"):
        version = there.add("chat", stage(tmp_path / "other", {"words.txt": text}))
    there.publish("chat", version)
    there.gc("chat", keep=1)
    assert not into(there, file).published
    assert there.current("chat") == "2026-11-20.2"
    later = into(there, file, publish=True)
    assert (later.was_there, later.published, there.current("chat")) == (True, True, "2026-11-20.1")


def test_what_is_refused_before_publishing_is_there_but_not_published(there, file):
    seen = []

    def refuse(what):
        seen.append((what.kind, what.spec, there.versions("chat")))
        raise CheckFailed("it holds what was deleted")

    with pytest.raises(CheckFailed):
        into(there, file, before_publishing=refuse)
    assert seen == [("index", "chat@2026-11-20.1", ["2026-11-20.1"])]
    assert there.current("chat") is None
    assert into(there, file).published


def test_an_import_waits_for_no_other_writer(there, file):
    with there.writing("chat", "building"), refusing(Locked):
        into(there, file)


# ── what does not come in ─────────────────────────────────────────────────────────────────────────────────────────


def packed(members, end=bytes(1024)) -> bytes:
    """A tar inside zstd of (name or header, data) pairs."""
    tar = bytearray()
    for name, data in members:
        header = name
        if isinstance(name, str):
            header = tarfile.TarInfo(name)
            header.size = len(data)
        tar += header.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
    return zstandard.ZstdCompressor(write_checksum=True).compress(bytes(tar) + end)


def label(**more) -> tuple[str, bytes]:
    value = {"format_version": 1, "kind": "index", "name": "chat", "version": "2026-11-20.1", **more}
    return "refaug.json", orjson.dumps(value)


def manifest(files=None, **more) -> tuple[str, bytes]:
    named = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in FILES.items()}
    return "manifest.json", orjson.dumps({"format_version": 1, "files": named if files is None else files, **more})


def member(name: str, kind: bytes, target: str = "", size: int = 0) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size = kind, target, size
    return header, b""


def one_file(name: str) -> tuple[str, bytes]:
    return manifest({name: {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}})


good = list(FILES.items())
HOSTILE = {
    "a link for a file": (
        [label(), manifest(), member("words.txt", tarfile.SYMTYPE, "/etc/passwd")],
        "not a plain file",
    ),
    "a hard link": ([label(), manifest(), member("words.txt", tarfile.LNKTYPE, "manifest.json")], "not a plain file"),
    "a device": ([label(), manifest(), member("words.txt", tarfile.CHRTYPE)], "not a plain file"),
    "a folder": ([label(), manifest(), member("segments", tarfile.DIRTYPE)], "not a plain file"),
    "a long name": ([label(), manifest(), ("x" * 200, b"x")], "not a plain file"),
    "a link for the manifest": ([label(), member("manifest.json", tarfile.SYMTYPE, "/etc/passwd")], "not a plain file"),
    "a way up": ([label(), manifest(), ("../x", b"x")], "../x"),
    "a way up in the manifest": ([label(), one_file("../x"), ("../x", b"x")], "not a path inside the folder"),
    "an absolute name": ([label(), manifest(), ("/tmp/x", b"x")], "/tmp/x"),
    "an absolute name in the manifest": ([label(), one_file("/tmp/x"), ("/tmp/x", b"x")], "not a path inside"),
    "a second manifest": (
        [label(), manifest(), manifest(), *good],
        "manifest.json",
    ),
    "more than was said": ([label(), manifest(), *good, ("more", b"")], "more"),
    "a file twice": ([label(), manifest(), *good, good[0]], "words.txt"),
    "a longer file": (
        [label(), manifest(), ("words.txt", b"a\nb\nc\n")],
        "words.txt",
    ),
    "a size that never ends": (
        [label(), manifest(), member("words.txt", tarfile.REGTYPE, size=1 << 60)],
        "1,152,921,504,606,846,976",
    ),
    "a negative size": ([label(), manifest(), member("words.txt", tarfile.REGTYPE, size=-512)], "not a plain file"),
    "other bytes": (
        [label(), manifest(), ("words.txt", b"a\nc\n")],
        "words.txt",
    ),
    "too few": ([label(), manifest(), good[0]], "segments/0/rows.npy"),
    "no manifest": ([label(), *good], "manifest.json is not where it should be"),
    "a manifest that is not an object": ([label(), ("manifest.json", b"[]")], "manifest.json is not a JSON object"),
    "a manifest without files": ([label(), manifest([])], "names no files"),
    "another kind of manifest": ([label(), manifest(kind="log")], "of the kind 'log', not 'index'"),
    "an endless manifest": ([label(), member("manifest.json", tarfile.REGTYPE, size=1 << 40)], "at most 67,108,864"),
    "no label": ([manifest(), *good], "refaug.json is not where it should be"),
    "a label that is not an object": ([("refaug.json", b"{")], "not a JSON object"),
    "a name that leads elsewhere": ([label(name="../x"), manifest(), *good], "../x"),
    "a version that leads elsewhere": ([label(version="../x"), manifest(), *good], "names no version"),
    "no name": ([label(name=None), manifest(), *good], "names no version: 'None'"),
    "a kind of the future": (
        [label(kind="rater"), manifest(), *good],
        "'rater' (this refaug imports: index",
    ),
    "a format of the future": ([label(format_version=2), manifest(), *good], "has format 2; this refaug reads up to 1"),
    "a format that is none": ([label(format_version="1"), manifest(), *good], "names no version"),
    "no members": ([], "refaug.json is not where it should be"),
}


@pytest.mark.parametrize(("members", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_with_its_name_and_leaves_nothing(there, tmp_path, members, why):
    (tmp_path / "evil.tar.zst").write_bytes(packed(members))
    with refusing(BadInput, "evil.tar.zst", why) as refused:
        into(there, tmp_path / "evil.tar.zst")
    assert refused.value.code in {"damaged_source", "unknown_format"}
    assert refused.value.remedy
    assert not there.root.exists() or list(there.root.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "there"] == ["evil.tar.zst"]


def test_the_same_members_in_any_order_come_in_when_nothing_is_wrong(there, tmp_path):
    (tmp_path / "x").write_bytes(packed([label(), manifest(), *reversed(good)], end=bytes(10240)))
    assert into(there, tmp_path / "x").published


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", UnknownFormat),
        (b"PK\x03\x04 something else", UnknownFormat),
        (zstandard.compress(b'{"id": "d1"}\n' * 100), UnknownFormat),
        (zstandard.compress(b""), DamagedSource),
        (b"\x28\xb5\x2f\xfd", DamagedSource),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 50, DamagedSource),
        (packed([label(), manifest(), *good], end=bytes(512)), DamagedSource),
        (packed([label(), manifest(), *good], end=bytes(512) + b"x" * 512), DamagedSource),
        (packed([label(), manifest(), *good], end=bytes(1024) + b"x"), DamagedSource),
        (packed([label(), manifest(), *good], end=bytes(1 << 16)), DamagedSource),
        (packed([label(), manifest(), *good]) + b"x", DamagedSource),
        (packed([label(), manifest(), *good]) + zstandard.compress(b"x"), DamagedSource),
    ],
)
def test_what_is_no_export_or_has_more_than_one_is_refused(there, tmp_path, data, error):
    (tmp_path / "x").write_bytes(data)
    with refusing(error, "x"):
        into(there, tmp_path / "x")
    assert not there.root.exists() or list(there.root.iterdir()) == []


def test_a_file_that_ends_early_anywhere_is_refused(tmp_path, file):
    data = file.read_bytes()
    there = versions_in(tmp_path / "cut")
    for length in {*range(0, len(data), 37), *range(len(data) - 16, len(data))}:
        (tmp_path / "cut.tar.zst").write_bytes(data[:length])
        with refusing(BadInput, "cut.tar.zst"):
            into(there, tmp_path / "cut.tar.zst")
    assert there.names() == []
    assert not there.root.exists() or list(there.root.iterdir()) == []


def test_a_flipped_bit_anywhere_is_found(tmp_path, file):
    data = file.read_bytes()
    for number, place in enumerate(range(0, len(data), 23)):
        there = versions_in(tmp_path / str(number))
        (tmp_path / "flipped").write_bytes(data[:place] + bytes([data[place] ^ 1 << number % 8]) + data[place + 1 :])
        try:
            into(there, tmp_path / "flipped")
        except BadInput:
            assert there.names() == []
        else:  # the bit is one of zstd's that mean nothing
            folder = there.folder("chat", "2026-11-20.1")
            assert (folder / "words.txt").read_bytes() == FILES["words.txt"]
            verify_files(folder, read_json(folder / "manifest.json"))


def test_what_is_well_packed_is_not_unpacked_at_once(there, tmp_path):
    """A hundred gigabytes of zeros in three megabytes: blocks of 128 KiB that consist of one byte."""
    (tmp_path / "bomb").write_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + b"\x02\x00\x10\x00" * 800_000)
    tracemalloc.start()
    try:
        with refusing(DamagedSource):
            into(there, tmp_path / "bomb")
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


def test_a_version_larger_than_the_disk_is_refused_before_it_is_read(there, tmp_path):
    facts = {"words.txt": {"size": 1 << 62, "sha256": "0" * 64}}
    (tmp_path / "x").write_bytes(packed([label(), manifest(facts)]))
    with refusing(StorageFull, "4,611,686,018,427,387,904"):
        into(there, tmp_path / "x")
    assert list(there.root.iterdir()) == []


def test_a_file_that_is_not_there_is_no_source(there, tmp_path):
    with refusing(NoSource):
        into(there, tmp_path / "x")
    with refusing(NoSource):
        into(there, tmp_path)


def test_a_failed_import_leaves_what_was_there(there, file, tmp_path):
    there.publish("chat", there.add("chat", stage(tmp_path / "other", {"words.txt": b"z"})))
    before = everything(there)
    (tmp_path / "x").write_bytes(packed([label(version="2026-11-20.2"), manifest(), *good[:2]]))
    with refusing(DamagedSource):
        into(there, tmp_path / "x")
    assert everything(there) == before


KILLED = """if True:
    import os, signal, sys
    from pathlib import Path
    from refaug.core.progress import Silent
    from refaug.core.artefacts.transfer import import_artefact, open_export
    from refaug.core.artefacts.versions import Versions

    kind, number, seen = sys.argv[3], int(sys.argv[4]), []
    real = getattr(os, kind)

    def watched(*given):
        seen.append(given)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)

    setattr(os, kind, watched)
    with open_export(Path(sys.argv[2])) as export:
        import_artefact(export, {"index": Versions(Path(sys.argv[1]), "index")}, Silent())
"""


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("rename", 1),
        *(pytest.param("fsync", number, marks=pytest.mark.slow) for number in range(1, 16, 2)),
        *(pytest.param("replace", number, marks=pytest.mark.slow) for number in (1, 2, 3)),
    ],
)
def test_a_killed_import_is_no_version_and_the_same_command_finishes_it(there, file, kind, number):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, str(there.root), str(file), kind, str(number)]
    assert subprocess.run(command, env=environment, check=False).returncode == -9
    for version in there.versions("chat"):
        folder = there.folder("chat", version)
        verify_files(folder, read_json(folder / "manifest.json"))
    assert there.current("chat") in {None, *there.versions("chat")}
    assert into(there, file).published
    left = {path.name for path in there.root.rglob(".*")}
    assert left - {".publications.json"} == {".lock", ".newest"}  # it is written after CURRENT
