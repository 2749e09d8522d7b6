"""Vectors are those of plain AdaGrad over the same entries in the same order, whatever threads and interruptions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from plain_glove import AdaGrad
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Silent
from refaug.indexer.vectors import glove
from refaug.indexer.vectors.cooccurrence import Cooccurrences, CooccurrenceSettings, count_cooccurrences
from refaug.indexer.vectors.glove import (
    Blocks,
    BlockSettings,
    GloveModel,
    GloveSettings,
    block_settings,
    new_parameters,
    ranges_for,
    strata,
    train_glove,
)

WORDS = 60
SMALL = GloveSettings(dimensions=9, epochs=3, x_max=10.0, threads=1, seed=5)


def corpus(folder: Path, *, seed: int = 1, texts: int = 200) -> Cooccurrences:
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.zipf(1.4, texts * 12) - 1, WORDS - 1).astype(np.int32)
    offsets = np.arange(0, len(codes) + 1, 12)
    return count_cooccurrences([(codes, offsets)], WORDS, CooccurrenceSettings(window=4), folder, Silent())


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Cooccurrences:
    return corpus(tmp_path_factory.mktemp("counted"))


def train(counted: Cooccurrences, folder: Path, settings: GloveSettings = SMALL) -> GloveModel:
    return train_glove(counted, settings, folder, Silent())


def same(one: GloveModel, other: GloveModel) -> bool:
    return one.losses == other.losses and one.matrix.tobytes() == other.matrix.tobytes()


def visited(blocks: Blocks, seed: int, epoch: int) -> list[tuple[int, int]]:
    """The words and contexts of an epoch in the order of one thread."""
    order = []
    for columns in strata(blocks.settings.ranges, seed, epoch):
        for row, column in enumerate(columns):
            words, contexts, _ = blocks.order(row, int(column))
            order += list(zip(words.tolist(), contexts.tolist(), strict=True))
    return order


def start(blocks: Blocks, settings: GloveSettings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The vectors and biases that training begins with, by word."""
    rows = new_parameters(blocks, settings)[:, blocks.positions]
    return rows[:, :, : settings.dimensions], rows[:, :, -16]


def as_dictionary(counted: Cooccurrences) -> dict[tuple[int, int], float]:
    """Both halves of the matrix."""
    pairs = list(zip(counted.rows.tolist(), counted.columns.tolist(), counted.values.tolist(), strict=True))
    return {(i, j): x for i, j, x in pairs} | {(j, i): x for i, j, x in pairs}


def blocks_of(counted: Cooccurrences, settings: GloveSettings, folder: Path) -> Blocks:
    return Blocks.lay_out(counted, block_settings(counted, settings), folder / "laid-out", Silent())


def test_vectors_and_losses_are_those_of_plain_adagrad_in_the_same_order(
    counted: Cooccurrences, tmp_path: Path
) -> None:
    blocks, matrix = blocks_of(counted, SMALL, tmp_path), as_dictionary(counted)
    plain = AdaGrad(*start(blocks, SMALL), SMALL.learning_rate)
    losses = []
    for epoch in (1, 2, 3):
        learned = [
            plain.learn(word, context, matrix[word, context], SMALL.x_max, SMALL.alpha)
            for word, context in visited(blocks, SMALL.seed, epoch)
        ]
        losses.append(math.fsum(learned) / len(learned))
    trained = train(counted, tmp_path)
    assert trained.matrix.shape == (WORDS, 9)
    assert trained.matrix.dtype == np.float32
    np.testing.assert_allclose(trained.matrix, plain.vectors.sum(axis=0), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-5)


def test_the_first_losses_follow_the_formula(tmp_path: Path) -> None:
    offsets = np.array([0, 2, 4])
    counted = count_cooccurrences(
        [(np.array([0, 1, 0, 1], np.int32), offsets)], 2, CooccurrenceSettings(), tmp_path, Silent()
    )
    settings = GloveSettings(dimensions=1, epochs=1, x_max=100.0, learning_rate=1e-9)
    blocks = blocks_of(counted, settings, tmp_path)
    vectors, biases = start(blocks, settings)
    weight, losses = (2 / 100) ** 0.75, []
    for word, context in ((0, 1), (1, 0)):  # they share no parameter, so the order does not matter
        difference = vectors[0, word, 0] * vectors[1, context, 0] + biases[0, word] + biases[1, context] - math.log(2)
        losses.append(0.5 * weight * difference**2)
    assert train(counted, tmp_path, settings).losses == pytest.approx([sum(losses) / 2], rel=1e-6)


def test_every_epoch_visits_every_entry_once_in_each_orientation(counted: Cooccurrences, tmp_path: Path) -> None:
    blocks, matrix = blocks_of(counted, SMALL, tmp_path), as_dictionary(counted)
    orders = [visited(blocks, SMALL.seed, epoch) for epoch in (1, 2)]
    for order in orders:
        assert sorted(order) == sorted(matrix)
    assert orders[0] != orders[1]
    assert blocks.visits.sum() == len(matrix)


def test_blocks_hold_logarithms_and_weights_of_their_entries(counted: Cooccurrences, tmp_path: Path) -> None:
    blocks, matrix = blocks_of(counted, SMALL, tmp_path), as_dictionary(counted)
    for row, column in ((0, 1), (1, 0), (2, 2)):
        words, contexts, targets = blocks.order(row, column)
        values = np.array([matrix[pair] for pair in zip(words.tolist(), contexts.tolist(), strict=True)])
        np.testing.assert_allclose(targets[:, 0], np.log(values), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(targets[:, 1], np.minimum(1, (values / SMALL.x_max) ** SMALL.alpha), rtol=1e-6)


@pytest.mark.parametrize("ranges", [1, 2, 7, 16])
def test_strata_share_no_rows_or_columns_and_cover_all_blocks(ranges: int) -> None:
    square = np.array(list(strata(ranges, seed=3, epoch=2)))
    assert square.shape == (ranges, ranges)
    for line in (*square, *square.T):
        assert sorted(line.tolist()) == list(range(ranges))


@pytest.mark.parametrize("threads", [2, 5])
def test_the_number_of_threads_does_not_change_a_bit(counted: Cooccurrences, tmp_path: Path, threads: int) -> None:
    several = train(counted, tmp_path / "several", replace(SMALL, threads=threads))
    assert same(several, train(counted, tmp_path / "one"))


def test_the_seed_changes_the_vectors(counted: Cooccurrences, tmp_path: Path) -> None:
    other = train(counted, tmp_path / "other", replace(SMALL, seed=6))
    assert not np.allclose(other.matrix, train(counted, tmp_path / "one").matrix, atol=1e-3)


def test_an_interrupted_training_goes_on_and_ends_with_the_same_bits(counted: Cooccurrences, tmp_path: Path) -> None:
    told: list[int] = []

    def interrupt(epoch: int, _loss: float) -> None:
        told.append(epoch)
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_glove(counted, SMALL, tmp_path / "interrupted", Silent(), interrupt)
    trained = train_glove(counted, SMALL, tmp_path / "interrupted", Silent(), lambda epoch, _loss: told.append(epoch))
    assert told == [1, 2, 3]
    assert same(trained, train(counted, tmp_path / "whole"))


def test_an_epoch_that_was_interrupted_is_done_again(counted: Cooccurrences, tmp_path: Path) -> None:
    class Stopping(Silent):
        advanced = 0

        def advance(self, amount: int) -> None:
            self.advanced += amount
            if self.advanced > 3 * len(counted) + 3 * len(counted):  # the blocks, an epoch and a half
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_glove(counted, SMALL, tmp_path / "interrupted", Stopping())
    assert same(train(counted, tmp_path / "interrupted"), train(counted, tmp_path / "whole"))


def test_more_epochs_go_on_from_fewer(counted: Cooccurrences, tmp_path: Path) -> None:
    train(counted, tmp_path / "more", replace(SMALL, epochs=1))
    assert same(train(counted, tmp_path / "more"), train(counted, tmp_path / "whole"))


def test_fewer_epochs_than_were_trained_begin_anew(counted: Cooccurrences, tmp_path: Path) -> None:
    train(counted, tmp_path / "fewer")
    once = replace(SMALL, epochs=1)
    assert same(train(counted, tmp_path / "fewer", once), train(counted, tmp_path / "whole", once))


@pytest.mark.parametrize(
    "changed", [{"dimensions": 4}, {"x_max": 3.0}, {"alpha": 0.5}, {"learning_rate": 0.01}, {"seed": 9}]
)
def test_a_changed_setting_begins_anew(counted: Cooccurrences, tmp_path: Path, changed: dict[str, float]) -> None:
    train(counted, tmp_path / "changed")
    settings = replace(SMALL, **changed)
    assert same(train(counted, tmp_path / "changed", settings), train(counted, tmp_path / "whole", settings))


def test_changed_texts_begin_anew(counted: Cooccurrences, tmp_path: Path) -> None:
    other = corpus(tmp_path / "counted", seed=2)
    train(counted, tmp_path / "changed")
    assert same(train(other, tmp_path / "changed"), train(other, tmp_path / "whole"))


def test_losses_fall_and_words_of_one_company_are_alike(tmp_path: Path) -> None:
    """Of two topics, words 0–9 stand with words 0–9, words 10–19 with words 10–19."""
    rng = np.random.default_rng(1)
    codes = (rng.integers(0, 10, (400, 8)) + 10 * rng.integers(0, 2, (400, 1))).astype(np.int32)
    codes[::20, 0] = rng.integers(0, 20, 20)  # now and then a stranger
    offsets = np.arange(0, codes.size + 1, 8)
    counted = count_cooccurrences([(codes.ravel(), offsets)], 20, CooccurrenceSettings(), tmp_path, Silent())
    trained = train(counted, tmp_path, GloveSettings(dimensions=8, epochs=40, threads=2))
    assert trained.losses[-1] < trained.losses[0] / 4
    unit = trained.matrix / np.linalg.norm(trained.matrix, axis=1, keepdims=True)
    likeness = unit @ unit.T
    assert likeness[:10, :10].mean() > likeness[:10, 10:].mean() + 0.3


def test_a_training_that_breaks_down_says_in_which_epoch_and_why(counted: Cooccurrences, tmp_path: Path) -> None:
    with refusing(BadInput):
        train(counted, tmp_path, replace(SMALL, learning_rate=1e30))
    assert not (tmp_path / "state.json").exists()


def test_a_training_that_breaks_down_later_keeps_the_last_state(counted: Cooccurrences, tmp_path: Path) -> None:
    train(counted, tmp_path, replace(SMALL, epochs=2))
    parameters = np.load(tmp_path / "parameters-2.npy")
    parameters[:, 0] = 1e30  # finite, but not its products
    np.save(tmp_path / "parameters-2.npy", parameters)
    state = (tmp_path / "state.json").read_bytes()
    with refusing(BadInput):
        train(counted, tmp_path)
    assert (tmp_path / "state.json").read_bytes() == state
    assert np.array_equal(np.load(tmp_path / "parameters-2.npy"), parameters)


def test_only_the_last_state_stays_on_disk(counted: Cooccurrences, tmp_path: Path) -> None:
    train(counted, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks", "parameters-3.npy", "state.json"]


def test_progress_covers_all_entries_of_each_stage(counted: Cooccurrences, tmp_path: Path) -> None:
    class Listening(Silent):
        def __init__(self) -> None:
            self.stages: list[list[object]] = []

        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            self.stages.append([name, total, 0])

        def advance(self, amount: int) -> None:
            self.stages[-1][2] += amount

    listening = Listening()
    train_glove(counted, SMALL, tmp_path, listening)
    assert [name for name, _, _ in listening.stages] == [
        "dealing co-occurrences into blocks",
        "epoch 1 of 3",
        "epoch 2 of 3",
        "epoch 3 of 3",
    ]
    assert all(total == advanced for _, total, advanced in listening.stages)


def test_words_of_an_empty_matrix_are_bad_input(counted: Cooccurrences, tmp_path: Path) -> None:
    none = Cooccurrences(
        words=2, fingerprint="", rows=counted.rows[:0], columns=counted.columns[:0], values=counted.values[:0]
    )
    with refusing(BadInput):
        train(none, tmp_path)


@pytest.mark.parametrize(
    ("words", "entries", "bytes_a_word", "ranges"),
    [
        (2, 2, 1_000, 2),  # no more than words
        (1_000, 100_000, 1_000, 16),  # enough for many threads
        (80_000, 10**9, 1_024, 200),  # two ranges in the cache
        (80_000, 48_000_000, 1_024, 50),  # few entries: each range is loaded less often
        (3_000_000, 10**6, 1_024, 46),  # places within a range have 16 bits
    ],
)
def test_ranges_fit_the_cache_unless_entries_are_few(words: int, entries: int, bytes_a_word: int, ranges: int) -> None:
    assert ranges_for(words, entries, bytes_a_word) == ranges


def test_blocks_that_are_there_are_used_again_and_others_replaced(counted: Cooccurrences, tmp_path: Path) -> None:
    first = BlockSettings(ranges=4, x_max=10.0, alpha=0.75, seed=1)
    made = Blocks.lay_out(counted, first, tmp_path / "blocks", Silent())
    before = (tmp_path / "blocks" / "pairs.npy").stat().st_mtime_ns
    again = Blocks.lay_out(counted, first, tmp_path / "blocks", Silent())
    assert (tmp_path / "blocks" / "pairs.npy").stat().st_mtime_ns == before
    assert again.pairs.tobytes() == made.pairs.tobytes()
    other = Blocks.lay_out(counted, replace(first, ranges=5), tmp_path / "blocks", Silent())
    assert len(other.starts) == 16


def test_blocks_are_the_same_whatever_the_pieces_they_are_dealt_in(
    counted: Cooccurrences, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = BlockSettings(ranges=4, x_max=10.0, alpha=0.75, seed=1)
    whole = Blocks.lay_out(counted, settings, tmp_path / "whole", Silent())
    monkeypatch.setattr(glove, "_ENTRIES_A_CALL", 7)
    pieces = Blocks.lay_out(counted, settings, tmp_path / "pieces", Silent())
    assert pieces.pairs.tobytes() == whole.pairs.tobytes()
    assert pieces.targets.tobytes() == whole.targets.tobytes()


@pytest.mark.parametrize(
    "options", [{"dimensions": 0}, {"epochs": 0}, {"threads": 0}, {"seed": -1}, {"x_max": 0.0}, {"alpha": math.nan}]
)
def test_settings_without_sense_are_refused(options: dict[str, float]) -> None:
    with refusing(Usage, next(iter(options))):
        GloveSettings(**options)
