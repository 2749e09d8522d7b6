"""Training a rater: its predictions for examples, and the task for the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.nn.model import POSITIVE, BiGRURater
from refaug.rater.training.accuracy import auc
from refaug.rater.training.examples import ExampleBatch, Examples
from refaug.rater.training.loop import (
    VALIDATION_EPOCH,
    BatchResult,
    Task,
    TrainConfig,
    ValidationScores,
    mixed_precision,
)

__all__ = ["TripletPredictions", "accuracy", "predict", "task_of"]


def task_of(model: BiGRURater, examples: Examples, validation: Examples, config: TrainConfig) -> Task[ExampleBatch]:
    """Return the task of a training; the model gets its dropout."""
    model.dropout = config.dropout
    return _RaterTask(model, examples, validation, config.device)


@dataclass(frozen=True)
class _RaterTask:
    """The rater's task: examples, half of them positive, with cross entropy over both of their triplets as the loss."""

    model: BiGRURater
    examples: Examples
    validation: Examples
    device: str

    def evaluate_batch(self, batch: ExampleBatch) -> BatchResult:
        logits, labels = _logits(self.model, batch, self.device)
        right = float((logits.argmax(dim=1) == labels).float().mean())
        return BatchResult(nn.functional.cross_entropy(logits, labels), right, len(batch.labels) // 2)

    def validate(self) -> ValidationScores:
        predictions = predict(self.model, self.validation, self.device)
        return ValidationScores(predictions.loss, accuracy(predictions), auc(predictions.first, predictions.positive))


def _logits(model: BiGRURater, batch: ExampleBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return logits of a batch's triplets in single precision, and their labels."""
    tokens, triplets = torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.triplets).to(device)
    labels = torch.from_numpy(batch.labels).to(device)
    with mixed_precision(device):
        logits = model(tokens, torch.from_numpy(batch.lengths), triplets)
    return logits.float(), labels


class TripletPredictions(NamedTuple):
    """P(positive) of both triplets of examples, and whether the examples are positive."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    positive: NDArray[np.bool_]
    loss: float


def predict(
    model: BiGRURater, examples: Examples, device: str = "cpu", epoch: int = VALIDATION_EPOCH
) -> TripletPredictions:
    """Predict the examples of an epoch, in the order of its batches."""
    model.eval()
    first, second, positive, losses = [], [], [], 0.0
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            logits, labels = _logits(model, batch, device)
            losses += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
            likely = torch.softmax(logits.double(), dim=1)[:, POSITIVE].cpu().numpy()
            half = len(likely) // 2
            first.append(likely[:half])
            second.append(likely[half:])
            positive.append(batch.labels[:half] == POSITIVE)
    first_likely, second_likely, is_positive = np.concatenate(first), np.concatenate(second), np.concatenate(positive)
    return TripletPredictions(first_likely, second_likely, is_positive, losses / (2 * len(is_positive)))


def accuracy(predictions: TripletPredictions) -> float:
    """Return the share of examples that the more confident of the two triplets gets right."""
    confident = np.where(
        np.abs(predictions.first - 0.5) >= np.abs(predictions.second - 0.5), predictions.first, predictions.second
    )
    return float(((confident > 0.5) == predictions.positive).mean())
