"""Diagonal Gaussians, the layers that give them, and the latent variable of a turn."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from refaug.rater.adem.vhred.encoder import normalise_blocks

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


def standard_like(gaussian: Gaussian) -> Gaussian:
    """Return standard Gaussians in the shape of others."""
    return Gaussian(torch.zeros_like(gaussian.mean), torch.ones_like(gaussian.variance))


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

    def __init__(self, inputs: int, size: int, *, variance_scale: float = _VARIANCE_SCALE) -> None:
        super().__init__()
        self._variance_scale = variance_scale
        self.wide, self.narrow = _MixedLayer(inputs, 2 * size), _MixedLayer(2 * size, size)
        self.mean, self.variance = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, inputs: Tensor) -> Gaussian:
        """Return a Gaussian for each row."""
        features = self.narrow(self.wide(inputs))
        variance = self._variance_scale * nn.functional.softplus(self.variance(features))
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
