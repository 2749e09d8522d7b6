"""The network of the cross rater: a Transformer encoder with pre-norm blocks and rotary positions.

It reads a sequence in both directions. The state of the first place and the mean states of turns, known response and
reply become a logit: whether the reply belongs to the rest. Products of the means are among its inputs, as in the
NN-rater: with them a network on a CPU learns in minutes what attention alone needs many more examples for.

The states of hidden pieces predict these pieces, with the embeddings as output weights: an objective beside the first
one, since sequences teach far more about the language than whether a reply fits.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.cross.sequences import BASE, MARKS, SEGMENTS, CrossConfig, SequenceBatch
from refaug.rater.text_encoding import PAD
from refaug.rater.torch_networks import inference

_JUDGED: Final = 5  # states and products that the logit is computed from


class CrossBlock(nn.Module):
    """Attention, then a feed-forward layer, each added to its input after a norm."""

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.RMSNorm(config.embedding)
        self.together = nn.Linear(config.embedding, 3 * config.embedding, bias=False)  # queries, keys, values
        self.joined = nn.Linear(config.embedding, config.embedding, bias=False)
        self.feed_norm = nn.RMSNorm(config.embedding)
        self.widen = nn.Linear(config.embedding, config.hidden)
        self.narrow = nn.Linear(config.hidden, config.embedding)

    def forward(self, states: Tensor, visible: Tensor, turn: Tensor, dropout: float) -> Tensor:
        """Return new states (sequences, time, embedding); `visible` (sequences, 1, 1, time) hides padding."""
        rows, time, size = states.shape
        parts = self.together(self.attention_norm(states)).view(rows, time, 3, self.heads, size // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # each (sequences, heads, time, size of a head)
        read = nn.functional.scaled_dot_product_attention(
            rotate(queries, turn), rotate(keys, turn), values, attn_mask=visible
        )
        read = self.joined(read.transpose(1, 2).reshape(rows, time, size))
        states = states + nn.functional.dropout(read, dropout, self.training)
        fed = self.narrow(nn.functional.gelu(self.widen(self.feed_norm(states))))
        return states + nn.functional.dropout(fed, dropout, self.training)


class CrossNetwork(nn.Module):
    """Turns sequences into logits: of the reply's place in the dialogue, and of hidden pieces."""

    runtime = "torch"

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0  # share of each layer's numbers left out in training
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.marks = nn.Embedding(MARKS, config.embedding)
        self.segments = nn.Embedding(SEGMENTS, config.embedding)
        self.blocks = nn.ModuleList(CrossBlock(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.embedding)
        self.mean_norm = nn.RMSNorm(config.embedding)
        self.widen = nn.Linear(_JUDGED * config.embedding, config.embedding)
        self.last = nn.Linear(config.embedding, 1)
        self._calm()

    def _calm(self) -> None:
        """Scale down the initial weights of layers that are added up, so that a deep network starts calm."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith(("joined.weight", "narrow.weight")):
                    parameter.div_(math.sqrt(2 * self.config.layers))

    def read(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Return states (sequences, time, embedding) of tokens and segments (sequences, time)."""
        table = torch.cat([self.embedding.weight, self.marks.weight])
        states = nn.functional.embedding(tokens, table) + self.segments(segments)
        states = nn.functional.dropout(states, self.dropout, self.training)
        places = torch.arange(tokens.size(1), device=tokens.device)
        visible = (places[None] < lengths[:, None])[:, None, None]
        turn = angles(places, self.config.embedding // self.config.heads)
        for block in self.blocks:
            states = block(states, visible, turn, self.dropout)
        normed: Tensor = self.norm(states)
        return normed

    def judge(self, states: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Return a logit for each sequence: whether its reply belongs to the rest."""
        turns, known, reply = self._means(states, segments, lengths)
        judged = torch.cat([states[:, 0], turns, reply, turns * reply, known * reply], dim=1)
        logits: Tensor = self.last(nn.functional.gelu(self.widen(judged))).squeeze(1)
        return logits

    def _means(self, states: Tensor, segments: Tensor, lengths: Tensor) -> list[Tensor]:
        """Return the mean state of each segment, scaled to one length; 0 for a segment that is not there."""
        places = torch.arange(states.size(1), device=states.device)
        is_read = places[None] < lengths[:, None]
        means = []
        for segment in range(SEGMENTS):
            shares = ((segments == segment) & is_read).to(states.dtype)
            total = (states * shares[:, :, None]).sum(dim=1)
            means.append(self.mean_norm(total / shares.sum(dim=1, keepdim=True).clamp(min=1)))
        return means

    def predict_pieces(self, states: Tensor) -> Tensor:
        """Return logits (places, vocabulary) of the pieces at places with these states."""
        return nn.functional.linear(states, self.embedding.weight) / math.sqrt(self.config.embedding)

    def forward(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Return a logit for each sequence."""
        return self.judge(self.read(tokens, segments, lengths), segments, lengths)

    def logits(self, batch: SequenceBatch, threads: int) -> NDArray[np.float64]:
        """Return a logit for each sequence of a batch."""
        with inference(self, threads):
            logits: Tensor = self(*map(torch.from_numpy, batch))
            return np.asarray(logits.double().numpy())

    @property
    def parameter_count(self) -> int:
        """The number of weights."""
        return sum(parameter.numel() for parameter in self.parameters())


def angles(places: Tensor, size: int) -> Tensor:
    """Return the angles (places, size / 2) by which a head's pairs of numbers are turned at each place."""
    speeds = BASE ** (-torch.arange(0, size, 2, device=places.device) / size)
    return places[:, None] * speeds[None]


def rotate(states: Tensor, turn: Tensor) -> Tensor:
    """Turn the pairs of numbers (…, time, size) by angles (time, size / 2), so that products know the distance."""
    first, second = states.chunk(2, dim=-1)
    cosine, sine = turn.cos().to(states.dtype), turn.sin().to(states.dtype)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)
