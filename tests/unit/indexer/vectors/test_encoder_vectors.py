"""Stored sentence vectors: what an encoder says, whatever stops the writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from encoders import WORDS, TinyEncoder, write_encoder
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from told import Told

from refaug.core.errors import Conflict
from refaug.core.progress import Silent
from refaug.core.vectors.encoders import EncoderConfig, OnnxEncoder, of_unit_length, open_encoder
from refaug.indexer.vectors.encoder_vectors import encode_utterances, stored_similarity

TINY = TinyEncoder.seeded()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny", weights=TINY)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> OnnxEncoder:
    return open_encoder(folder)


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size)) for size in rng.integers(1, 6, count)]


def batches(texts: Sequence[str], size: int = 65_536) -> Iterator[pa.StringArray]:
    for first in range(0, len(texts), size):
        yield pa.array(texts[first : first + size], pa.string())


def stopped(texts: Sequence[str], after: int, size: int = 65_536) -> Iterator[pa.StringArray]:
    """The texts, and a signal before those from `after` on are asked for."""
    yield from batches(texts[:after], size)
    raise KeyboardInterrupt


def expected_vectors(texts: Sequence[str]) -> np.ndarray:
    means = np.array([TINY.vectors(text).mean(axis=0) for text in texts])
    return means / np.linalg.norm(means, axis=1)[:, None]


def test_the_matrix_holds_the_vectors_of_the_model(encoder: OnnxEncoder, tmp_path: Path) -> None:
    texts, progress = sentences(50), Told()
    known = encode_utterances(encoder, batches(texts, 20), tmp_path / "vectors.npy", progress)
    matrix = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert (matrix.dtype, matrix.shape) == (np.float32, (50, 12))
    assert matrix.tobytes() == of_unit_length(encoder.sentence_vectors(texts)).astype(np.float32).tobytes()
    np.testing.assert_allclose(matrix, expected_vectors(texts), atol=3e-4)
    assert known.tolist() == [True] * 50
    assert progress.done == 50
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]


def test_texts_without_tokens_have_no_vector(encoder: OnnxEncoder, tmp_path: Path) -> None:
    known = encode_utterances(encoder, batches(["", "the cat", "  ", "tea"]), tmp_path / "vectors.npy", Silent())
    matrix = np.load(tmp_path / "vectors.npy")
    assert known.tolist() == [False, True, False, True]
    assert not matrix[[0, 2]].any()
    np.testing.assert_allclose(matrix[[1, 3]], expected_vectors(["the cat", "tea"]), atol=3e-4)


@pytest.mark.parametrize("texts", [[], [""]], ids=["no text", "an empty one"])
def test_nothing_to_encode_gives_a_matrix_all_the_same(texts: list[str], encoder: OnnxEncoder, tmp_path: Path) -> None:
    known = encode_utterances(encoder, batches(texts), tmp_path / "vectors.npy", Silent())
    assert known.tolist() == [False] * len(texts)
    assert np.load(tmp_path / "vectors.npy").shape == (len(texts), 12)


@pytest.mark.parametrize(("after", "size"), [(4_096, 65_536), (5_000, 65_536), (8_192, 1_000), (9_999, 65_536)])
def test_a_stopped_run_goes_on_after_its_last_piece(
    after: int, size: int, folder: Path, encoder: OnnxEncoder, tmp_path: Path
) -> None:
    texts, path = sentences(10_000), tmp_path / "vectors.npy"
    with pytest.raises(KeyboardInterrupt):
        encode_utterances(encoder, stopped(texts, after, size), path, Silent())
    assert not path.exists()
    rest, progress = open_encoder(folder), Told()  # which remembers none of the texts
    asked = list[str]()
    ask = rest.sentence_vectors

    def listening(some: Sequence[str]) -> np.ndarray:
        asked.extend(some)
        return ask(some)

    rest.sentence_vectors = listening  # type: ignore[method-assign]
    known = encode_utterances(rest, batches(texts, 700), path, progress)
    assert asked == texts[after:]
    assert progress.done == 10_000
    assert known.all()
    encode_utterances(encoder, batches(texts), tmp_path / "at_once.npy", Silent())
    assert np.abs(np.load(path) - np.load(tmp_path / "at_once.npy")).max() < 1e-6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at_once.npy", "vectors.npy"]


def test_what_was_half_written_is_written_again(encoder: OnnxEncoder, tmp_path: Path) -> None:
    texts, path = sentences(6_000), tmp_path / "vectors.npy"
    with pytest.raises(KeyboardInterrupt):
        encode_utterances(encoder, stopped(texts, 4_096), path, Silent())
    with (tmp_path / "vectors.npy.part").open("ab") as file:
        file.write(b"\xff" * 1_001)
    encode_utterances(encoder, batches(texts), path, Silent())
    np.testing.assert_allclose(np.load(path), expected_vectors(texts), atol=3e-4)


@pytest.mark.parametrize("damage", ["another encoder", "a short file", "no file", "no mark", "half a mark"])
def test_what_cannot_be_gone_on_with_is_begun_anew(
    damage: str, folder: Path, encoder: OnnxEncoder, tmp_path: Path
) -> None:
    texts, path = sentences(5_000), tmp_path / "vectors.npy"
    part, mark = tmp_path / "vectors.npy.part", tmp_path / "vectors.npy.part.json"
    first = open_encoder(folder, EncoderConfig(pooling="cls")) if damage == "another encoder" else encoder
    with pytest.raises(KeyboardInterrupt):
        encode_utterances(first, stopped(texts, 4_096), path, Silent())
    match damage:
        case "a short file":
            part.write_bytes(part.read_bytes()[:-1])
        case "no file":
            part.unlink()
        case "no mark":
            mark.unlink()
        case "half a mark":
            mark.write_text('{"encoder": ')
    encode_utterances(encoder, batches(texts), path, Silent())
    np.testing.assert_allclose(np.load(path), expected_vectors(texts), atol=3e-4)


def test_fewer_texts_than_a_stopped_run_had_are_refused(encoder: OnnxEncoder, tmp_path: Path) -> None:
    texts = sentences(5_000)
    with pytest.raises(KeyboardInterrupt):
        encode_utterances(encoder, stopped(texts, 4_500), tmp_path / "vectors.npy", Silent())
    with refusing(Conflict, "4,500"):
        encode_utterances(encoder, batches(texts[:10]), tmp_path / "vectors.npy", Silent())


# Similarity


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_a_similarity_is_the_sum_of_eight_sums(dimensions: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(3, dimensions)).astype(np.float32)
    query = rng.normal(size=dimensions)
    whole = dimensions - dimensions % 8
    for row in range(3):
        products = [float(a) * float(b) for a, b in zip(matrix[row], query, strict=True)]
        lanes = [0.0] * 8
        for place, product in enumerate(products):
            lanes[place % 8 if place < whole else 0] += product
        pairs = [lanes[place] + lanes[place + 1] for place in (0, 2, 4, 6)]
        total = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
        assert stored_similarity(matrix, row, query) == round(total * 1e6) / 1e6


def test_a_stored_vector_is_exactly_like_itself(encoder: OnnxEncoder, tmp_path: Path) -> None:
    texts = sentences(30)
    encode_utterances(encoder, batches(texts), tmp_path / "vectors.npy", Silent())
    matrix = np.load(tmp_path / "vectors.npy")
    query = matrix[7].astype(np.float64)
    found = [stored_similarity(matrix, row, query) for row in range(30)]
    assert found[7] == 1.0
    np.testing.assert_allclose(found, expected_vectors(texts) @ expected_vectors(texts)[7], atol=5e-4)
