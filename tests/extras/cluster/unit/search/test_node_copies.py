"""Copies of shards on a machine: fetched from the home or a store, compared by hash, held, and collected."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from disks import small_disk
from refusals import refusing

from refaug.core.artefacts.manifests import NamedFile
from refaug.core.artefacts.store.locations import StoreSettings, open_store
from refaug.core.artefacts.store.objects import Store
from refaug.core.errors import Corrupt, NoAccess, Unavailable
from refaug.core.files import remove_tree
from refaug.extras.cluster.calls import Failure, call, name_of
from refaug.extras.cluster.search.node_copies import CopySource, collect_copies, hold_copy

CONTENTS = {"shards/1/pair_start.npy": b"pairs" * 400, "superseded-1.npy": b"masks"}
FILES = [
    NamedFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    for name, content in CONTENTS.items()
]


@pytest.fixture
def home(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_bytes(content)
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def hold():
    """Hold copies until the test ends."""
    with ExitStack() as stack:

        def held(*how):
            copy = hold_copy(*how)
            stack.callback(copy.close)
            return copy

        yield held


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    settings = StoreSettings(location=str(tmp_path / "store"))
    with open_store(settings) as files:
        for file in FILES:
            Store(files).put_object(file.sha256, file.size, [CONTENTS[file.name]])
    return settings


def contents_of(copy):
    return {file.name: (copy.folder / file.name).read_bytes() for file in FILES}


def test_files_are_copied_once_and_shared_by_versions(hold, home, cache):
    source = CopySource(folder=home, store=None)
    first, second = hold(cache, "a-1", FILES, source), hold(cache, "a-1", FILES, source)
    other = hold(cache, "b-1", FILES, source)
    assert [copy.fetched for copy in (first, second, other)] == [2, 0, 0]
    for copy in (first, second, other):
        assert contents_of(copy) == CONTENTS
        assert copy.is_unchanged()  # a further link changes no content
    for name in CONTENTS:
        assert (first.folder / name).samefile(other.folder / name)
        assert not (first.folder / name).samefile(home / name)


def test_a_file_that_is_damaged_is_fetched_again(hold, home, cache):
    source = CopySource(folder=home, store=None)
    with_lock = hold(cache, "a-1", FILES, source)
    damaged = with_lock.folder / FILES[0].name
    damaged.write_bytes(b"other" * 400)
    assert not with_lock.is_unchanged()
    again = hold(cache, "a-1", FILES, source)
    assert again.fetched == 1
    assert contents_of(again) == CONTENTS
    assert again.is_unchanged()
    (again.folder / FILES[1].name).unlink()
    assert not again.is_unchanged()
    assert hold(cache, "a-1", FILES, source).fetched == 0  # the content is still there


def test_the_store_stands_in_for_a_home_that_is_not_there_or_damaged(hold, home, cache, store, tmp_path):
    nowhere = hold(cache, "a-1", FILES, CopySource(folder=tmp_path / "none", store=store))
    assert contents_of(nowhere) == CONTENTS
    (home / FILES[0].name).write_bytes(b"other" * 400)
    elsewhere = hold(tmp_path / "cache-2", "a-1", FILES, CopySource(folder=home, store=store))
    assert contents_of(elsewhere) == CONTENTS


def test_what_cannot_be_fetched_is_named(hold, home, cache, tmp_path):
    (home / FILES[0].name).write_bytes(b"other" * 400)
    with refusing(Corrupt, "shards/1/pair_start.npy"):
        hold(cache, "a-1", FILES, CopySource(folder=home, store=None))
    (home / FILES[0].name).write_bytes(b"short")
    with refusing(Corrupt, "2,000"):
        hold(cache, "a-1", FILES, CopySource(folder=home, store=None))
    with refusing(Unavailable):
        hold(cache, "a-1", FILES, CopySource(folder=tmp_path / "none", store=None))
    assert not list(cache.rglob("*.aside"))


def fetched_by_call(cache, home):
    """What a machine that calls this gets: a copy, or the error as it is brought home."""
    copy = {"cache": cache, "name": "a-1", "files": FILES, "source": CopySource(folder=home, store=None)}
    return call(name_of(hold_copy), copy)


@pytest.mark.machine
def test_a_full_disk_under_the_copies_is_named_with_its_machine(home):
    refusals = []
    with small_disk("size=1m,nr_inodes=30") as disk:
        for taken in range(24, 0, -1):  # less and less is left: each step of a fetch meets the full disk
            for number in range(taken):
                (disk / f"taken-{number}").touch()
            answer = fetched_by_call(disk / "cache", home)
            if isinstance(answer, Failure):
                refusals.append(answer)
            else:
                assert contents_of(answer) == CONTENTS
                answer.close()
            for path in disk.iterdir():
                remove_tree(path) if path.is_dir() else path.unlink()
    assert len(refusals) > 5
    for refusal in refusals:
        assert refusal.kind == "StorageFull"
        assert socket.gethostname() in refusal.message
        assert refusal.message.endswith("the disk is full")
    with small_disk("size=64k") as disk:
        (disk / "taken").write_bytes(bytes(56 << 10))
        big = home / "big"
        big.write_bytes(bytes(9 << 10))
        file = NamedFile(name="big", size=9 << 10, sha256=hashlib.sha256(bytes(9 << 10)).hexdigest())
        place = {"cache": disk, "name": "a-1", "source": CopySource(folder=home, store=None)}
        refused = call(name_of(hold_copy), {**place, "files": [file]})
        assert refused.kind == "StorageFull"
        assert refused.message.startswith(f"on {socket.gethostname()}: {disk}: 9,216 bytes are needed, ")


@pytest.mark.machine
def test_a_folder_of_copies_that_cannot_be_written_to_is_named_with_its_machine(home, tmp_path):
    (tmp_path / "file").touch()
    with small_disk("ro") as read_only:
        for cache, why in (
            (read_only / "cache", "read-only file system"),
            (tmp_path / "file" / "cache", "file exists"),
            (Path("/proc/none/cache"), "no such file or directory"),
        ):
            refused = fetched_by_call(cache, home)
            assert refused.kind == "NoAccess", refused
            assert str(cache.parent) in refused.message
            assert refused.message.endswith(f" on {socket.gethostname()}: {why}")


def test_a_damaged_file_is_named_with_the_machine_that_wants_it(home, cache):
    (home / FILES[0].name).write_bytes(b"other" * 400)
    refused = fetched_by_call(cache, home)
    assert refused.kind == "Corrupt"
    assert refused.message.startswith(f"on {socket.gethostname()}: {FILES[0].name} is damaged: ")


def modes(cache):
    return [stat.S_IMODE(path.stat().st_mode) for path in (cache, cache / "files", cache / "held")]


def test_copies_are_open_to_their_user_alone(hold, home, cache, monkeypatch):
    source = CopySource(folder=home, store=None)
    with ExitStack() as restored:
        restored.callback(os.umask, os.umask(0))
        hold(cache, "a-1", FILES, source)
        assert modes(cache) == [0o700] * 3
        for folder in (cache, cache / "files", cache / "held"):
            folder.chmod(0o755)  # as an operator may have made the first one
        hold(cache, "b-1", FILES, source)
    assert modes(cache) == [0o755, 0o700, 0o700]
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    with refusing(NoAccess, "4000000000"):
        hold(cache, "a-1", FILES, source)


@pytest.mark.parametrize("name", ["", "files", "held"])
def test_a_link_in_the_place_of_copies_is_refused(hold, home, cache, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    if name:
        cache.mkdir()
    (cache / name).symlink_to(tmp_path / "elsewhere")
    with refusing(NoAccess, cache / name) as refused:
        hold(cache, "a-1", FILES, CopySource(folder=home, store=None))
    assert "REFAUG_NODE_CACHE" in refused.value.remedy
    assert list((tmp_path / "elsewhere").iterdir()) == []


@contextmanager
def failing_server(how):
    """The address of a store that refuses connections, takes them without an answer, or goes in the middle of one."""
    with socket.socket() as listener, ExitStack() as accepted:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(60)
        if how != "refuses":
            listener.listen()

        def go_away():
            request = b"HEAD"
            while request.startswith(b"HEAD"):
                connection, _ = listener.accept()
                with connection:
                    request = connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\nConnection: close\r\n\r\n")
                    if request.startswith(b"GET"):
                        listener.close()  # to further attempts
                        connection.sendall(b"pairs" * 40)

        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if how == "goes away":
            thread = threading.Thread(target=go_away)
            thread.start()
            accepted.callback(thread.join)
        yield address


SLOW = [pytest.param(how, marks=pytest.mark.slow) for how in ("never answers", "goes away")]


@pytest.mark.parametrize("how", ["refuses", *SLOW])
def test_a_store_that_fails_under_a_fetch_is_named_with_machine_and_file(cache, tmp_path, monkeypatch, how):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "loopback-secret")
    with failing_server(how) as address:
        store = StoreSettings(
            location="s3://bucket/indexes", endpoint=address, timeout_s=0.5 if how == "refuses" else 3.0
        )
        source = CopySource(folder=tmp_path / "none", store=store)
        refused = call(name_of(hold_copy), {"cache": cache, "name": "a-1", "files": FILES, "source": source})
    assert refused.kind == "Unavailable"
    assert refused.message.startswith(
        f"on {socket.gethostname()}: {FILES[0].name} is nowhere to be fetched from: the home does not have it; "
        "the store s3://bucket/indexes cannot be read: the store s3://bucket/indexes "
    )
    assert "loopback-secret" not in refused.message
    assert not list(cache.rglob("*.aside"))
    assert list((cache / "files").iterdir()) == []


def test_only_what_no_process_holds_is_removed(hold, home, cache):
    source = CopySource(folder=home, store=None)
    held, free = hold(cache, "a-1", FILES, source), hold(cache, "b-1", FILES[:1], source)
    assert collect_copies(cache, []) == ["a-1", "b-1"]
    free.close()
    assert collect_copies(cache, ["b-1"]) == ["a-1"]
    assert free.folder.is_dir()
    assert collect_copies(cache, []) == ["a-1"]
    assert not free.folder.exists()
    assert contents_of(held) == CONTENTS
    held.close()
    assert collect_copies(cache, []) == []
    assert list((cache / "held").iterdir()) == list((cache / "files").iterdir()) == []
    assert collect_copies(cache.parent / "none", []) == []


def test_what_is_mapped_is_looked_at_whatever_its_name_means_by_now(hold, home, cache):
    source = CopySource(folder=home, store=None)
    copy = hold(cache, "a-1", FILES, source)
    name = copy.folder / FILES[0].name
    assert copy.is_unchanged()
    (cache / "another name").hardlink_to(name)
    assert copy.is_unchanged()
    name.write_bytes(CONTENTS[FILES[0].name])  # the same bytes once more
    assert copy.is_unchanged()
    (cache / "whole").write_bytes(CONTENTS[FILES[0].name])
    name.write_bytes(b"other" * 400)
    (cache / "whole").replace(name)  # a whole file again, but it is not the one that was opened
    assert not copy.is_unchanged()
    assert hold(cache, "a-1", FILES, source).is_unchanged()


def test_a_copy_that_is_closed_counts_as_changed(hold, home, cache):
    copy = hold(cache, "a-1", FILES, CopySource(folder=home, store=None))
    copy.close()
    assert not copy.is_unchanged()
    copy.close()
