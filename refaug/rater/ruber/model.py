"""The network of RUBER's unreferenced part (Tao et al. 2018): how related a reply is to the utterance before it.

A Bi-GRU over one embedding reads each text; a text's vector is the last state of the forward and of the backward
reading. The two vectors q and r and the quadratic feature qᵀMr go through layers with tanh, and a sigmoid gives the
score.

As published, utterances and replies have separate readers. With one reader for both, the default here, there is less to
learn, and every text trains the reader.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from refaug.core.errors import Usage
from refaug.rater.layers import PAD, last_states, require_sizes


@dataclass(frozen=True, kw_only=True)
class RuberConfig:
    """The sizes of the network."""

    vocabulary: int = 16_002  # pieces, pad and unk
    embedding: int = 128
    hidden: int = 128  # in each direction
    width: int = 256  # of the layers that judge
    layers: int = 1  # number of these, each with tanh
    max_tokens: int = 128  # the rest of a longer text is not read
    readers: int = 1  # or 2: one for utterances, one for replies

    def __post_init__(self) -> None:
        require_sizes("ruber", asdict(self))
        if self.readers not in (1, 2):
            raise Usage(f"a ruber's readers are {self.readers!r}", remedy="1 for both texts, or 2: one for each")


class RuberNetwork(nn.Module):
    """Turns texts into vectors, and pairs of vectors into logits, whose sigmoid is the score."""

    def __init__(self, config: RuberConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0  # share of an embedding's numbers left out in training
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.readers = nn.ModuleList(
            nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True) for _ in range(config.readers)
        )
        size = 2 * config.hidden
        self.quadratic = nn.Parameter(torch.empty(size, size))  # M
        nn.init.xavier_normal_(self.quadratic)
        sizes = [2 * size + 1, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(config.layers))
        self.last = nn.Linear(config.width, 1)

    def read_utterances(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first.

        Lengths (texts,) on the CPU.
        """
        return self._read(0, tokens, lengths)

    def read_replies(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of replies, with their own reader if there are two."""
        return self._read(self.config.readers - 1, tokens, lengths)

    def _read(self, reader: int, tokens: Tensor, lengths: Tensor) -> Tensor:
        embedded = nn.functional.dropout(self.embedding(tokens), self.dropout, self.training)
        gru = self.readers[reader]
        assert isinstance(gru, nn.GRU)
        return last_states(gru, embedded, lengths)

    def judge(self, utterances: Tensor, replies: Tensor) -> Tensor:
        """Return logits (pairs,) of vectors, each (pairs, 2 * hidden)."""
        related = ((utterances @ self.quadratic) * replies).sum(dim=1, keepdim=True)  # (pairs, 1)
        state = torch.cat([utterances, related, replies], dim=1)
        for layer in self.hidden:
            state = torch.tanh(layer(state))
        logits: Tensor = self.last(state)
        return logits[:, 0]

    @property
    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())
