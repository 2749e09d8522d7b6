"""Kept sentence vectors: the same bits as computed ones, whatever happens to the file and whoever else uses it."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import WORDS, TinyEncoder, write_encoder
from refusals import refusing

from refaug.core.errors import BadInput, Locked
from refaug.core.vectors.encoders import EncoderConfig, OnnxEncoder, open_encoder
from refaug.core.vectors.kept_vectors import Encodings, SentenceVector, key_of

TEXTS = ["the cat", "i really like tea !", "the cat", "", "you", "a big dog . a big dog . a big dog .", "not 茶 \udc80"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


def encodings_in(path: Path, most_bytes: int = 1 << 30) -> Encodings:
    return Encodings(path / "encodings", most_bytes)


def keeping(folder: Path, encodings: Encodings, **settings: Any) -> OnnxEncoder:
    return open_encoder(folder, EncoderConfig(encodings=encodings, **settings))


def store_of(encoder: OnnxEncoder, encodings: Encodings) -> Path:
    return encodings.folder / f"{encoder.name.partition('#')[2]}.sqlite"


@contextmanager
def encoded_texts(encoder: OnnxEncoder) -> Iterator[list[str]]:
    """The texts that the model is run on."""
    run, texts = encoder._tokenizer.tokens_of, list[str]()

    def heard(text: str) -> Any:
        texts.append(text)
        return run(text)

    encoder._tokenizer.tokens_of = heard  # type: ignore[method-assign]
    yield texts
    encoder._tokenizer.tokens_of = run  # type: ignore[method-assign]


def random_vectors(count: int, dimensions: int, first: int = 0) -> dict[str, SentenceVector]:
    drawn = np.random.default_rng(first).normal(size=(count, dimensions)).astype(np.float16).astype(np.float32)
    return {f"text {first + row}": SentenceVector(vector, row % 7 == 0) for row, vector in enumerate(drawn)}


# What is kept


def test_a_kept_vector_has_the_bits_of_a_computed_one_and_is_not_computed_again(folder: Path, tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    plain = open_encoder(folder).sentence_vectors(TEXTS)
    first = keeping(folder, encodings, max_length=6)
    with encoded_texts(first) as texts:
        computed = first.sentence_vectors(TEXTS)
    assert texts == list(dict.fromkeys(TEXTS))
    assert first.truncated == 2
    later = keeping(folder, encodings, max_length=6)
    with encoded_texts(later) as texts:
        assert later.sentence_vectors(TEXTS).tobytes() == computed.tobytes()
        assert later.sentence_vectors(["the cat"]).tobytes() == computed[:1].tobytes()
    assert texts == [""]  # which has no vector
    assert later.truncated == 2
    short = [row for row, text in enumerate(TEXTS) if "dog" not in text and "tea" not in text]
    assert computed[short].tobytes() == plain[short].tobytes()


def test_each_encoder_has_its_own_file(folder: Path, tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    means, firsts = (keeping(folder, encodings, pooling=pooling) for pooling in ("mean", "cls"))
    assert means.sentence_vectors(TEXTS[:1]).tobytes() != firsts.sentence_vectors(TEXTS[:1]).tobytes()
    assert [(size.texts, size.encoder) for size in encodings.sizes()] == sorted(
        (1, encoder.name.partition("#")[2]) for encoder in (means, firsts)
    )
    assert encodings.clear(means.name.partition("#")[2]) > 0
    assert [size.encoder for size in encodings.sizes()] == [firsts.name.partition("#")[2]]
    assert encodings.clear() > 0
    assert not list(encodings.folder.iterdir())


def test_token_vectors_are_kept_with_their_bits_and_erased_with_the_text(folder: Path, tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    first = keeping(folder, encodings, max_length=6)
    computed = first.token_vectors(TEXTS)
    later = keeping(folder, encodings, max_length=6)
    found = later.token_vectors(TEXTS)
    assert later.encoded == 0
    assert later.truncated == first.truncated
    for one, other in zip(computed, found, strict=True):
        assert (one.tokens, one.truncated) == (other.tokens, other.truncated)
        assert one.vectors.tobytes() == other.vectors.tobytes()
    assert encodings.forget(TEXTS[:1]) == 1
    again = keeping(folder, encodings, max_length=6)
    again.token_vectors(TEXTS)
    assert again.encoded == 1
    assert encodings.clear(first.name.partition("#")[2]) > 0
    assert encodings.sizes() == []


def test_token_vectors_leave_room_for_sentences(folder: Path, tmp_path: Path) -> None:
    encodings = Encodings(tmp_path / "encodings", 400_000)
    texts = [f"i like {' '.join(['tea'] * (number % 40))} {number}" for number in range(300)]
    encoder = keeping(folder, encodings)
    for text in texts:
        encoder.token_vectors([text])
    assert encoder.kept_tokens is not None
    assert encoder.kept_tokens.not_kept.total() > 0
    encoder.sentence_vectors(texts[:50])
    assert encoder.kept is not None
    assert encoder.kept.not_kept.total() == 0


@pytest.mark.parametrize(("dimensions", "texts"), [(12, 2_000), (384, 10_000), (768, 20_000)])
def test_a_text_takes_little_more_than_its_halves(dimensions: int, texts: int, tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    kept = encodings.open("wide", dimensions)
    for first in range(0, texts, 1_000):
        kept.put(random_vectors(1_000, dimensions, first))
    kept._close()  # the last connection empties the log of SQLite into the file
    (size,) = encodings.sizes()
    assert size.texts == texts
    assert size.bytes / texts <= 2 * dimensions + 64


@pytest.mark.slow
def test_many_kept_texts_are_read_in_any_order(tmp_path: Path) -> None:
    kept = encodings_in(tmp_path).open("wide", 384)
    vectors = random_vectors(50_000, 384)
    kept.put(vectors)
    texts = list(vectors)
    np.random.default_rng(1).shuffle(texts)
    found = kept.get(texts)
    assert len(found) == 50_000
    assert all(found[text].vector.tobytes() == vectors[text].vector.tobytes() for text in texts[:100])
    assert [found[text].truncated for text in texts[:100]] == [vectors[text].truncated for text in texts[:100]]


# What is not kept


def test_beyond_the_limit_nothing_is_added_and_what_is_there_is_found(tmp_path: Path) -> None:
    kept = encodings_in(tmp_path, 200_000).open("wide", 384)
    first, second = random_vectors(100, 384), random_vectors(200, 384, 500)
    kept.put(first)
    kept.put(second)
    assert len(kept.get(list(first))) == 100
    assert kept.get(list(second)) == {}
    assert dict(kept.not_kept) == {"the limit on disk is reached": 200}


def test_a_read_only_store_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encodings = encodings_in(tmp_path)
    expected = keeping(folder, encodings).sentence_vectors(TEXTS).tobytes()

    def refusing(*_: Any) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("refaug.core.vectors.kept_vectors._insert", refusing)
    encoder = keeping(folder, encodings)
    assert encoder.sentence_vectors([*TEXTS, "the dog"])[: len(TEXTS)].tobytes() == expected
    assert encoder.kept is not None
    assert dict(encoder.kept.not_kept) == {"attempt to write a readonly database": 1}


def test_a_folder_that_cannot_be_made_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "encodings").write_text("a file")
    encoder = keeping(folder, encodings_in(tmp_path))
    assert encoder.sentence_vectors(TEXTS).tobytes() == open_encoder(folder).sentence_vectors(TEXTS).tobytes()
    assert encoder.kept is not None
    assert sum(encoder.kept.not_kept.values()) == 5


def test_a_locked_store_is_read_and_not_waited_for(folder: Path, tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    encoder = keeping(folder, encodings)
    encoder.sentence_vectors(["the cat"])
    with closing(sqlite3.connect(store_of(encoder, encodings), isolation_level=None)) as other:
        other.execute("begin immediate")
        later = keeping(folder, encodings)
        with encoded_texts(later) as texts:
            later.sentence_vectors(["the cat", "the dog"])
        assert texts == ["the dog"]
        assert later.kept is not None
        assert dict(later.kept.not_kept) == {"database is locked": 1}


@pytest.mark.parametrize("damage", ["no database", "torn pages"])
def test_a_damaged_store_is_made_anew_with_one_warning(
    damage: str, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encodings, texts = encodings_in(tmp_path), [f"the cat {number}" for number in range(500)]
    encoder = keeping(folder, encodings)
    expected = encoder.sentence_vectors(texts).tobytes()
    assert encoder.kept is not None
    encoder.kept._close()
    path = store_of(encoder, encodings)
    content = path.read_bytes()
    path.write_bytes(b"no database" * 1_000 if damage == "no database" else content[:4096] + b"\xff" * 40_960)
    for part in ("-wal", "-shm"):
        path.with_name(path.name + part).unlink(missing_ok=True)
    with caplog.at_level(logging.WARNING, "refaug"):
        for _ in range(2):
            again = keeping(folder, encodings, cache_bytes=0)
            assert again.sentence_vectors(texts).tobytes() == expected
    assert [record.message for record in caplog.records] == ["kept vectors were damaged, and are computed again"]
    assert [size.texts for size in encodings.sizes()] == [500]


def test_numbers_that_are_not_finite_are_an_error_and_not_kept(tmp_path: Path) -> None:
    weights = TinyEncoder.seeded()
    weights.words[list(WORDS).index("tea") + 4] = np.nan
    folder, encodings = write_encoder(tmp_path / "tiny", weights=weights), encodings_in(tmp_path)
    encoder = keeping(folder, encodings)
    with refusing(BadInput, "i like tea"):
        encoder.sentence_vectors(["the cat", "i like tea"])
    assert encoder.kept is not None
    assert list(encoder.kept.get(["the cat", "i like tea"])) in (["the cat"], [])


# Several at once


def test_threads_share_a_store(folder: Path, tmp_path: Path) -> None:
    encodings, expected = encodings_in(tmp_path), open_encoder(folder).sentence_vectors(TEXTS).tobytes()
    encoder = keeping(folder, encodings, cache_bytes=0)
    with ThreadPoolExecutor(4) as pool:
        assert {vectors.tobytes() for vectors in pool.map(encoder.sentence_vectors, [TEXTS] * 20)} == {expected}
    assert [size.texts for size in encodings.sizes()] == [5]
    assert encoder.kept is not None
    assert not encoder.kept.not_kept


_PUTS = """
import sys
import numpy as np
from pathlib import Path
from refaug.core.vectors.kept_vectors import Encodings, SentenceVector
kept = Encodings(Path(sys.argv[1]), 1 << 30).open("wide", 64)
for first in range(0, int(sys.argv[2]), 50):
    kept.put({
        f"text {number}": SentenceVector(np.full(64, number % 2_000, np.float32), False)
        for number in range(first, first + 50)
    })
    print(first, flush=True)
print(dict(kept.not_kept))
"""


def process_of(encodings: Encodings, texts: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PUTS, str(encodings.folder), str(texts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_share_a_store(tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    said = [process.communicate(timeout=60)[0] for process in [process_of(encodings, 2_000) for _ in range(3)]]
    assert [lines.splitlines()[-1] for lines in said] == ["{}"] * 3
    assert [size.texts for size in encodings.sizes()] == [2_000]
    found = encodings.open("wide", 64).get([f"text {number}" for number in range(2_000)])
    assert [found[f"text {number}"].vector[0] for number in range(2_000)] == list(range(2_000))


def test_a_killed_process_leaves_a_sound_store(tmp_path: Path) -> None:
    encodings = encodings_in(tmp_path)
    for lines in (2, 5, 9):
        process = process_of(encodings, 1_000_000)
        assert process.stdout is not None
        for _ in range(lines):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        kept = encodings.open("wide", 64)
        found = kept.get([f"text {number}" for number in range(last + 50)])
        assert all(found[f"text {number}"].vector[0] == number for number in range(last + 50))
        with closing(sqlite3.connect(encodings.folder / "wide.sqlite")) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_fork_opens_the_file_itself(tmp_path: Path) -> None:
    kept = encodings_in(tmp_path).open("wide", 8)
    kept.put(random_vectors(10, 8))
    child = os.fork()
    if child == 0:
        kept.put(random_vectors(10, 8, 100))
        os._exit(len(kept.get(["text 0", "text 100"])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert len(kept.get(["text 0", "text 100"])) == 2


# Erasure and settings


def rows_of(path: Path, texts: Sequence[str]) -> int:
    with closing(sqlite3.connect(path)) as connection:
        marks = ",".join("?" * len(texts))
        question = f"select count(*) from keys join vectors using (place) where key in ({marks})"
        return int(connection.execute(question, [key_of(text) for text in texts]).fetchone()[0])


def test_erased_texts_are_in_no_store_and_their_numbers_nowhere_in_the_file(tmp_path: Path) -> None:
    encodings, vectors = encodings_in(tmp_path), random_vectors(300, 384)
    gone = list(vectors)[100:200]
    for name in ("one", "other"):
        encodings.open(name, 384).put(vectors)
    assert encodings.forget([*gone, "never seen"]) == 200
    for name in ("one", "other"):
        path = encodings.folder / f"{name}.sqlite"
        assert rows_of(path, gone) == 0
        assert rows_of(path, list(vectors)) == 200
        content = b"".join(part.read_bytes() for part in encodings.folder.glob(f"{name}.sqlite*"))
        assert not any(vectors[text].vector.astype("<f2").tobytes() in content for text in gone)


def test_an_erasure_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refaug.core.vectors.kept_vectors._ERASURE_WAIT_S", 0.1)
    encodings = encodings_in(tmp_path)
    encodings.open("one", 8).put(random_vectors(10, 8))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(encodings.folder / "one.sqlite", isolation_level=None)) as other:
            other.execute("begin immediate")
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        with refusing(Locked):
            encodings.forget(["text 1"])
    finally:
        done.set()
        thread.join()
