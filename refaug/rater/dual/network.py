"""The two towers over pieces and hashed pairs of pieces.

A tower adds up the vectors of a text's pieces and of each two neighbours, which share a fixed number of vectors by
hash; two layers follow. Nothing in it knows the order of words beyond neighbours, and it reads thousands of texts a
second.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.dual.checkpoint import SPREAD, DualConfig
from refaug.rater.text_encoding import PAD, Floats, Ids
from refaug.rater.torch_networks import inference
from refaug.rater.training.calibration import initial_weights, logits_of

_INITIAL_PIECE: Final = 0.1  # standard deviation of a piece's first numbers
_INITIAL_SCALE: Final = 10.0  # of cosines in the softmax


class Tower(nn.Module):
    """Texts to vectors of unit length."""

    def __init__(self, config: DualConfig) -> None:
        super().__init__()
        self.vocabulary, self.pairs, self.dropout = config.vocabulary, config.pairs, 0.0
        self.embedding = nn.Embedding(config.vocabulary + config.pairs, config.embedding, padding_idx=PAD)
        # What a training never saw must say nothing: with the usual normal numbers, the sum of a text of ten pieces
        # is mostly that of its unseen pairs, and the everyday logs were told apart at an AUC of .71 instead of .84.
        with torch.no_grad():
            nn.init.normal_(self.embedding.weight[1 : config.vocabulary], std=_INITIAL_PIECE)
            nn.init.zeros_(self.embedding.weight[config.vocabulary :])
        self.first = nn.Linear(config.embedding, config.width)
        self.last = nn.Linear(config.width, config.width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (texts, width) of piece ids (texts, time), padded with 0."""
        features = self.features(tokens)
        counted = nn.functional.dropout(torch.ones(features.shape, device=tokens.device), self.dropout, self.training)
        total = nn.functional.embedding_bag(
            features, self.embedding.weight, mode="sum", padding_idx=PAD, per_sample_weights=counted
        )
        mean = total / (2 * lengths - 1).to(total).sqrt()[:, None]
        mean = nn.functional.dropout(mean, self.dropout, self.training)
        return nn.functional.normalize(self.last(nn.functional.gelu(self.first(mean))), dim=1)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the rows of pieces and of pairs of neighbours: (texts, 2 * time - 1)."""
        left, right = tokens[:, :-1], tokens[:, 1:]
        pairs = self.vocabulary + (left * SPREAD + right) % self.pairs
        return torch.cat([tokens, torch.where(right == PAD, PAD, pairs)], dim=1)


class DualNetwork(nn.Module):
    """A tower for turns and one for replies, and how cosines become logits."""

    runtime = "torch"

    without_known: Tensor
    with_known: Tensor

    def __init__(self, config: DualConfig) -> None:
        super().__init__()
        self.config = config
        self.turns, self.replies = Tower(config), Tower(config)
        self.scale = nn.Parameter(torch.tensor(_INITIAL_SCALE).log())
        for name, weights in initial_weights().items():
            self.register_buffer(name, weights)

    @property
    def dropout(self) -> float:
        """The share of a text's pieces and pairs that a batch leaves out, and of the numbers of their sum."""
        return self.turns.dropout

    @dropout.setter
    def dropout(self, share: float) -> None:
        self.turns.dropout = self.replies.dropout = share

    def turn_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return the vectors (texts, width) of turns, of their piece ids (texts, time)."""
        with inference(self, threads):
            vectors: Floats = self.turns(torch.from_numpy(tokens), torch.from_numpy(lengths)).numpy()
        return vectors

    def reply_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return the vectors of replies."""
        with inference(self, threads):
            vectors: Floats = self.replies(torch.from_numpy(tokens), torch.from_numpy(lengths)).numpy()
        return vectors

    def logits(
        self, turns: Floats, known: Floats, replies: Floats, has_known: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return logits (replies,) of the vectors of turns, known responses and replies."""
        with inference(self):
            similarities = cosines(*map(torch.from_numpy, (turns, known, replies)))
            return np.asarray(logits_of(self, similarities, torch.from_numpy(has_known)).double().numpy())

    @property
    def parameter_count(self) -> int:
        """The numbers that are trained."""
        return sum(parameter.numel() for parameter in self.parameters())


def cosines(turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
    """Return both similarities (replies, 2) of vectors of unit length."""
    return torch.stack([(turns * replies).sum(dim=1), (known * replies).sum(dim=1)], dim=1)
