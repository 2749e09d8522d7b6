"""Training the cross rater: right replies against wrong ones, and hidden pieces to be predicted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.progress import Progress
from refaug.rater.cross.examples import CrossBatch, CrossExamples
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.training import loop
from refaug.rater.training.accuracy import auc

_HIDDEN_SHARE: Final = 0.5  # of the loss of hidden pieces, beside that of replies


def train_network(
    model: CrossNetwork,
    examples: CrossExamples,
    validation: CrossExamples,
    config: loop.TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: loop.OnNow = lambda _now: None,
    on_epoch: loop.OnEpoch = lambda _figures: None,
) -> loop.TrainingCourse:
    """Train until the validation loss stops falling; continue from a checkpoint in `folder` if there is one.

    The training changes the model: in the end it has the weights of the best epoch.
    """
    return loop.run(task_of(model, examples, validation, config), config, folder, progress, on_now, on_epoch)


def task_of(
    model: CrossNetwork, examples: CrossExamples, validation: CrossExamples, config: loop.TrainConfig
) -> loop.Task[CrossBatch]:
    """Return the task of a training; the model gets its dropout."""
    model.dropout = config.dropout
    return _CrossTask(model, examples, validation, config.device)


def balanced_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross entropy in which right and wrong replies weigh the same, however many there are of each."""
    right, wrong = logits[labels > 0], logits[labels == 0]
    return (nn.functional.softplus(-right).mean() + nn.functional.softplus(wrong).mean()) / 2


@dataclass(frozen=True)
class _CrossTask:
    """The task: whether a reply is right, and beside it which pieces are hidden."""

    model: CrossNetwork
    examples: CrossExamples
    validation: CrossExamples
    device: str

    def evaluate_batch(self, batch: CrossBatch) -> loop.BatchResult:
        labels = torch.from_numpy(batch.labels).to(self.device)
        with loop.mixed_precision(self.device):
            states, logits = _read(self.model, batch, self.device)
            hidden = self._hidden_loss(states, batch)
        right = ((logits > 0) == (labels > 0)).float()
        accuracy = (right[labels > 0].mean() + right[labels == 0].mean()) / 2
        return loop.BatchResult(balanced_loss(logits, labels) + _HIDDEN_SHARE * hidden, float(accuracy), batch.examples)

    def _hidden_loss(self, states: Tensor, batch: CrossBatch) -> Tensor:
        """Return the mean cross entropy of the hidden pieces; 0 where none is hidden."""
        if not len(batch.hidden_rows):
            return states.new_zeros(())
        rows, places, pieces = (
            torch.from_numpy(numbers).to(self.device)
            for numbers in (batch.hidden_rows, batch.hidden_places, batch.hidden_pieces)
        )
        return nn.functional.cross_entropy(self.model.predict_pieces(states[rows, places]).float(), pieces)

    def validate(self) -> loop.ValidationScores:
        predictions = predict(self.model, self.validation, self.device)
        return loop.ValidationScores(predictions.loss, predictions.accuracy, predictions.auc())


def _read(model: CrossNetwork, batch: CrossBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return the states of a batch's sequences, and their logits in single precision."""
    tokens, segments, lengths = (torch.from_numpy(numbers).to(device) for numbers in batch.sequences)
    states = model.read(tokens, segments, lengths)
    return states, model.judge(states, segments, lengths).float()


class ReplyPredictions(NamedTuple):
    """Logits of replies, whether they are right, and the kind of the wrong ones."""

    logits: NDArray[np.float64]
    positive: NDArray[np.bool_]
    kinds: NDArray[np.int64]

    @property
    def loss(self) -> float:
        """The balanced cross entropy."""
        logits, labels = torch.from_numpy(self.logits), torch.from_numpy(self.positive.astype(np.float64))
        return float(balanced_loss(logits, labels))

    @property
    def accuracy(self) -> float:
        """The mean share of right and of wrong replies that are recognised."""
        correct = (self.logits > 0) == self.positive
        return float((correct[self.positive].mean() + correct[~self.positive].mean()) / 2)

    def auc(self, kind: int | None = None) -> float:
        """Return the probability that a right reply is above a wrong one, of one kind or of all."""
        counted = self.positive | (~self.positive if kind is None else self.kinds == kind)
        return auc(self.logits[counted], self.positive[counted])


def predict(
    model: CrossNetwork, examples: CrossExamples, device: str = "cpu", epoch: int = loop.VALIDATION_EPOCH
) -> ReplyPredictions:
    """Predict the examples of an epoch, in the order of its batches."""
    model.eval()
    logits, labels, kinds = [], [], []
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            with loop.mixed_precision(device):
                _, judged = _read(model, batch, device)
            logits.append(judged.double().cpu().numpy())
            labels.append(batch.labels > 0)
            kinds.append(batch.kinds)
    return ReplyPredictions(np.concatenate(logits), np.concatenate(labels), np.concatenate(kinds))
