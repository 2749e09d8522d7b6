"""The whole network: a shared embedding, a Bi-GRU that reads each text, and a feed-forward network over three of them.

A triplet [U, R, R'] is an utterance, a response that is known to fit, and another one; the answer is whether that fits
too. Texts that stand in several triplets are read once.

As published, a text's vector is the last state of the forward and of the backward reading, and the feed-forward network
gets the three vectors side by side, so that it has to learn how to compare them. Given their products as well, it
learns to tell right from wrong out of fewer examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, Literal, get_args

import torch
from torch import Tensor, nn

from core.errors import Usage

NEGATIVE, POSITIVE = 0, 1
PAD: Final = 0  # of the tokenizers that are trained here
_TEXTS: Final = 3  # in a triplet
_PAIRS: Final = ((0, 1), (0, 2), (1, 2))  # of them
_SIZES: Final = {  # what is read of a manifest is built before it is compared with the weights
    "vocabulary": (3, 1 << 20),
    "embedding": (1, 1 << 16),
    "hidden": (1, 1 << 16),
    "width": (1, 1 << 16),
    "layers": (1, 64),
    "max_tokens": (1, 1 << 20),
}

Features = Literal["texts", "products"]


@dataclass(frozen=True, kw_only=True)
class RaterConfig:
    """The sizes of the network; with the defaults that of Tsuta et al. (2020)."""

    vocabulary: int = 16_002  # pieces, pad and unk
    embedding: int = 512
    hidden: int = 512  # each way
    width: int = 1024  # of the feed-forward layers
    layers: int = 5  # of them, each with ReLU
    max_tokens: int = 128  # the rest of a longer text is not read
    features: Features = "texts"  # what is judged: the three vectors, or also their products with each other

    def __post_init__(self) -> None:
        require_sizes("rater", asdict(self))
        if self.features not in get_args(Features):
            raise Usage(f"a rater's features are {self.features!r}", remedy=f"one of: {', '.join(get_args(Features))}")

    @property
    def judged(self) -> int:
        """How many numbers the first feed-forward layer gets."""
        return (_TEXTS + (len(_PAIRS) if self.features == "products" else 0)) * 2 * self.hidden


def require_sizes(kind: str, sizes: Mapping[str, object]) -> None:
    """Usage, if a network of such sizes cannot be meant."""
    for name, (least, most) in _SIZES.items():
        value = sizes[name]
        if not isinstance(value, int) or not least <= value <= most:
            raise Usage(f"a {kind}'s {name} is {value}", remedy=f"a whole number, at least {least}, at most {most:,}")


def last_states(reader: nn.GRU, embedded: Tensor, lengths: Tensor) -> Tensor:
    """The last state of both directions, (texts, 2 * hidden), of (texts, time, embedding), the longest text first."""
    packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True)
    _, last = reader(packed)  # (2, texts, hidden)
    return torch.cat([last[0], last[1]], dim=1)


def quick_states(embedding: nn.Embedding, reader: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    """What `last_states` gives of tokens (texts, time), but for rounding; for answering, not for learning.

    Half of a GRU's work is what the inputs add to its gates. That depends on the piece alone, so it is done once for
    each piece there is instead of at every place; and each step works in place, on the texts that go on to it. All of
    it is one call for Python: hundreds of small ones would each have to wait for the other threads of a server.
    """
    weights = [
        getattr(reader, f"{name}_l0{direction}")
        for direction in ("", "_reverse")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    states: Tensor = _compiled(_both_directions)(tokens, lengths, embedding.weight, weights)
    return states


def _both_directions(tokens: Tensor, lengths: Tensor, table: Tensor, weights: list[Tensor]) -> Tensor:
    """The equations of torch's GRU; in the words that torch can compile."""
    pieces, places = torch.unique(tokens, return_inverse=True)
    embedded = table[pieces]
    steps = torch.arange(tokens.size(1)).unsqueeze(0)
    turned = places.gather(1, (lengths.unsqueeze(1) - 1 - steps).clamp_(min=0))  # each text from its end
    active = (lengths.unsqueeze(0) > steps.t()).sum(dim=1)  # texts that have a piece at a step
    size = weights[1].size(1)
    states = torch.zeros(tokens.size(0), 2 * size)
    for direction in range(2):
        of_input, of_state = weights[4 * direction], weights[4 * direction + 1]
        input_bias, state_bias = weights[4 * direction + 2], weights[4 * direction + 3]
        added = torch.addmm(input_bias, embedded, of_input.t())  # (pieces, 3 * hidden): reset, update, new
        recall = of_state.t().contiguous()
        ordered = places if direction == 0 else turned
        state = torch.zeros(tokens.size(0), size)
        for step in range(tokens.size(1)):
            count = int(active[step])
            gates, own = added[ordered[:count, step]], state[:count]
            recalled = torch.addmm(state_bias, own, recall)
            both = torch.sigmoid_(gates[:, : 2 * size].add_(recalled[:, : 2 * size]))
            new = torch.tanh_(gates[:, 2 * size :].addcmul_(both[:, :size], recalled[:, 2 * size :]))
            own.sub_(new).mul_(both[:, size:]).add_(new)
        states[:, direction * size : (direction + 1) * size] = state
    return states


def _judged(vectors: Tensor, rows: Tensor, weights: list[Tensor], biases: list[Tensor], products: bool) -> Tensor:
    """Logits (triplets, 2) as `judge` has them, of triplets by the rows of their texts in `vectors`."""
    one, known, other = vectors[rows[:, 0]], vectors[rows[:, 1]], vectors[rows[:, 2]]
    texts = [one, known, other]
    if products:
        texts = [one, known, other, one * known, one * other, known * other]
    state = torch.cat(texts, dim=1)  # (triplets, judged)
    for layer in range(len(weights) - 1):
        state = torch.relu(torch.addmm(biases[layer], state, weights[layer].t()))
    return torch.addmm(biases[-1], state, weights[-1].t())


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function, run by torch from begin to end without Python's lock."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # its successors compile for a minute, and anew for each shape
        return torch.jit.script(function)  # type: ignore[no-any-return]


class BiGRURater(nn.Module):
    """Texts to vectors, and triplets of vectors to logits of (negative, positive)."""

    def __init__(self, config: RaterConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0  # share of an embedding's numbers that are left out while it is trained
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.reader = nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True)
        sizes = [config.judged, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(config.layers))
        self.last = nn.Linear(config.width, 2)

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first; lengths (texts,) on the CPU.

        Padding is not read, so it changes nothing. An empty text is given as one unknown piece.
        """
        embedded = nn.functional.dropout(self.embedding(tokens), self.dropout, self.training)
        return last_states(self.reader, embedded, lengths)

    def read_quickly(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The same, but for rounding, where nothing is learnt."""
        return quick_states(self.embedding, self.reader, tokens, lengths)

    def judge(self, utterances: Tensor, known: Tensor, others: Tensor) -> Tensor:
        """Logits (triplets, 2) of vectors, each (triplets, 2 * hidden)."""
        texts = (utterances, known, others)
        products = [texts[one] * texts[other] for one, other in _PAIRS] if self.config.features == "products" else []
        state = torch.cat([*texts, *products], dim=1)  # (triplets, judged)
        for layer in self.hidden:
            state = torch.relu(layer(state))
        logits: Tensor = self.last(state)
        return logits

    def judge_quickly(self, vectors: Tensor, rows: Tensor) -> Tensor:
        """Logits (triplets, 2) of triplets by the rows of their texts in `vectors`, where nothing is learnt."""
        layers = [*self.hidden, self.last]
        weights, biases = [one.weight for one in layers], [one.bias for one in layers]
        judged: Tensor = _compiled(_judged)(vectors, rows, weights, biases, self.config.features == "products")
        return judged

    def forward(self, tokens: Tensor, lengths: Tensor, triplets: Tensor) -> Tensor:
        """Logits of triplets (triplets, 3) of texts by their row in tokens."""
        vectors = self.read(tokens, lengths)
        return self.judge(*(vectors[triplets[:, place]] for place in range(_TEXTS)))

    @property
    def parameter_count(self) -> int:
        """How many numbers are learnt."""
        return sum(parameter.numel() for parameter in self.parameters())
