"""Files that are mapped: one that is cut or written to is named before a page of it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.artefacts.manifests import MANIFEST, describe_files
from refaug.core.artefacts.mapped_files import MappedFiles
from refaug.core.errors import Corrupt
from refaug.core.files import write_json

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = tmp_path / "chat" / "2026-11-20.1"
    (folder / "segments").mkdir(parents=True)
    for name in ("words", "segments/starts"):
        (folder / name).write_bytes(CONTENT)
    write_json(folder / MANIFEST, {"files": describe_files(folder, ["words", "segments/starts"])})
    return folder


def change(path: Path, content: bytes, *, later_ns: int = 1_000_000) -> None:
    """Write other content into the same file, so that every mapping of it sees it."""
    time_ns = path.stat().st_mtime_ns + later_ns
    with path.open("r+b") as file:
        file.truncate(len(content))
        file.write(content)
    os.utime(path, ns=(time_ns, time_ns))


def open_handles() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("content", [CONTENT[:-1], b"", CONTENT[::-1], CONTENT + b"x"])
def test_a_file_that_was_cut_or_written_to_is_named(version: Path, content: bytes) -> None:
    files = MappedFiles.of_folders([version])
    files.require_unchanged()
    change(version / "segments" / "starts", content)
    for _ in range(2):
        with pytest.raises(Corrupt) as refused:
            files.require_unchanged()
        assert refused.value.message.startswith(
            f"chat@2026-11-20.1 segments/starts was changed while it is served: it has {len(content):,} bytes"
        )
    change(version / "segments" / "starts", CONTENT, later_ns=2_000_000)  # put back
    files.require_unchanged()
    files.close()


def test_what_happens_to_the_name_of_a_file_changes_no_mapping_of_it(version: Path, tmp_path: Path) -> None:
    files = MappedFiles.of_folders([version])
    os.link(version / "words", tmp_path / "another name")
    (version / "words").unlink()
    (version / "words").write_bytes(b"another file")
    files.require_unchanged()
    change(tmp_path / "another name", CONTENT[:100])  # the file that is mapped
    with refusing(Corrupt, "100"):
        files.require_unchanged()
    files.close()


def test_a_file_that_is_not_as_its_manifest_says_is_not_taken_and_none_stays_open(version: Path) -> None:
    change(version / "segments" / "starts", CONTENT[::-1])
    before = open_handles()
    with refusing(Corrupt, "segments/starts"):
        MappedFiles.of_folders([version])
    assert open_handles() == before


def test_a_file_that_is_dated_back_is_noticed(version: Path) -> None:
    files = MappedFiles.of_folders([version])
    change(version / "words", CONTENT[::-1], later_ns=0)
    with refusing(Corrupt, "10,240"):
        files.require_unchanged()
    files.close()


def put_back(path: Path, content: bytes) -> None:
    """Rename a file with this content over a name."""
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)


def test_files_are_replaced_where_each_changed_one_has_a_right_one_under_its_name(version: Path) -> None:
    files, words, starts = MappedFiles.of_folders([version]), version / "words", version / "segments" / "starts"
    put_back(words, CONTENT)
    assert not files.are_replaced()  # what is mapped is as it was
    files.close()
    files = MappedFiles.of_folders([version])
    change(words, b"")
    assert not files.are_replaced()
    words.unlink()
    assert not files.are_replaced()
    put_back(words, CONTENT[::-1])
    assert not files.are_replaced()
    put_back(words, CONTENT)
    assert files.are_replaced()
    change(starts, CONTENT[:-1])
    assert not files.are_replaced()
    put_back(starts, CONTENT)
    assert files.are_replaced()
    with refusing(Corrupt, "segments/starts"):
        files.require_unchanged()  # the mapping is still that of the cut file
    files.close()


def test_closed_files_are_not_looked_at(version: Path) -> None:
    before = open_handles()
    files = MappedFiles.of_folders([version])
    assert len(open_handles()) == len(before) + 2
    files.close()
    files.close()
    change(version / "words", b"")
    files.require_unchanged()
    assert open_handles() == before
