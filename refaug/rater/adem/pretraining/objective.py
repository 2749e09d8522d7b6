"""The objective of pre-training: the bound on the likelihood of all turns of dialogues.

Of a turn w with the dialogue c before it, −log p(w | c) is at most E_Q[−log p(w | z, c)] + KL(Q(z | w, c) ‖ P(z | c));
the expectation is estimated with a single draw of z. In training the divergence counts more from step to step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from refaug.rater.adem.pretraining.windows import WindowBatch
from refaug.rater.adem.vhred.latent import divergence
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.training.loop import mixed_precision, seed_from


class BoundTerms(NamedTuple):
    """The terms of the bound for the turns of a batch."""

    losses: Tensor  # (all steps,): −log p of each piece and of each end, in nats, packed as the turns are
    divergences: Tensor  # (turns,), in nats; zeros without a latent variable
    right: Tensor  # (all steps,): whether the likeliest piece is the true one

    def cost(self, weight: float, windows: int) -> Tensor:
        """Return the sum of all terms over the number of windows, with this weight of the divergence."""
        return (self.losses.sum() + weight * self.divergences.sum()) / windows


def kl_weight(step: int, kl_steps: int) -> float:
    """Return the weight of the divergence in a step: from 0, linearly to 1 after so many steps."""
    return 1.0 if kl_steps <= 0 else min(1.0, step / kl_steps)


def bound_terms(network: VhredNetwork, batch: WindowBatch, noise: Tensor | None, device: str) -> BoundTerms:
    """Return the terms of the bound; `noise` (turns, latent) is standard normal, None without a latent variable."""
    with mixed_precision(device):
        states = network.read(batch.dialogues)
        before = torch.from_numpy(batch.before).to(device)
        contexts, utterances = states.contexts.flatten(0, 1), states.utterances.flatten(0, 1)
        context, utterance = (nn.functional.embedding(before, each) for each in (contexts, utterances))
        latent, divergences = None, context.new_zeros(len(before))
        if network.latent is not None and noise is not None:
            prior = network.latent.prior(context)
            posterior = network.latent.posterior(context, nn.functional.embedding(before + 1, utterances), prior)
            latent, divergences = posterior.sample(noise), divergence(posterior, prior)
        logits = network.decode(batch.turns, network.condition(context, utterance, latent))
    targets = torch.from_numpy(batch.turns.targets).to(device)
    losses = nn.functional.cross_entropy(_single(logits), targets, reduction="none")
    return BoundTerms(losses, _single(divergences), logits.argmax(dim=1) == targets)


def _single(tensor: Tensor) -> Tensor:
    """Return a tensor in single precision at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def draw_noise(network: VhredNetwork, batch: WindowBatch, seed: int, device: str) -> Tensor | None:
    """Return noise for the turns of a batch, which its number and the seed determine on a device."""
    if network.latent is None:
        return None
    generator = torch.Generator(device).manual_seed(seed_from([seed, 4, batch.number]))
    shape = (len(batch.before), network.config.latent)
    return torch.randn(shape, generator=generator, device=device)
