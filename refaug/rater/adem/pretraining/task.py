"""Pre-training as a task of the shared loop, and what validates it: the bound, and true contexts against drawn ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.adem.pretraining.windows import DialogueWindows, WindowBatch
from refaug.rater.adem.vhred.encoder import Turns
from refaug.rater.adem.vhred.latent import divergence
from refaug.rater.adem.vhred.likelihood import piece_log_likelihoods
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.training.loop import VALIDATION_EPOCH, BatchResult, ValidationScores, mixed_precision, seed_from

# ── the objective of pre-training: the bound on the likelihood of all turns of dialogues ──────────────────────────────


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


# ── pre-training as a task of the shared loop, and what validates it ──────────────────────────────────────────────────

_COMPARED: Final = 1_000  # replies with their context and with a drawn one


class HeldOutFigures(NamedTuple):
    """How well a network predicts dialogues that it was not trained on, in nats."""

    loss: float  # of a piece or an end: the bound, with the whole divergence
    nll: float  # the same without the divergence
    nll_with_context: float  # of turns that follow another one
    nll_without_context: float  # of first turns
    divergence: float  # of a turn
    accuracy: float  # share of pieces and ends that are the likeliest
    pieces: int


@dataclass(frozen=True)
class PretrainingTask:
    """Windows of dialogues, with the bound on their likelihood as the loss."""

    model: VhredNetwork
    examples: DialogueWindows
    validation: DialogueWindows
    kl_steps: int
    device: str

    def evaluate_batch(self, batch: WindowBatch) -> BatchResult:
        """Return the cost of a batch; its number decides the noise and the weight of the divergence."""
        noise = draw_noise(self.model, batch, self.examples.settings.seed, self.device)
        terms = bound_terms(self.model, batch, noise, self.device)
        cost = terms.cost(kl_weight(batch.number, self.kl_steps), batch.window_count)
        return BatchResult(cost, float(terms.right.float().mean()), batch.window_count)

    def validate(self) -> ValidationScores:
        """Return the bound a piece, the share of right pieces, and how often the true context is the better one."""
        figures = held_out_figures(self.model, self.validation, self.device)
        return ValidationScores(figures.loss, figures.accuracy, discrimination(self.model, self.validation))


def held_out_figures(network: VhredNetwork, windows: DialogueWindows, device: str = "cpu") -> HeldOutFigures:
    """Measure a network on the windows that validate."""
    network.eval()
    sums, counts = np.zeros(2), np.zeros(2)  # turns with a context, first turns
    divergences, turns, right = 0.0, 0, 0
    with torch.inference_mode():
        for batch in windows.batches(VALIDATION_EPOCH):
            terms = bound_terms(network, batch, draw_noise(network, batch, windows.settings.seed, device), device)
            side = batch.is_first[batch.turns.rows].astype(np.int64)
            sums += np.bincount(side, weights=terms.losses.double().cpu().numpy(), minlength=2)
            counts += np.bincount(side, minlength=2)
            divergences += float(terms.divergences.double().sum())
            turns += len(batch.before)
            right += int(terms.right.sum())
    pieces = int(counts.sum())
    return HeldOutFigures(
        loss=float(sums.sum() + divergences) / pieces,
        nll=float(sums.sum()) / pieces,
        nll_with_context=float(sums[0] / counts[0]),
        nll_without_context=float(sums[1] / counts[1]),
        divergence=divergences / turns,
        accuracy=right / pieces,
        pieces=pieces,
    )


def discrimination(network: VhredNetwork, windows: DialogueWindows, count: int = _COMPARED) -> float:
    """Return the share of held-out replies that their context makes likelier than a drawn one does, ties half."""
    network.eval()
    chosen = windows.sample(count)
    contexts, replies = list[Turns](), list[NDArray[np.int64]]()
    for first, turns in zip(chosen.first.tolist(), chosen.turns.tolist(), strict=True):
        *context, reply = windows.turns_of(first, turns)
        contexts.append(context)
        replies.append(reply)
    drawn = np.roll(np.arange(len(replies)), len(replies) // 2)
    true_logs, drawn_logs = (
        np.array([logs.sum() for logs in piece_log_likelihoods(network, of, replies)])
        for of in (contexts, [contexts[at] for at in drawn])
    )
    return float(np.mean((true_logs > drawn_logs) + 0.5 * (true_logs == drawn_logs)))
