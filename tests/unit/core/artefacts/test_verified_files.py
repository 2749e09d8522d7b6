"""Hashes of files that a process has compared: each is read once, and reading ends when the time is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refaug.core.artefacts.manifests import describe_files
from refaug.core.artefacts.verified_files import VerifiedFiles
from refaug.core.errors import Expired
from refaug.core.files import sha256_of

MIB = 2**20


def folder_of(path: Path) -> tuple[Path, dict[str, Any]]:
    (path / "large").write_bytes(b"a" * (9 * MIB))
    (path / "small").write_bytes(b"tea")
    return path, {"files": describe_files(path, ["large", "small"])}


def test_unread_bytes_are_those_of_files_that_were_not_hashed(tmp_path: Path) -> None:
    folder, manifest = folder_of(tmp_path)
    files = VerifiedFiles()
    assert files.unread_bytes(folder, manifest) == 9 * MIB + 3
    files.require(folder, manifest, ["small"])
    assert files.unread_bytes(folder, manifest) == 9 * MIB
    files.require(folder, manifest)
    assert files.unread_bytes(folder, manifest) == 0
    (folder / "small").write_bytes(b"the")
    assert files.unread_bytes(folder, manifest) == 3
    assert files.unread_bytes(folder, manifest, ["large"]) == 0


def test_hashing_ends_within_a_file_when_the_time_is_over(tmp_path: Path) -> None:
    folder, manifest = folder_of(tmp_path)
    files, calls = VerifiedFiles(), []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Expired("the time is over")

    with pytest.raises(Expired):
        files.require(folder, manifest, ["large"], check)
    assert len(calls) == 3  # before the file, and after each of two of its three pieces
    assert files.unread_bytes(folder, manifest) == 9 * MIB + 3
    calls[:] = [1, 1, 1]
    assert sha256_of(folder / "large", check) == sha256_of(folder / "large")
    assert len(calls) == 3 + 4
