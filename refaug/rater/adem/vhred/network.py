"""The whole network: embedding, encoder, latent variable and decoder; its bound on the likelihood of dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.vhred.encoder import (
    DialogueBatch,
    DialogueStates,
    GatedCell,
    HierarchicalEncoder,
    Numbers,
    normalise_blocks,
    pack,
)
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


# ── The latent variable of a turn: a diagonal Gaussian before the turn is seen, and one after ─────────────────────────
#
# A layer is tanh(γLN(xW + b)) + γ'LN(xW') + b'. Two of them and two linear maps give mean and variance,
# 0.1·softplus(…), from 0.01 to 10. The Gaussian after the turn is mixed with the one before, dimension by dimension,
# with weights that start at 1: so in the beginning both are equal, and their divergence is 0.

_LEAST_VARIANCE: Final = 0.01
_MOST_VARIANCE: Final = 10.0
_VARIANCE_SCALE: Final = 0.1


class Gaussian(NamedTuple):
    """Diagonal Gaussians, each (rows, size)."""

    mean: Tensor
    variance: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """Return draws, from standard normal noise (rows, size)."""
        return self.mean + self.variance.sqrt() * noise


def divergence(posterior: Gaussian, prior: Gaussian) -> Tensor:
    """Return the Kullback–Leibler divergence of each row from the prior, (rows,), in nats."""
    spread = (posterior.variance + (posterior.mean - prior.mean).square()) / prior.variance
    return 0.5 * (prior.variance.log() - posterior.variance.log() + spread - 1).sum(dim=-1)


class _MixedLayer(nn.Module):
    """A normalised tanh layer beside a normalised linear one."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.curved_weight = nn.Parameter(torch.empty(inputs, units))
        self.curved_bias = nn.Parameter(torch.empty(1, units))
        self.curved_gain = nn.Parameter(torch.empty(1, units))
        self.straight_weight = nn.Parameter(torch.empty(inputs, units))
        self.straight_gain = nn.Parameter(torch.empty(1, units))
        self.straight_bias = nn.Parameter(torch.empty(1, units))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (rows, units)."""
        curved = normalise_blocks(inputs @ self.curved_weight + self.curved_bias, self.curved_gain, self.units)
        straight = normalise_blocks(inputs @ self.straight_weight, self.straight_gain, self.units)
        return torch.tanh(curved) + straight + self.straight_bias


class GaussianLayers(nn.Module):
    """From vectors (rows, inputs) to Gaussians of a size."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.wide, self.narrow = _MixedLayer(inputs, 2 * size), _MixedLayer(2 * size, size)
        self.mean, self.variance = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, inputs: Tensor) -> Gaussian:
        """Return a Gaussian for each row."""
        features = self.narrow(self.wide(inputs))
        variance = _VARIANCE_SCALE * nn.functional.softplus(self.variance(features))
        return Gaussian(self.mean(features), variance.clamp(_LEAST_VARIANCE, _MOST_VARIANCE))


class LatentVariable(nn.Module):
    """The Gaussians of a turn, given the dialogue before it, and given the turn too."""

    def __init__(self, context: int, utterance: int, size: int) -> None:
        super().__init__()
        self.prior_layers = GaussianLayers(context, size)
        self.posterior_layers = GaussianLayers(context + utterance, size)
        self.mean_share = nn.Parameter(torch.empty(size))  # of the prior in the posterior
        self.variance_share = nn.Parameter(torch.empty(size))

    def prior(self, contexts: Tensor) -> Gaussian:
        """Return the Gaussians before the turns are seen."""
        with torch.autocast(contexts.device.type, enabled=False):
            before: Gaussian = self.prior_layers(contexts.to(self.mean_share.dtype))
        return before

    def posterior(self, contexts: Tensor, turns: Tensor, prior: Gaussian) -> Gaussian:
        """Return the Gaussians after the turns are seen, mixed with those before."""
        inputs = torch.cat([contexts, turns], dim=-1).to(self.mean_share.dtype)
        with torch.autocast(inputs.device.type, enabled=False):
            candidate: Gaussian = self.posterior_layers(inputs)
            mean = torch.lerp(candidate.mean, prior.mean, self.mean_share)
            variance = torch.lerp(candidate.variance, prior.variance, self.variance_share)
        return Gaussian(mean, variance.clamp(_LEAST_VARIANCE, _MOST_VARIANCE))


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


class VhredNetwork(nn.Module):
    """A VHRED; without a latent variable, a HRED."""

    def __init__(self, config: VhredConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocabulary, config.embedding))
        self.encoder = HierarchicalEncoder(config)
        self.latent = LatentVariable(config.context, 2 * config.utterance, config.latent) if config.latent else None
        self.decoder = TurnDecoder(config)

    def read(self, batch: DialogueBatch) -> DialogueStates:
        """Return the states of dialogues at the ends of their turns."""
        states: DialogueStates = self.encoder(batch, self.embedding)
        return states

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
