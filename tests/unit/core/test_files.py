"""Files that are whole or absent, names that are names, and the lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import Corrupt, Locked, StorageFull, Usage
from refaug.core.files import (
    exclusive,
    make_folder,
    read_json,
    remove_asides,
    remove_tree,
    require_name,
    sha256_of,
    storage_errors,
    write_aside,
    write_json,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["a", "0", "chat-2026.11_x", "x" * 64])
def test_names_are_taken_as_they_are(name):
    assert require_name("log", name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "A", "a/b", "a\\b", "a\n", "a\0", "é", "x" * 65, "a "])
def test_what_is_no_name_is_refused_with_the_rule(name):
    with refusing(Usage):
        require_name("log", name)


def test_a_file_written_aside_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with write_aside(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_file_that_is_not_finished_leaves_the_old_one_and_no_trace(tmp_path, error):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error), write_aside(path) as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_process_left_aside_is_removed_and_nothing_else(tmp_path):
    for name in (".out.17.aside", "out", ".lock", "x.aside"):
        (tmp_path / name).write_bytes(b"")
    remove_asides(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "out", "x.aside"]


def test_json_is_read_as_it_was_written(tmp_path):
    write_json(tmp_path / "m.json", {"a": [1, "ü"], "b": None})
    assert read_json(tmp_path / "m.json") == {"a": [1, "ü"], "b": None}


@pytest.mark.parametrize(("data", "why"), [(b"{", "not JSON"), (b"[1]", "a list was found"), (b"", "not JSON")])
def test_broken_json_is_corrupt_and_named(tmp_path, data, why):
    (tmp_path / "m.json").write_bytes(data)
    with refusing(Corrupt, "m.json", why):
        read_json(tmp_path / "m.json")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_storage_full_and_named(number):
    with refusing(StorageFull, "some/file"), storage_errors(Path("some/file")):
        raise OSError(number, "no")


def test_other_errors_of_the_system_pass():
    with pytest.raises(PermissionError), storage_errors(Path("x")):
        raise PermissionError(errno.EACCES, "no")


def test_the_hash_is_that_of_the_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_of(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_removing_what_is_gone_is_no_error(tmp_path):
    make_folder(tmp_path / "a" / "b")
    remove_tree(tmp_path / "a")
    remove_tree(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_removed_while_another_thread_writes_into_it(tmp_path):
    folder, begun = tmp_path / "scratch" / "attempts" / "2", threading.Event()
    make_folder(folder)

    def write():
        for number in count():
            try:
                (folder / str(number)).write_bytes(b"")
            except FileNotFoundError:
                return  # the folder is gone
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        begun.wait(30)
        remove_tree(tmp_path / "scratch")
        writing.result(30)
    assert list(tmp_path.iterdir()) == []


def test_a_held_folder_is_locked_and_names_the_holder(tmp_path):
    other = exclusive(tmp_path / "log", "deleting")
    with (
        exclusive(tmp_path / "log", "ingesting"),
        refusing(Locked, os.getpid()),
        other,
    ):
        pass
    with exclusive(tmp_path / "log", "deleting"):
        assert (tmp_path / "log/.lock").read_text() == f"deleting, process {os.getpid()}\n"


def test_a_lock_goes_with_its_process_however_that_ends(tmp_path):
    program = "import os, sys; from pathlib import Path; from refaug.core.files import exclusive\n"
    program += "with exclusive(Path(sys.argv[1]), 'x'): os.kill(os.getpid(), 9)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], env=environment, check=False)
    assert done.returncode == -9
    with exclusive(tmp_path / "log", "after"):
        pass


def test_a_folder_deleted_by_the_holder_is_made_anew_by_the_next(tmp_path):
    folder = tmp_path / "log"
    with exclusive(folder, "deleting"):
        folder.rename(tmp_path / "gone")
        with exclusive(folder, "another log of that name"):
            assert (folder / ".lock").exists()
