"""Scores that are kept: found by everything they depend on, to the last bit, by several processes, and never wrong."""

from __future__ import annotations

import logging
import math
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from refaug_client import Usage
from refaug_client._scorer.sources.cache import FileCache, LayeredCache, MemoryCache, key_of, namespace_of

SPACE = namespace_of("a set", "a signature")


def keys(count: int, first: int = 0) -> list[bytes]:
    return [key_of(SPACE, "d1", f"reply {number}") for number in range(first, first + count)]


def test_a_key_differs_with_everything_that_a_score_depends_on() -> None:
    found = [
        key_of(one, item, reply)
        for one in (SPACE, namespace_of("another set", "a signature"), namespace_of("a set", "another signature"))
        for item, reply in (
            ("d1", "tea"), ("d1", "Tea"), ("d1", "tea "), ("d1t", "ea"), ("d", "1tea"), ("d1", ""), ("", "d1"),
            ("d1", "caf\u00e9"), ("d1", "cafe\u0301"), ("d1", "a\0b"), ("d1\0", "b"), ("1:d", "1"), ("1", ":d1"),
        )
    ]  # fmt: skip
    assert len(set(found)) == len(found) == 39
    assert key_of(namespace_of("a set", "a signature"), "d1", "tea") == found[0]
    assert namespace_of("ab", "c") != namespace_of("a", "bc")
    assert namespace_of(None) != namespace_of("None")


def test_memory_forgets_what_was_not_used_for_longest() -> None:
    memory = MemoryCache[bytes](3)
    first, second, third, fourth = keys(4)
    memory.put({first: 0.1, second: None, third: 0.3})
    assert memory.get([first, fourth]) == {first: 0.1}
    memory.put({fourth: 0.4})
    assert memory.get([first, second, third, fourth]) == {first: 0.1, third: 0.3, fourth: 0.4}
    assert len(memory) == 3


@pytest.mark.parametrize(
    "score", [0.1 + 0.2, -0.0, 0.0, 1.0, -1.0, 5e-324, 1.7976931348623157e308, math.nextafter(0.5, 1), None]
)
def test_a_file_gives_back_every_bit(tmp_path: Path, score: float | None) -> None:
    (key,) = keys(1)
    cache = FileCache(tmp_path / "scores.sqlite")
    cache.put({key: score})
    cache.close()
    (found,) = FileCache(tmp_path / "scores.sqlite").get([key]).values()
    if score is None:
        assert found is None
    else:
        assert isinstance(found, float)
        assert found.hex() == score.hex()


def test_a_file_is_asked_for_any_number_of_keys(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "new" / "folder" / "scores.sqlite")
    assert cache.get([]) == {}
    assert cache.get(keys(3)) == {}
    cache.put({key: number / 7 for number, key in enumerate(keys(2_000))})
    assert cache.get(keys(2_000)) == {key: number / 7 for number, key in enumerate(keys(2_000))}
    assert len(cache) == 2_000
    cache.put({})
    cache.put({keys(1)[0]: 0.9})  # the first one stays: a score against a frozen set never changes
    assert cache.get(keys(1)) == {keys(1)[0]: 0.0}


def test_a_file_keeps_to_its_size_and_lets_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    cache = FileCache(path, most_mib=0.5)
    for first in range(0, 30_000, 500):
        cache.put(dict.fromkeys(keys(500, first), 0.5))
    cache.close()
    assert path.stat().st_size < 0.7 * 2**20
    again = FileCache(path)
    assert again.get(keys(500, 29_500)) == dict.fromkeys(keys(500, 29_500), 0.5)
    assert again.get(keys(500)) == {}
    assert 1_000 < len(again) < 15_000


def test_several_processes_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    code = (
        "import sys; from refaug_client._scorer.sources.cache import FileCache, key_of, namespace_of\n"
        "cache, me = FileCache(sys.argv[1]), sys.argv[2]\n"
        "for n in range(40):\n"
        "    cache.put({key_of(namespace_of(), me, str(50 * n + k)): n / 3 for k in range(50)})\n"
        "assert not cache._is_off\n"
        "cache.close()\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(me)]) for me in range(4)]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0, 0]
    found = FileCache(path).get(key_of(namespace_of(), str(me), str(n)) for me in range(4) for n in range(2_000))
    assert len(found) == 8_000
    assert found[key_of(namespace_of(), "3", "1999")] == 39 / 3
    assert [one.name for one in tmp_path.iterdir() if "damaged" in one.name] == []


def interrupt_next_connection(
    path: Path, statement: int, script: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Let another connection run a script before the n-th statement of the next one.

    Return a list with the file's mark before the script, which is empty while the lock kept the script out.
    """
    connect, marks = sqlite3.connect, list[int]()

    class Interrupted(sqlite3.Connection):
        count = 0

        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if Interrupted.count == statement:
                other = connect(path, timeout=0, isolation_level=None)
                try:
                    other.execute("BEGIN IMMEDIATE")
                    mark = other.execute("PRAGMA application_id").fetchone()[0]
                    for sql in (*script, "COMMIT"):
                        other.execute(sql)
                    marks.append(mark)
                except sqlite3.OperationalError as error:
                    assert "locked" in str(error)  # noqa: PT017
                other.close()
            Interrupted.count += 1
            return super().execute(*arguments)

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **settings: connect(*args, **settings, factory=Interrupted))
    return marks


@pytest.mark.parametrize("statement", range(12))
def test_a_file_that_another_process_is_making_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    FileCache(tmp_path / "model.sqlite").close()
    model = sqlite3.connect(tmp_path / "model.sqlite")
    table = model.execute("SELECT sql FROM sqlite_master WHERE name = 'scores_1'").fetchone()[0]
    mark = model.execute("PRAGMA application_id").fetchone()[0]
    model.close()
    path = tmp_path / "scores.sqlite"
    script = [f"PRAGMA application_id = {mark}", table.replace("TABLE", "TABLE IF NOT EXISTS")]
    marks = interrupt_next_connection(path, statement, script, monkeypatch)
    cache = FileCache(path)
    monkeypatch.undo()
    assert marks in ([], [0], [mark])
    assert marks == [0] or statement > 1  # nothing was locked before the first look at the file
    cache.put({keys(1)[0]: 0.5})
    assert cache.get(keys(1)) == {keys(1)[0]: 0.5}
    cache.close()


@pytest.mark.parametrize("statement", range(12))
def test_a_file_that_another_program_is_making_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    path = tmp_path / "mail.sqlite"
    marks = interrupt_next_connection(path, statement, ["CREATE TABLE letters (text)"], monkeypatch)
    if statement in (0, 1, 4):  # before the file is looked at, and between that and the lock
        with refusing(Usage):
            FileCache(path)
    else:
        FileCache(path).close()
    monkeypatch.undo()
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
    mark, journal = (database.execute(f"PRAGMA {what}").fetchone()[0] for what in ("application_id", "journal_mode"))
    database.close()
    if statement in (0, 1, 4):
        assert (marks, tables, mark, journal) == ([0], ["letters"], 0, "delete")
    else:  # locked out, or too late: the file was a cache by then
        assert marks == [] or marks == [mark] != [0]
        assert "scores_1" in tables


def test_threads_share_one_cache(tmp_path: Path) -> None:
    cache = LayeredCache(MemoryCache(1_000), FileCache(tmp_path / "scores.sqlite"))
    wrong: list[object] = []

    def work(me: int) -> None:
        for number in range(30):
            mine = {key_of(SPACE, str(me), str(number)): me + number / 7}
            cache.put(mine)
            if cache.get(mine) != mine:
                wrong.append((me, number))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    cache.close()


@pytest.mark.parametrize("damage", ["garbage", "header", "middle", "cut", "a bit of a score"])
def test_a_damaged_file_is_set_aside_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    path = tmp_path / "scores.sqlite"
    cache = FileCache(path)
    cache.put(dict.fromkeys(keys(2000), 1 / 3))
    cache.close()
    content = bytearray(path.read_bytes())
    if damage == "garbage":
        content = bytearray(os.urandom(5_000))
    elif damage == "header":
        content[:16] = b"something else  "
    elif damage == "middle":
        content[4_096:] = os.urandom(len(content) - 4_096)
    elif damage == "cut":
        del content[6_000:]
    else:
        number = (1 / 3).hex()

        at = content.index(struct.pack("<d", float.fromhex(number)))
        while at >= 0:
            content[at] ^= 1
            at = content.find(struct.pack("<d", float.fromhex(number)), at + 8)
    path.write_bytes(bytes(content))
    again = FileCache(path)
    with caplog.at_level(logging.WARNING):
        found = again.get(keys(2_000))
        again.put({keys(1)[0]: 0.25})
        again.get(keys(1))  # where it was only found out by reading, this is the new file
        again.put({keys(1)[0]: 0.25})
    assert set(found.values()) <= {1 / 3}
    assert again.get(keys(1)) == {keys(1)[0]: 0.25}
    (aside,) = tmp_path.glob("scores.sqlite.damaged-*")
    assert aside.read_bytes()[:4_000] == bytes(content)[:4_000]
    assert str(aside) in caplog.text
    assert "is damaged" in caplog.text


def test_a_second_process_does_not_set_the_new_file_aside(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    first, second = FileCache(path), FileCache(path)
    first.put(dict.fromkeys(keys(2_000), 0.5))
    first._set_aside(Exception("seen by the first"))
    first.put({keys(1)[0]: 0.75})
    second._set_aside(Exception("seen by the second"))
    assert second.get(keys(1)) == {keys(1)[0]: 0.75}
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mail.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE letters (text)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with refusing(Usage):
        FileCache(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["mail.sqlite"]


def test_a_path_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    with refusing(Usage):
        FileCache(tmp_path)  # a folder
    (tmp_path / "file").write_text("")
    with refusing(Usage):
        FileCache(tmp_path / "file" / "scores.sqlite")


def test_a_file_that_is_held_too_long_costs_nothing_but_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("refaug_client._scorer.sources.cache._BUSY_S", 0.01)
    path = tmp_path / "scores.sqlite"
    cache = FileCache(path)
    cache.put({keys(1)[0]: 0.5})
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    cache.put({keys(2)[1]: 0.6})
    assert cache.get(keys(2)) == {keys(1)[0]: 0.5}
    holder.execute("ROLLBACK")
    holder.close()
    cache.put({keys(2)[1]: 0.6})
    assert cache.get(keys(2)) == {keys(2)[0]: 0.5, keys(2)[1]: 0.6}
    assert caplog.text == ""


def test_a_file_that_went_away_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "here" / "scores.sqlite"
    cache = FileCache(path)
    cache.put({keys(1)[0]: 0.5})
    cache.close()
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("now a file")
    assert cache.get(keys(1)) == {}
    cache.put({keys(1)[0]: 0.5})
    assert caplog.text.count("is not used any more") == 1


def test_a_forked_child_opens_the_file_anew_and_leaves_the_parents_alone(tmp_path: Path) -> None:
    cache = LayeredCache(MemoryCache(10), FileCache(tmp_path / "scores.sqlite"))
    cache.put({keys(1)[0]: 0.5})
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            cache.put({keys(2)[1]: 0.75})
            code = 0 if cache.get(keys(2)) == {keys(2)[0]: 0.5, keys(2)[1]: 0.75} else 2
            cache.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get(keys(2)) == {keys(2)[0]: 0.5, keys(2)[1]: 0.75}
    cache.close()


def test_a_cache_travels_as_its_path(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "scores.sqlite", most_mib=2)
    cache.put({keys(1)[0]: 0.5})
    again = pickle.loads(pickle.dumps(cache))
    assert again.path == cache.path
    assert again.get(keys(1)) == {keys(1)[0]: 0.5}


def test_both_fill_memory_out_of_the_file(tmp_path: Path) -> None:
    memory, file = MemoryCache[bytes](10), FileCache(tmp_path / "scores.sqlite")
    file.put({keys(1)[0]: 0.5})
    both = LayeredCache(memory, file)
    assert both.get(keys(2)) == {keys(1)[0]: 0.5}
    assert memory.get(keys(2)) == {keys(1)[0]: 0.5}
    both.put({keys(2)[1]: None})
    assert file.get(keys(2)) == {keys(2)[0]: 0.5, keys(2)[1]: None}
