"""The closed form: turns and replies in a space in which those that follow each other in a log have a large cosine.

Let C be the covariances of the vectors of utterances x and of replies y over the pairs of a log, and L Lᵀ = C + λI for
each side, with λ the mean eigenvalue of C. With U S Vᵀ the singular value decomposition of Lx⁻¹ Cxy Ly⁻ᵀ, the maps are
√S Uᵀ Lx⁻¹ (x − x̄) and √S Vᵀ Ly⁻¹ (y − ȳ). It is a canonical correlation with much regularisation.

The logit of a reply is a line in that cosine; where a response is known to fit, a plane in that cosine and in the
cosine of the two responses' own vectors. Both are fitted to pairs that the maps were not made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.frozen.array_network import JUDGED_AT_ONCE, LinearConfig
from refaug.rater.frozen.encoded_pairs import EncodedPairs
from refaug.rater.text_encoding import Floats, Ids
from refaug.rater.torch_networks import inference
from refaug.rater.training.calibration import Calibrated, initial_weights, logits_of
from refaug.rater.training.pair_corpus import Rows

_AT_ONCE: Final = 8_192  # pairs


class Space(NamedTuple):
    """Texts as one network has read them, each once: vectors of unit length."""

    turns: Tensor  # (texts, width)
    replies: Tensor
    alike: Tensor  # by which replies are compared with known responses

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return both similarities, (replies, 2), of texts by their numbers."""
        return torch.stack(
            [
                (self.turns[turns] * self.replies[replies]).sum(dim=1),
                (self.alike[known] * self.alike[replies]).sum(dim=1),
            ],
            dim=1,
        )


def logits_in(
    network: Calibrated, spaces: Iterable[Space], known: NDArray[np.bool_], rows: Tensor
) -> NDArray[np.float64]:
    """Return the logits of rows of turns, known response and reply by their numbers: of the mean over the spaces."""
    total, count = torch.zeros(len(rows), 2), 0
    for space in spaces:
        for at in range(0, len(rows), JUDGED_AT_ONCE):
            some = slice(at, at + JUDGED_AT_ONCE)
            total[some] += space.similarities(*rows[some].T)
        count += 1
    return np.asarray(logits_of(network, total / count, torch.from_numpy(known)).double().numpy())


class LinearNetwork(nn.Module):
    """The two maps, and how cosines become logits."""

    runtime = "torch"

    turn_mean: Tensor
    reply_mean: Tensor
    turn_map: Tensor
    reply_map: Tensor
    without_known: Tensor  # of the cosine in the shared space, constant
    with_known: Tensor  # of both cosines, constant

    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.config = config
        size = config.dimensions
        self.register_buffer("turn_mean", torch.zeros(size))
        self.register_buffer("reply_mean", torch.zeros(size))
        self.register_buffer("turn_map", torch.zeros(size, size))
        self.register_buffer("reply_map", torch.zeros(size, size))
        for name, weights in initial_weights().items():
            self.register_buffer(name, weights)

    @property
    def parameter_count(self) -> int:
        """The numbers that were fitted."""
        return sum(tensor.numel() for tensor in self.buffers())

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return the cosine in the shared space, and that of the two responses: (replies, 2)."""
        shared = nn.functional.cosine_similarity(
            (turns - self.turn_mean) @ self.turn_map.T, (replies - self.reply_mean) @ self.reply_map.T
        )
        return torch.stack([shared, nn.functional.cosine_similarity(known, replies)], dim=1)

    def spaces(self, texts: Tensor) -> list[Space]:
        """Return texts, (texts, dimensions), as turns and replies in the shared space."""
        turns, replies = (texts - self.turn_mean) @ self.turn_map.T, (texts - self.reply_mean) @ self.reply_map.T
        return [Space(*(nn.functional.normalize(side, dim=1) for side in (turns, replies, texts)))]

    def logits(self, vectors: Floats, rows: Ids, has_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the logit of each row, (rows, 3): turns, known response and reply by their numbers in vectors."""
        with inference(self):
            return logits_in(self, self.spaces(torch.from_numpy(vectors)), has_known, torch.from_numpy(rows))

    def heads_alone(self) -> list[LinearNetwork]:
        """Return the networks that its heads are by themselves: it has none."""
        return []


def fit_linear(encoded: EncodedPairs, rows: Rows, config: LinearConfig) -> LinearNetwork:
    """Return the network with the maps of some pairs, which are read once; its logits are still the cosine."""
    size = config.dimensions
    total, products = torch.zeros(2 * size, dtype=torch.float64), torch.zeros(2 * size, 2 * size, dtype=torch.float64)
    for at in range(0, len(rows), _AT_ONCE):
        some = rows[at : at + _AT_ONCE]
        sides = (encoded.of(encoded.pairs.utterance[some]), encoded.of(encoded.pairs.reply[some]))
        both = torch.cat([torch.from_numpy(side) for side in sides], dim=1).double()
        total += both.sum(dim=0)
        products += both.T @ both
    mean = total / len(rows)
    covariance = products / len(rows) - torch.outer(mean, mean)
    turns, replies = (_whitening(covariance[side, side]) for side in (slice(size), slice(size, 2 * size)))
    left, strength, right = torch.linalg.svd(turns @ covariance[:size, size:] @ replies.T)
    network = LinearNetwork(config)
    network.load_state_dict(
        {
            **network.state_dict(),
            "turn_mean": mean[:size],
            "reply_mean": mean[size:],
            "turn_map": strength.sqrt()[:, None] * (left.T @ turns),
            "reply_map": strength.sqrt()[:, None] * (right @ replies),
        }
    )
    return network


def _whitening(covariance: Tensor) -> Tensor:
    """Return L⁻¹ for the covariance with its mean eigenvalue added to all."""
    size = len(covariance)
    identity = torch.eye(size, dtype=covariance.dtype)
    ridge = covariance.trace() / size
    if ridge <= 0:  # all texts have the same vector
        return torch.zeros_like(covariance)
    lower = torch.linalg.cholesky(covariance + ridge * identity)
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
    return inverse
