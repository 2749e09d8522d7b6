"""The closed form against plain numpy, which whitens by eigenvectors instead of triangles, and its probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refusing
from scipy.optimize import minimize

from refaug.core.errors import Usage
from refaug.rater.frozen.array_network import LinearConfig
from refaug.rater.frozen.encoded_pairs import EncodedPairs
from refaug.rater.frozen.linear import fit_linear
from refaug.rater.training.accuracy import ReplyPredictions, auc, fit_logistic
from refaug.rater.training.calibration import logits_of
from refaug.rater.training.pair_corpus import LogPairs

SIZE = 6
CONFIG = LinearConfig(encoder="abc", dimensions=SIZE)


def encoded_pairs(count: int = 400, seed: int = 3) -> EncodedPairs:
    """Pairs whose reply is a rotation of the utterance with noise, of unit length, in half precision."""
    rng = np.random.default_rng(seed)
    turns = rng.normal(size=(count, SIZE)) * np.arange(1, SIZE + 1)
    replies = turns @ np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0] + rng.normal(size=(count, SIZE)) + 0.5
    vectors = np.concatenate([turns, replies])
    numbers = np.arange(count, dtype=np.int32)
    pairs = LogPairs(
        utterance=numbers,
        reply=numbers + count,
        asked=numbers.astype(np.uint64),
        said=numbers.astype(np.uint64) + count,
        dialogue=numbers.astype(np.uint64),
        first=np.array([0, count]),
    )
    halves = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return EncodedPairs(pairs=pairs, vectors=halves)


def plain_cosines(turns: NDArray[np.float64], replies: NDArray[np.float64], fitted: int) -> NDArray[np.float64]:
    """The cosines of all pairs in the space of the first ones, by eigenvectors."""

    def whitener(side: NDArray[np.float64]) -> NDArray[np.float64]:
        values, vectors = np.linalg.eigh(np.cov(side[:fitted].T, bias=True))
        return np.asarray(vectors @ np.diag((values + values.mean()) ** -0.5) @ vectors.T)

    centred = [side - side[:fitted].mean(axis=0) for side in (turns, replies)]
    cross = centred[0][:fitted].T @ centred[1][:fitted] / fitted
    left, strength, right = np.linalg.svd(whitener(turns) @ cross @ whitener(replies))
    ours = centred[0] @ whitener(turns) @ left * np.sqrt(strength)
    theirs = centred[1] @ whitener(replies) @ right.T * np.sqrt(strength)
    return np.asarray((ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1))


def test_the_shared_space_is_that_of_plain_numpy() -> None:
    encoded = encoded_pairs()
    network = fit_linear(encoded, np.arange(300), CONFIG)
    turns, replies = encoded.of(encoded.pairs.utterance), encoded.of(encoded.pairs.reply)
    cosines = network.similarities(*map(torch.from_numpy, (turns, replies, replies))).numpy()
    assert cosines[:, 0] == pytest.approx(plain_cosines(turns.astype(float), replies.astype(float), 300), abs=1e-5)
    assert cosines[:, 1] == pytest.approx(np.ones(400), abs=1e-5)
    (space,) = network.spaces(torch.from_numpy(np.concatenate([turns, replies])))
    numbers = torch.arange(400)
    by_number = space.similarities(numbers, numbers + 400, numbers + 400).numpy()
    assert by_number == pytest.approx(cosines, abs=1e-5)
    own, turned = (
        cosines[300:, 0].mean(),
        network.similarities(*map(torch.from_numpy, (turns[300:], replies[300:], np.roll(replies[300:], 1, axis=0))))[
            :, 0
        ].mean(),
    )
    assert own > 0.8 > 0.2 > abs(turned)


def test_pairs_are_read_in_blocks_with_one_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encoded_pairs()
    whole = fit_linear(encoded, np.arange(400), CONFIG)
    monkeypatch.setattr("refaug.rater.frozen.linear._AT_ONCE", 64)
    turns, replies = (torch.from_numpy(encoded.of(texts)) for texts in (encoded.pairs.utterance, encoded.pairs.reply))
    in_blocks = fit_linear(encoded, np.arange(400), CONFIG).similarities(turns, replies, replies)
    assert in_blocks.numpy() == pytest.approx(whole.similarities(turns, replies, replies).numpy(), abs=1e-5)


def test_texts_without_a_vector_are_like_no_other() -> None:
    network, nothing = fit_linear(encoded_pairs(), np.arange(400), CONFIG), torch.zeros(1, SIZE)
    assert network.similarities(torch.ones(1, SIZE), nothing, torch.ones(1, SIZE))[0, 1] == 0
    same = EncodedPairs(pairs=encoded_pairs().pairs, vectors=np.full((800, SIZE), 0.5, np.float16))
    assert fit_linear(same, np.arange(400), CONFIG).similarities(nothing, nothing, nothing).tolist() == [[0, 0]]


def test_a_known_response_counts_by_its_own_weights() -> None:
    network = fit_linear(encoded_pairs(), np.arange(400), CONFIG)
    network.without_known[:] = torch.tensor([2.0, -1.0])
    network.with_known[:] = torch.tensor([3.0, 4.0, 0.5])
    turns, known, replies = torch.randn(3, 2, SIZE, generator=torch.Generator().manual_seed(1))
    cosines = network.similarities(turns, known, replies)
    logits = logits_of(network, cosines, torch.tensor([False, True]))
    expected = [2 * cosines[0, 0] - 1, 3 * cosines[1, 0] + 4 * cosines[1, 1] + 0.5]
    assert logits.tolist() == pytest.approx([float(logit) for logit in expected], abs=1e-5)


@pytest.mark.parametrize("size", [0, 1 << 20, "6"])
def test_sizes_of_no_encoder_are_refused(size: int) -> None:
    with refusing(Usage):
        LinearConfig(encoder="abc", dimensions=size)


def test_log_odds_have_the_largest_likelihood() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(500, 2))
    positive = rng.random(500) < 1 / (1 + np.exp(-(2 * features[:, 0] - features[:, 1] + 0.5)))
    design = np.column_stack([features, np.ones(500)])

    def loss(weights: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0, np.where(positive, -1, 1) * (design @ weights)).mean())

    assert fit_logistic(features, positive) == pytest.approx(minimize(loss, np.zeros(3), tol=1e-12).x, abs=1e-4)
    assert np.isfinite(fit_logistic(np.array([[-1.0], [1.0]]), np.array([False, True]))).all()


def test_kinds_of_wrong_replies_are_counted_apart() -> None:
    predictions = ReplyPredictions(
        np.array([2.0, 1.0, 0.0, 3.0]), np.array([True, True, False, False]), np.array([-1, -1, 0, 1])
    )
    assert (predictions.auc(0), predictions.auc(1), predictions.auc()) == (1.0, 0.0, 0.5)
    assert predictions.of_kind(1).logits.tolist() == [2.0, 1.0, 3.0]
    assert predictions.accuracy == 0.75
    assert auc(predictions.of_kind(0).logits, predictions.of_kind(0).positive) == 1.0
