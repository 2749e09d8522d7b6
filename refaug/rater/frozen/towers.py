"""The small network over an encoder's vectors: a tower for turns and one for replies, several times, and their mean.

A tower adds to a vector what two layers make of it, and begins as what leaves it as it is: so the network starts with
the encoder's own cosines. A head is two towers, and each head has other first weights; the similarity of the rater is
the mean over its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from refaug.core.errors import Usage
from refaug.rater.dual.network import cosines
from refaug.rater.frozen.linear import Space, require_dimensions
from refaug.rater.text_encoding import require_sizes
from refaug.rater.training.calibration import initial_weights

_INITIAL_SCALE: Final = 15.0  # of cosines in the softmax
_MOST_HEADS: Final = 64


@dataclass(frozen=True, kw_only=True)
class TowerConfig:
    """The encoder by its hash, the size of its vectors, and the sizes of the network."""

    encoder: str
    dimensions: int
    hidden: int = 256
    heads: int = 5

    def __post_init__(self) -> None:
        require_dimensions(self.dimensions)
        require_sizes("rater", {"hidden": self.hidden})
        if not isinstance(self.heads, int) or not 1 <= self.heads <= _MOST_HEADS:
            raise Usage(f"{self.heads} networks with a seed each", remedy=f"from 1 to {_MOST_HEADS}")


class VectorTower(nn.Module):
    """Vectors of an encoder to vectors of unit length; a vector of zeros, of a text without tokens, stays one."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.dropout = 0.0
        self.first = nn.Linear(config.dimensions, config.hidden)
        self.last = nn.Linear(config.hidden, config.dimensions)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return vectors (…, dimensions)."""
        read = nn.functional.dropout(vectors, self.dropout, self.training)
        # Numbers of unit vectors are small: the layer reads them as having a variance of 1.
        hidden = nn.functional.gelu(self.first(read * vectors.shape[-1] ** 0.5))
        change = self.last(nn.functional.dropout(hidden, self.dropout, self.training))
        has_tokens = (vectors != 0).any(dim=-1, keepdim=True)
        return nn.functional.normalize(vectors + change, dim=-1) * has_tokens


class Head(nn.Module):
    """One network: a tower for turns and one for replies."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.turns, self.replies = VectorTower(config), VectorTower(config)
        self.scale = nn.Parameter(torch.tensor(_INITIAL_SCALE).log())

    def set_dropout(self, share: float) -> None:
        """Set the share of numbers that a batch leaves out."""
        self.turns.dropout = self.replies.dropout = share

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return how alike replies are to the turns, and to the known response: (replies, 2)."""
        return cosines(self.turns(turns), self.replies(known), self.replies(replies))


class TowerNetwork(nn.Module):
    """The heads, and how the mean of their similarities becomes a logit."""

    without_known: Tensor
    with_known: Tensor

    def __init__(self, config: TowerConfig, heads: Sequence[Head] = ()) -> None:
        super().__init__()
        self.config = config
        self.heads = nn.ModuleList(heads or [Head(config) for _ in range(config.heads)])
        for name, weights in initial_weights().items():
            self.register_buffer(name, weights)

    @property
    def parameter_count(self) -> int:
        """The numbers that are trained."""
        return sum(parameter.numel() for parameter in self.parameters())

    def similarities(self, turns: Tensor, known: Tensor, replies: Tensor) -> Tensor:
        """Return the mean of the heads' similarities: (replies, 2)."""
        of_heads = [head.similarities(turns, known, replies) for head in self.heads]  # type: ignore[operator]
        return torch.stack(of_heads).mean(dim=0)

    def spaces(self, texts: Tensor) -> Iterator[Space]:
        """Yield texts, (texts, dimensions), as each head reads them, as turns and as replies."""
        for head in self.heads:
            assert isinstance(head, Head)
            replies = head.replies(texts)
            yield Space(head.turns(texts), replies, replies)

    def of_head(self, number: int) -> TowerNetwork:
        """Return the network of one head, with the same weights of its similarities."""
        head = self.heads[number]
        assert isinstance(head, Head)
        network = TowerNetwork(self.config, [head])
        network.without_known, network.with_known = self.without_known, self.with_known
        return network.eval()
