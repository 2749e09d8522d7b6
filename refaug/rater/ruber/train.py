"""Training RUBER's unreferenced part: the true reply must score above a negative one, by a margin."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.progress import Progress
from refaug.rater.ruber.examples import PairBatch, PairExamples
from refaug.rater.ruber.model import RuberNetwork
from refaug.rater.training import loop
from refaug.rater.training.accuracy import auc
from refaug.rater.training.pair_corpus import PairCorpus

_BINS: Final = 40

Scores = NDArray[np.float64]


def train_network(
    model: RuberNetwork,
    examples: PairExamples,
    validation: PairExamples,
    margin: float,
    config: loop.TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: loop.OnNow = lambda _now: None,
    on_epoch: loop.OnEpoch = lambda _figures: None,
) -> loop.TrainingCourse:
    """Train until the validation loss stops falling; continue from a checkpoint in `folder` if there is one.

    The training changes the model: in the end it has the weights of the best epoch.
    """
    model.dropout = config.dropout
    return loop.run(
        _RuberTask(model, examples, validation, margin, config.device), config, folder, progress, on_now, on_epoch
    )


def ranking_loss(good: Tensor, other: Tensor, margin: float) -> Tensor:
    """Return max(0, Δ − s(q, r) + s(q, r⁻)) for each pair; nan if a score is nan."""
    return torch.relu(margin - good + other)


@dataclass(frozen=True)
class _RuberTask:
    """The task: pairs, and how far the true reply scores above a negative one."""

    model: RuberNetwork
    examples: PairExamples
    validation: PairExamples
    margin: float
    device: str

    def evaluate_batch(self, batch: PairBatch) -> loop.BatchResult:
        good, other = (logits.sigmoid() for logits in _logits(self.model, batch, self.device))
        loss = ranking_loss(good, other, self.margin).mean()
        return loop.BatchResult(loss, float((good > other).float().mean()), len(batch.rows))

    def validate(self) -> loop.ValidationScores:
        scores = score_pairs(self.model, self.validation, self.device)
        return loop.ValidationScores(scores.loss(self.margin), scores.accuracy, scores.auc)


def _logits(model: RuberNetwork, batch: PairBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return logits (pairs,) of the true and of the negative replies, in single precision."""
    rows = torch.from_numpy(batch.rows).to(device)
    with loop.mixed_precision(device):
        utterances = model.read_utterances(
            torch.from_numpy(batch.utterances).to(device), torch.from_numpy(batch.utterance_lengths)
        )[rows[:, 0]]
        replies = model.read_replies(torch.from_numpy(batch.replies).to(device), torch.from_numpy(batch.reply_lengths))
        good, other = (model.judge(utterances, replies[rows[:, place]]) for place in (1, 2))
    return good.float(), other.float()


# Its quality


class PairScores(NamedTuple):
    """The scores of true replies, each with the score of a negative reply to the same utterance."""

    good: Scores
    other: Scores

    @property
    def accuracy(self) -> float:
        """The share of pairs whose true reply scores above the negative one; equal is not above."""
        return float((self.good > self.other).mean())

    @property
    def auc(self) -> float:
        """The probability that a true reply scores above a negative one of any utterance, counting ties half."""
        return auc(np.concatenate(self), np.arange(2 * len(self.good)) < len(self.good))

    def loss(self, margin: float) -> float:
        """Return the mean ranking loss."""
        return float(ranking_loss(torch.from_numpy(self.good), torch.from_numpy(self.other), margin).mean())


def score_pairs(
    model: RuberNetwork, examples: PairExamples, device: str = "cpu", epoch: int = loop.VALIDATION_EPOCH
) -> PairScores:
    """Score the pairs of an epoch, in the order of its batches."""
    model.eval()
    good, other = list[Scores](), list[Scores]()
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            for scores, logits in zip((good, other), _logits(model, batch, device), strict=True):
                scores.append(logits.double().sigmoid().cpu().numpy())
    return PairScores(np.concatenate(good), np.concatenate(other))


def report_of(
    model: RuberNetwork, course: loop.TrainingCourse, validation: PairExamples, margin: float
) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    scores = score_pairs(model, validation)
    edges = np.linspace(0, 1, _BINS + 1)
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(figures) for figures in course.epochs],
        "validation_loss": scores.loss(margin),
        "ranking_accuracy": scores.accuracy,
        "auc_good_vs_wrong": scores.auc,
        "mean_score": {"good": float(scores.good.mean()), "wrong": float(scores.other.mean())},
        "scores": {
            "edges": edges.round(6).tolist(),
            "good": np.histogram(scores.good, edges)[0].tolist(),
            "wrong": np.histogram(scores.other, edges)[0].tolist(),
        },
    }


def statistics_of(corpus: PairCorpus, examples: PairExamples) -> dict[str, object]:
    """Return statistics of a side: pairs, utterances, dialogues, and lengths of texts in pieces."""
    rows, lengths = examples.rows, np.diff(corpus.start)
    return {
        "pairs": len(rows),
        "without_reply_from_elsewhere": examples.unmatched_count,
        "an_epoch": examples.epoch_size,
        "utterances": len(np.unique(corpus.asked[rows])),
        "dialogues": len(np.unique(corpus.dialogue[rows])),
        "pieces": {
            name: {"mean": round(float(sizes.mean()), 2), "median": float(np.median(sizes)), "most": int(sizes.max())}
            for name, sizes in (
                ("utterances", lengths[corpus.utterance[rows]]),
                ("replies", lengths[corpus.reply[rows]]),
            )
        },
    }
