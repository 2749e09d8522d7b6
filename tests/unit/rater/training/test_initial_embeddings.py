"""What embeddings start from: vectors of the pieces, centred and scaled as plain numpy does it; else the drawn rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from raters import tiny_model

from refaug.core.progress import Progress, Silent
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.vectors.word_vectors import WordVectors
from refaug.logs.store import StoredLog
from refaug.rater.nn.model import BiGRURater
from refaug.rater.text_encoding import PAD
from refaug.rater.training.initial_embeddings import (
    PieceVectors,
    PieceVectorSettings,
    embedding_matrix,
    new_network,
    write_embeddings,
)

PIECES = ["<pad>", "<unk>", "▁tea", "▁is", "s", "▁hot", "ter", "▁cold"]
WANTED = PieceVectorSettings(dimensions=6, seed=5, threads=1, memory=64 << 20)


def vectors_of(words: Sequence[str], dimensions: int, seed: int = 1, *, mean: float = 3.0) -> WordVectors:
    """Drawn vectors that are neither centred nor of spread 1."""
    matrix = np.random.default_rng(seed).normal(mean, 0.25, (len(words), dimensions))
    return WordVectors(words=list(words), matrix=matrix.astype(np.float32))


def drawn_rows(count: int, dimensions: int, seed: int) -> NDArray[np.float32]:
    """The rows of pieces without a vector."""
    return np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)


# Rows out of vectors


@settings(deadline=None, max_examples=50)
@given(
    st.permutations(["▁tea", "s", "ter", "▁cold", "nowhere", "else"]).flatmap(
        lambda words: st.integers(1, len(words)).map(lambda count: words[:count])
    ),
    st.integers(1, 7),
    st.integers(0, 100),
)
def test_known_pieces_get_centred_unit_vectors_and_others_the_drawn_rows(
    words: list[str], dimensions: int, seed: int
) -> None:
    vectors = vectors_of(words, dimensions, seed)
    found = embedding_matrix(vectors, PIECES, seed)
    assert found.shape == (len(PIECES), dimensions)
    assert found.dtype == np.dtype(np.float32)

    by_word = dict(zip(words, vectors.matrix.astype(np.float64), strict=True))
    known = [row for row, piece in enumerate(PIECES) if piece in by_word]
    unknown = [row for row in range(len(PIECES)) if row not in known]
    np.testing.assert_array_equal(found[unknown], drawn_rows(len(PIECES), dimensions, seed)[unknown])
    if known:
        middle = sum(by_word[PIECES[row]] for row in known) / len(known)
        away = {row: by_word[PIECES[row]] - middle for row in known}
        spread = (sum((one**2).sum() for one in away.values()) / (len(known) * dimensions)) ** 0.5
        for row in known:
            np.testing.assert_allclose(found[row], away[row] / (spread or 1.0), rtol=1e-5, atol=1e-6)


def test_known_rows_are_spread_around_0_as_torch_draws_numbers() -> None:
    words = [f"w{number}" for number in range(200)]
    found = embedding_matrix(vectors_of(words, 30), ["<pad>", *words], 1)[1:].astype(np.float64)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
    assert found.std() == pytest.approx(1, abs=1e-6)
    torch.manual_seed(1)
    assert float(torch.nn.Embedding(200, 30).weight.detach().std()) == pytest.approx(found.std(), abs=0.05)


def test_a_drawn_row_is_the_same_whatever_the_vectors_of_the_others_are() -> None:
    of_two = embedding_matrix(vectors_of(["▁tea", "▁is"], 4, seed=1), PIECES, 9)
    of_other_two = embedding_matrix(vectors_of(["▁tea", "▁is"], 4, seed=2, mean=-80.0), PIECES, 9)
    of_three = embedding_matrix(vectors_of(["▁hot", "▁is", "▁tea"], 4), PIECES, 9)
    both = [row for row, piece in enumerate(PIECES) if piece not in ("▁tea", "▁is", "▁hot")]
    np.testing.assert_array_equal(of_two[both], of_other_two[both])
    np.testing.assert_array_equal(of_two[both], of_three[both])
    assert not np.array_equal(of_two[2:4], of_other_two[2:4])
    assert not np.array_equal(of_two[both], embedding_matrix(vectors_of(["▁tea"], 4), PIECES, 10)[both])


def test_like_vectors_stay_alike() -> None:
    matrix = np.array([[5, 5, 5], [5, 5, 5.01], [2, 9, 4]], np.float32)
    found = embedding_matrix(WordVectors(words=["▁hot", "▁cold", "▁tea"], matrix=matrix), PIECES, 1)
    hot, cold, tea = (found[PIECES.index(piece)] for piece in ("▁hot", "▁cold", "▁tea"))
    assert np.linalg.norm(hot - cold) < np.linalg.norm(hot - tea) / 100


@pytest.mark.parametrize("words", [["s"], ["s", "elsewhere"]])
def test_a_single_known_piece_is_the_middle_of_all(words: list[str]) -> None:
    found = embedding_matrix(vectors_of(words, 4), PIECES, 3)
    at = PIECES.index("s")
    np.testing.assert_array_equal(found[at], np.zeros(4))
    others = [row for row in range(len(PIECES)) if row != at]
    np.testing.assert_array_equal(found[others], drawn_rows(len(PIECES), 4, 3)[others])


def test_with_no_known_piece_all_rows_are_drawn() -> None:
    found = embedding_matrix(vectors_of(["nowhere", "else"], 5), PIECES, 3)
    np.testing.assert_array_equal(found, drawn_rows(len(PIECES), 5, 3))


# Written for the pieces of a tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    rng = random.Random(1)
    texts = [" ".join(rng.choices(["tea", "is", "hot", "water", "cold", "not"], k=5)) for _ in range(100)]
    path = tmp_path_factory.mktemp("tokenizer") / "some.model"
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=30, at_most=True))
    return open_sentencepiece(path)


class Half:
    """A learner that knows every other piece, and one that is none; and that leaves something in its folder."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self.vectors = vectors_of(["no piece", *tokenizer.pieces[::2]], WANTED.dimensions)
        self.asked = list[tuple[Sequence[StoredLog], SentencePieceTokenizer, PieceVectorSettings]]()

    def __call__(
        self,
        logs: Sequence[StoredLog],
        tokenizer: SentencePieceTokenizer,
        wanted: PieceVectorSettings,
        folder: Path,
        progress: Progress,
    ) -> PieceVectors:
        self.asked.append((logs, tokenizer, wanted))
        folder.mkdir(exist_ok=True)
        (folder / "counts.npy").write_bytes(b"so far")
        return PieceVectors(self.vectors, {"losses": [0.5, 0.25]})


def test_a_row_is_written_for_each_piece_of_the_tokenizer(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    path, learner = tmp_path / "embeddings.npy", Half(tokenizer)
    told = write_embeddings(path, [], tokenizer, WANTED, learner, Silent())
    assert learner.asked == [([], tokenizer, WANTED)]
    pieces = tokenizer.pieces
    assert told == {"pieces_with_a_vector": len(pieces[::2]), "losses": [0.5, 0.25]}
    found = np.load(path, allow_pickle=False)
    np.testing.assert_array_equal(found, embedding_matrix(learner.vectors, pieces, WANTED.seed))
    np.testing.assert_array_equal(found[1::2], drawn_rows(len(pieces), WANTED.dimensions, WANTED.seed)[1::2])


def test_what_a_kill_has_left_of_the_file_is_written_over(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    whole, half = tmp_path / "whole" / "embeddings.npy", tmp_path / "half" / "embeddings.npy"
    for path in (whole, half):
        path.parent.mkdir()
    write_embeddings(whole, [], tokenizer, WANTED, Half(tokenizer), Silent())
    half.write_bytes(whole.read_bytes()[:200])
    write_embeddings(half, [], tokenizer, WANTED, Half(tokenizer), Silent())
    assert half.read_bytes() == whole.read_bytes()


# The first weights


def written(path: Path, model: BiGRURater, seed: int) -> NDArray[np.float32]:
    """Rows for all pieces of a model, as a file."""
    rows = drawn_rows(model.config.vocabulary, model.config.embedding, seed)
    np.save(path, rows)
    return rows


@pytest.mark.parametrize("seed", [1, 4])
def test_network_starts_from_the_files_rows_or_else_from_drawn_ones(tmp_path: Path, seed: int) -> None:
    drawn = tiny_model(seed=seed)
    rows = written(tmp_path / "embeddings.npy", drawn, seed=8)
    found = new_network(lambda: BiGRURater(drawn.config), seed, tmp_path / "embeddings.npy").state_dict()
    assert list(found) == list(drawn.state_dict())
    assert all(torch.equal(found[name], one) for name, one in drawn.state_dict().items() if name != "embedding.weight")
    of_pieces = found["embedding.weight"].numpy()
    np.testing.assert_array_equal(of_pieces[PAD + 1 :], rows[PAD + 1 :])
    np.testing.assert_array_equal(of_pieces[PAD], np.zeros(drawn.config.embedding))
    assert rows[PAD].any()


def test_without_a_file_all_weights_are_those_drawn_with_the_seed() -> None:
    drawn = tiny_model(seed=4).state_dict()
    config = tiny_model().config
    torch.manual_seed(99)  # what was drawn before changes nothing
    found = new_network(lambda: BiGRURater(config), 4, None).state_dict()
    assert all(torch.equal(found[name], one) for name, one in drawn.items())
    other = new_network(lambda: BiGRURater(config), 5, None).state_dict()
    assert not any(torch.equal(other[name], one) for name, one in drawn.items())


def test_embeddings_from_a_file_are_trained_and_padding_is_not(tmp_path: Path) -> None:
    model = tiny_model()
    written(tmp_path / "embeddings.npy", model, seed=8)
    config = model.config
    model = new_network(lambda: BiGRURater(config), 1, tmp_path / "embeddings.npy")
    model(torch.tensor([[3, 4, 5], [6, PAD, PAD]]), torch.tensor([3, 1]), torch.tensor([[0, 1, 1]])).sum().backward()
    learnt = model.embedding.weight.grad
    assert learnt is not None
    assert np.flatnonzero(learnt.abs().sum(dim=1).numpy()).tolist() == [3, 4, 5, 6]
