"""A store gives back what was put into it, keeps two publishers apart, and never deletes what a version names."""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from pyarrow import fs
from refusals import refusing

from refaug.core.artefacts.manifests import describe_files, verify_files
from refaug.core.artefacts.store.collecting import collect_unused, damaged_objects, outdated_records, remove_versions
from refaug.core.artefacts.store.fetching import fetch_version, resolve
from refaug.core.artefacts.store.locations import StoreSettings, open_store
from refaug.core.artefacts.store.objects import NeededVersion, Store, VersionRecord, object_path
from refaug.core.artefacts.store.pushing import push_version
from refaug.core.artefacts.store.store_files import ArrowFiles, LocalFiles, without_secrets
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, Locked, NoAccess, NotFound, StorageFull, Unavailable, Usage
from refaug.core.files import read_json, write_json
from refaug.core.progress import Silent

TODAY = date(2026, 11, 20)
FILES = {
    "words.txt": b"a\nb\n",
    "shards/0/rows.npy": bytes(range(256)) * 700,
    "shards/1/bm25/rows.npy": b"1",
    "no": b"",
}
LATER = {**FILES, "shards/1/bm25/rows.npy": b"2"}
DAY = timedelta(days=1)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def add(folder: Path, files=FILES, **manifest) -> Versions:
    """Add a version with these files to the index `chat` of a home."""
    versions, staged = Versions(folder / "indexes", "index", lambda: TODAY), folder / "staged"
    for name, content in files.items():
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).write_bytes(content)
    described = describe_files(staged, files)
    write_json(staged / "manifest.json", {"kind": "index", "format_version": 1, "files": described, **manifest})
    versions.publish("chat", versions.add("chat", staged))
    return versions


@pytest.fixture(params=["local", "subtree", "mock"])
def store(request, tmp_path) -> Store:
    if request.param == "local":
        return Store(LocalFiles(tmp_path / "store"))
    if request.param == "subtree":
        (tmp_path / "outer").mkdir()
        return Store(
            ArrowFiles(fs.SubTreeFileSystem(str(tmp_path / "outer"), fs.LocalFileSystem()), "s", "x", timeout_s=60)
        )
    return Store(ArrowFiles(fs._MockFileSystem(datetime.now(UTC)), "bucket/prefix", "mock://x", timeout_s=60))


@pytest.fixture
def versions(tmp_path) -> Versions:
    return add(tmp_path / "home")


def test_a_folder_or_bucket_that_does_not_exist_is_named(store, versions, request):
    with refusing(NotFound):
        store.files.require_root()
    push(store, versions)
    store.files.require_root()


def push(store: Store, versions: Versions, spec="chat", **options):
    return push_version(store, versions, spec, Silent(), **options)


def fetch(store: Store, folder: Path, spec="chat", *, publish=False):
    here = Versions(folder / "indexes", "index", lambda: TODAY)
    return fetch_version(store, here, resolve(store, "index", spec), folder / "cache", Silent(), publish=publish), here


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def damage(store: Store, sha256: str, content: bytes | None) -> None:
    """Replace an object behind the store's back, or delete it."""
    if content is None:
        store.files.delete(object_path(sha256))
    else:
        store.files.write(object_path(sha256), [content])


# what goes in comes out


def test_a_version_comes_back_byte_by_byte(store, versions, tmp_path):
    pushed = push(store, versions)
    assert (pushed.uploaded_files, pushed.was_there) == (5, False)  # four files and the manifest
    fetched, here = fetch(store, tmp_path / "node")
    assert (fetched.fetched_files, fetched.linked_files, fetched.published) == (5, 0, True)
    assert content_of(here.folder("chat", "2026-11-20.1")) == content_of(versions.folder("chat", "2026-11-20.1"))
    assert here.current("chat") == "2026-11-20.1"
    assert not list((tmp_path / "node" / "cache").iterdir())


def test_the_record_lists_shards_with_hashes_and_places(store, versions):
    record = push(store, versions).record
    assert [part.folder for part in record.parts] == [".", "shards/0", "shards/1"]
    shard = record.parts[1]
    assert (shard.bytes, dict(shard.files)) == (
        179_200,
        {
            "shards/0/rows.npy": {
                "size": 179_200,
                "sha256": sha(FILES["shards/0/rows.npy"]),
                "at": object_path(sha(FILES["shards/0/rows.npy"])),
            }
        },
    )
    assert store.records() == [record]
    assert store.record("index", "chat", "2026-11-20.1") == record
    for sha256, size in record.objects.items():
        assert store.files.size(object_path(sha256)) == size


def test_a_second_push_sends_nothing(store, versions):
    push(store, versions)
    again = push(store, versions)
    assert (again.uploaded_files, again.was_there) == (0, True)


def test_a_later_version_sends_and_fetches_only_what_changed(store, versions, tmp_path):
    push(store, versions)
    fetch(store, tmp_path / "node")
    add(tmp_path / "home", LATER)
    assert push(store, versions).uploaded_files == 2  # the shard's file and the manifest
    fetched, here = fetch(store, tmp_path / "node", publish=True)
    assert (fetched.record.version, fetched.fetched_files, fetched.linked_files) == ("2026-11-20.2", 2, 3)
    assert content_of(here.folder("chat", "2026-11-20.2")) == content_of(versions.folder("chat", "2026-11-20.2"))
    first, second = (here.folder("chat", version) / "words.txt" for version in here.versions("chat"))
    assert first.samefile(second)


def test_an_older_version_is_fetched_by_name(store, versions, tmp_path):
    push(store, versions)
    add(tmp_path / "home", LATER)
    push(store, versions)
    fetched, _ = fetch(store, tmp_path / "node", "chat@2026-11-20.1")
    assert fetched.record.version == "2026-11-20.1"
    with refusing(NotFound, "chat@2026-11-20.7", "chat@2026-11-20.1", "chat@2026-11-20.2"):
        resolve(store, "index", "chat@2026-11-20.7")
    with refusing(NotFound, "other"):
        resolve(store, "index", "other")


@pytest.mark.parametrize("spec", ["../chat", "chat/..", "", "chat@..", "chat@../../x", "Chat"])
def test_names_that_lead_elsewhere_are_refused(versions, tmp_path, spec):
    store = Store(LocalFiles(tmp_path / "store"))
    push(store, versions)
    with pytest.raises(Usage):
        resolve(store, "index", spec)
    with pytest.raises(Usage):
        resolve(store, "../index", "chat")
    name, _, version = spec.partition("@")
    with pytest.raises(Usage):
        remove_versions(store, "index", name, version or None)
    assert len(store.records()) == 1


# two publishers


def test_another_content_under_the_name_of_a_stored_version_is_refused(store, versions, tmp_path):
    record = push(store, versions).record
    with refusing(Conflict):
        push(store, add(tmp_path / "elsewhere", LATER))
    assert store.records() == [record]


def test_a_publisher_with_other_content_waits_for_the_first(store, versions, tmp_path):
    elsewhere = add(tmp_path / "elsewhere", LATER)
    record = push(store, versions).record
    store.remove_record(record)
    with store.claiming(record), refusing(Locked, "index"):
        push(store, elsewhere)
    assert store.records() == []
    assert push(store, elsewhere).record.files != record.files


def test_two_publishers_of_the_same_content_do_not_disturb_each_other(store, versions):
    record = push(store, versions).record
    store.remove_record(record)
    with store.claiming(record) as first:
        assert push(store, versions).uploaded_files == 0
        first.put_record()
    assert store.records() == [record]
    assert store.claims() == []


def test_of_many_publishers_at_once_one_wins_and_the_others_hear_why(store, tmp_path):
    homes = [add(tmp_path / f"home-{number}", {**FILES, "words.txt": b"%d" % number}) for number in range(4)]
    outcomes, start = [], threading.Barrier(4)

    def publish(versions: Versions) -> None:
        start.wait()
        for _ in range(200):
            try:
                outcomes.append(push(Store(store.files), versions).record)
            except Locked:
                continue
            except Conflict as error:
                outcomes.append(error)
            return

    if isinstance(store.files, ArrowFiles):
        pytest.skip("one client of pyarrow serves one thread")
    threads = [threading.Thread(target=publish, args=(versions,)) for versions in homes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = [outcome for outcome in outcomes if isinstance(outcome, VersionRecord)]
    assert store.records() == records
    assert len(records) == 1


def test_nothing_is_pushed_while_unused_files_are_deleted(store, versions):
    with store.collecting():
        with refusing(Locked):
            push(store, versions)
        with refusing(Locked), store.collecting():
            pass
    assert push(store, versions).uploaded_files == 5


# unused files


def test_files_of_a_version_are_never_deleted(store, versions):
    record = push(store, versions).record
    collected = collect_unused(store, timedelta(0), Silent(), erased=True)
    assert (collected.deleted_files, collected.waiting_files) == (0, 0)
    assert damaged_objects(store, record, Silent()) == []


def test_files_of_a_removed_version_go_but_shared_ones_stay(store, versions, tmp_path):
    first = push(store, versions).record
    add(tmp_path / "home", LATER)
    second = push(store, versions).record
    assert remove_versions(store, "index", "chat", "2026-11-20.1") == [first]
    waiting = collect_unused(store, DAY, Silent())
    assert (waiting.deleted_files, waiting.waiting_files) == (0, 2)
    assert waiting.waiting_until > datetime.now(UTC) + timedelta(hours=23)
    collected = collect_unused(store, timedelta(0), Silent())
    assert (collected.deleted_files, collected.deleted_bytes) == (2, 1 + first.manifest.size)
    assert damaged_objects(store, second, Silent()) == []
    assert sha(b"1") not in store.object_sizes()


def test_what_a_publisher_claims_stays(store, versions):
    record = push(store, versions).record
    store.remove_record(record)
    with store.claiming(record) as claim:
        assert collect_unused(store, timedelta(0), Silent()).deleted_files == 0
        claim.put_record()
    assert damaged_objects(store, record, Silent()) == []


def test_versions_with_deleted_text_leave_at_once(store, versions, tmp_path):
    push(store, versions)
    add(tmp_path / "home", LATER, erasures=1)
    second = push(store, versions).record
    assert [record.version for record in outdated_records(store)] == ["2026-11-20.1"]
    collected = collect_unused(store, DAY, Silent(), erased=True)
    assert collected.removed_versions == ("index chat@2026-11-20.1",)
    assert (collected.deleted_files, collected.erased_until) == (2, None)
    assert sha(b"1") not in store.object_sizes()
    assert store.records() == [second]


def test_deleted_text_that_a_publisher_claims_leaves_later_and_the_time_is_said(store, versions, tmp_path):
    first = push(store, versions).record
    add(tmp_path / "home", LATER, erasures=1)
    push(store, versions)
    with store.claiming(first):
        collected = collect_unused(store, DAY, Silent(), erased=True)
    assert store.object_sizes()[sha(b"1")] == 1
    assert timedelta(minutes=59) < collected.erased_until - datetime.now(UTC) < timedelta(minutes=61)


def test_a_version_that_another_one_needs_is_not_removed(store, versions, tmp_path):
    push(store, versions)
    add(tmp_path / "home", LATER)
    push(store, versions, needs=[NeededVersion(kind="index", name="chat", version="2026-11-20.1")])
    with refusing(Conflict, "chat@2026-11-20.2", "chat@2026-11-20.1"):
        remove_versions(store, "index", "chat", "2026-11-20.1")
    assert len(remove_versions(store, "index", "chat", None)) == 2
    assert store.records() == []


def test_a_record_that_cannot_be_read_stops_the_collection(store, versions):
    record = push(store, versions).record
    store.files.write("versions/index/chat/2026-11-20.1.json", [record.as_bytes()[:-40]])
    with refusing(Corrupt):
        collect_unused(store, timedelta(0), Silent())
    assert store.files.size(object_path(sha(b"1"))) == 1
    with store.collecting():
        pass  # the mark is gone


# damage


def test_half_an_object_is_sent_again(store, versions):
    record = push(store, versions).record
    damage(store, sha(FILES["shards/0/rows.npy"]), FILES["shards/0/rows.npy"][:1000])
    assert damaged_objects(store, record, Silent()) == ["shards/0/rows.npy has 1,000 bytes instead of 179,200"]
    assert push(store, versions).uploaded_files == 1
    assert damaged_objects(store, record, Silent()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(bytes(179_200), "has SHA-256"), (b"half", "has 4 bytes instead of 179,200"), (bytes(200_000), "has more than")],
)
def test_damaged_objects_are_named_and_nothing_half_appears(store, versions, tmp_path, content, message):
    push(store, versions)
    damage(store, sha(FILES["shards/0/rows.npy"]), content)
    with refusing(Corrupt, "chat@2026-11-20.1", "shards/0/rows.npy", message):
        fetch(store, tmp_path / "node")
    assert Versions(tmp_path / "node" / "indexes", "index").names() == []
    assert push(store, versions, verify=True).uploaded_files == 1
    fetched, here = fetch(store, tmp_path / "node")
    assert fetched.fetched_files < 5  # those that came before the damage are not fetched again
    verify_files(here.folder("chat", "2026-11-20.1"), read_json(here.folder("chat", "2026-11-20.1") / "manifest.json"))


def test_a_missing_object_is_named_and_the_version_before_serves(store, versions, tmp_path):
    push(store, versions)
    fetch(store, tmp_path / "node")
    add(tmp_path / "home", LATER)
    push(store, versions)
    damage(store, sha(b"2"), None)
    with refusing(Unavailable, "shards/1/bm25/rows.npy", "chat@2026-11-20.2"):
        fetch(store, tmp_path / "node", publish=True)
    here = Versions(tmp_path / "node" / "indexes", "index")
    assert (here.current("chat"), here.versions("chat")) == ("2026-11-20.1", ["2026-11-20.1"])


def test_a_damaged_local_file_is_not_stored(store, versions):
    path = versions.folder("chat", "2026-11-20.1") / "shards/0/rows.npy"
    path.write_bytes(bytes(179_200))
    with refusing(Corrupt):
        push(store, versions)
    assert store.records() == []
    assert sha(FILES["shards/0/rows.npy"]) not in store.object_sizes()


def altered(record: VersionRecord, **fields) -> bytes:
    content = {**orjson.loads(record.as_bytes()), **fields}
    del content["checksum"]
    return orjson.dumps(content)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../chat"},
        {"version": ".."},
        {"manifest": {"size": 1, "sha256": "../../secret"}},
        {"parts": [{"folder": ".", "bytes": 1, "sha256": "", "files": {"../x": {"size": 1, "sha256": "0" * 64}}}]},
        {"parts": [{"folder": ".", "bytes": 1, "sha256": "", "files": {"x": {"size": 1, "sha256": "../" * 21 + "x"}}}]},
        {"parts": [{"folder": "."}]},
        {"parts": 5},
        {"needs": [{"kind": "vectors", "name": "a", "version": "../.."}]},
        {"erasures": -1},
        {"format_version": 2},
        {"surprise": 1},
    ],
)
def test_a_record_with_names_that_lead_elsewhere_is_refused(versions, tmp_path, fields):
    record = push(Store(LocalFiles(tmp_path / "store")), versions).record
    with pytest.raises(Corrupt):
        VersionRecord.read(altered(record, **fields), Path("r.json"))


def test_a_record_that_lies_about_its_files_brings_nothing(store, versions, tmp_path):
    record = push(store, versions).record
    parts = orjson.loads(record.as_bytes())["parts"]
    del parts[0]["files"]["words.txt"]
    store.files.write("versions/index/chat/2026-11-20.1.json", [altered(record, parts=parts)])
    with refusing(Corrupt):
        fetch(store, tmp_path / "node")
    assert Versions(tmp_path / "node" / "indexes", "index").names() == []


def test_a_version_that_is_here_with_other_content_is_not_replaced(store, versions, tmp_path):
    push(store, versions)
    here = add(tmp_path / "node", LATER)
    with refusing(Conflict, "index"):
        fetch(store, tmp_path / "node")
    assert content_of(here.folder("chat", "2026-11-20.1"))["shards/1/bm25/rows.npy"] == b"2"


# a store that fails


class Failing(fs.FileSystemHandler):
    """A file system over the local one, whose calls fail or wait."""

    def __init__(self, root: Path) -> None:
        self.inner, self.fail, self.wait = (
            fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()),
            None,
            threading.Event(),
        )
        self.wait.set()

    def _call(self, name: str, *arguments, **options):
        self.wait.wait()
        if self.fail is not None and self.fail[0] == name:
            raise self.fail[1]
        return getattr(self.inner, name)(*arguments, **options)

    def get_type_name(self):
        return "failing"

    def get_file_info(self, paths):
        return self._call("get_file_info", paths)

    def get_file_info_selector(self, selector):
        return self._call("get_file_info", selector)

    def create_dir(self, path, recursive):
        self._call("create_dir", path, recursive=recursive)

    def delete_file(self, path):
        self._call("delete_file", path)

    def move(self, source, target):
        self._call("move", source, target)

    def open_input_stream(self, path):
        return self._call("open_input_stream", path)

    def open_output_stream(self, path, metadata):
        return self._call("open_output_stream", path)

    def delete_dir(self, path): ...
    def delete_dir_contents(self, path, missing_dir_ok=False): ...
    def delete_root_dir_contents(self): ...
    def copy_file(self, source, target): ...
    def open_input_file(self, path): ...
    def open_append_stream(self, path, metadata): ...
    def normalize_path(self, path):
        return path


@pytest.fixture
def failing(tmp_path):
    (tmp_path / "outer").mkdir()
    handler = Failing(tmp_path / "outer")
    yield handler, Store(ArrowFiles(fs.PyFileSystem(handler), "s", "failing://x", timeout_s=0.5))
    handler.wait.set()


@pytest.mark.parametrize(
    ("call", "error", "raised"),
    [
        (
            "get_file_info",
            OSError("AWS Error NETWORK_CONNECTION during HeadObject: could not connect"),
            Unavailable,
        ),
        ("open_output_stream", OSError("AWS Error ACCESS_DENIED during PutObject"), NoAccess),
        ("get_file_info", OSError("(HTTP status 403) during HeadObject"), NoAccess),
        ("move", PermissionError(13, "denied"), NoAccess),
        (
            "open_output_stream",
            OSError("AWS Error NO_SUCH_BUCKET during PutObject"),
            NotFound,
        ),
        ("open_output_stream", OSError(28, "No space left"), StorageFull),
        ("move", OSError("AWS Error SLOW_DOWN (HTTP status 503)"), Unavailable),
    ],
)
def test_a_store_that_fails_is_named_and_the_same_push_then_succeeds(failing, versions, call, error, raised):
    handler, store = failing
    handler.fail = (call, error)
    with refusing(raised, "failing://x"):
        push(store, versions)
    handler.fail = None
    record = push(store, versions).record
    assert store.records() == [record]
    assert damaged_objects(store, record, Silent()) == []


def test_a_store_that_answers_no_longer_ends_the_command(failing, versions):
    handler, store = failing
    handler.wait.clear()
    with refusing(Unavailable, "failing://x", "0.5", "REFAUG_STORE_TIMEOUT_S"):
        push(store, versions)
    handler.wait.set()
    assert push(store, versions).record in store.records()


def test_a_fetch_that_was_cut_goes_on(failing, versions, tmp_path):
    handler, store = failing
    push(store, versions)
    calls = []
    opened = handler.open_input_stream

    def cut(path):
        calls.append(path)
        if len(calls) == 4:
            raise OSError("AWS Error NETWORK_CONNECTION: the connection was cut")
        return opened(path)

    handler.open_input_stream = cut
    with refusing(Unavailable, "cut"):
        fetch(store, tmp_path / "node")
    handler.open_input_stream = opened
    fetched, _ = fetch(store, tmp_path / "node")
    assert 0 < fetched.fetched_files < 5


def test_messages_hold_no_credentials():
    environment = {"AWS_SECRET_ACCESS_KEY": "topsecret", "AWS_ACCESS_KEY_ID": "AKIAX", "AWS_SESSION_TOKEN": ""}
    assert (
        without_secrets("key AKIAX and topsecret in it", environment)
        == "key <AWS_ACCESS_KEY_ID> and <AWS_SECRET_ACCESS_KEY> in it"
    )


# where it lies


@pytest.mark.parametrize(
    "location",
    [
        "s3://",
        "s3://Upper/x",
        "s3://bucket/../other",
        "s3://bucket/a b",
        "s3://user:secret@bucket/x",
        "s3://bucket/x?endpoint_override=evil",
        "s3://bucket/x#y",
        "s3://a..b/x",
        "ftp://host/x",
        "http://host/x",
        "file://host/x",
    ],
)
def test_odd_locations_are_refused_and_secrets_are_not_repeated(location):
    with pytest.raises(Usage) as caught, open_store(StoreSettings(location=location)):
        pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "host:9000",
        "ftp://host",
        "http://user:secret@host",
        "http://host/path",
        "http://host?x=1",
        "http://:9",
        "http://a:b",
    ],
)
def test_odd_endpoints_are_refused(endpoint):
    with (
        refusing(Usage, "REFAUG_STORE_ENDPOINT") as caught,
        open_store(StoreSettings(location="s3://bucket/x", endpoint=endpoint)),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_settings_come_from_the_environment():
    environment = {"REFAUG_STORE": "/a", "REFAUG_STORE_ENDPOINT": "http://h:1", "REFAUG_STORE_TIMEOUT_S": "7"}
    assert StoreSettings.from_env(None, environment) == StoreSettings(
        location="/a", endpoint="http://h:1", timeout_s=7.0
    )
    assert StoreSettings.from_env("/b", environment).location == "/b"
    with refusing(Usage):
        StoreSettings.from_env(None, {})
    for wrong in ("0", "-1", "x", "nan", "4000"):
        with refusing(Usage, "REFAUG_STORE_TIMEOUT_S"):
            StoreSettings.from_env("/b", {"REFAUG_STORE_TIMEOUT_S": wrong})


def test_a_store_is_left_out_only_where_none_is_named():
    assert StoreSettings.from_env_or_none({}) is None
    assert StoreSettings.from_env_or_none({"REFAUG_STORE": "", "REFAUG_STORE_TIMEOUT_S": "abc"}) is None
    assert StoreSettings.from_env_or_none({"REFAUG_STORE": "/a"}) == StoreSettings(location="/a")
    with refusing(Usage, "REFAUG_STORE_TIMEOUT_S", "abc"):
        StoreSettings.from_env_or_none({"REFAUG_STORE": "/a", "REFAUG_STORE_TIMEOUT_S": "abc"})


def test_a_store_that_is_a_file_or_cannot_be_written_is_named(versions, tmp_path):
    (tmp_path / "file").write_text("x")
    with refusing((Conflict, Unavailable), "store"):
        push(Store(LocalFiles(tmp_path / "file")), versions)
