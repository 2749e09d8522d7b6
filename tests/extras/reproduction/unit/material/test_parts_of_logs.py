"""Parts of logs: made of the file that is there, and not of one that was there before."""

from __future__ import annotations

import gzip
from pathlib import Path

from proofs import tiny_chain
from refusals import refusing

from refaug.core.errors import Conflict
from refaug.extras.reproduction.material.chain import Chain


def test_part_of_a_changed_file_is_refused_even_at_the_same_size(tmp_path: Path) -> None:
    before = tiny_chain(tmp_path)
    path = tmp_path / "data" / "logs" / "dailydialog_en.jsonl.gz"
    lines = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(lines, 0))
    before.log(before.select("daily", 0.5))
    size = path.stat().st_size

    path.write_bytes(gzip.compress(lines.replace(b"apples", b"grapes"), 0))

    assert path.stat().st_size == size
    after = Chain(before.home, before.settings, before.progress)
    with refusing(Conflict, "proof-daily-0.5", "dailydialog_en"):
        after.log(after.select("daily", 0.5))
