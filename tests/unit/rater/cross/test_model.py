"""The network of the cross rater against plain numpy, and whatever is read beside a sequence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from crosses import SHAPE, judge_plainly, tiny_cross

from refaug.core.errors import Usage
from refaug.rater.cross.sequences import CrossConfig, Pieces

BATCH = SHAPE.batch(
    [
        Pieces([[2, 3], [4]], [5, 6, 7], [8, 9]),
        Pieces([[10]], None, [11]),
        Pieces([[2, 3, 4, 5, 6], [7, 8], [9]], None, [3, 3, 3]),
    ]
)


def logits(rows: list[int], width: int | None = None) -> list[float]:
    model = tiny_cross().eval()
    parts = [torch.from_numpy(part[rows]) for part in BATCH]
    if width is not None:
        parts[:2] = [part[:, :width] for part in parts[:2]]
    with torch.inference_mode():
        return [float(logit) for logit in model(*parts)]


def test_the_network_computes_the_equations() -> None:
    expected = [judge_plainly(tiny_cross(), BATCH, row) for row in range(3)]
    np.testing.assert_allclose(logits([0, 1, 2]), expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


def test_neither_padding_nor_neighbours_change_a_logit() -> None:
    assert logits([1], int(BATCH.lengths[1])) == pytest.approx(logits([0, 1, 2])[1:2], abs=1e-6)
    assert logits([2, 0]) == pytest.approx([logits([2])[0], logits([0])[0]], abs=1e-6)


def test_hidden_pieces_are_predicted_with_the_embeddings() -> None:
    model = tiny_cross()
    states = torch.randn(3, model.config.embedding)
    expected = states.numpy() @ model.embedding.weight.detach().numpy().T / 4  # the root of 16
    np.testing.assert_allclose(model.predict_pieces(states).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("sizes", [{"heads": 3}, {"max_tokens": 8}, {"layers": 0}, {"embedding": 2**40}])
def test_sizes_that_no_network_can_have_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(Usage):
        CrossConfig(**sizes)
