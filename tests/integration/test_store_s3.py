"""`refaug artefacts push` and `fetch` with a bucket: moto's server speaks S3 on loopback (`make test-store`)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import fs
from safeguards import require

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, describe_files
from refaug.core.artefacts.store.collecting import collect_unused, damaged_objects
from refaug.core.artefacts.store.locations import StoreSettings, open_store
from refaug.core.artefacts.store.objects import Store, object_path
from refaug.core.errors import Conflict, Locked, NotFound
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent

pytestmark = pytest.mark.machine

SECRET = "a-secret-of-the-test"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server():
    """The port of moto's server."""
    # Not the one on the path: of another version, it may complete no upload in parts.
    program = os.environ.get("REFAUG_MOTO_SERVER", "")
    require("moto", found=bool(program), why="no REFAUG_MOTO_SERVER: make test-store")
    port = _free_port()
    with subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield port
        process.terminate()


@pytest.fixture
def environment(server, request, monkeypatch):
    """The settings of a store in a bucket of the test, as a user's environment has them."""
    variables = {
        "REFAUG_STORE": f"s3://bucket-{abs(hash(request.node.name)) % 10**8}/prefix",
        "REFAUG_STORE_ENDPOINT": f"http://127.0.0.1:{server}",
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, setting in variables.items():
        monkeypatch.setenv(name, setting)
    bucket = variables["REFAUG_STORE"].split("/")[2]
    fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{server}", scheme="http", region="us-east-1", allow_bucket_creation=True
    ).create_dir(bucket)
    return variables


@pytest.fixture
def store(environment):
    with open_store(StoreSettings.from_env()) as files:
        yield Store(files)


def add_vectors(home: Path, content: bytes) -> str:
    versions, staged = artefact_stores(Settings(home=home))["vectors"], home / "staged"
    staged.mkdir(parents=True)
    (staged / "vectors.npy").write_bytes(content)
    (staged / "words.txt").write_bytes(b"a\nb\n")
    files = describe_files(staged, ["vectors.npy", "words.txt"])
    write_json(staged / MANIFEST, {"kind": "vectors", "format_version": 1, "files": files})
    version = versions.add("tiny", staged)
    versions.publish("tiny", version)
    return version


def content_of(home: Path, version: str) -> dict[str, bytes]:
    folder = artefact_stores(Settings(home=home))["vectors"].folder("tiny", version)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_version_goes_through_a_bucket(home, environment, store, tmp_path):
    version = add_vectors(home.path, bytes(12_000_000))  # more than one part of an upload
    pushed = home("artefacts", "push", "vectors", "tiny", "--json")
    assert (pushed.code, [row["uploaded_files"] for row in pushed.json["versions"]]) == (0, [3])
    assert home("artefacts", "push", "vectors", "tiny", "--json").json["versions"][0]["uploaded_files"] == 0
    assert [record.spec for record in store.records()] == [f"tiny@{version}"]
    assert damaged_objects(store, store.records()[0], Silent()) == []
    first = home.path
    home.path = tmp_path / "node"
    fetched = home("artefacts", "fetch", "vectors", "tiny", "--json")
    assert (fetched.code, fetched.json["versions"][0]["fetched_files"]) == (0, 3)
    assert content_of(home.path, version) == content_of(first, version)
    assert SECRET not in pushed.out + pushed.err + fetched.out + fetched.err


def test_a_bucket_holds_no_secret(home, environment, store):
    add_vectors(home.path, b"x")
    assert home("artefacts", "push", "vectors", "tiny").code == 0
    for folder in ("versions", "objects", "claims", "uploads"):
        for entry in store.files.list(folder):
            content = b"".join(store.files.pieces(entry.path))
            assert SECRET.encode() not in content
            assert b"test-key" not in content


def test_two_publishers_of_one_name_are_kept_apart(home, environment, store, tmp_path):
    add_vectors(home.path, b"mine")
    assert home("artefacts", "push", "vectors", "tiny").code == 0
    record = store.records()[0]
    store.remove_record(record)
    first, home.path = home.path, tmp_path / "other"
    add_vectors(home.path, b"theirs")
    with store.claiming(record) as claim:
        refused = home("artefacts", "push", "vectors", "tiny", "--json")
        assert (refused.code, refused.error["code"]) == (4, Locked.code)
        claim.put_record()
    assert store.records() == [record]
    refused = home("artefacts", "push", "vectors", "tiny", "--json")
    assert (refused.code, refused.error["code"]) == (4, Conflict.code)
    assert first != home.path


def test_unused_objects_go_and_named_ones_stay(home, environment, store):
    first = add_vectors(home.path, b"first")
    assert home("artefacts", "push", "vectors", "tiny").code == 0
    old = store.records()[0]
    add_vectors(home.path, b"second")
    assert home("artefacts", "push", "vectors", "tiny").code == 0
    assert home("artefacts", "remove", "--store", "env", "vectors", f"tiny@{first}", "--yes").code == 0
    assert collect_unused(store, timedelta(0), Silent()).deleted_files == 2
    gone = {file.name for file in [*old.files, old.manifest] if store.files.size(object_path(file.sha256)) is None}
    assert gone == {"vectors.npy", "manifest.json"}
    assert damaged_objects(store, store.records()[0], Silent()) == []


def test_a_bucket_that_is_not_there_is_named(home, environment, monkeypatch):
    add_vectors(home.path, b"x")
    monkeypatch.setenv("REFAUG_STORE", "s3://no-such-bucket/x")
    env = ("--store", "env")
    for command in (("push", "vectors", "tiny"), ("list", *env), ("gc", *env), ("verify", "vectors", "tiny", *env)):
        refused = home("artefacts", *command, "--json")
        assert (refused.code, refused.error["code"]) == (3, NotFound.code), command
        assert "no-such-bucket/x" in refused.error["message"]


def test_a_bucket_without_versions_is_no_error(home, environment):
    listed = home("artefacts", "list", "--store", "env", "--json")
    assert (listed.code, listed.json["versions"]) == (0, [])


def test_a_server_that_is_down_or_silent_is_named(home, environment, monkeypatch):
    add_vectors(home.path, b"x")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("REFAUG_STORE_TIMEOUT_S", "2")
        for listens in (False, True):  # it refuses connections, then it takes them and never answers
            if listens:
                silent.listen()
            monkeypatch.setenv("REFAUG_STORE_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
            refused = home("artefacts", "push", "vectors", "tiny", "--json")
            assert (refused.code, refused.error["code"]) == (4, "unavailable")
            assert SECRET not in refused.out + refused.err


@pytest.mark.parametrize("requests", [2, 6, 12, 20])
def test_a_push_that_is_killed_leaves_no_version_and_then_goes_on(home, environment, store, requests):
    """The command is killed when it has called the store so many times."""
    version = add_vectors(home.path, bytes(6_000_000))
    script = (
        "import os, signal, sys\n"
        "from refaug.core.artefacts.store.store_files import TimedCalls\n"
        "from refaug.cli.main import main\n"
        "real, count = TimedCalls.run, 0\n"
        "def run(self, call):\n"
        "    global count\n"
        "    count += 1\n"
        f"    if count == {requests}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(self, call)\n"
        "TimedCalls.run = run\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, "--home", str(home.path), "artefacts", "push", "vectors", "tiny"]
    killed = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})
    assert killed.returncode == -signal.SIGKILL
    assert store.records() == []
    assert home("artefacts", "push", "vectors", "tiny").code == 0
    assert [record.version for record in store.records()] == [version]
    assert damaged_objects(store, store.records()[0], Silent()) == []
