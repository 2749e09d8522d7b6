"""Encoders of a home, and what it keeps of texts under them."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.artefacts.kinds import encodings_in
from refaug.core.errors import Usage


def test_the_limit_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert encodings_in(tmp_path).most_bytes == 4 << 30
    monkeypatch.setenv("REFAUG_ENCODINGS", "512MiB")
    assert encodings_in(tmp_path).most_bytes == 512 << 20
    monkeypatch.setenv("REFAUG_ENCODINGS", "much")
    with refusing(Usage, "REFAUG_ENCODINGS", "much"):
        encodings_in(tmp_path)
