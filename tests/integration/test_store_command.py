"""`refaug artefacts push|fetch`: an index goes through a store to another home, and no kill leaves half of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, describe_files, verify_files
from refaug.core.artefacts.store.collecting import collect_unused, damaged_objects
from refaug.core.artefacts.store.objects import Store
from refaug.core.artefacts.store.store_files import LocalFiles
from refaug.core.files import read_json, write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent

pytestmark = pytest.mark.slow

_KILLED = """
import os, signal, sys
from pathlib import Path
from refaug.cli.main import main
from refaug.core.artefacts.store import collecting, fetching, locations, pushing
from refaug.scoring.home import shared_store

def run(count, arguments):
    events = 0
    def watch(name):
        real = getattr(os, name)
        def watched(*values, **options):
            nonlocal events
            events += 1
            if events == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*values, **options)
        setattr(os, name, watched)
    for name in ("fsync", "replace", "rename", "link", "unlink", "rmdir"):
        watch(name)
    code = main(arguments)
    print(events, flush=True)
    return code

sys.stdout.reconfigure(line_buffering=True)
for line in sys.stdin:
    count, *arguments = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")
        code = run(int(count), arguments)
        os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class KillingDriver:
    """Runs commands, each in a forked process that a real SIGKILL ends at its n-th change of the disk."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, count: int, *arguments: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(count, *arguments, sep="\t", file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def killing():
    driver = KillingDriver()
    yield driver
    driver.close()


def add_vectors(home: Path, content: bytes) -> str:
    """Publish a version of a small artefact with two files."""
    versions, staged = artefact_stores(Settings(home=home))["vectors"], home / "staged"
    staged.mkdir(parents=True)
    (staged / "vectors.npy").write_bytes(content)
    (staged / "words.txt").write_bytes(b"a\nb\n")
    files = describe_files(staged, ["vectors.npy", "words.txt"])
    write_json(staged / MANIFEST, {"kind": "vectors", "format_version": 1, "files": files})
    version = versions.add("tiny", staged)
    versions.publish("tiny", version)
    return version


def require_whole(store_folder: Path, *homes: Path) -> set[str]:
    """Require that every version of a store and of homes has all its bytes; return those of the store."""
    store = Store(LocalFiles(store_folder))
    records = store.records()
    for record in records:
        assert damaged_objects(store, record, Silent()) == []
    for home in homes:
        versions = artefact_stores(Settings(home=home))["vectors"]
        for version in versions.versions("tiny"):
            folder = versions.folder("tiny", version)
            verify_files(folder, read_json(folder / MANIFEST))
        assert versions.current("tiny") is None or versions.current("tiny") in versions.versions("tiny")
    return {record.version for record in records}


@pytest.fixture
def scene(tmp_path):
    """A home with two versions of which a store and a node have the first."""
    home, node, store = tmp_path / "home", tmp_path / "node", tmp_path / "store"
    first = add_vectors(home, b"first")
    driver = KillingDriver()
    assert driver(0, "--home", home, "artefacts", "push", "vectors", "tiny", "--store", store) == 0
    assert driver(0, "--home", node, "artefacts", "fetch", "vectors", "tiny", "--store", store) == 0
    driver.close()
    second = add_vectors(home, b"second")
    return home, node, store, first, second


def kills(killing, folder: Path, scene, command, check) -> int:
    """Kill a command at each of its events, each time from the same beginning; then let it end."""
    root = scene[0].parent
    count = 0
    while True:
        count += 1
        copied = folder / f"kill-{count}"
        shutil.copytree(root, copied, symlinks=True, ignore=shutil.ignore_patterns("kill-*"))
        arguments = [copied / part.relative_to(root) if isinstance(part, Path) else part for part in command]
        code = killing(count, *arguments)
        check(copied)
        if code == 0:
            return count - 1
        assert code == -signal.SIGKILL
        assert killing(0, *arguments) == 0
        check(copied, done=True)
        shutil.rmtree(copied)


def test_a_push_that_is_killed_leaves_the_store_whole_and_then_goes_on(killing, scene, tmp_path_factory):
    home, _, store, first, second = scene

    def check(copied: Path, *, done: bool = False) -> None:
        stored = require_whole(copied / "store", copied / "home")
        assert stored in ([{first, second}] if done else [{first}, {first, second}])

    command = ("--home", home, "artefacts", "push", "vectors", f"tiny@{second}", "--store", store)
    assert kills(killing, tmp_path_factory.mktemp("push"), scene, command, check) > 10


def test_a_fetch_that_is_killed_leaves_the_version_before_and_then_goes_on(killing, scene, tmp_path_factory):
    home, node, store, first, second = scene
    assert killing(0, "--home", home, "artefacts", "push", "vectors", "tiny", "--store", store) == 0

    def check(copied: Path, *, done: bool = False) -> None:
        require_whole(copied / "store", copied / "node")
        current = artefact_stores(Settings(home=copied / "node"))["vectors"].current("tiny")
        assert current in ([second] if done else [first, second])
        if done:
            assert list((copied / "node" / "cache").iterdir()) == []

    command = ("--home", node, "artefacts", "fetch", "vectors", "tiny", "--store", store, "--publish")
    assert kills(killing, tmp_path_factory.mktemp("fetch"), scene, command, check) > 10


def test_a_collection_that_is_killed_deletes_nothing_that_a_version_names(killing, scene, tmp_path_factory):
    home, _, store, first, second = scene
    assert killing(0, "--home", home, "artefacts", "push", "vectors", "tiny", "--store", store) == 0
    assert killing(0, "--home", home, "artefacts", "remove", "vectors", f"tiny@{first}", "--yes", "--store", store) == 0

    def check(copied: Path, *, done: bool = False) -> None:
        assert require_whole(copied / "store") == {second}
        if not done:  # a killed collection keeps others out for an hour by the age of its mark
            for mark in (copied / "store" / "collecting").glob("*"):
                moment = mark.stat().st_mtime - 3_700
                os.utime(mark, (moment, moment))

    command = ("--home", home, "artefacts", "gc", "--grace", "0s", "--store", store)
    assert kills(killing, tmp_path_factory.mktemp("gc"), scene, command, check) > 4


def test_an_orphan_of_a_killed_push_is_collected(killing, scene, tmp_path):
    home, _, folder, first, second = scene
    assert killing(14, "--home", home, "artefacts", "push", "vectors", f"tiny@{second}", "--store", folder) == -9
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "tiny":
            os.utime(path, (path.stat().st_mtime - 7_200,) * 2)
    store = Store(LocalFiles(folder))
    collect_unused(store, timedelta(hours=1), Silent())
    assert store.files.list("uploads") == []
    assert require_whole(folder) == {first}


@pytest.mark.parametrize("command", ["list", "gc"])
def test_a_folder_that_is_not_there_is_named(home, tmp_path, command):
    refused = home("artefacts", command, "--store", tmp_path / "missing", "--json")
    assert (refused.code, refused.error["code"]) == (3, "not_found")
    assert str(tmp_path / "missing") in refused.error["message"]
    assert not (tmp_path / "missing").exists()
    (tmp_path / "missing").mkdir()
    assert home("artefacts", "list", "--store", tmp_path / "missing", "--json").json["versions"] == []
