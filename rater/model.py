"""The whole network: a shared embedding, a Bi-GRU that reads each text, and a feed-forward network over three of them.

A triplet [U, R, R'] is an utterance, a response that is known to fit, and another one; the answer is whether that fits
too. A text's vector is the last state of the forward and of the backward reading, so texts that stand in several
triplets are read once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from core.errors import Usage

NEGATIVE, POSITIVE = 0, 1
PAD: Final = 0  # of the tokenizers that are trained here
_TEXTS: Final = 3  # in a triplet


@dataclass(frozen=True, kw_only=True)
class RaterConfig:
    """The sizes of the network; with the defaults that of Tsuta et al. (2020)."""

    vocabulary: int = 16_002  # pieces, pad and unk
    embedding: int = 512
    hidden: int = 512  # each way
    width: int = 1024  # of the feed-forward layers
    layers: int = 5  # of them, each with ReLU
    max_tokens: int = 128  # the rest of a longer text is not read

    def __post_init__(self) -> None:
        for name, least in {
            "vocabulary": 3,
            "embedding": 1,
            "hidden": 1,
            "width": 1,
            "layers": 1,
            "max_tokens": 1,
        }.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise Usage(f"a rater's {name} is {value}", remedy=f"a whole number, at least {least}")


class BiGRURater(nn.Module):
    """Texts to vectors, and triplets of vectors to logits of (negative, positive)."""

    def __init__(self, config: RaterConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.reader = nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True)
        sizes = [_TEXTS * 2 * config.hidden, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(config.layers))
        self.last = nn.Linear(config.width, 2)

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first; lengths (texts,) on the CPU.

        Padding is not read, so it changes nothing. An empty text is given as one unknown piece.
        """
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True)
        _, last = self.reader(packed)  # (2, texts, hidden)
        return torch.cat([last[0], last[1]], dim=1)

    def judge(self, utterances: Tensor, known: Tensor, others: Tensor) -> Tensor:
        """Logits (triplets, 2) of vectors, each (triplets, 2 * hidden)."""
        state = torch.cat([utterances, known, others], dim=1)  # (triplets, 3 * 2 * hidden)
        for layer in self.hidden:
            state = torch.relu(layer(state))
        logits: Tensor = self.last(state)
        return logits

    def forward(self, tokens: Tensor, lengths: Tensor, triplets: Tensor) -> Tensor:
        """Logits of triplets (triplets, 3) of texts by their row in tokens."""
        vectors = self.read(tokens, lengths)
        return self.judge(*(vectors[triplets[:, place]] for place in range(_TEXTS)))

    @property
    def parameter_count(self) -> int:
        """How many numbers are learnt."""
        return sum(parameter.numel() for parameter in self.parameters())
