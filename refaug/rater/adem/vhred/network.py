"""The whole network: embedding, encoder, latent variable and decoder; its bound on the likelihood of dialogues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.vhred.conversation import ConversationVariable
from refaug.rater.adem.vhred.encoder import DialogueBatch, GatedCell, HierarchicalEncoder, Numbers, pack
from refaug.rater.adem.vhred.gaussians import Gaussian, LatentVariable
from refaug.rater.adem.vhred.heads import InputHeads
from refaug.rater.adem.vhred.sizes import VhredConfig

# ── Turns in the form that the decoder writes them: packed step by step, each with the place of what it follows ───────

FIRST_INPUT = 0  # place of the zeros that a turn begins with


@dataclass(frozen=True, eq=False)
class DecodedTurns:
    """Turns, the longest first, with the inputs and the targets of every step."""

    pieces: Numbers  # distinct pieces that are inputs, which are looked up once
    inputs: Numbers  # packed: FIRST_INPUT, or one more than a place in `pieces`
    targets: Numbers  # packed: the pieces of each turn, and the piece that ends it
    rows: Numbers  # packed: the turn of each step
    counts: tuple[int, ...]
    order: Numbers  # which of the given turns stands in each row

    @property
    def lengths(self) -> Numbers:
        """The steps of each row: its pieces, and its end."""
        return np.bincount(self.rows, minlength=len(self.order))


def pack_turns(
    turns: Sequence[Numbers], end: int, *, unknown: int = 1, dropped: Sequence[NDArray[np.bool_]] | None = None
) -> DecodedTurns:
    """Return turns for the decoder; inputs that are `dropped` become the unknown piece, targets do not change."""
    last = np.array([end], np.int64)
    targets = pack([np.concatenate([turn, last]) for turn in turns])
    places = [turn if dropped is None else np.where(dropped[at], unknown, turn) for at, turn in enumerate(turns)]
    inputs = pack([np.concatenate([last, turn]) for turn in places]).numbers  # `end` stands for the zeros
    pieces = np.unique(inputs)
    pieces = pieces[pieces != end]
    return DecodedTurns(
        pieces=pieces,
        inputs=np.where(inputs == end, FIRST_INPUT, np.searchsorted(pieces, inputs) + 1),
        targets=targets.numbers,
        rows=targets.row_of_number,
        counts=targets.counts,
        order=targets.order,
    )


# ── The decoder of a VHRED: a GRU that writes a turn piece by piece, from context, last turn and latent vector ────────


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


# ── The whole network ─────────────────────────────────────────────────────────────────────────────────────────────────

_GAIN = "gain"
_SHARE = "share"


class DialogueStates(NamedTuple):
    """The states of dialogues at every end: before the first turn, after the first turn, and so on."""

    utterances: Tensor  # (dialogues, ends, 2 * utterance)
    contexts: Tensor  # (dialogues, ends, context), in a VHCR with the conversation's variable behind each
    heard: Tensor  # the vectors that the contexts are from: `utterances`, unless some are dropped
    conversations: Gaussian | None = None  # after all turns


class VhredNetwork(nn.Module):
    """A VHRED; without a latent variable, a HRED; with one of the conversation too, a VHCR."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocabulary, config.embedding))
        self.encoder = HierarchicalEncoder(config)
        seen = config.context + config.conversation
        self.latent = LatentVariable(seen, 2 * config.utterance, config.latent) if config.latent else None
        self.decoder = TurnDecoder(config)
        self.conversation = ConversationVariable(config) if config.conversation else None
        self.heads = InputHeads(config) if config.has_heads else None

    def read(
        self,
        batch: DialogueBatch,
        draw: Callable[[Gaussian], Tensor] = lambda after: after.mean,
        dropped: NDArray[np.bool_] | None = None,
    ) -> DialogueStates:
        """Return the states of dialogues at the ends of their turns.

        In a VHCR, `draw` chooses the conversation's variable, given its Gaussian after all turns; `dropped` are turns
        (dialogues, ends) that the contexts do not hear.
        """
        utterances = self.encoder.utterances(batch, self.embedding)
        if self.conversation is None:
            return DialogueStates(utterances, self.encoder.contexts(self._with_predictions(utterances)), utterances)
        after = self.conversation.posterior(utterances, batch.end_counts)
        drawn, heard = draw(after), self.conversation.drop(utterances, dropped)
        beside = drawn[:, None].expand(-1, heard.shape[1], -1)
        first = self.conversation.first_states(drawn)
        contexts = self.encoder.contexts(torch.cat([self._with_predictions(heard), beside], dim=-1), first)
        return DialogueStates(utterances, torch.cat([contexts, beside], dim=-1), heard, after)

    def _with_predictions(self, heard: Tensor) -> Tensor:
        """Return vectors of turns with what heads predict of them, where the context hears it."""
        return heard if self.heads is None else self.heads.inputs_with(heard)

    def condition(self, contexts: Tensor, utterances: Tensor, latent: Tensor | None) -> Tensor:
        """Return what turns are decoded from, (rows, condition); None is the mean of the Gaussian before the turn."""
        if self.latent is None:
            return torch.cat([contexts, utterances], dim=-1)
        if latent is None:
            latent = self.latent.prior(contexts).mean
        return torch.cat([contexts, utterances, latent], dim=-1)

    def decode(self, turns: DecodedTurns, conditions: Tensor) -> Tensor:
        """Return the logits of every step of turns, packed, from conditions in the order of their rows."""
        return self.decoder.logits(self.features(turns, conditions))

    def features(self, turns: DecodedTurns, conditions: Tensor) -> Tensor:
        """Return what the logits of every step come from."""
        device = conditions.device
        pieces = nn.functional.embedding(torch.from_numpy(turns.pieces).to(device), self.embedding)
        inputs = torch.cat([pieces.new_zeros(1, pieces.shape[1]), pieces])
        places, rows = torch.from_numpy(turns.inputs).to(device), torch.from_numpy(turns.rows).to(device)
        return self.decoder.run(inputs, places, rows, turns.counts, conditions)

    @property
    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def new_vhred(config: VhredConfig, seed: int, weight_scale: float | None) -> VhredNetwork:
    """Return a network with initial weights: normal ones, orthogonal recurrent ones, gains of 1 and biases of 0.

    `weight_scale` is the standard deviation of the normal ones; None is one over the root of a matrix's inputs.
    """
    network = VhredNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.rpartition(".")[2].endswith((_GAIN, _SHARE)):
                parameter.fill_(1.0)
            elif name.rpartition(".")[2].endswith("bias"):
                parameter.zero_()
            elif not name.endswith(("gate_weight", "candidate_weight")):
                _draw(parameter, name, generator, weight_scale)
        for cell in (module for module in network.modules() if isinstance(module, GatedCell)):
            for weight in (cell.gate_weight, cell.candidate_weight):
                _draw_orthogonal(weight, cell.units, generator)
    return network


def _draw(parameter: Tensor, name: str, generator: torch.Generator, weight_scale: float | None) -> None:
    """Fill a matrix with normal numbers; linear maps and tables have their inputs last, the matrices of cells first."""
    is_transposed = name.endswith((".weight", "table"))
    inputs = parameter.shape[-1] if is_transposed or name == "embedding" else parameter.shape[-2]
    scale = inputs**-0.5 if weight_scale is None else weight_scale
    parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def _draw_orthogonal(weight: Tensor, units: int, generator: torch.Generator) -> None:
    """Fill square blocks with orthogonal matrices: U of the singular value decomposition of normal numbers."""
    for cell in range(weight.shape[0]):
        for begin in range(0, weight.shape[2], units):
            drawn = torch.randn(units, units, generator=generator)
            weight[cell, :, begin : begin + units] = torch.linalg.svd(drawn)[0]
