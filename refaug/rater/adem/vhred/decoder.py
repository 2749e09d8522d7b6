"""The decoder of a VHRED: a GRU that writes a turn piece by piece, from context, last turn and latent vector.

The condition, those three joined, is an input of all gates at every step. The first input is zeros, in place of the end
of the turn before; the logits come from the state, the last piece and the condition through one table of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from refaug.rater.adem.vhred.cells import GatedCell
from refaug.rater.adem.vhred.sizes import VhredConfig


class TurnDecoder(nn.Module):
    """Weights of the decoder."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        self.cell = GatedCell(config.embedding, config.decoder, is_normalised=False)
        self.condition_gates = nn.Linear(config.condition, 3 * config.decoder, bias=False)
        self.start = nn.Linear(config.condition, config.decoder)
        self.state_output = nn.Linear(config.decoder, config.embedding, bias=False)
        self.piece_output = nn.Linear(config.embedding, config.embedding, bias=False)
        self.condition_output = nn.Linear(config.condition, config.embedding, bias=False)
        self.table = nn.Parameter(torch.empty(config.vocabulary, config.embedding))  # apart from the input embeddings
        self.table_bias = nn.Parameter(torch.empty(config.vocabulary))

    def first_states(self, conditions: Tensor) -> Tensor:
        """Return the states before the first piece, (rows, decoder)."""
        return torch.tanh(self.start(conditions))

    def run(self, inputs: Tensor, places: Tensor, rows: Tensor, counts: Sequence[int], conditions: Tensor) -> Tensor:
        """Return features of the next piece at every step, packed, (all steps, embedding), for `logits`.

        `inputs` are distinct embeddings of pieces, `places` which one is the input of each step, `rows` the turn that
        each step belongs to, all packed by `counts`, the longest turn first; `conditions` (turns, condition) alike.
        """
        of_pieces = self.cell.gates_of(inputs)[0]
        gates = nn.functional.embedding(places, of_pieces)
        gates = gates + nn.functional.embedding(rows, self.condition_gates(conditions))
        states = self.cell.run(gates[None], counts, self.first_states(conditions)[None])[0]
        features: Tensor = self.state_output(states)
        features = features + nn.functional.embedding(places, self.piece_output(inputs))
        return features + nn.functional.embedding(rows, self.condition_output(conditions))

    def logits(self, features: Tensor) -> Tensor:
        """Return logits of every piece, (rows, vocabulary)."""
        return nn.functional.linear(features, self.table, self.table_bias)
