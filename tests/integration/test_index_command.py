"""`refaug index …`: what is built, what is found, what is refused and why, and what becomes of versions."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import orjson
import pytest
from disks import close_strictly, small_disk
from indexes import add_vectors
from integration import reference
from integration.conftest import ROOT, in_group
from refusals import refusing

from refaug.core.errors import Corrupt, StorageFull
from refaug.core.files import read_json, with_checksum
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.core.vectors import word_vectors
from refaug.core.vectors.word_vectors import open_word_vectors
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
from refaug.logs.ingest.ingest import IngestOrder

WORDS = [*reference.WORDS, "milk", "road"]
SPEAKERS = ["ann", "bob", "cem"]
MODES = ["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]
BEGAN = 1_600_000_000
FEW = ("--check-queries", "20")
TEXTS = ("tea and rain", "do you like tea?", "rain", "the cat")


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


@pytest.mark.slow
def test_a_plan_names_the_kind_that_a_build_then_takes(ready):
    plan = ready("index", "plan", "chat", "--json").json
    utterances = {normalise(utterance) for _, utterance, _ in pairs_of(talk())}
    assert (plan["demand"]["rows"], plan["demand"]["dimensions"], plan["demand"]["words"]) == (
        len(utterances),
        12,
        len(WORDS),
    )
    assert plan["demand"]["occurrences"] == len(pairs_of(talk()))
    chosen = [option["factory"] for option in plan["options"] if option["chosen"]]
    assert ready("index", "build", "chat", *FEW, "--json").json["kind"] == chosen[0] == "Flat"
    one = ready("index", "plan", "chat", "--factory", "IVF4,SQ8", "--json").json["options"]
    assert [(option["factory"], option["chosen"]) for option in one] == [("IVF4,SQ8", True)]
    people = ready("index", "plan", "chat").out
    assert "Flat: exact" in people
    assert "← chosen" in people


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
def test_the_content_does_not_depend_on_threads_memory_or_the_name(ready):
    ids = [
        ready("index", "build", "chat", *FEW, "--again", *more, "--json").json["id"]
        for more in (("--threads", "1"), ("--threads", "2"), ("--memory", "1MiB"), ("--name", "other"))
    ]
    assert len(set(ids)) == 1
    other = ready("index", "build", "chat", *FEW, "--weighting", "sif", "--json").json["id"]
    assert other != ids[0]


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


def test_an_index_none_of_whose_words_has_a_vector_still_knows_its_words(ready, tmp_path):
    (tmp_path / "other.txt").write_text("thé 1 0 0\nlait 0 1 0\n")
    ready("index", "vectors", "import", "other", tmp_path / "other.txt")
    told = ready("index", "build", "chat", "--vectors", "other", "--least-coverage", "0", *FEW, "--json").json
    assert told["without_vector"] == told["utterances"]
    assert found(ready, "tea and rain")[0] == {
        "id": "tea and rain",
        "references": [],
        "excluded": {},
        "note": "no_known_word",
    }
    assert found(ready, "thé")[0]["references"] == []
    assert len(found(ready, "tea rain", "--mode", "bm25-utterance", "-k", "5")[0]["references"]) == 5


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


def plainly(home, text, k):
    """The k best (similarity, response) by cosine of mean unit vectors, from the definition, with numpy."""
    folder = next(path for path in (home.path / "vectors/chat").iterdir() if path.is_dir())
    vectors = open_word_vectors(folder)
    units = vectors.matrix.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)

    def sentence(words):
        mean = units[[vectors.index[word] for word in words.split()]].sum(axis=0)
        return mean / np.linalg.norm(mean)

    best = {}
    for _, utterance, response in pairs_of(talk()):
        if response != text:
            similarity = round(float(sentence(text) @ sentence(utterance)), 6)
            best[response] = max(similarity, best.get(response, -1.0))
    return sorted(best.values(), reverse=True)[:k], best


def test_the_references_are_the_responses_to_the_most_similar_utterances(built):
    text = "tea rain bus"
    wanted, best = plainly(built, text, 20)
    (answer,) = found(built, text, "-k", "20")
    assert [one["similarity"] for one in answer["references"]] == pytest.approx(wanted, abs=1.1e-6)
    pairs = {pair: (utterance, response) for pair, utterance, response in pairs_of(talk())}
    version = folder_of(built).name
    for rank, one in enumerate(answer["references"], start=1):
        assert (one["rank"], one["source"], one["log"], one["index"]) == (rank, "retrieved", "chat", f"chat@{version}")
        assert pairs[one["pair"]] == (one["utterance"], one["text"])
        assert one["dialogue"] == one["pair"].partition("/")[2].partition("#")[0]
        assert one["similarity"] == pytest.approx(best[one["text"]], abs=1.1e-6)
    people = built("index", "search", "chat", text).out.splitlines()
    assert people[0] == text
    assert answer["references"][0]["text"] in people[2]


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
    result = ready("index", "build", "chat", "--factory", "HNSW2", "--recall", "1.0", "--json")
    assert (result.code, result.error["code"]) == (6, "check_failed")
    row = ready("artefacts", "list", "index", "--json").json["versions"][0]
    name = f"chat@{row['version']}"
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


def test_every_file_that_is_missing_or_has_another_size_is_named(built):
    folder, places = folder_of(built), Places.under(built.path)
    manifest = IndexManifest.read(folder)
    for name, facts in manifest.files.items():
        path = folder / name
        data = path.read_bytes()
        path.unlink()
        with refusing(Corrupt, path):
            ReferenceIndex.open(places, "chat")
        path.write_bytes(data[:-1])
        with refusing(Corrupt, path, f"{len(data) - 1:,}", f"{facts['size']:,}"):
            ReferenceIndex.open(places, "chat")
        path.write_bytes(data)
    (folder / "segments/0/vectors.faiss").unlink()
    for command in (
        ("search", "chat", "tea"),
        ("check", "chat"),
        ("artefacts", "publish", "index", f"chat@{folder.name}"),
    ):
        assert "vectors.faiss is missing" in refused(built, *command)


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


@pytest.mark.parametrize("name", ["vectors.faiss", "bm25/texts.json"])
def test_a_file_of_the_right_size_that_holds_something_else_is_refused(built, name):
    path = folder_of(built) / "segments/0" / name
    path.write_bytes(bytes(path.stat().st_size))
    assert str(path) in refused(built, "search", "chat", "tea", "--mode", "bm25-utterance")


@pytest.mark.parametrize("what", ["newer", "no JSON"])
def test_a_manifest_that_cannot_be_read_is_named_and_hides_no_other_index(built, what):
    shutil.copytree(built.path / "indexes/chat", built.path / "indexes/other")
    path = folder_of(built) / "manifest.json"
    value = read_json(path)
    if what == "newer":
        value["format_version"] = 2
    path.write_bytes(b"{" if what == "no JSON" else orjson.dumps(with_checksum(value)))
    version = f"chat@{path.parent.name}"
    for command in (
        ("search", "chat", "tea"),
        ("artefacts", "show", "index", "chat"),
        ("update", "chat"),
        ("compact", "chat"),
    ):
        told = refused(built, *command)
        assert str(path) in told
        if what == "newer":
            assert "has format 2; this refaug reads up to 1\n  upgrade refaug" in told
    assert str(path) in refused(built, "artefacts", "publish", "index", version)
    rows = {row["name"]: row for row in built("artefacts", "list", "index", "--json").json["versions"]}
    assert str(path) in rows["chat"]["problem"]
    assert (rows["other"]["problem"], rows["other"]["published"]) == (None, True)
    assert built("index", "search", "other", "tea").code == 0


def test_damaged_older_version_does_not_prevent_a_rollback_to_another(built):
    for _ in range(2):
        built("index", "build", "chat", *FEW, "--again")
    first, second, _ = Places.under(built.path).indexes.versions("chat")
    (built.path / "indexes/chat" / first / "manifest.json").write_bytes(b"{")
    result = built("artefacts", "rollback", "index", "chat")
    assert (result.code, result.out) == (0, f"index chat@{second} is published\n"), result.err


def test_a_published_version_that_is_not_there_is_told_with_those_that_are(built):
    current = built.path / "indexes/chat/CURRENT"
    version = folder_of(built).name
    current.write_text("2020-01-01.7\n")
    told = refused(built, "search", "chat", "tea")
    assert f"{current} names 2020-01-01.7, which is not there" in told
    assert version in told
    current.write_text("nonsense\n")
    assert f"{current} holds 'nonsense', which is no version" in refused(built, "search", "chat", "tea")
    assert built("artefacts", "publish", "index", f"chat@{version}").code == 0
    assert built("index", "search", "chat", "tea").code == 0


def test_an_index_without_its_vectors_says_which_it_needs(built, tmp_path):
    wanted = IndexManifest.read(folder_of(built)).vectors
    shutil.move(built.path / "vectors/chat", tmp_path / "away")
    result = built("index", "search", "chat", "tea", "--json")
    assert (result.code, result.error["code"]) == (3, "not_found")
    assert all(str(fact) in result.error["message"] for fact in (wanted.name, wanted.sha256[:12]))
    add_vectors(Places.under(built.path), "chat", {"tea": [1.0, 2.0]})
    result = built("index", "search", "chat", "tea", "--json")
    assert (result.code, result.error["code"]) == (4, "conflict")
    shutil.move(tmp_path / "away", built.path / "vectors/elsewhere")  # under another name they are found by their hash
    assert found(built, "tea")[0]["references"]


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


def fill(folder):
    """Take every byte that is left."""
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


class Fills(Silent):
    """Someone who fills the disk when a stage begins."""

    def __init__(self, folder, stage) -> None:
        self.folder, self.wanted = folder, stage

    def stage(self, name, total=None, unit=""):
        if name == self.wanted:
            fill(self.folder)


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
