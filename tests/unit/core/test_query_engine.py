"""The log engine: answers, order of files, errors in our tree, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from refaug.core import query_engine
from refaug.core.errors import Conflict, Corrupt, RefaugError
from refaug.core.processes.live_file import IN_USE
from refaug.core.query_engine import QueryEngine, occupy_scratch, parquet, quote_path, scratch_in

ROOT = Path(__file__).parents[3]


@pytest.fixture
def engine(tmp_path):
    with QueryEngine(tmp_path / "engine", memory=256 << 20) as engine:
        yield engine


def test_answers_large_and_small(engine):
    engine.run("CREATE TABLE t AS SELECT range AS n FROM range(50_000)")
    assert engine.number("SELECT sum(n) FROM t WHERE n < ?", [4]) == 6
    assert engine.rows("SELECT n, n + 1 FROM t ORDER BY n LIMIT 2") == [(0, 1), (1, 2)]
    batches = list(engine.batches("SELECT n FROM t ORDER BY n"))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == list(range(50_000))
    assert max(batch.num_rows for batch in batches) <= 20_000


def test_other_queries_may_run_between_the_batches_of_one(engine):
    engine.run("CREATE TABLE t AS SELECT range AS n FROM range(1_000)")
    found = []
    for batch in engine.batches("SELECT n FROM t ORDER BY n", size=100):
        found += batch["n"].to_pylist()
        assert engine.number("SELECT count(*) FROM t") == 1_000
        assert len(list(engine.batches("SELECT n FROM t", size=10))) == 100
    assert found == list(range(1_000))


def test_files_are_numbered_in_the_order_given_with_any_name(engine, tmp_path):
    paths = [tmp_path / name for name in ("b.parquet", "it's.parquet", "a.parquet")]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"n": [number * 10, number * 10 + 1]}), path)
    found = engine.rows(f"SELECT file_index, file_row_number, n FROM {parquet(paths)} ORDER BY ALL")
    assert found == [(0, 0, 0), (0, 1, 1), (1, 0, 10), (1, 1, 11), (2, 0, 20), (2, 1, 21)]


def test_quotes_in_a_path_stay_inside_the_string():
    assert quote_path(Path("a'b")) == "'a''b'"


def test_times_are_utc_wherever_they_are_read(tmp_path):
    program = "import sys; from pathlib import Path; from refaug.core.query_engine import QueryEngine\n"
    program += "with QueryEngine(Path(sys.argv[1]), memory=1 << 28) as e:\n"
    program += "    print([b['t'].to_pylist() for b in e.batches('SELECT to_timestamp(0) AS t')])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "e")], env=environment, check=True, capture_output=True
    )
    assert b"datetime.datetime(1970, 1, 1, 0, 0, tzinfo=" in done.stdout


def test_its_folder_goes_with_it_even_after_an_error(tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/left-by-a-kill").write_bytes(b"x")
    engine = QueryEngine(tmp_path / "engine", memory=1 << 28)
    assert not (tmp_path / "engine/left-by-a-kill").exists()
    with refusing(RefaugError), engine:
        engine.run("SELECT nonsense")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named_and_not_the_engine(engine, tmp_path):
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"n": list(range(50_000))}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36  # the head of the first page
    path.write_bytes(content)
    with refusing(Corrupt):
        engine.run(f"SELECT sum(n) FROM {parquet([path])}")
    pq.write_table(pa.table({"m": [1]}), path)
    with refusing(Corrupt):
        engine.run(f"SELECT n FROM {parquet([path])}")


def test_a_missing_file_was_replaced_while_it_was_read(engine, tmp_path):
    with refusing(Conflict, "gone.parquet"):
        engine.run(f"SELECT * FROM {parquet([tmp_path / 'gone.parquet'])}")
    with refusing(Conflict, "gone.parquet"):
        list(engine.batches(f"SELECT * FROM {parquet([tmp_path / 'gone.parquet'])}"))


def test_what_does_not_fit_into_memory_says_what_to_change(engine):
    with refusing(RefaugError, "--memory"):
        engine.run("SELECT list(range), list(md5(range::VARCHAR)) FROM range(10_000_000)")


@pytest.mark.parametrize("how", ["run", "rows", "batches"])
def test_ctrl_c_stops_a_query(tmp_path, how):
    program = """if True:
        import signal, sys, threading, os
        from pathlib import Path
        from refaug.core.query_engine import QueryEngine
        sql = "SELECT a.range FROM range(100_000_000) a JOIN range(100_000) b ON a.range % 7 = b.range % 11 ORDER BY 1"
        with QueryEngine(Path(sys.argv[1]), memory=1 << 28) as engine:
            batches = lambda sql: list(engine.batches(sql))
            work = {"run": engine.run, "rows": engine.rows, "batches": batches}[sys.argv[2]]
            print("begun", flush=True)
            work(sql)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "engine"), how],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith(b"KeyboardInterrupt")
    assert list(tmp_path.iterdir()) == []


def test_scratch_folders_of_killed_processes_go_wherever_they_were_killed(tmp_path: Path) -> None:
    unmarked, half, dead, foreign = (tmp_path / f"engine-{name}" for name in ("1-a", "2-b", "3-c", "4-d"))
    for folder in (unmarked, half, dead, foreign):
        folder.mkdir()
    (half / f".{IN_USE}.aside").touch()  # not locked: its process has ended
    (dead / IN_USE).touch()
    (dead / "scratch.duckdb").touch()
    (foreign / "notes").touch()  # no scratch folder of an engine
    with occupy_scratch(scratch_in(tmp_path)) as live:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["engine-4-d", live.path.parent.name])
        scratch_in(tmp_path)
        assert live.is_in_place


def test_a_scratch_folder_that_was_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, make = tmp_path / "engine-1-a", query_engine.make_folder
    times = list[Path]()

    def make_and_lose(path: Path) -> None:
        make(path)
        times.append(path)
        if len(times) == 1:
            scratch_in(tmp_path)  # another process begins before the folder is marked

    monkeypatch.setattr(query_engine, "make_folder", make_and_lose)
    with occupy_scratch(folder) as live:
        assert live.is_in_place
    assert times == [folder, folder]
