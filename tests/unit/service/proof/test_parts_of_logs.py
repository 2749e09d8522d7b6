"""Parts of logs: made of the file that is there, and not of one that was there before."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from proofs import tiny_chain

from core.errors import Conflict
from service.proof.chain import Chain


def test_a_part_of_a_file_that_has_changed_is_refused_though_it_is_as_large_as_before(tmp_path: Path) -> None:
    before = tiny_chain(tmp_path)
    path = tmp_path / "data" / "logs" / "dailydialog_en.jsonl.gz"
    lines = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(lines, 0))
    before.log(before.part("daily", 0.5))
    size = path.stat().st_size

    path.write_bytes(gzip.compress(lines.replace(b"apples", b"grapes"), 0))

    assert path.stat().st_size == size
    after = Chain(before.home, before.settings, before.progress)
    with pytest.raises(Conflict, match=r"proof-daily-0\.5 was made of another dailydialog_en"):
        after.log(after.part("daily", 0.5))
