"""The NN-rater's network: a shared embedding, a Bi-GRU that reads each text, and a feed-forward network over three."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from refaug.rater.nn.sizes import JUDGED_AT_ONCE, PAIRS, POSITIVE, TEXTS, RaterConfig
from refaug.rater.rating import Probabilities
from refaug.rater.text_encoding import PAD, Floats, Ids
from refaug.rater.torch_networks import inference, last_states


def quick_states(embedding: nn.Embedding, reader: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return what `last_states` returns for tokens (texts, time), up to rounding; for inference only.

    Half of a GRU's work is what the inputs add to its gates. That depends on the piece alone, so it is computed
    once for each distinct piece instead of at every position, and each step works in place on the texts that are
    long enough. Everything is one call for Python: hundreds of small calls would each have to wait for the other
    threads of a server.
    """
    weights = [
        getattr(reader, f"{name}_l0{direction}")
        for direction in ("", "_reverse")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    states: Tensor = _compile(_run_both_directions)(tokens, lengths, embedding.weight, weights)
    return states


def _run_both_directions(tokens: Tensor, lengths: Tensor, table: Tensor, weights: list[Tensor]) -> Tensor:
    """Compute the equations of torch's GRU, in operations that TorchScript can compile."""
    pieces, places = torch.unique(tokens, return_inverse=True)
    embedded = table[pieces]
    steps = torch.arange(tokens.size(1)).unsqueeze(0)
    reversed_places = places.gather(1, (lengths.unsqueeze(1) - 1 - steps).clamp_(min=0))  # each text from its end
    active = (lengths.unsqueeze(0) > steps.t()).sum(dim=1)  # texts with a piece at a step
    size = weights[1].size(1)
    states = torch.zeros(tokens.size(0), 2 * size)
    for direction in range(2):
        of_input, of_state = weights[4 * direction], weights[4 * direction + 1]
        input_bias, state_bias = weights[4 * direction + 2], weights[4 * direction + 3]
        added = torch.addmm(input_bias, embedded, of_input.t())  # (pieces, 3 * hidden): reset, update, new
        recall = of_state.t().contiguous()
        ordered = places if direction == 0 else reversed_places
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


def _judge_rows(vectors: Tensor, rows: Tensor, weights: list[Tensor], biases: list[Tensor], products: bool) -> Tensor:
    """Return logits (triplets, 2) like `judge`, for triplets given as rows of `vectors`."""
    utterance, known_response, other = vectors[rows[:, 0]], vectors[rows[:, 1]], vectors[rows[:, 2]]
    texts = [utterance, known_response, other]
    if products:
        texts = [
            utterance,
            known_response,
            other,
            utterance * known_response,
            utterance * other,
            known_response * other,
        ]
    state = torch.cat(texts, dim=1)  # (triplets, judged size)
    for layer in range(len(weights) - 1):
        state = torch.relu(torch.addmm(biases[layer], state, weights[layer].t()))
    return torch.addmm(biases[-1], state, weights[-1].t())


_COMPILING: Final = Lock()


@cache
def _compile(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile a function with TorchScript, which runs it from begin to end without Python's lock."""
    with _COMPILING, warnings.catch_warnings():  # which changes the filters of all threads
        # TorchScript's successors compile for a minute, and again for each shape.
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(function)  # type: ignore[no-any-return]


class BiGRURater(nn.Module):
    """Turns texts into vectors, and triplets of vectors into logits of (negative, positive)."""

    runtime = "torch"

    def __init__(self, config: RaterConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0  # share of an embedding's numbers left out in training
        self.embedding = nn.Embedding(config.vocabulary, config.embedding, padding_idx=PAD)
        self.reader = nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True)
        sizes = [config.judged_size, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(config.layers))
        self.last = nn.Linear(config.width, 2)

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first.

        Lengths (texts,) on the CPU.

        Padding is not read. An empty text is one unknown piece.
        """
        embedded = nn.functional.dropout(self.embedding(tokens), self.dropout, self.training)
        return last_states(self.reader, embedded, lengths)

    def read_quickly(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the same vectors up to rounding, faster; for inference only."""
        return quick_states(self.embedding, self.reader, tokens, lengths)

    def judge(self, utterances: Tensor, known_responses: Tensor, candidates: Tensor) -> Tensor:
        """Return logits (triplets, 2) of vectors, each (triplets, 2 * hidden)."""
        texts = (utterances, known_responses, candidates)
        products = [texts[left] * texts[right] for left, right in PAIRS] if self.config.features == "products" else []
        state = torch.cat([*texts, *products], dim=1)  # (triplets, judged size)
        for layer in self.hidden:
            state = torch.relu(layer(state))
        logits: Tensor = self.last(state)
        return logits

    def judge_quickly(self, vectors: Tensor, rows: Tensor) -> Tensor:
        """Return logits (triplets, 2) of triplets given as rows of `vectors`; for inference only."""
        layers = [*self.hidden, self.last]
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        logits: Tensor = _compile(_judge_rows)(vectors, rows, weights, biases, self.config.features == "products")
        return logits

    def text_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:
        """Return what `read_quickly` returns, for arrays."""
        with inference(self, threads):
            vectors: Floats = self.read_quickly(torch.from_numpy(tokens), torch.from_numpy(lengths)).numpy()
        return vectors

    def probabilities(self, vectors: Floats, rows: Ids, temperature: float, threads: int) -> Probabilities:
        """Return P(positive) of triplets given as rows of `vectors`."""
        with inference(self, threads):
            read = torch.from_numpy(vectors)
            likely = [
                torch.softmax(
                    self.judge_quickly(read, torch.from_numpy(rows[at : at + JUDGED_AT_ONCE])).double() / temperature,
                    dim=1,
                )
                for at in range(0, len(rows), JUDGED_AT_ONCE)
            ]
            return np.asarray(torch.cat(likely)[:, POSITIVE].numpy())

    def forward(self, tokens: Tensor, lengths: Tensor, triplets: Tensor) -> Tensor:
        """Return logits of triplets (triplets, 3), which name texts by their row in tokens."""
        vectors = self.read(tokens, lengths)
        return self.judge(*(vectors[triplets[:, place]] for place in range(TEXTS)))

    @property
    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())
