"""Files in packages of others: found without importing anything, and taken with the known bytes alone."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.artefacts.packaged_files import PackagedFile
from refaug.core.errors import Corrupt, MissingPart

CONTENT = b"weights"


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedFile:
    package = tmp_path / "packaged_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model.onnx").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    return PackagedFile(
        requirement="packaged-weights==1.0",
        package="packaged_weights",
        path="model.onnx",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def test_a_file_is_found_without_importing_its_package(packaged: PackagedFile) -> None:
    assert packaged.locate("the encoder needs model.onnx").read_bytes() == CONTENT
    assert "packaged_weights" not in sys.modules


def test_other_bytes_are_refused_with_both_hashes(packaged: PackagedFile, tmp_path: Path) -> None:
    (tmp_path / "packaged_weights/model.onnx").write_bytes(b"others")
    with refusing(Corrupt, hashlib.sha256(b"others").hexdigest(), packaged.sha256, packaged.requirement):
        packaged.locate("the encoder needs model.onnx")


def test_a_package_or_file_that_is_not_there_is_named(packaged: PackagedFile, tmp_path: Path) -> None:
    (tmp_path / "packaged_weights/model.onnx").unlink()
    with refusing(MissingPart, "the encoder needs model.onnx", packaged.requirement):
        packaged.locate("the encoder needs model.onnx")
