"""`refaug log verify` in words: each part, the damaged ones by name, and an exit code that a script can read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson
import pytest

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.store import StoredLog


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """A home with a log of two parts, one for each ingest: the first of two pairs, the second of one."""
    home = Settings(home=tmp_path / "home")
    for name, turns in (("a", ["How are you?", "Well, thanks.", "Good to hear."]), ("b", ["Is it late?", "Not yet."])):
        source = tmp_path / f"{name}.jsonl"
        source.write_bytes(orjson.dumps({"id": name, "turns": turns}) + b"\n")
        ingest(IngestOrder(sources=(str(source),), log="talk"), home.logs, Silent())
    return home


def test_sound_parts_are_named_with_their_pairs(home: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", str(home.home), "log", "verify", "talk"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "part-00001.parquet: 2 pairs, as the manifest says",
        "part-00002.parquet: 1 pair, as the manifest says",
    ]


def test_a_damaged_part_is_named_with_both_hashes(home: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    expected = StoredLog.open(home.logs, "talk").manifest.parts[1].sha256
    path = home.logs / "talk" / "part-00002.parquet"
    altered = bytearray(path.read_bytes())
    altered[len(altered) // 2] ^= 1
    path.write_bytes(altered)
    actual = hashlib.sha256(altered).hexdigest()
    assert main(["--home", str(home.home), "log", "verify", "talk"]) == 3
    out, err = capfd.readouterr()
    trouble = f"{path} has SHA-256 {actual[:12]}…; the manifest says {expected[:12]}…"
    assert out.splitlines() == [
        "part-00001.parquet: 2 pairs, as the manifest says",
        f"part-00002.parquet: {trouble}",
    ]
    assert f"1 of 2 parts of log talk are damaged: {trouble}" in err
    assert main(["--home", str(home.home), "log", "verify", "talk", "--json"]) == 3
    assert orjson.loads(capfd.readouterr().out)["parts"] == [
        {"file": "part-00001.parquet", "problem": None},
        {"file": "part-00002.parquet", "problem": trouble},
    ]
