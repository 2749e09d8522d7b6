"""The dual rater against plain numpy; its batches; and that a stop changes nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from crosses import tiny_dialogues
from numpy.typing import NDArray
from refusals import refusing
from rubers import pairs_of

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.rater.dual.build import DualExamples, DualTask
from refaug.rater.dual.checkpoint import DualConfig
from refaug.rater.dual.in_batch import RUN, BatchVectors, ChoiceBatch, PairBatches, choice_loss
from refaug.rater.dual.network import DualNetwork, Tower
from refaug.rater.training import loop
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings

CONFIG = DualConfig(vocabulary=40, pairs=16, embedding=6, width=5, max_tokens=8)
SETTINGS = PairSettings(batch=16, validation_share=0.2)


def tiny_network(seed: int = 1) -> DualNetwork:
    torch.manual_seed(seed)
    return DualNetwork(CONFIG)


def task(corpus: PairCorpus) -> DualTask:
    sides = corpus.of_sides(SETTINGS)
    examples = {side: DualExamples(corpus, rows, SETTINGS, CONFIG.max_tokens) for side, rows in sides.items()}
    return DualTask(tiny_network(), examples["train"], examples["validation"], "cpu")


def plain_vector(tower: Tower, pieces: list[int]) -> NDArray[np.float64]:
    """A text's vector, feature by feature."""
    weights = {name: tensor.double().numpy() for name, tensor in tower.state_dict().items()}
    rows = pieces + [40 + (left * 1_000_003 + right) % 16 for left, right in pairwise(pieces)]
    total = sum(weights["embedding.weight"][row] for row in rows) / np.sqrt(len(rows))
    hidden = weights["first.weight"] @ total + weights["first.bias"]
    active = torch.nn.functional.gelu(torch.from_numpy(hidden)).numpy()
    vector = weights["last.weight"] @ active + weights["last.bias"]
    return np.asarray(vector / np.linalg.norm(vector))


def test_a_vector_is_that_of_plain_numpy_whatever_is_read_beside_it() -> None:
    tower, texts = tiny_network().turns.eval(), [[3, 4, 5, 4], [7], [9, 9]]
    tokens = torch.tensor([text + [0] * (4 - len(text)) for text in texts])
    vectors = tower(tokens, torch.tensor([4, 1, 2])).detach().numpy()
    assert vectors == pytest.approx(np.stack([plain_vector(tower, text) for text in texts]), abs=1e-6)


def plain_choice(logits: NDArray[np.float64], own: list[int], allowed: NDArray[np.bool_]) -> float:
    """The sum of the losses of choosing the own column of each row among those that are allowed."""
    total = 0.0
    for row, column in enumerate(own):
        columns = [other for other in range(logits.shape[1]) if other == column or allowed[row, other]]
        total -= logits[row, column] - np.log(np.exp(logits[row, columns]).sum())
    return total


def test_the_loss_is_a_softmax_over_wrong_replies_and_wrong_turns_alone() -> None:
    one = task(tiny_dialogues())
    batch = next(iter(one.examples.batches(1)))
    one.model.eval()
    turns, replies = one.model.turns(*batch.turns).detach().numpy(), one.model.replies(*batch.replies).detach().numpy()
    known, scale = one.model.replies(*batch.known).detach().numpy(), float(one.model.scale.detach().exp())
    wrong, rows, count = ~batch.pairs.fits_too, batch.pairs.known_rows.tolist(), len(turns)
    logits = scale * turns @ replies.T
    expected = plain_choice(logits, list(range(count)), wrong) / 2
    expected += plain_choice(logits.T, list(range(count)), wrong.T) / 2
    expected += plain_choice(scale * known @ replies.T, rows, wrong[rows])
    assert float(one.evaluate_batch(batch).loss.detach()) == pytest.approx(expected / count, abs=1e-5)


def test_further_wrong_replies_count_little_and_only_where_there_are_some() -> None:
    rng = np.random.default_rng(2)
    turns, replies, wrong = (
        torch.from_numpy(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
        for vectors in (rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 2, 4)))
    )
    wrong[1, 0] = 0
    batch = ChoiceBatch(np.arange(3), np.arange(0), np.arange(0), np.eye(3, dtype=np.bool_), rng)
    scale = torch.tensor(5.0)
    without, logits = choice_loss(BatchVectors(turns, replies, replies[:0]), batch, scale)
    with_wrong, _ = choice_loss(BatchVectors(turns, replies, replies[:0], wrong), batch, scale)
    own = np.array([5 * float(turns[row] @ replies[row]) for row in range(3)])
    above = [5 * float(turns[row] @ wrong[row, kind]) - own[row] for row in range(3) for kind in range(2)]
    expected = sum(np.log1p(np.exp(each)) for place, each in enumerate(above) if place != 2) / 3
    assert float(with_wrong - without) == pytest.approx(0.02 * expected)
    assert logits.diagonal().tolist() == pytest.approx(own.tolist())


def test_a_batch_is_of_one_log_and_has_runs_of_pairs_with_like_keys() -> None:
    corpus = pairs_of([[((5, 6), (7 + number % 4,), number) for number in range(90)] for _ in range(2)])
    rows = np.arange(len(corpus))
    batches = PairBatches(corpus, rows, PairSettings(batch=20), lambda some, _: corpus.reply[some])
    drawn = [batch.rows for batch in batches.batches(1)]
    assert sorted(np.concatenate(drawn).tolist()) == rows.tolist()
    assert {len({int(row) // 90 for row in batch}) for batch in drawn} == {1}
    likes = [np.mean(corpus.said[batch[1:]] == corpus.said[batch[:-1]]) for batch in drawn]
    assert np.mean(likes) > 1 - 3 / RUN  # by chance, a quarter


def test_batches_hold_every_pair_once_and_texts_in_their_order() -> None:
    corpus = tiny_dialogues()
    rows = corpus.of_sides(SETTINGS)["train"]
    examples = DualExamples(corpus, rows, SETTINGS, CONFIG.max_tokens)
    batches = list(examples.batches(3))
    assert len(batches) == examples.batch_count() == len(rows) // 16
    assert sum(len(batch.turns[1]) for batch in batches) == len(rows)
    (first, *_), (again, *_) = batches, examples.batches(3)
    assert torch.equal(first.turns[0], again.turns[0])
    assert all(bool(batch.pairs.fits_too.diagonal().all()) for batch in batches)
    skipped = next(iter(examples.batches(3, skip=2)))
    assert torch.equal(skipped.replies[0], batches[2].replies[0])
    limited = DualExamples(corpus, rows, replace(SETTINGS, limit=40), CONFIG.max_tokens)
    assert (limited.epoch_size, limited.batch_count()) == (40, 2)


def test_a_stopped_training_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    corpus = tiny_dialogues()
    settings = loop.TrainConfig(epochs=3, learning_rate=0.02, dropout=0.1, save_every=3)
    whole = task(corpus)
    course = loop.run(whole, settings, tmp_path / "whole", Silent())
    broken = task(corpus)

    def stop(now: loop.TrainingStatus) -> None:
        if (now.epoch, now.step) == (2, 5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(broken, settings, tmp_path / "broken", Silent(), stop)
    resumed = task(corpus)
    again = loop.run(resumed, settings, tmp_path / "broken", Silent())
    assert [epoch.validation_loss for epoch in again.epochs] == [epoch.validation_loss for epoch in course.epochs]
    assert course.epochs[-1].train_loss < course.epochs[0].train_loss
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_sizes_that_no_network_has_are_refused() -> None:
    with refusing(Usage):
        DualConfig(pairs=0)
