"""The report of a pre-training: how well held-out dialogues are predicted, and whether the latent variable is used."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import numpy as np

from refaug.rater.adem.pretraining.task import HeldOutFigures, discrimination, held_out_figures
from refaug.rater.adem.pretraining.windows import DialogueWindows
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.training.loop import VALIDATION_EPOCH, TrainingCourse

_LEAST_DIVERGENCE: Final = 0.1  # nats a turn; below, the decoder does without the latent variable


def report_of(
    network: VhredNetwork, course: TrainingCourse, train: DialogueWindows, validation: DialogueWindows
) -> dict[str, object]:
    """Measure a trained network on dialogues that it was not trained on; nll is in nats a piece."""
    figures = held_out_figures(network, validation)
    return {
        "parameters": network.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(epoch) for epoch in course.epochs],
        "dialogues": {"train": train.dialogue_count, "validation": validation.dialogue_count},
        "windows": {"train": train.window_count, "validation": validation.window_count},
        "held_out_pieces": figures.pieces,
        "validation_loss": figures.loss,
        "nll": figures.nll,
        "nll_with_context": figures.nll_with_context,
        "nll_without_context": figures.nll_without_context,
        "unigram_nll": unigram_nll(train, validation, network.config.vocabulary),
        "next_piece_accuracy": figures.accuracy,
        "kl": figures.divergence,
        "latent": latent_state(network, figures),
        "discrimination": discrimination(network, validation),
    }


def latent_state(network: VhredNetwork, figures: HeldOutFigures) -> str:
    """Return a word for what became of the latent variable."""
    if network.latent is None:
        return "none"
    return "collapsed" if figures.divergence < _LEAST_DIVERGENCE else "used"


def unigram_nll(train: DialogueWindows, validation: DialogueWindows, vocabulary: int) -> float:
    """Return −log p of a held-out piece by the counts of pieces in training, each counted once more, in nats."""
    counts = np.ones(vocabulary)
    np.add.at(counts, vocabulary - 1, train.turn_count)
    counts[: vocabulary - 1] += train.piece_counts(vocabulary - 1)
    logs = np.log(counts / counts.sum())
    targets = [batch.turns.targets for batch in validation.batches(VALIDATION_EPOCH)]
    return float(-logs[np.concatenate(targets)].mean())
