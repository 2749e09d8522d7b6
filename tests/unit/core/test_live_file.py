"""Files that show which processes are alive: whole or absent, locked until the end, removed after a kill."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import StorageFull
from refaug.core.processes import live_file
from refaug.core.processes.live_file import LiveFile

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30.0
# Another process: it holds a file, says so, and waits; `killed` writes no further line.
OTHER = """
import sys
from pathlib import Path
from refaug.core.processes.live_file import LiveFile
with LiveFile(Path(sys.argv[1]), b"other"):
    print("holds", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def other_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OTHER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_live_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert not LiveFile.is_live(path)
    assert names(tmp_path) == []  # asking makes no file
    with LiveFile(path, b"first") as file:
        assert (LiveFile.is_live(path), path.read_bytes(), file.is_in_place) == (True, b"first", True)
        file.replace(b"second")
        assert (LiveFile.is_live(path), path.read_bytes(), file.is_in_place) == (True, b"second", True)
        assert names(tmp_path) == ["a.json"]
    assert (LiveFile.is_live(path), names(tmp_path), file.is_in_place) == (False, [], False)
    file.close()


def test_the_live_are_read_in_the_order_of_names_and_the_dead_removed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"dead")
    (tmp_path / "a.txt").write_bytes(b"not asked for")
    (tmp_path / ".b.json.aside").write_bytes(b"half")
    with LiveFile(tmp_path / "c.json", b"3"), LiveFile(tmp_path / "b.json", b"2"):
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"2", b"3"]
        assert names(tmp_path) == ["a.txt", "b.json", "c.json"]
    assert list(LiveFile.read_all(tmp_path / "missing", ".json")) == []


def test_a_killed_process_is_dead_at_once_and_leaves_a_file_that_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with other_process(path) as process:
        assert LiveFile.is_live(path)
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"other"]
        process.kill()
        process.wait(PATIENCE_S)
        assert (LiveFile.is_live(path), names(tmp_path)) == (False, ["a.json"])
        assert list(LiveFile.read_all(tmp_path, ".json")) == []
    assert names(tmp_path) == []


def test_a_process_that_ends_removes_its_file(tmp_path: Path) -> None:
    with other_process(tmp_path / "a.json") as process:
        process.communicate("end\n", timeout=PATIENCE_S)
        assert process.returncode == 0
    assert names(tmp_path) == []


def test_two_that_look_at_once_do_not_make_a_dead_file_live(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"dead")
    with (tmp_path / "a.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as another process has it locked while it looks
        assert not LiveFile.is_live(tmp_path / "a.json")
        assert list(LiveFile.read_all(tmp_path, ".json")) == []


def test_a_file_removed_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another process cleans up between the opening of a new file and its lock."""
    flock, removed = live_file.flock, list[str]()

    def remove_then_lock(file: Any, **how: bool) -> None:
        if not removed:
            removed.extend(names(tmp_path))
            assert list(LiveFile.read_all(tmp_path, ".json")) == []
        flock(file, **how)

    monkeypatch.setattr(live_file, "flock", remove_then_lock)
    with LiveFile(tmp_path / "a.json", b"whole") as file:
        assert removed == [".a.json.aside"]
        assert file.is_in_place
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"whole"]


def test_readers_always_find_a_live_file_while_it_is_replaced(tmp_path: Path) -> None:
    over, seen = threading.Event(), list[list[bytes]]()

    def look() -> None:
        while not over.is_set():
            seen.append(list(LiveFile.read_all(tmp_path, ".json")))
            assert LiveFile.is_live(tmp_path / "a.json")

    with LiveFile(tmp_path / "a.json", b"%06d" % 0) as file:
        lookers = [threading.Thread(target=look) for _ in range(3)]
        for looker in lookers:
            looker.start()
        for number in range(1, 300):
            file.replace(b"%06d" % number)
        over.set()
        for looker in lookers:
            looker.join(PATIENCE_S)
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"000299"]
    assert seen
    assert all(len(contents) == 1 and len(contents[0]) == 6 for contents in seen)
    assert names(tmp_path) == []


def test_a_file_that_was_removed_can_be_put_in_place_again(tmp_path: Path) -> None:
    with LiveFile(tmp_path / "a.json", b"1") as file:
        (tmp_path / "a.json").unlink()
        assert not file.is_in_place
        file.replace(b"2")
        assert file.is_in_place
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"2"]


def test_a_full_disk_leaves_the_old_content_and_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with LiveFile(tmp_path / "a.json", b"old") as file:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", no_room)
            with refusing(StorageFull, "a.json"):
                file.replace(b"new")
        assert names(tmp_path) == ["a.json"]
        assert list(LiveFile.read_all(tmp_path, ".json")) == [b"old"]
