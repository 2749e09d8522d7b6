"""RUBER's unreferenced part against itself written out in plain numpy, and what it is built of."""

from __future__ import annotations

import pytest
import torch
from rubers import score_plainly, tiny_network
from torch import Tensor

from refaug.core.errors import Usage
from refaug.rater.ruber.network import RuberConfig, RuberNetwork

UTTERANCES = [[5, 9, 4, 25, 3, 8], [3, 3, 7, 6], [2, 14], [21]]  # the longest first
REPLIES = [[8, 7, 11, 20, 2], [19, 4, 6], [12, 2, 2], [23]]


def padded(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(text) for text in texts])
    tokens = torch.zeros(len(texts), int(lengths.max()), dtype=torch.int64)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
    return tokens, lengths


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("layers", [1, 3])
def test_scores_are_those_of_the_network_written_out(readers: int, layers: int) -> None:
    model = tiny_network(readers=readers, layers=layers).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)  # opinions
    with torch.inference_mode():
        utterances = model.read_utterances(*padded(UTTERANCES))
        replies = model.read_replies(*padded(REPLIES))
        every = [(one, other) for one in range(4) for other in range(4)]
        found = model.judge(
            utterances[torch.tensor([one for one, _ in every])], replies[torch.tensor([other for _, other in every])]
        ).sigmoid()
    expected = [score_plainly(model, UTTERANCES[one], REPLIES[other]) for one, other in every]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert max(expected) - min(expected) > 0.05


def test_one_reader_reads_both_texts_alike_and_two_do_not() -> None:
    one, two = tiny_network(readers=1), tiny_network(readers=2)
    tokens = padded(UTTERANCES)
    assert torch.equal(one.read_utterances(*tokens), one.read_replies(*tokens))
    assert not torch.allclose(two.read_utterances(*tokens), two.read_replies(*tokens), atol=0.01)
    reader = sum(parameter.numel() for parameter in one.readers[0].parameters())
    assert two.parameter_count == one.parameter_count + reader


def test_the_quadratic_feature_counts_and_is_not_symmetric() -> None:
    model = tiny_network().eval()
    with torch.inference_mode():
        texts = model.read_utterances(*padded(UTTERANCES))
        there, back = model.judge(texts[[0]], texts[[1]]), model.judge(texts[[1]], texts[[0]])
        before = model.judge(texts, texts)
        model.quadratic.zero_()
        without = model.judge(texts, texts)
    assert not torch.allclose(there, back, atol=1e-4)
    assert not torch.allclose(before, without, atol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"hidden": 0}, "a ruber's hidden is 0"),
        ({"vocabulary": 2}, "a ruber's vocabulary is 2"),
        ({"width": 8.5}, "a ruber's width is 8.5"),
        ({"layers": 65}, "a ruber's layers is 65"),
        ({"max_tokens": 0}, "a ruber's max_tokens is 0"),
        ({"readers": 3}, "a ruber's readers are 3"),
        ({"readers": None}, "a ruber's readers are None"),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(Usage) as caught:
        RuberConfig(**sizes)
    assert caught.value.message == said
    assert caught.value.remedy


def test_the_same_seed_gives_the_same_first_weights() -> None:
    weights = [tiny_network(seed=seed).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["quadratic"], weights[2]["quadratic"])
    assert isinstance(tiny_network(), RuberNetwork)
