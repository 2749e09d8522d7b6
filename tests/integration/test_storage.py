"""A full disk: the error says so and where, the log is what it was, and with some room the same command finishes."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import orjson
import pytest
from disks import Fills, close_strictly, fill, small_disk
from integration.conftest import ROOT, content
from integration.reference import dialogue_log, message
from refusals import refusing
from safeguards import mostly_slow

from refaug.core.errors import StorageFull
from refaug.core.query_engine import QueryEngine
from refaug.logs import part_files
from refaug.logs.deletion import delete
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest import order as staging
from refaug.logs.ingest.order import IngestOrder


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, of eight megabytes."""
    with small_disk("size=8m") as folder:
        yield folder
        assert close_strictly(folder), "some file on the disk is still open"


def sources(folder):
    rng = random.Random(1)
    messages = [message(f"m{n}", f"m{rng.randrange(n)}" if n % 9 else None) for n in range(2_000)]
    (folder / "old.jsonl").write_bytes(dialogue_log(1, 50, prefix="old")[0])
    (folder / "m.jsonl").write_bytes(b"\n".join(one.line for one in messages))
    (folder / "new.jsonl").write_bytes(dialogue_log(2, 500)[0])
    return folder / "old.jsonl", folder / "new.jsonl", folder / "m.jsonl"


@pytest.mark.machine
@pytest.mark.parametrize("stage", ["reading", "joining message trees", "checking ids", "publishing"])
def test_an_ingest_on_a_full_disk_says_so_and_finishes_when_there_is_room(home_at, tmp_path, disk, monkeypatch, stage):
    monkeypatch.setattr(part_files, "ROWS_A_GROUP", 100)
    monkeypatch.setattr(staging, "PART_BYTES", 50_000)
    old, new, messages = sources(tmp_path)
    whole, home = home_at(tmp_path / "whole"), home_at(disk / "home")
    for one in (whole, home):
        one.ingest(old)
    whole.ingest(new, messages)
    before = home.files()
    order = IngestOrder(sources=(str(new), str(messages)), log="chat")
    with refusing(StorageFull, home.logs / "chat") as caught:
        ingesting.ingest(order, home.logs, Fills(disk, stage))
    assert (caught.value.exit_code, caught.value.code) == (1, "storage_full")
    assert "run the same command again" in caught.value.remedy
    after = home.files()
    assert {name: after[name] for name in before} == before
    result = home.ingest(new, messages)  # still no room
    assert (result.code, result.error["code"]) == (1, "storage_full")
    (disk / "filler").unlink()
    done = home.ingest(new, messages)
    assert done.code == 0
    assert done.json["resumed"] is (stage != "reading")
    assert content(home) == content(whole)


@pytest.mark.machine
def test_a_deletion_on_a_full_disk_leaves_the_log_and_nothing_half_written(home_at, tmp_path, disk):
    old, _, _ = sources(tmp_path)
    home = home_at(disk / "home")
    home.ingest(old)
    before = home.files()
    fill(disk)
    with refusing(StorageFull, home.logs / "chat"):
        delete(home.logs, "chat", speakers=["ann"])
    assert home.files() == before
    (disk / "filler").unlink()
    assert delete(home.logs, "chat", speakers=["ann"]).pairs > 0
    assert not any(b'"ann"' in data for data in home.files().values())


@pytest.mark.machine
def test_the_engine_s_spill_on_a_full_disk_is_a_full_disk(disk):
    many = "SELECT range AS n, md5(range::VARCHAR) AS text FROM range(6_000_000)"
    with QueryEngine(disk / "engine", memory=256 << 20) as engine:
        with refusing(StorageFull, disk / "engine"):
            engine.run(f"CREATE TABLE t AS {many}")
        with refusing(StorageFull, disk / "engine"):
            list(engine.batches(f"{many} ORDER BY text"))
    assert list(disk.iterdir()) == []


def limited(size, *arguments):
    """The command in a process that may write files up to this size."""
    program = "import resource, sys; from refaug.cli.main import main\n"
    program += "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); sys.exit(main(sys.argv[2:]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program, str(size), *map(str, arguments)],
        env=environment,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("which", mostly_slow([1, 2], quick=[0]))
def test_a_limit_on_the_size_of_files_is_a_full_disk_too(home_at, tmp_path, which):
    given = sources(tmp_path)
    whole, home = home_at(tmp_path / "whole"), home_at(tmp_path / "home")
    for one in (whole, home):
        one.ingest(given[0])
    whole.ingest(given[which])
    before = home.files()
    command = ("--home", home.path, "log", "ingest", given[which], "--log", "chat", "--json")
    done = limited(20_000, *command)
    assert done.returncode == 1
    error = orjson.loads(done.stderr[done.stderr.index(b'{"error"') :])["error"]
    assert error["code"] == "storage_full"
    assert str(home.logs / "chat") in error["message"]
    assert b"Exception ignored" not in done.stderr
    assert b"Traceback" not in done.stderr
    after = home.files()
    assert {name: after[name] for name in before} == before
    assert home.ingest(given[which]).code == 0
    assert content(home) == content(whole)
