"""Pre-training as a task of the shared loop, and what validates it: the bound, and true contexts against drawn ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.rater.adem.pretraining.objective import bound_terms, draw_noise, kl_weight
from refaug.rater.adem.pretraining.windows import DialogueWindows, WindowBatch
from refaug.rater.adem.vhred.encoder import Turns
from refaug.rater.adem.vhred.likelihood import piece_log_likelihoods
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.training.loop import VALIDATION_EPOCH, BatchResult, ValidationScores

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
