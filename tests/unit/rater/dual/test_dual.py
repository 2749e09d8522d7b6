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

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.rater.dual.build import DualExamples, _DualTask
from refaug.rater.dual.network import DualConfig, DualNetwork, Tower
from refaug.rater.training import loop
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings

CONFIG = DualConfig(vocabulary=40, pairs=16, embedding=6, width=5, max_tokens=8)
SETTINGS = PairSettings(batch=16, validation_share=0.2)


def tiny_network(seed: int = 1) -> DualNetwork:
    torch.manual_seed(seed)
    return DualNetwork(CONFIG)


def task(corpus: PairCorpus) -> _DualTask:
    sides = corpus.of_sides(SETTINGS)
    examples = {side: DualExamples(corpus, rows, SETTINGS, CONFIG.max_tokens) for side, rows in sides.items()}
    return _DualTask(tiny_network(), examples["train"], examples["validation"], "cpu")


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


def test_the_loss_is_a_softmax_over_wrong_replies_alone() -> None:
    one = task(tiny_dialogues())
    batch = next(iter(one.examples.batches(1)))
    one.model.eval()
    turns, replies = one.model.turns(*batch.turns).detach().numpy(), one.model.replies(*batch.replies).detach().numpy()
    known, scale = one.model.replies(*batch.known).detach().numpy(), float(one.model.scale.detach().exp())
    expected = 0.0
    for row in range(len(turns)):
        wrong = [other for other in range(len(turns)) if other == row or not batch.fits_too[row, other]]
        odds = scale * turns[row] @ replies[wrong].T
        expected -= odds[wrong.index(row)] - np.log(np.exp(odds).sum())
    for place, row in enumerate(batch.known_rows.tolist()):
        wrong = [other for other in range(len(turns)) if other == row or not batch.fits_too[row, other]]
        odds = scale * known[place] @ replies[wrong].T
        expected -= odds[wrong.index(row)] - np.log(np.exp(odds).sum())
    assert float(one.evaluate_batch(batch).loss.detach()) == pytest.approx(expected / len(turns), abs=1e-5)


def test_batches_hold_every_pair_once_and_texts_in_their_order() -> None:
    corpus = tiny_dialogues()
    rows = corpus.of_sides(SETTINGS)["train"]
    examples = DualExamples(corpus, rows, SETTINGS, CONFIG.max_tokens)
    batches = list(examples.batches(3))
    assert len(batches) == examples.batch_count() == len(rows) // 16
    assert sum(len(batch.turns[1]) for batch in batches) == len(rows)
    (first, *_), (again, *_) = batches, examples.batches(3)
    assert torch.equal(first.turns[0], again.turns[0])
    assert all(bool(batch.fits_too.diagonal().all()) for batch in batches)
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
    with pytest.raises(Usage, match="a dual rater's pairs is 0"):
        DualConfig(pairs=0)
