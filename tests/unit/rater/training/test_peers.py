"""The training loop among several processes, here threads: the network of one with the same batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from raters import tiny_examples, tiny_model
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.rater.nn.build import task_of
from refaug.rater.training.loop import TrainConfig, run

CONFIG = {"epochs": 1, "learning_rate": 0.01, "accumulate": 3, "save_every": 2}
PATIENCE_S = 60


class Table:
    """What threads lay down for each other, in the order of their ranks."""

    def __init__(self, size):
        self._barrier, self._laid = Barrier(size, timeout=PATIENCE_S), [None] * size

    def exchange(self, rank, value):
        self._laid[rank] = value
        self._barrier.wait()
        laid = list(self._laid)
        self._barrier.wait()
        return laid


class ThreadPeers:
    def __init__(self, rank, size, table):
        self.rank, self.size, self._table = rank, size, table

    def gather(self, own, count):
        placed = dict(pair for of_rank in self._table.exchange(self.rank, list(own)) for pair in of_rank)
        assert sorted(placed) == list(range(count))
        return [placed[place] for place in range(count)]

    def add_gradients(self, model):
        own = [None if one.grad is None else one.grad.clone() for one in model.parameters()]
        by_parameter = zip(*self._table.exchange(self.rank, own), strict=True)
        for parameter, gradients in zip(model.parameters(), by_parameter, strict=True):
            parameter.grad = sum(one for one in gradients if one is not None)

    def of_first(self, numbers):
        return list(self._table.exchange(self.rank, list(numbers))[0])


def train_as(model, peers, folder, workers):
    examples, validation = tiny_examples()
    config = TrainConfig(**CONFIG, workers=workers)
    course = run(task_of(model, examples, validation, config), config, folder, Silent(), peers=peers)
    return course, {name: weights.detach().numpy() for name, weights in model.named_parameters()}


@pytest.mark.slow
def test_three_peers_train_the_network_of_one(tmp_path):
    course, weights = train_as(tiny_model(), None, tmp_path / "alone", 1)
    table, models = Table(3), [tiny_model() for _ in range(3)]  # drawn here: all threads have one generator
    with ThreadPoolExecutor(3) as pool:
        peers = [ThreadPeers(rank, 3, table) for rank in range(3)]
        ranks = list(pool.map(lambda peer: train_as(models[peer.rank], peer, tmp_path / "group", 3), peers))
    for of_rank, _ in ranks:
        for found, expected in zip(of_rank.epochs, course.epochs, strict=True):
            assert found.train_loss == pytest.approx(expected.train_loss, abs=1e-5)
            assert found.validation_loss == pytest.approx(expected.validation_loss, abs=1e-5)
    for name, expected in weights.items():
        np.testing.assert_allclose(ranks[0][1][name], expected, atol=1e-5, err_msg=name)
    assert sorted(path.name for path in (tmp_path / "group").iterdir()) == sorted(
        path.name for path in (tmp_path / "alone").iterdir()
    )


@pytest.mark.parametrize(("workers", "accumulate"), [(2, 3), (4, 2), (2, 1)])
def test_workers_that_cannot_share_a_step_are_refused(workers, accumulate):
    with refusing(Usage, workers, accumulate):
        TrainConfig(workers=workers, accumulate=accumulate)
