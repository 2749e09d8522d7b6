"""Word vectors: the formats of other tools against gensim's own reading, saved folders, frequencies, and damage."""

from __future__ import annotations

import gzip
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import orjson
import pytest
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, Conflict, Corrupt, DamagedSource, NotFound, UnknownFormat
from refaug.core.files import read_json
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors

WORDS = ["the", "犬", "don't", "naïve"]
# Exact in float32 and in few digits, so that text and binary hold the same numbers.
MATRIX = np.array([[0.5, -1.25, 3.0], [0.0, 2.0, -0.125], [1.5, 1.5, 1.5], [-4.0, 0.25, 8.0]], np.float32)


def text_of(words: list[str], matrix: np.ndarray, *, header: bool) -> bytes:
    lines = [f"{len(words)} {matrix.shape[1]}"] if header else []
    lines += [" ".join([word, *map(str, row)]) for word, row in zip(words, matrix.tolist(), strict=True)]
    return ("\n".join(lines) + "\n").encode()


def binary_of(words: list[str], matrix: np.ndarray, *, between: bytes = b"\n") -> bytes:
    rows = [
        word.encode() + b" " + struct.pack(f"<{len(row)}f", *row) + between
        for word, row in zip(words, matrix.tolist(), strict=True)
    ]
    return f"{len(words)} {matrix.shape[1]}\n".encode() + b"".join(rows)


FORMATS = {
    "glove.txt": text_of(WORDS, MATRIX, header=False),
    "word2vec.txt": text_of(WORDS, MATRIX, header=True),
    "word2vec.bin": binary_of(WORDS, MATRIX),
    "gensim.bin": binary_of(WORDS, MATRIX, between=b""),
}


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def small(**changes: object) -> WordVectors:
    return WordVectors(**{"words": list(WORDS), "matrix": MATRIX.copy(), "stem": "small", **changes})


# The formats of other tools


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_gives_the_same_words_rows_and_hash(tmp_path, name, suffix):
    vectors = open_word_vectors(written(tmp_path, name + suffix, FORMATS[name]))
    assert vectors.words == WORDS
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    assert vectors.dimensions == 3
    assert vectors.counts is None
    assert vectors.duplicates == 0
    assert vectors.sha256 == small().sha256
    assert vectors.name == f"{name.partition('.')[0]}#{small().sha256[:12]}"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # gensim leaves a file without a header open
@pytest.mark.parametrize("name", ["glove.txt.gz", "word2vec.txt", "word2vec.bin"])
def test_large_random_vectors_agree_with_what_gensim_reads(tmp_path, name):
    random = np.random.default_rng(3)
    words = [f"w{number}é" for number in range(3000)]
    matrix = random.standard_normal((3000, 17)).astype(np.float32)
    binary, header = name.endswith(".bin"), name.startswith("word2vec")
    content = binary_of(words, matrix) if binary else text_of(words, matrix, header=header)
    path = written(tmp_path, name, content)
    theirs = KeyedVectors.load_word2vec_format(str(path), binary=binary, no_header=not header)
    ours = open_word_vectors(path)
    assert ours.words == theirs.index_to_key
    np.testing.assert_array_equal(ours.matrix, theirs.vectors)
    np.testing.assert_array_equal(ours.matrix, matrix)


@pytest.mark.parametrize("line_end", ["\r\n", " \n"])  # Windows; the original word2vec, which ends a line with a space
def test_other_line_ends_change_nothing(tmp_path, line_end):
    content = FORMATS["word2vec.txt"].replace(b"\n", line_end.encode())
    assert open_word_vectors(written(tmp_path, "v.txt", content)).sha256 == small().sha256


def test_words_that_are_numbers_or_end_lines_elsewhere_are_words(tmp_path):
    words = ["7", "a\u2028b", "c\x85", "nan", "\xa0"]
    path = written(tmp_path, "v.txt", text_of(words, np.ones((5, 2)), header=False))
    assert open_word_vectors(path).words == words


@pytest.mark.parametrize("kind", ["glove", "header", "binary"])
def test_a_word_that_comes_twice_keeps_its_first_vector_and_is_counted(tmp_path, kind):
    words = ["a", "b", "a", "c", "b"]
    matrix = np.arange(10, dtype=np.float32).reshape(5, 2) + 0.5
    content = binary_of(words, matrix) if kind == "binary" else text_of(words, matrix, header=kind == "header")
    vectors = open_word_vectors(written(tmp_path, "v", content))
    assert vectors.words == ["a", "b", "c"]
    np.testing.assert_array_equal(vectors.matrix, matrix[[0, 1, 3]])
    assert vectors.duplicates == 2


def test_word_cut_within_a_character_does_not_refuse_the_others(tmp_path):
    words = [f"w{number}" for number in range(200)]
    content = binary_of(words, np.ones((200, 2))).replace(b"w77 ", b"w\xe7 ")
    assert open_word_vectors(written(tmp_path, "v.bin", content)).words[77] == "w\ufffd"


def test_vectors_read_from_a_file_cannot_be_written_to(tmp_path):
    vectors = open_word_vectors(written(tmp_path, "v.txt", FORMATS["glove.txt"]))
    with pytest.raises(ValueError, match="read-only"):
        vectors.matrix[0, 0] = 1.0


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", BadInput, "is empty"),
        (b"\n\na 1 2\n", BadInput, "is empty"),
        (b"0 5\n", BadInput, "line 1: 0 words of 5 dimensions"),
        (b"5 0\n", BadInput, "line 1: 5 words of 0 dimensions"),
        (b"a\nb\n", UnknownFormat, "line 1: no word with its vector, but 'a"),
        (b"a\t1\t2\n", UnknownFormat, "line 1"),
        (b"Dear Sir, how are you\n", UnknownFormat, "line 1"),
        (b"\x80\x05\x95\x0c\x00 1 2\n", UnknownFormat, "line 1"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00\x12\x34\n", UnknownFormat, "line 1"),
        (b"a 1 2\nb 3\nc 4 5\n", BadInput, "line 2: 1 numbers where 2 belong"),
        (b"a 1 2\nb 3 4 5\n", BadInput, "line 2: 3 numbers where 2 belong"),
        (b"a 1 2\n\nc 4 5\n", BadInput, "line 2: 0 numbers where 2 belong"),
        (b"a 1 2\nb  3 4\n", BadInput, "b"),
        (b"a 1 2\n. . 3 4\n", BadInput, "NF == 3"),
        (b"2 2\na 1 2\nb 3\n", BadInput, "line 3: 1 numbers where 2 belong"),
        (b"a 1 2\nb 3 x\n", BadInput, "x"),
        (b"a 1 2\nb nan 4\n", BadInput, "nan"),
        (b"2 2\na 1 2\nb -inf 4\n", BadInput, "-inf"),
        (b"a 1 2\na 1 2\nb 1e60 4\n", BadInput, "1e60"),
        (b"3 2\na 1 2\nb 3 4\n", DamagedSource, "the header says 3 words, there are 2"),
        (b"1 2\na 1 2\nb 3 4\n", DamagedSource, "the header says 1 words, there are 2"),
        (b"2 2\n", DamagedSource, "the header says 2 words, there are 0"),
        ("café 0.25 0.5\nb 3 4\n".encode("latin-1"), BadInput, "not UTF-8"),
        (binary_of(WORDS, MATRIX)[:-9], DamagedSource, "breaks off"),
        (binary_of(WORDS, MATRIX)[:30], DamagedSource, "52"),
        (b"99999999999999 300\n" + bytes(4000), DamagedSource, "99999999999999"),
        (binary_of(["a", "b"], np.array([[1, 2], [np.nan, 4]])), BadInput, "b"),
        (binary_of(["a", "b"], np.array([[1, np.inf], [3, 4]])), BadInput, "a"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_line(tmp_path, content, error, message):
    path = written(tmp_path, "broken.vec", content)
    with refusing(BadInput, message) as caught:
        open_word_vectors(path)
    assert type(caught.value) is error
    assert str(caught.value).startswith(str(path)) or "vector" in message
    assert caught.value.remedy


@pytest.mark.parametrize(
    "damage", [lambda gz: gz[: len(gz) // 2], lambda gz: b"plain 1 2\n", lambda gz: gz[:-6] + b"x"]
)
def test_damaged_compression_is_named(tmp_path, damage):
    path = tmp_path / "v.txt.gz"
    path.write_bytes(damage(gzip.compress(text_of(WORDS * 50, np.tile(MATRIX, (50, 1)), header=True))))
    with refusing(DamagedSource):
        open_word_vectors(path)


@pytest.mark.parametrize("name", ["nothing.txt", "nul\0.txt"])
def test_what_is_not_there_is_not_found(tmp_path, name):
    with refusing(NotFound):
        open_word_vectors(tmp_path / name)


def test_an_unchanged_file_is_read_once_and_a_replaced_one_again(tmp_path):
    path = written(tmp_path, "v.txt", b"a 1 2\n")
    first = open_word_vectors(path)
    assert open_word_vectors(path) is first
    written(tmp_path, "new.txt", b"b 3 4\n").replace(path)
    assert open_word_vectors(path).words == ["b"]


# A saved folder


def test_a_saved_folder_is_mapped_and_is_the_same_value(tmp_path):
    counts = np.array([9, 4, 2, 2])
    saved = small(counts=counts, duplicates=3)
    saved.save(tmp_path / "made" / "here")
    opened = open_word_vectors(tmp_path / "made" / "here")
    assert isinstance(opened.matrix.base, np.memmap)
    assert not opened.matrix.flags.writeable
    np.testing.assert_array_equal(opened.matrix, MATRIX)
    np.testing.assert_array_equal(opened.counts, counts)
    assert (opened.words, opened.duplicates) == (WORDS, 3)
    assert (opened.name, opened.sha256) == (saved.name, saved.sha256)
    assert opened.frequency_source == saved.frequency_source != small().frequency_source == "zipf"
    opened.verify()


def test_published_vectors_keep_their_name_when_saved(tmp_path):
    published = open_word_vectors(written(tmp_path, "glove.6B.50d.txt", FORMATS["glove.txt"]))
    published.save(tmp_path / "v7")
    opened = open_word_vectors(tmp_path / "v7")
    assert opened.name == published.name == f"glove.6B.50d#{small().sha256[:12]}"
    assert opened.counts is None


def test_the_manifest_names_every_file_with_its_size(tmp_path):
    small(counts=np.ones(4, np.int64)).save(tmp_path / "v")
    manifest = orjson.loads((tmp_path / "v" / "manifest.json").read_bytes())
    assert sorted(manifest["files"]) == ["counts.npy", "vectors.npy", "words.txt"]
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == sorted([*manifest["files"], "manifest.json"])
    for name, facts in manifest["files"].items():
        assert facts["size"] == (tmp_path / "v" / name).stat().st_size


@pytest.mark.parametrize("word", ["two\nlines", "lone \ud800 surrogate"])
def test_word_that_cannot_be_a_line_is_refused_before_writing(tmp_path, word):
    with refusing(BadInput):
        small(words=["a", word, "b", "c"]).save(tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_vectors_that_are_not_finite_are_not_saved(tmp_path):
    matrix = MATRIX.copy()
    matrix[2, 1] = np.nan
    with refusing(BadInput, "don't"):
        small(matrix=matrix).save(tmp_path / "v")


def test_a_folder_is_never_written_over(tmp_path):
    small().save(tmp_path / "v")
    with refusing(Conflict):
        small().save(tmp_path / "v")


def test_a_folder_without_its_manifest_is_no_artefact_and_can_be_completed(tmp_path):
    small().save(tmp_path / "v")
    (tmp_path / "v" / "manifest.json").unlink()
    with refusing(NotFound, "manifest.json") as refused:
        open_word_vectors(tmp_path / "v")
    assert refused.value.remedy == "give a file of vectors: GloVe or word2vec, text or binary, plain or .gz"
    small().save(tmp_path / "v")
    assert open_word_vectors(tmp_path / "v").words == WORDS


def rewrite_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_bytes(orjson.dumps(read_json(path) | changes))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "vectors.npy").write_bytes(b"short"),
        lambda folder: (folder / "vectors.npy").write_bytes(b"x" * (folder / "vectors.npy").stat().st_size),
        lambda folder: (folder / "words.txt").unlink(),
        lambda folder: (folder / "words.txt").write_bytes(b"\xff" * (folder / "words.txt").stat().st_size),
        lambda folder: (folder / "words.txt").write_bytes(b"x" * (folder / "words.txt").stat().st_size),
        lambda folder: (folder / "manifest.json").write_bytes(b"{"),
        lambda folder: rewrite_manifest(folder, format_version=2),
        lambda folder: rewrite_manifest(folder, words=5),
        lambda folder: rewrite_manifest(folder, dimensions=4),
        lambda folder: rewrite_manifest(folder, files={"../words.txt": {"size": 1}}),
        lambda folder: rewrite_manifest(folder, files=None),
        lambda folder: rewrite_manifest(folder, stem=[], duplicates=[]),
    ],
)
def test_a_spoiled_folder_is_corrupt(tmp_path, spoil):
    small().save(tmp_path / "v")
    spoil(tmp_path / "v")
    with pytest.raises(Corrupt):
        open_word_vectors(tmp_path / "v")


def test_pickled_vectors_are_never_loaded(tmp_path):
    small().save(tmp_path / "v")
    np.save(tmp_path / "v" / "vectors.npy", np.array([["a", 1]], object), allow_pickle=True)
    size = (tmp_path / "v" / "vectors.npy").stat().st_size
    files = orjson.loads((tmp_path / "v" / "manifest.json").read_bytes())["files"]
    rewrite_manifest(tmp_path / "v", files=files | {"vectors.npy": {"size": size}})
    with pytest.raises(Corrupt):
        open_word_vectors(tmp_path / "v")


def test_verify_finds_content_that_was_changed_without_its_size(tmp_path):
    small().save(tmp_path / "v")
    words = tmp_path / "v" / "words.txt"
    words.write_bytes(words.read_bytes().replace(b"the", b"teh"))
    with refusing(Corrupt, "small"):
        open_word_vectors(tmp_path / "v").verify()


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_words_and_numbers_come_back_from_a_folder(data):
    word = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=6)
    words = data.draw(st.lists(word, min_size=1, max_size=6, unique=True))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = data.draw(st.lists(st.lists(number, min_size=2, max_size=2), min_size=len(words), max_size=len(words)))
    matrix = np.array(rows, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        WordVectors(words, matrix).save(Path(folder))
        opened = open_word_vectors(Path(folder))
        assert opened.words == words
        assert opened.matrix.tobytes() == matrix.tobytes()
        opened.verify()


# The value


def test_unknown_words_have_the_row_minus_one():
    rows = small().rows_of(["naïve", "zzz", "the", "The", "the"])
    assert rows.tolist() == [3, -1, 0, -1, 0]
    assert small().rows_of([]).dtype == np.int64


def test_without_counts_the_frequency_is_zipfs_and_sums_to_one():
    vectors = WordVectors(["a", "b", "c"], MATRIX[:3])  # H_3 = 1 + 1/2 + 1/3 = 11/6
    assert [vectors.frequency(word) for word in "abc"] == pytest.approx([6 / 11, 3 / 11, 2 / 11], rel=1e-15)
    many = WordVectors([str(number) for number in range(1000)], np.zeros((1000, 1), np.float32))
    assert many.frequencies(np.arange(1000)).sum() == pytest.approx(1.0)
    assert many.frequency("9") == pytest.approx(0.1 / math.fsum(1 / rank for rank in range(1, 1001)))


def test_with_counts_the_frequency_is_their_share():
    vectors = small(counts=np.array([6, 1, 0, 1]))
    assert [vectors.frequency(word) for word in WORDS] == [0.75, 0.125, 0.0, 0.125]
    assert vectors.frequency("zzz") == 0.0


def test_the_hash_covers_words_their_order_and_vectors():
    hashes = [
        small().sha256,
        small(words=[*WORDS[:3], "naive"]).sha256,
        small(words=WORDS[::-1]).sha256,
        small(matrix=MATRIX[::-1]).sha256,
        WordVectors(["ab", "c"], MATRIX[:2]).sha256,
        WordVectors(["a", "bc"], MATRIX[:2]).sha256,
    ]
    assert len(set(hashes)) == len(hashes)
    assert small(counts=np.ones(4, np.int64), stem="other").sha256 == small().sha256
    assert small(matrix=np.asfortranarray(MATRIX)).sha256 == small().sha256


def test_the_name_has_only_safe_characters():
    name = small(stem="日本 語|a,b#c/" + "x" * 100).name
    stem, _, digest = name.partition("#")
    assert stem == "-----a-b-c-" + "x" * 53
    assert digest == small().sha256[:12]


def test_gensim_is_imported_only_to_read_a_file_of_another_tool(tmp_path):
    small().save(tmp_path / "v")
    code = (
        "import sys; from pathlib import Path; from refaug.core.vectors.word_vectors import open_word_vectors;"
        f"open_word_vectors(Path({str(tmp_path / 'v')!r})); print('gensim' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False"]
