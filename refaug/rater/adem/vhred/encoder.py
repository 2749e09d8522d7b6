"""The hierarchical encoder of a VHRED: one reader for the pieces of the turns, another one for the turns.

A dialogue begins with an end of a turn, and every turn ends with one. The reader of the pieces runs through the whole
dialogue without being reset, forwards, and again with the pieces of each turn in reversed order; its states at the end
of a turn are the turn's vector. The reader of the turns steps there, and its state is the context so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.vhred.sizes import VhredConfig

# ── Sequences of different lengths step by step: a step holds only those that are long enough, so nothing is padded ───

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedSequences:
    """Sequences, the longest first: the numbers of step 0 of all of them, then those of step 1, and so on."""

    numbers: Numbers  # (all steps of all sequences,)
    counts: tuple[int, ...]  # sequences in each step, which never grow
    order: Numbers  # (sequences,): which of the given sequences stands in each row

    @property
    def starts(self) -> Numbers:
        """The place of each step's first number, and at the end their count."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def rows(self) -> Numbers:
        """The row of each given sequence."""
        rows = np.empty(len(self.order), np.int64)
        rows[self.order] = np.arange(len(self.order))
        return rows

    @property
    def row_of_number(self) -> Numbers:
        """The row of each number."""
        return np.concatenate([np.arange(count) for count in (0, *self.counts)]).astype(np.int64)


def pack(sequences: Sequence[Numbers]) -> PackedSequences:
    """Return sequences, none of them empty, as packed ones; equal lengths stay in the order given."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))
    padded = np.zeros((longest, len(order)), np.int64)
    for row, at in enumerate(order):
        padded[: lengths[at], row] = sequences[at]
    is_filled = np.arange(longest)[:, None] < lengths[order][None, :]
    return PackedSequences(padded[is_filled], tuple(is_filled.sum(axis=1).tolist()), order)


# ── The gated recurrent cells of a VHRED: with layer normalisation or without, with an overwrite gate or without ──────
#
# With LN(v) = (v − mean) / √(variance + 1e-7) over the units of one gate, gains γ, and σ the logistic function:
#
#     r = σ(γ₁LN(xW_r) + γ₂LN(hU_r) + b_r)        z = σ(γ₃LN(xW_z) + γ₄LN(hU_z) + b_z)
#     h̃ = tanh(γ₅LN(xW) + γ₆LN((r⊙h)U) + b)      h ← (1 − z)⊙h + z⊙h̃
#
# The overwrite gate o has the form of r, and lets the input through as it is: h̃ becomes (1 − o)⊙h̃ + o⊙(xW_v + b_v).

EPSILON: Final = 1e-7  # beneath the root of the variance, as in the released code


def normalise_blocks(states: Tensor, gains: Tensor, units: int) -> Tensor:
    """Return blocks of `units` numbers, each normalised, times gains of the same size as the last dimension."""
    blocks = states.reshape(*states.shape[:-1], -1, units)
    return nn.functional.layer_norm(blocks, (units,), eps=EPSILON).flatten(-2) * gains


class GatedCell(nn.Module):
    """Weights of one cell, or of several that step together, such as the two directions of a reader.

    A cell first turns its inputs into gates, all at once, since they do not depend on the states; then it steps.
    Blocks of the gates: r, z, with an overwrite gate o, then the candidate h̃, and with an overwrite gate xW_v.
    """

    def __init__(
        self, inputs: int, units: int, *, cells: int = 1, is_normalised: bool = True, has_overwrite: bool = False
    ) -> None:
        super().__init__()
        self.units, self.cells = units, cells
        self.is_normalised, self.has_overwrite = is_normalised, has_overwrite
        self.gate_count = 3 if has_overwrite else 2  # gates that see the state as it is
        blocks = self.gate_count + 1  # and the candidate
        self.input_weight = nn.Parameter(torch.empty(cells, inputs, blocks * units))
        self.gate_weight = nn.Parameter(torch.empty(cells, units, self.gate_count * units))
        self.candidate_weight = nn.Parameter(torch.empty(cells, units, units))
        self.bias = nn.Parameter(torch.empty(cells, 1, blocks * units))
        if is_normalised:
            self.input_gain = nn.Parameter(torch.empty(cells, 1, blocks * units))
            self.gate_gain = nn.Parameter(torch.empty(cells, 1, self.gate_count * units))
            self.candidate_gain = nn.Parameter(torch.empty(cells, 1, units))
        if has_overwrite:
            self.overwrite_weight = nn.Parameter(torch.empty(cells, inputs, units))
            self.overwrite_bias = nn.Parameter(torch.empty(cells, 1, units))

    def gates_of(self, inputs: Tensor) -> Tensor:
        """Return what inputs (rows, inputs) add to the gates of every cell, (cells, rows, blocks * units)."""
        gates = torch.matmul(inputs, self.input_weight)
        if self.is_normalised:
            gates = normalise_blocks(gates, self.input_gain, self.units)
        gates = gates + self.bias
        if not self.has_overwrite:
            return gates
        return torch.cat([gates, torch.matmul(inputs, self.overwrite_weight) + self.overwrite_bias], dim=-1)

    def step(self, gates: Tensor, states: Tensor) -> Tensor:
        """Return the next states (cells, rows, units), from gates as `gates_of` returns them."""
        units, gated = self.units, self.gate_count * self.units
        recalled = torch.bmm(states, self.gate_weight)
        if self.is_normalised:
            recalled = normalise_blocks(recalled, self.gate_gain, units)
        opened = torch.sigmoid(gates[..., :gated] + recalled)
        proposed = torch.bmm(opened[..., :units] * states, self.candidate_weight)
        if self.is_normalised:
            proposed = normalise_blocks(proposed, self.candidate_gain, units)
        candidate = torch.tanh(gates[..., gated : gated + units] + proposed)
        if self.has_overwrite:
            candidate = torch.lerp(candidate, gates[..., gated + units :], opened[..., 2 * units :])
        return torch.lerp(states, candidate, opened[..., units : 2 * units])

    def run(self, gates: Tensor, counts: Sequence[int], states: Tensor) -> Tensor:
        """Return the states after every step, packed as the gates are, (cells, all steps, units).

        `counts` are the rows of each step, which never grow; `states` (cells, rows, units) are those to begin with.

        In mixed precision the steps stay in single precision: their matrices are small, and rounding adds up.
        """
        with torch.autocast(gates.device.type, enabled=False):
            gates, states, after = gates.to(self.bias.dtype), states.to(self.bias.dtype), list[Tensor]()
            for of_step in torch.split(gates, list(counts), dim=1):
                count = of_step.shape[1]
                if count < states.shape[1]:
                    states = states[:, :count]
                states = self.step(of_step, states)
                after.append(states)
            return torch.cat(after, dim=1)


# ── The hierarchical encoder of a VHRED: one reader for the pieces of the turns, another one for the turns ────────────

Turns = Sequence[Numbers]  # pieces of each turn of a dialogue, without the ends


@dataclass(frozen=True, eq=False)
class DialogueBatch:
    """Dialogues in the form that the encoder reads."""

    pieces: Numbers  # the distinct pieces of the batch, which are looked up once
    forwards: PackedSequences  # places in `pieces`
    backwards: Numbers  # the same with each turn reversed, packed alike
    ends: Numbers  # (dialogues, ends): the place of each end among the packed steps; the last one again beyond the end
    end_counts: Numbers  # (dialogues,): one more than the turns


def batch_dialogues(dialogues: Sequence[Turns], end: int) -> DialogueBatch:
    """Return dialogues for the encoder, where `end` is the number of the piece that ends a turn."""
    forwards, backwards, ends = list[Numbers](), list[Numbers](), list[Numbers]()
    last = np.array([end], np.int64)
    for turns in dialogues:
        forwards.append(np.concatenate([last, *(part for turn in turns for part in (turn, last))]))
        backwards.append(np.concatenate([last, *(part for turn in turns for part in (turn[::-1], last))]))
        ends.append(np.cumsum([0, *(len(turn) + 1 for turn in turns)]))
    packed = pack(forwards)
    end_counts = np.array([len(places) for places in ends], np.int64)
    steps = np.stack([np.pad(places, (0, int(end_counts.max()) - len(places)), mode="edge") for places in ends])
    pieces, places = np.unique(packed.numbers, return_inverse=True)
    return DialogueBatch(
        pieces=pieces,
        forwards=PackedSequences(places.reshape(-1), packed.counts, packed.order),
        backwards=np.searchsorted(pieces, pack(backwards).numbers),
        ends=packed.starts[steps] + packed.rows[:, None],
        end_counts=end_counts,
    )


class HierarchicalEncoder(nn.Module):
    """Reads dialogues to the states at the ends of their turns."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        normalised = config.is_normalised
        self.pieces = GatedCell(config.embedding, config.utterance, cells=2, is_normalised=normalised)
        inputs = 2 * config.utterance + config.predicted + config.conversation
        self.turns = GatedCell(inputs, config.context, is_normalised=normalised, has_overwrite=True)

    def utterances(self, batch: DialogueBatch, embedding: Tensor) -> Tensor:
        """Return the vectors of turns at every end, from the table of embeddings (vocabulary, embedding)."""
        device = embedding.device
        gates = self.pieces.gates_of(nn.functional.embedding(torch.from_numpy(batch.pieces).to(device), embedding))
        directions = torch.from_numpy(np.stack([batch.forwards.numbers, batch.backwards + len(batch.pieces)]))
        by_step = nn.functional.embedding(directions.to(device), gates.flatten(0, 1))  # (2, all steps, 3 * utterance)
        counts = batch.forwards.counts
        states = self.pieces.run(by_step, counts, by_step.new_zeros(2, counts[0], self.pieces.units))
        vectors = torch.cat([states[0], states[1]], dim=-1)  # (all steps, 2 * utterance)
        return nn.functional.embedding(torch.from_numpy(batch.ends).to(device), vectors)

    def contexts(self, inputs: Tensor, first: Tensor | None = None) -> Tensor:
        """Return the context after each end, (dialogues, ends, context); nothing beyond an end changes one before.

        Inputs are the vectors of turns, behind them what heads predict if that is an input, and in a VHCR the
        conversation's variable; it gives `first`, the states to begin with.
        """
        dialogues, ends = inputs.shape[:2]
        gates = self.turns.gates_of(inputs.transpose(0, 1).flatten(0, 1))
        begin = gates.new_zeros(1, dialogues, self.turns.units) if first is None else first[None]
        states = self.turns.run(gates, [dialogues] * ends, begin)
        contexts: Tensor = states[0].reshape(ends, dialogues, -1).transpose(0, 1)
        return contexts
