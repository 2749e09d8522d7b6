"""Vectors of a rater's pieces: those that `refaug train vectors` learns with its tokenizer, and the same every time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from indexes import add_to_log, pairs_of

from refaug.cli.main import main
from refaug.core.artefacts.versions import Versions
from refaug.core.progress import Silent
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.indexer.index_folders import Places
from refaug.logs.store import StoredLog
from refaug.rater.training.initial_embeddings import PieceVectors, PieceVectorSettings
from refaug.scoring.home.torch_networks import learn_piece_vectors

WORDS = ["tea", "water", "is", "hot", "cold", "not", "the", "kettle", "where", "who", "drinks", "it", "waiter"]
WANTED = PieceVectorSettings(dimensions=7, seed=3, threads=1, memory=64 << 20)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A home with two logs."""
    rng = random.Random(2)
    found = Places.under(tmp_path_factory.mktemp("home"))
    for name in ("first", "second"):
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(160)]
        add_to_log(found, name, pairs_of(*zip(texts[::2], texts[1::2], strict=True), log=name))
    return found


@pytest.fixture(scope="module")
def logs(places: Places) -> list[StoredLog]:
    return [StoredLog.open(places.logs, name) for name in ("first", "second")]


@pytest.fixture(scope="module")
def tokenizer(places: Places, logs: Sequence[StoredLog]) -> SentencePieceTokenizer:
    texts = [text for log in logs for pair in log.pairs() for text in (pair.utterance, pair.response)]
    path = places.logs.parent / "pieces.model"
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=40, at_most=True))
    return open_sentencepiece(path)


@pytest.fixture(scope="module")
def learnt(
    logs: list[StoredLog], tokenizer: SentencePieceTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> PieceVectors:
    return learn_piece_vectors(logs, tokenizer, WANTED, tmp_path_factory.mktemp("learnt") / "embeddings", Silent())


def require_same(one: WordVectors, other: WordVectors) -> None:
    assert one.words == other.words
    assert one.matrix.dtype == other.matrix.dtype == np.dtype(np.float32)
    np.testing.assert_array_equal(one.matrix, other.matrix)
    np.testing.assert_array_equal(np.asarray(one.counts), np.asarray(other.counts))


def test_vectors_equal_those_of_the_vectors_command_with_equal_settings(
    places: Places, tokenizer: SentencePieceTokenizer, learnt: PieceVectors, capsys: pytest.CaptureFixture[str]
) -> None:
    glove = learnt.details["glove"]
    assert {name: glove[name] for name in ("dimensions", "seed", "threads")} == {
        "dimensions": 7,
        "seed": 3,
        "threads": 1,
    }
    names = {"dimensions": "--dimensions", "epochs": "--epochs", "seed": "--seed", "x_max": "--x-max"}
    same = [text for name, option in names.items() for text in (option, str(glove[name]))]
    named = ("--name", "pieces", "--tokenizer", f"sentencepiece:{tokenizer.path}", "--threads", "1")
    home = str(places.logs.parent)
    assert main(["--quiet", "--home", home, "train", "vectors", "first", "second", *named, *same]) == 0
    capsys.readouterr()
    with Versions(places.vectors.root, "vectors").open("pieces") as held:
        trained = open_word_vectors(held.folder)
        require_same(learnt.vectors, trained)


def test_words_are_the_frequent_pieces_with_the_tokenizers_counts(
    logs: Sequence[StoredLog], tokenizer: SentencePieceTokenizer, learnt: PieceVectors
) -> None:
    # Every turn once: the pairs of these logs share none.
    texts = [text for log in logs for pair in log.pairs() for text in (pair.utterance, pair.response)]
    cut = [piece for text in texts for piece in tokenizer.tokenize(text)]
    often = {piece: cut.count(piece) for piece in set(cut) if cut.count(piece) >= 5}
    counts = learnt.vectors.counts
    assert counts is not None
    assert dict(zip(learnt.vectors.words, counts.tolist(), strict=True)) == often
    assert set(learnt.vectors.words) <= set(tokenizer.pieces)
    losses = learnt.details["losses"]
    assert len(losses) == learnt.details["glove"]["epochs"]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("changed", [{}, {"threads": 2}, {"memory": 1}])
def test_what_the_vectors_are_does_not_depend_on_what_is_used_up_for_them(
    logs: list[StoredLog],
    tokenizer: SentencePieceTokenizer,
    learnt: PieceVectors,
    tmp_path: Path,
    changed: dict[str, Any],
) -> None:
    wanted = PieceVectorSettings(**{"dimensions": 7, "seed": 3, "threads": 1, "memory": 64 << 20, **changed})
    again = learn_piece_vectors(logs, tokenizer, wanted, tmp_path / "embeddings", Silent())
    require_same(learnt.vectors, again.vectors)
    assert again.details["losses"] == learnt.details["losses"]


def test_another_seed_gives_other_vectors_of_the_same_pieces(
    logs: list[StoredLog], tokenizer: SentencePieceTokenizer, learnt: PieceVectors, tmp_path: Path
) -> None:
    wanted = PieceVectorSettings(dimensions=7, seed=4, threads=1, memory=64 << 20)
    other = learn_piece_vectors(logs, tokenizer, wanted, tmp_path / "embeddings", Silent())
    assert other.vectors.words == learnt.vectors.words
    assert not np.allclose(other.vectors.matrix, learnt.vectors.matrix, atol=0.01)


class Impatient(Silent):
    """Notes the stages, and interrupts at one of them."""

    def __init__(self, last: str = "") -> None:
        self.stages, self._last = list[str](), last

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.stages.append(name)
        if name == self._last:
            raise KeyboardInterrupt


def test_learning_that_was_interrupted_goes_on_with_the_epoch_it_was_in(
    logs: list[StoredLog], tokenizer: SentencePieceTokenizer, learnt: PieceVectors, tmp_path: Path
) -> None:
    folder, epochs = tmp_path / "embeddings", int(learnt.details["glove"]["epochs"])
    stopped, resumed = Impatient(f"epoch 4 of {epochs}"), Impatient()
    with pytest.raises(KeyboardInterrupt):
        learn_piece_vectors(logs, tokenizer, WANTED, folder, stopped)
    assert "counting words" in stopped.stages
    again = learn_piece_vectors(logs, tokenizer, WANTED, folder, resumed)
    assert [name for name in resumed.stages if name.startswith("epoch")] == [
        f"epoch {number} of {epochs}" for number in range(4, epochs + 1)
    ]
    assert "counting words" not in resumed.stages
    require_same(learnt.vectors, again.vectors)
    assert again.details["losses"] == learnt.details["losses"]
