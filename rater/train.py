"""Training a rater: what a network says to examples, right or wrong, and the loop over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.progress import Progress
from rater.examples import Batch, Examples
from rater.figures import auc
from rater.loop import Course, Measured, OnEpoch, OnNow, Taken, TrainConfig, run
from rater.model import POSITIVE, BiGRURater

__all__ = ["Answers", "TrainConfig", "Trained", "accuracy", "answers", "train"]

_VALIDATION_EPOCH: Final = 0  # its examples are the same after every epoch


@dataclass(frozen=True, kw_only=True)
class Trained(Course):
    """The network with the least validation loss, and how it came about."""

    model: BiGRURater


def train(
    model: BiGRURater,
    examples: Examples,
    validation: Examples,
    config: TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
) -> Trained:
    """Train until the validation loss has not fallen for a while; what `folder` has from a stopped run is gone on with.

    The model comes with its first weights, and is changed.
    """
    model.dropout = config.dropout
    course = run(_Rating(model, examples, validation, config.device), config, folder, progress, on_now, on_epoch)
    return Trained(model=model, best_epoch=course.best_epoch, epochs=course.epochs)


@dataclass(frozen=True)
class _Rating:
    """The rater's task: examples, half of them positive, told apart by cross entropy over both of their triplets."""

    model: BiGRURater
    examples: Examples
    validation: Examples
    device: str

    @property
    def of_an_epoch(self) -> int:
        return self.examples.of_an_epoch

    def batch_count(self) -> int:
        return self.examples.batch_count()

    def batches(self, number: int, *, skip: int = 0) -> Iterator[Batch]:
        return self.examples.batches(number, skip=skip)

    def taken(self, batch: Batch) -> Taken:
        logits, labels = _logits(self.model, batch, self.device)
        right = float((logits.argmax(dim=1) == labels).float().mean())
        return Taken(nn.functional.cross_entropy(logits, labels), right, len(batch.labels) // 2)

    def measured(self) -> Measured:
        found = answers(self.model, self.validation, self.device)
        return Measured(found.loss, accuracy(found), auc(found.first, found.positive))


def _logits(model: BiGRURater, batch: Batch, device: str) -> tuple[Tensor, Tensor]:
    """Logits of a batch's triplets in single precision, and their labels."""
    tokens, triplets = torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.triplets).to(device)
    labels = torch.from_numpy(batch.labels).to(device)
    in_halves = device == "cuda" and torch.cuda.is_bf16_supported()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=in_halves):
        logits = model(tokens, torch.from_numpy(batch.lengths), triplets)
    return logits.float(), labels


class Answers(NamedTuple):
    """P(positive) of both triplets of examples, and whether they are positive."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    positive: NDArray[np.bool_]
    loss: float


def answers(model: BiGRURater, examples: Examples, device: str = "cpu", epoch: int = _VALIDATION_EPOCH) -> Answers:
    """What the network says to the examples of an epoch, in the order of its batches."""
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
    one, other, right = np.concatenate(first), np.concatenate(second), np.concatenate(positive)
    return Answers(one, other, right, losses / (2 * len(right)))


def accuracy(found: Answers) -> float:
    """The share of examples that the surer of the two triplets gets right."""
    surer = np.where(np.abs(found.first - 0.5) >= np.abs(found.second - 0.5), found.first, found.second)
    return float(((surer > 0.5) == found.positive).mean())
