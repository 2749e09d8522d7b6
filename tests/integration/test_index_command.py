"""`refaug index …`: what is built, what is found, what is refused and why, and what becomes of versions."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys

import orjson
import pytest
from disks import Fills, close_strictly, fill, small_disk
from integration import reference
from integration.conftest import ROOT, in_group
from refusals import refusing

from refaug.core.errors import StorageFull
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.core.vectors import word_vectors
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.update import update_index
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.training import VectorsOrder, train_vectors
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder

WORDS = [*reference.WORDS, "milk", "road"]
SPEAKERS = ["ann", "bob", "cem"]
MODES = ["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]
BEGAN = 1_600_000_000
TEXTS = ("tea and rain", "do you like tea?", "rain", "the cat")
FEW = ("--check-queries", "20")


def talk(*, count=60, seed=1):
    """Dialogues of our own: id, and turns with a speaker and a time."""
    rng = random.Random(seed)
    return [
        {
            "id": f"d{number}",
            "turns": [
                {
                    "text": " ".join(rng.choices(WORDS, k=rng.randint(2, 6))),
                    "speaker": rng.choice(SPEAKERS),
                    "time": BEGAN + 1_000 * number + turn,
                }
                for turn in range(4)
            ],
        }
        for number in range(count)
    ]


def lines(rows) -> bytes:
    return b"\n".join(map(orjson.dumps, rows))


def pairs_of(rows):
    """(pair id, utterance, response) of every two turns that follow each other."""
    return [
        (f"chat/{row['id']}#{place}", before["text"], after["text"])
        for row in rows
        for place, (before, after) in enumerate(zip(row["turns"], row["turns"][1:], strict=False), start=1)
    ]


def prepare(home, rows):
    """A log, its vectors, and an index of it, without the command."""
    home.mkdir(parents=True)
    (home / "talk.jsonl").write_bytes(lines(rows))
    places = Places.under(home)
    ingesting.ingest(IngestOrder(sources=(str(home / "talk.jsonl"),), log="chat"), places.logs, Silent())
    order = VectorsOrder(
        name="chat",
        logs=("chat",),
        min_count=1,
        cooccurrence=CooccurrenceSettings(memory_bytes=1 << 20),
        glove=GloveSettings(dimensions=12, epochs=2, threads=1),
    )
    train_vectors(places, order, Silent())
    return places


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A home with a log and vectors, and one with an index as well."""
    folder = tmp_path_factory.mktemp("prepared")
    places = prepare(folder / "ready", talk())
    shutil.copytree(folder / "ready", folder / "built")
    places = Places.under(folder / "built")
    build_index(places, IndexOrder(name="chat", logs=("chat",), vectors="chat", check_queries=20), Silent())
    return folder


@pytest.fixture
def ready(home, homes):
    shutil.copytree(homes / "ready", home.path)
    return home


@pytest.fixture
def built(home, homes):
    shutil.copytree(homes / "built", home.path)
    return home


def listed(home, name="chat"):
    rows = home("artefacts", "list", "index", "--json").json["versions"]
    return [(int(row["version"].partition(".")[2]), row["published"]) for row in rows if row["name"] == name]


def folder_of(home, name="chat"):
    """The newest version."""
    versions = Places.under(home.path).indexes
    return versions.folder(name, versions.versions(name)[-1])


def found(home, *arguments, index="chat"):
    """What a search prints, one object a test pair."""
    result = home("index", "search", index, *arguments, "--json")
    assert result.code == 0, result.err
    return [orjson.loads(line) for line in result.out.splitlines()]


def everything(home, index="chat"):
    """The ids of all pairs that can be found, as far as texts differ."""
    return [one["pair"] for one in found(home, " ".join(WORDS), "-k", "1000", index=index)[0]["references"]]


# ── planning and building ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_build_tells_what_it_built_and_so_do_show_and_list(ready):
    told = ready("index", "build", "chat", *FEW, "--json").json
    pairs = {(normalise(utterance), normalise(response)) for _, utterance, response in pairs_of(talk())}
    wanted = {
        "published": True,
        "logs": ["chat"],
        "vectors": f"chat@{ready('artefacts', 'list', 'vectors', '--json').json['versions'][0]['version']}",
        "dimensions": 12,
        "tokenizer": "word",
        "kind": "Flat",
        "utterances": len({utterance for utterance, _ in pairs}),
        "without_vector": 0,
        "pairs": len(pairs),
        "segments": 1,
        "superseded": 0,
        "recall_at_15": 1.0,
        "recall_interval": [1.0, 1.0],
        "lost_similarity": 0.0,
        "recall_target": 0.95,
        "recall_queries": 20,
    }
    assert {name: told[name] for name in wanted} == wanted
    shown = ready("artefacts", "show", "index", "chat", "--json").json
    assert (f"chat@{shown['version']}", shown["id"][:12]) == (told["index"], told["id"])
    assert shown["segments"][0]["occurrences"] == len(pairs_of(talk()))
    assert sum(facts["size"] for facts in shown["files"].values()) == told["bytes"]
    row = ready("artefacts", "list", "index", "--json").json["versions"][0]
    assert (row["name"], row["published"], row["pairs"], row["bytes"]) == ("chat", True, len(pairs), told["bytes"])
    assert ready("artefacts", "show", "index", "chat").out.startswith(f"index {told['index']}\n")
    assert list((ready.path / "cache").iterdir()) == []


@pytest.mark.slow
def test_an_index_in_shards_answers_and_travels_as_one(ready, homes):
    """Built, verified, deleted from, checked, compacted, exported and imported; and its settings are kept."""
    plain = ready("index", "build", "chat", "--name", "plain", *FEW, "--json").json
    told = ready("index", "build", "chat", "--shards", "3", *FEW, "--json").json
    assert (told["shards"], told["segments"], "shards" in plain) == (3, 3, False)
    assert [told[name] for name in ("utterances", "pairs", "kind")] == [
        plain[name] for name in ("utterances", "pairs", "kind")
    ]
    again = ready("index", "build", "chat", "--shards", "3", *FEW, "--json").json
    assert (again["index"], "note" in again) == (told["index"], True)
    assert ready("admin", "doctor", "--verify").code == 0
    assert ready("index", "check", "chat", "--queries", "20", "--least", "1").code == 0

    def texts(name):
        return [
            [one["text"] for one in ready("index", "search", name, text, "--json").json["references"]] for text in TEXTS
        ]

    assert texts("chat") == texts("plain")
    for name in ("chat", "plain"):
        assert ready("index", "delete", name, "--dialogue", "d3", "--dialogue", "d4").code == 0
    assert texts("chat") == texts("plain")
    compacted = ready("index", "compact", "chat", "--json").json
    assert (compacted["shards"], compacted["segments"], compacted["superseded"]) == (3, 3, 0)
    assert texts("chat") == texts("plain")
    ready("artefacts", "export", "index", "chat", ready.path / "chat.tar.zst")
    ready("artefacts", "remove", "index", "chat", "--yes")
    assert ready("artefacts", "import", ready.path / "chat.tar.zst").code == 0
    assert texts("chat") == texts("plain")
    refused = ready("index", "build", "chat", "--shards", "2", "--factory", "HNSW32", "--json")
    assert (refused.code, refused.error["code"]) == (2, "usage")
    assert ready("index", "build", "chat", "--shards", "0").code == 2


def test_several_logs_make_one_index_and_one_of_them_can_be_left_out(ready, tmp_path):
    more = [{**row, "id": f"more{row['id']}"} for row in talk(count=5, seed=2)]
    (tmp_path / "more.jsonl").write_bytes(lines(more))
    ready.ingest(tmp_path / "more.jsonl", log="more")
    told = ready("index", "build", "more", "chat", "--name", "both", "--vectors", "chat", *FEW, "--json").json
    assert told["logs"] == ["chat", "more"]
    logs = {one["log"] for one in found(ready, " ".join(WORDS), "-k", "1000", index="both")[0]["references"]}
    assert logs == {"chat", "more"}
    without = found(ready, " ".join(WORDS), "-k", "1000", "--exclude-log", "more", index="both")[0]
    assert {one["log"] for one in without["references"]} == {"chat"}
    assert without["excluded"]["log"] == 15
    unknown = ready("index", "search", "both", "tea", "--exclude-log", "talk", "--json")
    assert (unknown.code, unknown.error["remedy"]) == (2, "it has: chat, more")


def test_vectors_of_another_language_are_refused_with_the_share_they_know(ready, tmp_path):
    (tmp_path / "other.txt").write_text("thé 1 0 0\ntea 0 1 0\nrain 0 0 1\n")
    ready("index", "vectors", "import", "other", tmp_path / "other.txt")
    words = [word for text in {utterance for _, utterance, _ in pairs_of(talk())} for word in text.split()]
    share = sum(word in ("tea", "rain") for word in words) / len(words)
    result = ready("index", "build", "chat", "--vectors", "other", *FEW, "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert f"{100 * share:.1f}" in result.error["message"]
    assert listed(ready) == []
    assert ready("index", "build", "chat", "--vectors", "other", "--least-coverage", "0.05", *FEW).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("build", "nowhere"), 3, "nowhere"),
        (("build", "chat", "--vectors", "nowhere"), 3, "nowhere"),
        (("build", "chat", "chat"), 2, "named twice"),
        (("build", "chat", "--factory", "nonsense"), 2, "'nonsense'"),
        (("build", "chat", "--encoder", "nowhere"), 3, "no encoder"),
        (
            ("build", "chat", "--encoder", "nowhere", "--vectors", "chat"),
            2,
            "--encoder",
        ),
        (("search", "nowhere", "tea"), 3, "nowhere"),
        (("search", "chat@2020-01-01.1", "tea"), 3, "chat@2020-01-01.1"),
        (("search", "chat", "tea", "--items", "x.jsonl"), 2, "--items"),
        (("search", "chat", "--items", "x.jsonl"), 3, "x.jsonl"),
        (("delete", "nowhere", "--pair", "chat/d1#1"), 3, "nowhere"),
        (("delete", "chat"), 2, "nothing is named that should go"),
        (("delete", "chat", "--dialogues-from", "x.txt"), 3, "x.txt"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(home_at, homes, arguments, code, told):
    built = home_at(homes / "built")
    before = sorted(built.path.rglob("*"))
    result = built(*in_group("index", arguments))
    assert (result.code, told in result.err) == (code, True), result.err
    assert "Traceback" not in result.err
    assert sorted(built.path.rglob("*")) == before


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_utterances_are_answered_in_the_order_given_and_alone_as_together(built):
    texts = ["tea rain", "xqzz", "song", "tea rain"]
    together = found(built, *texts, "-k", "7")
    assert [answer["id"] for answer in together] == texts
    assert together == [found(built, text, "-k", "7")[0] for text in texts]
    assert together == found(built, *texts, "-k", "7", "--threads", "2")
    assert together[1] == {"id": "xqzz", "references": [], "excluded": {}, "note": "no_known_word"}
    said = built("index", "search", "chat", "xqzz", "...", "--mode", "embedding-utterance").out
    assert (
        said
        == "xqzz\n  nothing: the index knows none of its words\n...\n  nothing: the index knows none of its words\n"
    )


@pytest.mark.parametrize("mode", MODES)
def test_items_are_answered_a_line_each_and_bad_ones_named(built, tmp_path, mode):
    rows = [
        {"id": "one", "utterance": "tea rain bus", "references": ["milk and road"]},
        {"id": "two", "turns": ["film", "dog walk"], "references": ["sofa soup"], "exclude": ["d1", "d2"]},
        {"id": "bad", "utterance": 3},
        {"id": "own", "utterance": "lamp train", "references": ["song"], "dialogue": "d3"},
    ]
    (tmp_path / "items.jsonl").write_bytes(lines(rows))
    answers = found(built, "--items", tmp_path / "items.jsonl", "--mode", mode, "-k", "1000")
    assert [answer.get("id") for answer in answers] == ["one", "two", None, "own"]
    assert "line 3" in answers[2]["error"]
    assert {one["dialogue"] for one in answers[1]["references"]}.isdisjoint({"d1", "d2"})
    assert {one["dialogue"] for one in answers[3]["references"]}.isdisjoint({"d3"})
    assert answers[1]["excluded"]["dialogue"] > 0
    alone = found(built, "tea rain bus", "--gold", "milk and road", "--mode", mode, "-k", "1000")[0]
    assert answers[0] == {**alone, "id": "one"}


# ── recall, versions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_index_that_finds_too_little_is_there_but_not_published(ready):
    assert ready("admin", "audit").code == 0  # it makes the database
    result = ready("index", "build", "chat", "--factory", "HNSW2", "--recall", "1.0", "--json")
    assert (result.code, result.error["code"]) == (6, "check_failed")
    row = ready("artefacts", "list", "index", "--json").json["versions"][0]
    name = f"chat@{row['version']}"
    refused = ready("admin", "audit", "--json").json
    assert (refused["action"], refused["subject"]) == ("refuse", f"index {name}")
    assert refused["details"]["reason"].endswith("at least 1.000 is required")
    assert (row["published"], row["kind"], row["recall_at_15"] < 1) == (False, "HNSW2", True)
    assert all(str(fact) in result.error["message"] for fact in (name, f"{100 * row['recall_at_15']:.1f}"))
    assert str(name) in result.error["remedy"]
    unpublished = ready("index", "search", "chat", "tea", "--json")
    assert (unpublished.code, unpublished.error["code"]) == (4, "conflict")
    assert name in unpublished.error["remedy"]
    assert found(ready, "tea", index=name)[0]["references"]
    assert ready("index", "check", name, "--least", "0.5").code == 0
    check = ready("index", "check", name, "--queries", "150", "--least", "1.0", "--json")
    assert (check.code, check.error["code"]) == (6, "check_failed")
    refusal = ready("artefacts", "publish", "index", name, "--json")
    assert (refusal.code, refusal.error["code"]) == (4, "conflict")
    assert str(name) in refusal.error["message"]
    assert ready("artefacts", "publish", "index", name, "--even-refused").out == f"index {name} is published\n"
    assert found(ready, "tea")[0] == found(ready, "tea", index=name)[0]


# A command that waits, when a stage begins, until it is told to go on.
PROGRAM = """if True:
    import sys
    from refaug.cli.shared import progress
    from refaug.cli.main import main

    begin, wanted = progress.ProgressLines.stage, sys.argv[1]

    def wait(self, name, total=None, unit=""):
        begin(self, name, total, unit)
        if name == wanted:
            print("waiting", flush=True)
            sys.stdin.readline()

    progress.ProgressLines.stage = wait
    sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def begun():
    """Start a command that waits when a stage begins."""
    running = []

    def begin(home, stage, *command):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, stage, "--home", str(home.path), *command, "--json"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.append(process)
        assert process.stdout.readline() == b"waiting\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def finish(process):
    """Let it go on to its end: exit code, error."""
    _, err = process.communicate(b"\n")
    error = orjson.loads(err[err.index(b'{"error"') :])["error"] if b'{"error"' in err else None
    return process.returncode, error


@pytest.mark.slow
def test_index_builds_exclude_each_other_and_never_publish_deleted_pairs(ready, begun):
    secret = "unmistakable words of one speaker"
    (ready.path / "more.jsonl").write_bytes(lines([{"id": "gone", "turns": ["tea tea", secret, "milk"]}]))
    ready.ingest(ready.path / "more.jsonl")
    (ready.path / "more.jsonl").unlink()
    process = begun(ready, "planning", "index", "build", "chat", *FEW)
    second = ready("index", "build", "chat", *FEW, "--json")
    assert (second.code, second.error["code"]) == (4, "locked")
    assert str(process.pid) in second.error["message"]
    for command in (("update", "chat"), ("compact", "chat"), ("artefacts", "rollback", "index", "chat")):
        assert ready(*in_group("index", command)).code in (3, 4)  # there is no version yet
    assert ready("index", "build", "chat", "--name", "other", *FEW).code == 0
    ready("log", "delete", "chat", "--dialogue", "gone")
    code, error = finish(process)
    assert (code, error["code"]) == (3, "source_changed")
    assert listed(ready) == []
    shutil.rmtree(ready.path / "indexes/other")  # which shows it until it is updated
    assert holding(ready.path, secret) == []
    assert ready("index", "build", "chat", *FEW).code == 0
    assert listed(ready) == [(1, True)]
    assert "chat/gone#1" not in everything(ready)
    assert holding(ready.path, secret) == []


def holding(folder, text):
    """The files that hold some text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.slow
def test_stopped_build_resumes_finished_stages_unless_settings_change(ready, begun):
    process = begun(ready, "adding vectors", "index", "build", "chat", *FEW)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    error = orjson.loads(err[err.index(b'{"error"') :])["error"]
    assert (process.returncode, error["code"]) == (5, "interrupted")
    (folder,) = (ready.path / "cache").glob("index-chat-*")
    marks = orjson.loads((folder / "stages.json").read_bytes())
    assert list(marks) == ["table", "words", "plan", "train"]
    pairs = (folder / "segments/0/pairs.arrow").stat().st_ino
    assert ready("index", "build", "chat", *FEW).code == 0
    taken = IndexManifest.read(folder_of(ready)).seconds
    assert {stage: taken[stage] for stage in marks} == {stage: facts["seconds"] for stage, facts in marks.items()}
    assert (folder_of(ready) / "segments/0/pairs.arrow").stat().st_ino == pairs
    assert list((ready.path / "cache").iterdir()) == []


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(home, *command):
    result = home(*in_group("index", command))
    assert (result.code, result.err.startswith("error [corrupt]")) == (3, True), result.err
    return result.err


@pytest.mark.parametrize(
    ("command", "name"),
    [("compact", "segments/0/vectors.faiss"), ("build", "manifest.json")],
)
def test_making_it_again_mends_what_is_damaged(built, command, name):
    before = found(built, "tea rain")[0]["references"]
    (folder_of(built) / name).write_bytes(b"")
    result = built("index", command, "chat", *(FEW if command == "build" else ()))
    assert result.code == 0, result.err
    after = found(built, "tea rain")[0]["references"]
    assert [one["pair"] for one in after] == [one["pair"] for one in before]


def test_damaged_older_version_does_not_prevent_a_rollback_to_another(built):
    for _ in range(2):
        built("index", "build", "chat", *FEW, "--again")
    first, second, _ = Places.under(built.path).indexes.versions("chat")
    (built.path / "indexes/chat" / first / "manifest.json").write_bytes(b"{")
    result = built("artefacts", "rollback", "index", "chat")
    assert (result.code, result.out) == (0, f"index chat@{second} is published\n"), result.err


# ── a tokenizer that is a file ────────────────────────────────────────────────────────────────────────────────────────


def test_a_tokenizer_model_goes_with_the_vectors_and_the_index(ready, tmp_path):
    model = tmp_path / "pieces.model"
    assert ready("train", "tokenizer", "chat", "--output", model, "--size", "40").code == 0
    train = ("--min-count", "1", "--dimensions", "8", "--epochs", "1")
    assert ready("train", "vectors", "chat", "--tokenizer", f"sentencepiece:{model}", *train).code == 0
    model.unlink()
    told = ready("index", "build", "chat", *FEW, "--json")
    assert told.code == 0, told.err
    assert told.json["tokenizer"].startswith("sentencepiece:pieces#")
    wanted = found(ready, "tea rain bus")[0]["references"]
    assert len(wanted) == 15
    assert ready("index", "delete", "chat", "--dialogue", "d1").code == 0
    assert ready("index", "compact", "chat", "--json").json["tokenizer"] == told.json["tokenizer"]
    assert found(ready, "tea rain bus", "-k", "5")[0]["references"]
    assert ready("index", "vectors", "try", "chat", "--log", "chat").code == 0


# ── a full disk ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, of twelve megabytes."""
    with small_disk("size=12m") as folder:
        yield folder
        word_vectors._load_folder.cache_clear()
        gc.collect()  # what is mapped is open as long as something refers to it
        assert close_strictly(folder), "some file on the disk is still open"


def order(name="chat"):
    return IndexOrder(name=name, logs=("chat",), vectors="chat", check_queries=20)


@pytest.mark.machine
@pytest.mark.parametrize(
    "stage",
    ["reading words", "writing BM25 postings"],
)
def test_a_build_on_a_full_disk_says_so_and_goes_on_when_there_is_room(homes, disk, home_at, stage):
    whole = IndexManifest.read(next((homes / "built/indexes/chat").glob("*.1"))).id
    shutil.copytree(homes / "ready", disk / "home")
    home, places = home_at(disk / "home"), Places.under(disk / "home")
    with refusing(StorageFull, disk) as caught:
        build_index(places, order(), Fills(disk, stage))
    assert (caught.value.exit_code, caught.value.code) == (1, "storage_full")
    assert "run the same command again" in caught.value.remedy
    fill(disk)  # the room that was given back
    full = home("index", "build", "chat", *FEW, "--json")
    assert (full.code, full.error["code"]) == (1, "storage_full")
    assert listed(home) == []
    (disk / "filler").unlink()
    assert home("index", "build", "chat", *FEW, "--json").json["id"] == whole[:12]
    assert list((disk / "home/cache").iterdir()) == []


@pytest.mark.machine
def test_an_update_on_a_full_disk_leaves_the_published_version_as_it_is(homes, disk, home_at):
    shutil.copytree(homes / "built", disk / "home")
    home, places = home_at(disk / "home"), Places.under(disk / "home")
    home("log", "delete", "chat", "--dialogue", "d7")
    before = found(home, "tea rain", "-k", "1000")
    with refusing(StorageFull, disk):
        update_index(places, "chat", Fills(disk, "comparing with the logs"))
    assert found(home, "tea rain", "-k", "1000") == before
    (disk / "filler").unlink()
    assert home("index", "update", "chat").code == 0
    assert not any("/d7#" in pair for pair in everything(home))


@pytest.mark.machine
@pytest.mark.parametrize("stage", ["co-occurrences", "epoch 2 of 2"])
def test_a_training_on_a_full_disk_says_so_and_goes_on_when_there_is_room(homes, disk, home_at, stage):
    shutil.copytree(homes / "ready", disk / "home")
    home, places = home_at(disk / "home"), Places.under(disk / "home")
    settings = VectorsOrder(
        name="new", logs=("chat",), min_count=1, glove=GloveSettings(dimensions=12, epochs=2, threads=1)
    )
    with refusing(StorageFull, disk):
        train_vectors(places, settings, Fills(disk, stage))
    (disk / "filler").unlink()
    stored = train_vectors(places, settings, Silent())
    assert stored.sha256 == home("artefacts", "show", "vectors", "chat", "--json").json["sha256"]


def test_what_is_open_is_closed_when_nobody_needs_it(built):
    places = Places.under(built.path)
    with ReferenceIndex.open(places, "chat") as opened:
        assert built("artefacts", "gc", "index", "chat", "--keep", "0", "--json").json["removed"] == []
        assert opened.version == folder_of(built).name
