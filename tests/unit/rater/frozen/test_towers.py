"""The networks over an encoder's vectors against plain numpy, their batches, and their mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refusing
from scipy.special import erf
from unit.rater.frozen.test_linear import SIZE, encoded_pairs

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.rater.frozen.array_network import TowerConfig
from refaug.rater.frozen.encoded_pairs import EncodedPairs, ShuffledReplies
from refaug.rater.frozen.towers import EncodedExamples, Head, TowerNetwork, TowerTask, VectorTower, auc_by_wrong_kind
from refaug.rater.training import loop
from refaug.rater.training.accuracy import auc
from refaug.rater.training.pair_corpus import PairSettings

CONFIG = TowerConfig(encoder="abc", dimensions=SIZE, hidden=5, heads=3)
SETTINGS = PairSettings(batch=32, validation_share=0.2)
SHUFFLED = ShuffledReplies(numbers=np.array([400, 402]), vectors=np.ones((2, SIZE), np.float16))


def drawn_head(seed: int) -> Head:
    """A head whose towers change what they read."""
    torch.manual_seed(seed)
    head = Head(CONFIG)
    for parameter in head.parameters():
        if parameter.dim():
            torch.nn.init.normal_(parameter, std=0.5)
    return head.eval()


def plain_tower(tower: VectorTower, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = {name: tensor.double().numpy() for name, tensor in tower.state_dict().items()}
    hidden = vectors * np.sqrt(SIZE) @ weights["first.weight"].T + weights["first.bias"]
    active = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
    changed = vectors + active @ weights["last.weight"].T + weights["last.bias"]
    return np.asarray(changed / np.linalg.norm(changed, axis=1, keepdims=True))


def examples(encoded: EncodedPairs, side: str, settings: PairSettings = SETTINGS) -> EncodedExamples:
    return EncodedExamples(encoded, encoded.pairs.of_sides(settings)[side], settings, SHUFFLED)  # type: ignore[index]


def test_similarities_are_the_mean_over_heads_of_those_of_plain_numpy() -> None:
    network = TowerNetwork(CONFIG, [drawn_head(seed) for seed in (1, 2, 3)])
    texts = np.random.default_rng(3).normal(size=(3, 7, SIZE))
    expected = np.zeros((7, 2))
    for head in network.heads:
        turns, known, replies = (
            plain_tower(tower, vectors)
            for tower, vectors in zip((head.turns, head.replies, head.replies), texts, strict=True)
        )
        expected += np.stack([(turns * replies).sum(axis=1), (known * replies).sum(axis=1)], axis=1) / 3
    similarities = network.similarities(*(torch.from_numpy(vectors).float() for vectors in texts))
    assert similarities.detach().numpy() == pytest.approx(expected, abs=1e-5)
    spaces = list(network.spaces(torch.from_numpy(texts.reshape(21, SIZE)).float()))
    numbers = torch.arange(21).reshape(3, 7)
    by_number = torch.stack([space.similarities(*numbers) for space in spaces]).mean(dim=0)
    assert by_number.detach().numpy() == pytest.approx(expected, abs=1e-5)
    alone = network.heads_alone()[1].similarities(*(torch.from_numpy(vectors).float() for vectors in texts))
    heads = [head.similarities(*(torch.from_numpy(vectors).float() for vectors in texts)) for head in network.heads]
    assert torch.equal(alone, heads[1])
    assert network.parameter_count == sum(
        parameter.numel() for head in network.heads for parameter in head.parameters()
    )


def test_a_network_begins_with_the_cosines_of_the_encoder_and_texts_without_tokens_are_like_no_other() -> None:
    network, (turns, replies) = (
        TowerNetwork(CONFIG),
        torch.randn(2, 4, SIZE, generator=torch.Generator().manual_seed(1)),
    )
    cosines = torch.nn.functional.cosine_similarity(turns, replies)
    assert network.similarities(turns, replies, replies)[:, 0].tolist() == pytest.approx(cosines.tolist(), abs=1e-6)
    drawn = TowerNetwork(CONFIG, [drawn_head(1)])
    assert drawn.similarities(torch.zeros(1, SIZE), replies[:1], replies[:1])[0, 0] == 0


def test_a_batch_has_an_echo_another_turn_and_shuffled_words_as_wrong_replies() -> None:
    encoded = encoded_pairs()
    for batch in examples(encoded, "train").batches(1):
        rows = batch.pairs.rows
        assert batch.turns.numpy() == pytest.approx(encoded.of(encoded.pairs.utterance[rows]))
        assert torch.equal(batch.wrong[:, 0], batch.turns)
        assert not batch.wrong[:, 1].any() or torch.equal(batch.wrong[:, 1], batch.turns)  # dialogues of one pair
        is_shuffled = np.isin(encoded.pairs.reply[rows], SHUFFLED.numbers)
        assert (batch.wrong[:, 2] == 1).all(dim=1).tolist() == is_shuffled.tolist()
        assert not batch.wrong[:, 2][torch.from_numpy(~is_shuffled)].any()


def test_training_tells_replies_from_wrong_ones_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    encoded = encoded_pairs(800)
    settings = loop.TrainConfig(epochs=6, learning_rate=0.02, dropout=0.1, save_every=4)

    def task() -> TowerTask:
        torch.manual_seed(1)
        head = Head(CONFIG)
        head.set_dropout(settings.dropout)
        return TowerTask(head, examples(encoded, "train"), examples(encoded, "validation"), "cpu")

    whole, broken, resumed = task(), task(), task()
    course = loop.run(whole, settings, tmp_path / "whole", Silent())
    assert course.epochs[-1].validation_loss < course.epochs[0].validation_loss
    assert course.epochs[course.best_epoch - 1].auc > 0.7

    def stop(now: loop.TrainingStatus) -> None:
        if (now.epoch, now.step) == (2, 7):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(broken, settings, tmp_path / "broken", Silent(), stop)
    loop.run(resumed, settings, tmp_path / "broken", Silent())
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_kinds_of_wrong_replies_are_measured_apart_by_the_mean_of_the_heads() -> None:
    encoded, heads = encoded_pairs(), [drawn_head(1), drawn_head(2)]
    settings = PairSettings(batch=1_000, validation_share=0.3)
    (batch,) = examples(encoded, "validation", settings).batches(loop.VALIDATION_EPOCH)
    figures = auc_by_wrong_kind(heads, examples(encoded, "validation", settings))
    turns, replies = batch.turns.double().numpy(), batch.replies.double().numpy()

    def scores(offered: NDArray[np.float64]) -> NDArray[np.float64]:
        read = [(plain_tower(head.turns, turns), plain_tower(head.replies, offered)) for head in heads]
        return np.asarray(sum((ours * theirs).sum(axis=1) for ours, theirs in read))

    likeness = replies @ replies.T
    np.fill_diagonal(likeness, -np.inf)
    right, is_right = scores(replies), np.arange(2 * len(turns)) < len(turns)
    near = np.concatenate([right, scores(replies[likeness.argmax(axis=1)])])
    assert figures["near"] == pytest.approx(auc(near, is_right), abs=2e-3)
    assert figures["parrot"] == pytest.approx(auc(np.concatenate([right, scores(turns)]), is_right), abs=2e-3)


@pytest.mark.parametrize(("sizes", "message"), [({"heads": 0}, "0 networks"), ({"hidden": 0}, "hidden is 0")])
def test_sizes_that_no_network_has_are_refused(sizes: dict[str, int], message: str) -> None:
    with refusing(Usage, message):
        TowerConfig(encoder="abc", dimensions=SIZE, **sizes)
