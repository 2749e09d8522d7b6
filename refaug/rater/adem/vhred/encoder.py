"""The hierarchical encoder of a VHRED: one reader for the pieces of the turns, another one for the turns.

A dialogue begins with an end of a turn, and every turn ends with one. The reader of the pieces runs through the whole
dialogue without being reset, forwards, and again with the pieces of each turn in reversed order; its states at the end
of a turn are the turn's vector. The reader of the turns steps there, and its state is the context so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from refaug.rater.adem.vhred.cells import GatedCell
from refaug.rater.adem.vhred.packing import Numbers, PackedSequences, pack
from refaug.rater.adem.vhred.sizes import VhredConfig

Turns = Sequence[Numbers]  # pieces of each turn of a dialogue, without the ends


@dataclass(frozen=True, eq=False)
class DialogueBatch:
    """Dialogues in the form that the encoder reads."""

    pieces: Numbers  # the distinct pieces of the batch, which are looked up once
    forwards: PackedSequences  # places in `pieces`
    backwards: Numbers  # the same with each turn reversed, packed alike
    ends: Numbers  # (dialogues, ends): the place of each end among the packed steps; the last one again beyond the end
    end_counts: Numbers  # (dialogues,): one more than the turns


class DialogueStates(NamedTuple):
    """The states of dialogues at every end: before the first turn, after the first turn, and so on."""

    utterances: Tensor  # (dialogues, ends, 2 * utterance)
    contexts: Tensor  # (dialogues, ends, context)


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
        self.turns = GatedCell(2 * config.utterance, config.context, is_normalised=normalised, has_overwrite=True)

    def forward(self, batch: DialogueBatch, embedding: Tensor) -> DialogueStates:
        """Return the states of dialogues, from the table of embeddings (vocabulary, embedding)."""
        device = embedding.device
        gates = self.pieces.gates_of(nn.functional.embedding(torch.from_numpy(batch.pieces).to(device), embedding))
        directions = torch.from_numpy(np.stack([batch.forwards.numbers, batch.backwards + len(batch.pieces)]))
        by_step = nn.functional.embedding(directions.to(device), gates.flatten(0, 1))  # (2, all steps, 3 * utterance)
        counts = batch.forwards.counts
        states = self.pieces.run(by_step, counts, by_step.new_zeros(2, counts[0], self.pieces.units))
        vectors = torch.cat([states[0], states[1]], dim=-1)  # (all steps, 2 * utterance)
        utterances = nn.functional.embedding(torch.from_numpy(batch.ends).to(device), vectors)
        return DialogueStates(utterances, self._contexts(utterances))

    def _contexts(self, utterances: Tensor) -> Tensor:
        """Return the context after each end, (dialogues, ends, context); nothing beyond an end changes one before."""
        dialogues, ends = utterances.shape[:2]
        gates = self.turns.gates_of(utterances.transpose(0, 1).flatten(0, 1))
        states = self.turns.run(gates, [dialogues] * ends, gates.new_zeros(1, dialogues, self.turns.units))
        contexts: Tensor = states[0].reshape(ends, dialogues, -1).transpose(0, 1)
        return contexts
