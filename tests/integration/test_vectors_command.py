"""Word vectors: trained to the same bits however often it is interrupted, taken over to the same numbers."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import struct
import subprocess
import sys

import numpy as np
import orjson
import pytest
from integration import reference
from integration.conftest import ROOT, in_group

from refaug.core.files import read_json, with_checksum, write_json
from refaug.core.progress import Silent
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder

SMALL = ("--dimensions", "12", "--epochs", "5", "--min-count", "2")
WORDS = [*reference.WORDS, "milk", "road"]
GLOVE = {
    "the": (0.25, -1.5, 3e-7),
    "cat": (1 / 3, 2.0, -0.125),
    "sat": (-0.0078125, 123456.78, 1e-30),
    "naïve": (7.0, 1.1, -2.2),
    ".": (0.0, 1.0, -1.0),
}


def talk(folder, name="talk", *, count=80, seed=1):
    """A log of our own, as a file."""
    rng = random.Random(seed)
    rows = [{"id": str(n), "turns": [" ".join(rng.choices(WORDS, k=6)) for _ in range(4)]} for n in range(count)]
    (folder / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return folder / f"{name}.jsonl"


def glove(folder, *, name="glove.txt"):
    """A file as GloVe's makers publish them: no header, a word and its numbers a line."""
    lines = [f"{word} {' '.join(map(repr, numbers))}\n" for word, numbers in GLOVE.items()]
    (folder / name).write_bytes("".join(lines).encode())
    return folder / name


def train(home, *more):
    return home("train", "vectors", "chat", *SMALL, *more, "--json")


def listed(home):
    rows = home("artefacts", "list", "vectors", "--json").json["versions"]
    return [(row["name"], row["version"].partition(".")[2], row["published"]) for row in rows]


@pytest.fixture(scope="module")
def with_log(tmp_path_factory):
    """A home with a log."""
    folder = tmp_path_factory.mktemp("with-log")
    order = IngestOrder(sources=(str(talk(folder)),), log="chat")
    ingesting.ingest(order, folder / "home/logs", Silent())
    return folder / "home"


@pytest.fixture
def logged(home, with_log):
    shutil.copytree(with_log, home.path)
    return home


@pytest.fixture
def imported(home, tmp_path):
    assert home("index", "vectors", "import", "glove", glove(tmp_path)).code == 0
    return home


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_trained_is_told(logged):
    told = train(logged).json
    details = told["details"]
    assert (told["name"], told["words"], told["dimensions"]) == ("chat", len(WORDS), 12)
    assert (details["made"], details["tokenizer"], details["min_count"], details["distinct_words"]) == (
        "trained",
        "word",
        2,
        len(WORDS),
    )
    assert details["coverage"] == {"tokens": 80 * 4 * 6, "known_tokens": 80 * 4 * 6, "texts": 320, "without_vector": 0}
    assert details["logs"] == {"chat": [part.sha256 for part in logged.open().manifest.parts]}
    losses = details["losses"]
    assert len(losses) == 5
    assert min(losses) < losses[0] / 10
    shown = logged("artefacts", "show", "vectors", "chat", "--json").json
    assert (shown["sha256"], shown["details"]["losses"]) == (told["sha256"], losses)
    people = logged("artefacts", "show", "vectors", "chat").out
    assert f"loss                  {losses[-1]:.6f}" in people
    assert "known_tokens          1,920 of 1,920 (100.00 %)" in people


def test_vectors_of_equal_settings_are_not_trained_again_unless_asked_for(logged):
    first = train(logged).json
    assert train(logged, "--threads", "2").json == {**first, "is_new": False}
    assert train(logged, "--again").json["sha256"] == first["sha256"]
    assert train(logged, "--epochs", "6").json["sha256"] != first["sha256"]
    assert [published for _, _, published in listed(logged)] == [False, False, True]


def test_rarer_words_and_all_but_the_most_frequent_get_no_vector(home, tmp_path):
    said = ["tea tea tea tea", "tea rain rain rain", "bus bus cold rain"]
    (tmp_path / "log.jsonl").write_bytes(orjson.dumps({"id": "a", "turns": said}))
    home.ingest(tmp_path / "log.jsonl")

    def words(*more):
        told = home("train", "vectors", "chat", "--dimensions", "4", "--epochs", "1", *more, "--json").json
        written = tmp_path / "written.txt"
        assert home("index", "vectors", "write", "chat", written).code == 0
        return [line.split()[0] for line in written.read_text().splitlines()], told["details"]["coverage"]

    assert words("--min-count", "2") == (
        ["tea", "rain", "bus"],
        {"tokens": 12, "known_tokens": 11, "texts": 3, "without_vector": 0},
    )
    assert words("--min-count", "1", "--max-words", "2")[0] == ["tea", "rain"]
    result = home("train", "vectors", "chat", "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert result.error["message"] == "1 of 4 words in chat occur 5 times"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("train", "nowhere"), 3, "nowhere"),
        (("train", "chat", "chat"), 2, "each named once"),
        (("train", "chat", "--tokenizer", "nonsense"), 2, "nonsense"),
        (("import", "glove", "nothing.txt"), 3, "nothing.txt"),
        (("artefacts", "show", "vectors", "glove"), 3, "glove"),
        (("artefacts", "publish", "vectors", "glove"), 2, "glove"),
        (("artefacts", "publish", "vectors", "glove@yesterday"), 3, "glove"),
        (("artefacts", "show", "vectors", "glove@yesterday"), 3, "glove"),
        (("write", "glove", "out.txt"), 3, "glove"),
        (("artefacts", "rollback", "vectors", "glove"), 3, "glove"),
        (("artefacts", "gc", "vectors", "glove"), 3, "glove"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(logged, arguments, code, told):
    before = sorted(logged.path.rglob("*"))
    result = logged(*in_group("vectors", arguments))
    assert (result.code, told in result.err) == (code, True), result.err
    left = [path for path in sorted(logged.path.rglob("*")) if path.name not in ("vectors", "cache")]
    assert left == before


# A training that waits, when its third epoch begins, until it is told to go on.
PROGRAM = """if True:
    import sys
    from refaug.cli.shared import progress
    from refaug.cli.main import main

    begin = progress.ProgressLines.stage

    def wait(self, name, total=None, unit=""):
        begin(self, name, total, unit)
        if name.startswith("epoch 3 "):
            print("waiting", flush=True)
            sys.stdin.readline()

    progress.ProgressLines.stage = wait
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def waiting(logged):
    """A training in another process, in the middle of it."""
    command = ["--home", logged.path, "train", "vectors", "chat", *SMALL, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"waiting\n"
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_keeps_the_epochs_that_are_done_and_the_bits_are_the_same(logged, waiting):
    busy = train(logged)
    assert (busy.code, busy.error["code"]) == (4, "locked")
    assert str(waiting.pid) in busy.error["message"]
    whole = train(logged, "--name", "whole").json
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate()
    error = orjson.loads(err[err.index(b'{"error"') :])["error"]
    assert (waiting.returncode, error["code"]) == (5, "interrupted")
    assert listed(logged) == [("whole", "1", True)]
    again = logged("train", "vectors", "chat", *SMALL, "--threads", "2")
    epochs = [line for line in again.err.splitlines() if line.startswith("epoch ") and "loss" in line]
    assert epochs == [f"epoch {n}: loss {loss:.6f}" for n, loss in enumerate(whole["details"]["losses"], 1) if n > 2]
    assert logged("artefacts", "show", "vectors", "chat", "--json").json["sha256"] == whole["sha256"]
    assert list((logged.path / "cache").iterdir()) == []


# ── taking over ───────────────────────────────────────────────────────────────────────────────────────────────────────


def packed_binary(folder):
    path = folder / "glove.bin.gz"
    rows = [word.encode() + b" " + struct.pack("<3f", *numbers) + b"\n" for word, numbers in GLOVE.items()]
    path.write_bytes(gzip.compress(f"{len(GLOVE)} 3\n".encode() + b"".join(rows)))
    return path


def numbers_in(path):
    fields = [line.split(" ") for line in path.read_text().splitlines()]
    return {word: tuple(np.float32(number) for number in numbers) for word, *numbers in fields}


def test_a_published_file_gives_its_numbers_back(home, tmp_path):
    told = home("index", "vectors", "import", "glove", packed_binary(tmp_path), "--json").json
    assert (told["words"], told["dimensions"], told["published"]) == (len(GLOVE), 3, True)
    assert told["details"]["made"] == "imported"
    assert home("index", "vectors", "write", "glove", tmp_path / "written.txt").code == 0
    wanted = {word: tuple(map(np.float32, numbers)) for word, numbers in GLOVE.items()}
    assert numbers_in(tmp_path / "written.txt") == wanted
    assert list(numbers_in(tmp_path / "written.txt")) == list(GLOVE)  # order is frequency
    home("index", "vectors", "import", "again", tmp_path / "written.txt")
    assert home("artefacts", "show", "vectors", "again", "--json").json["sha256"] == told["sha256"]


def test_trained_vectors_survive_being_written_and_read_to_the_last_bit(logged, tmp_path):
    sha256 = train(logged).json["sha256"]
    assert logged("index", "vectors", "write", "chat", tmp_path / "written.vec", "--header").code == 0
    assert (tmp_path / "written.vec").read_text().splitlines()[0] == f"{len(WORDS)} 12"
    assert logged("index", "vectors", "import", "again", tmp_path / "written.vec", "--json").json["sha256"] == sha256


def test_coverage_is_what_one_counts_by_hand(imported, tmp_path):
    rows = [
        {"id": "a", "turns": ["The cat sat", "the dog sat down"]},  # three of three known, two of four
        {
            "id": "b",
            "turns": ["A cat.", "NAÏVE dogs bark", "two dogs bark"],
        },  # cat and the full stop; one of three; none
    ]
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    imported.ingest(tmp_path / "log.jsonl")
    shown = imported("index", "vectors", "try", "glove", "--log", "chat", "--json").json
    assert shown["of_logs"] == {"tokens": 16, "known_tokens": 8, "texts": 5, "without_vector": 1}
    people = imported("index", "vectors", "try", "glove", "--log", "chat").out
    assert "known_tokens          8 of 16 (50.00 %)" in people
    assert "texts_without_vector  1 of 5 (20.00 %)" in people


def test_the_words_most_like_one_are_those_of_the_largest_cosine(imported):
    matrix = np.array(list(GLOVE.values()), np.float64)
    units = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    cosines = dict(zip(GLOVE, units @ units[1], strict=True))
    near = imported("index", "vectors", "try", "glove", "--like", "cat", "--json").json["nearest"]["cat"]
    assert [word for word, _ in near] == sorted(cosines.keys() - {"cat"}, key=cosines.get, reverse=True)
    assert [number for _, number in near] == pytest.approx([cosines[word] for word, _ in near], abs=2e-6)
    result = imported("index", "vectors", "try", "glove", "--like", "Cat", "--json")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert "Cat" in result.error["message"]


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def damaged(home, what):
    """Damage the only version of `glove` in some way; the file that should be named."""
    folder = next(path for path in (home.path / "vectors/glove").iterdir() if path.is_dir())
    manifest = folder / "manifest.json"
    if what == "shortened":
        (folder / "vectors.npy").write_bytes((folder / "vectors.npy").read_bytes()[:-4])
        return folder / "vectors.npy"
    if what == "no JSON":
        manifest.write_bytes(b"{")
    if what == "newer":
        write_json(manifest, with_checksum({**read_json(manifest), "format_version": 2}))
    return manifest


@pytest.mark.parametrize("what", ["shortened", "newer"])
def test_damaged_vectors_are_named(imported, tmp_path, what):
    path = damaged(imported, what)
    result = imported("index", "vectors", "write", "glove", tmp_path / "out.txt")
    assert (result.code, result.err.startswith("error [corrupt]"), str(path) in result.err) == (3, True, True)
    assert not (tmp_path / "out.txt").exists()


def test_a_damaged_version_does_not_hide_the_others_from_the_list(imported, tmp_path):
    path = damaged(imported, "no JSON")
    imported("index", "vectors", "import", "other", tmp_path / "glove.txt")
    result = imported("artefacts", "list", "vectors", "--json")
    assert result.code == 0, result.err
    rows = {row["name"]: row for row in result.json["versions"]}
    assert rows["other"]["words"] == len(GLOVE)
    assert str(path) in rows["glove"]["problem"]
