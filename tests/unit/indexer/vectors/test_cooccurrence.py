"""Co-occurrences are those of the plain nested loops, bit for bit, whatever the budget and the batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_glove import cooccurrences
from refusals import refusing

from refaug.core.errors import BadInput, Corrupt, NotFound, Usage
from refaug.core.progress import Silent
from refaug.indexer.vectors import cooccurrence
from refaug.indexer.vectors.cooccurrence import (
    Batch,
    Cooccurrences,
    CooccurrenceSettings,
    add_runs,
    count_cooccurrences,
    count_into_run,
    run_lengths,
    write_cooccurrences,
)

Texts = Sequence[Sequence[int]]


def batched(texts: Texts, size: int) -> Iterator[Batch]:
    for first in range(0, len(texts), size):
        some = texts[first : first + size]
        offsets = np.concatenate(([0], np.cumsum([len(text) for text in some]))).astype(np.int64)
        yield np.array([code for text in some for code in text], np.int32), offsets


def counted(texts: Texts, words: int, folder: Path, *, batch: int = 1_000, **options: int) -> Cooccurrences:
    return count_cooccurrences(batched(texts, batch), words, CooccurrenceSettings(**options), folder, Silent())


def as_dictionary(found: Cooccurrences) -> dict[tuple[int, int], float]:
    pairs = zip(found.rows.tolist(), found.columns.tolist(), strict=True)
    return dict(zip(pairs, found.values.tolist(), strict=True))


def random_texts(seed: int, count: int, words: int) -> Texts:
    """Frequent words have small codes, as in a vocabulary; one word in ten is unknown."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, count)
    return [np.where(rng.random(n) < 0.1, -1, np.minimum(rng.zipf(1.3, n) - 1, words - 1)).tolist() for n in lengths]


def test_two_words_side_by_side_have_one_and_further_apart_a_part(tmp_path: Path) -> None:
    found = counted([[0, 1, 2]], 3, tmp_path)
    assert as_dictionary(found) == {(0, 1): 1.0, (0, 2): 0.5, (1, 2): 1.0}


def test_a_word_beside_itself_counts_from_both_ends(tmp_path: Path) -> None:
    assert as_dictionary(counted([[1, 1]], 2, tmp_path)) == {(1, 1): 2.0}


def test_unknown_words_are_left_out_before_windows_are_taken(tmp_path: Path) -> None:
    assert as_dictionary(counted([[0, -1, -1, 1]], 2, tmp_path, window=1)) == {(0, 1): 1.0}


def test_windows_do_not_cross_texts(tmp_path: Path) -> None:
    assert as_dictionary(counted([[0, 1], [2], [], [3, 1]], 4, tmp_path)) == {(0, 1): 1.0, (1, 3): 1.0}


@pytest.mark.parametrize("window", [1, 2, 15, 255])
def test_all_windows_agree_with_nested_loops(window: int, tmp_path: Path) -> None:
    texts = [*random_texts(1, 60, 300), [7, 3] * 200]
    found = counted(texts, 300, tmp_path, window=window)
    assert as_dictionary(found) == cooccurrences(texts, window)


@pytest.mark.parametrize(("memory", "batch"), [(1, 1), (1, 7), (3_000, 50), (20_000, 1_000), (1 << 30, 13)])
def test_neither_budget_nor_batches_change_a_bit(memory: int, batch: int, tmp_path: Path) -> None:
    texts = random_texts(2, 300, 500)
    found = counted(texts, 500, tmp_path / "some", memory_bytes=memory, batch=batch)
    whole = counted(texts, 500, tmp_path / "whole")
    assert as_dictionary(found) == cooccurrences(texts, 15)
    assert found.fingerprint == whole.fingerprint
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == [
        "columns.npy",
        "cooccurrences.json",
        "rows.npy",
        "values.npy",
    ]


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_kernels_called_for_small_pieces_come_to_the_same(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooccurrence, "_PLACES_A_CALL", 3)
    monkeypatch.setattr(cooccurrence, "_ENTRIES_A_CALL", 1)
    texts = random_texts(4, 100, 300)
    assert as_dictionary(counted(texts, 300, tmp_path, memory_bytes=memory)) == cooccurrences(texts, 15)


def test_a_text_longer_than_the_budget_is_counted_whole(tmp_path: Path) -> None:
    texts = [[0, 1], list(range(300)), [1, 0]]
    assert as_dictionary(counted(texts, 300, tmp_path, memory_bytes=1)) == cooccurrences(texts, 15)


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.lists(st.integers(-1, 200), max_size=30), max_size=30),
    window=st.integers(1, 20),
    batch=st.integers(1, 10),
)
def test_any_texts_agree_with_nested_loops(
    texts: Texts, window: int, batch: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = cooccurrences(texts, window)
    folder = tmp_path_factory.mktemp("any")
    if not expected:
        with refusing(BadInput):
            counted(texts, 201, folder, window=window, batch=batch, memory_bytes=1)
        return
    found = counted(texts, 201, folder, window=window, batch=batch, memory_bytes=1)
    assert as_dictionary(found) == expected
    assert list(as_dictionary(found)) == sorted(expected)
    assert len(found) == len(expected)


def test_sums_beyond_single_precision_are_added_exactly(tmp_path: Path) -> None:
    texts = [[0, 1]] * 100_001 + [[0, 2, 3, 1]]
    found = as_dictionary(counted(texts, 4, tmp_path))
    assert found[0, 1] == float(np.float32(100_001 + round(2**32 / 3) / 2**32))


def test_another_count_in_the_same_folder_replaces_the_first(tmp_path: Path) -> None:
    first = counted([[0, 1]], 2, tmp_path).fingerprint
    second = counted([[0, 1, 0]], 2, tmp_path)
    assert second.fingerprint != first
    assert as_dictionary(second) == {(0, 0): 1.0, (0, 1): 2.0}


def test_what_was_counted_can_be_opened_again(tmp_path: Path) -> None:
    found, opened = counted([[0, 1, 1]], 5, tmp_path), Cooccurrences.open(tmp_path)
    assert (opened.words, opened.fingerprint, as_dictionary(opened)) == (5, found.fingerprint, as_dictionary(found))


def test_a_count_that_broke_off_leaves_nothing_to_open(tmp_path: Path) -> None:
    counted([[0, 1]], 2, tmp_path)

    def breaking() -> Iterator[Batch]:
        yield from batched([[0, 1]] * 200, 10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count_cooccurrences(breaking(), 2, CooccurrenceSettings(memory_bytes=1), tmp_path, Silent())
    with pytest.raises(NotFound):
        Cooccurrences.open(tmp_path)
    assert as_dictionary(counted([[1, 0]], 2, tmp_path, memory_bytes=1)) == {(0, 1): 1.0}


def test_files_that_do_not_fit_the_manifest_are_corrupt(tmp_path: Path) -> None:
    counted([[0, 1, 2]], 3, tmp_path)
    np.save(tmp_path / "values.npy", np.ones(2, np.float32))
    with refusing(Corrupt):
        Cooccurrences.open(tmp_path)


@pytest.mark.parametrize("texts", [[], [[]], [[0], [-1, 1, -1]], [[-1, -1]]])
def test_texts_without_a_pair_are_bad_input(texts: Texts, tmp_path: Path) -> None:
    with refusing(BadInput):
        counted(texts, 2, tmp_path)


@pytest.mark.parametrize("words", [0, 1])
def test_a_vocabulary_without_pairs_is_bad_input(words: int, tmp_path: Path) -> None:
    with refusing(BadInput, words):
        counted([[0, 0]], words, tmp_path)


@pytest.mark.parametrize("options", [{"window": 0}, {"window": 256}, {"memory_bytes": 0}])
def test_settings_without_sense_are_refused(options: dict[str, int]) -> None:
    with refusing(Usage, next(iter(options.values()))):
        CooccurrenceSettings(**options)


def test_progress_counts_every_known_word_and_every_spilled_entry(tmp_path: Path) -> None:
    class Listening(Silent):
        def __init__(self) -> None:
            self.stages: list[list[object]] = []

        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            self.stages.append([name, total, 0])

        def advance(self, amount: int) -> None:
            self.stages[-1][2] += amount

    texts, listening = random_texts(3, 100, 50), Listening()
    count_cooccurrences(batched(texts, 9), 50, CooccurrenceSettings(memory_bytes=1), tmp_path, listening)
    (counting, no_total, known), (adding, total, read) = listening.stages
    assert (counting, no_total, known) == ("co-occurrences", None, sum(code >= 0 for text in texts for code in text))
    assert adding == "adding up co-occurrences"
    assert total == read


@pytest.mark.parametrize("ranges", [[(0, 300)], [(0, 1), (1, 40), (40, 41), (41, 300)]])
def test_runs_of_parts_add_up_to_the_count_of_the_whole(tmp_path: Path, ranges: list[tuple[int, int]]) -> None:
    texts, memory = random_texts(5, 400, 300), CooccurrenceSettings(memory_bytes=20_000)
    whole = counted(texts, 300, tmp_path / "whole")
    runs = [tmp_path / f"run-{number}" for number in range(3)]
    for run, first in zip(runs, (0, 100, 350), strict=True):
        last = {0: 100, 100: 350, 350: 400}[first]
        count_into_run(batched(texts[first:last], 30), 300, memory, run, Silent())
        assert int(run_lengths(run).sum()) > 0
    pieces = (piece for first, last in ranges for piece in add_runs(runs[::-1], first, last))
    found = write_cooccurrences(pieces, 300, memory, tmp_path / "added")
    assert found.fingerprint == whole.fingerprint
    assert as_dictionary(found) == as_dictionary(whole)
