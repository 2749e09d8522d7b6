"""Training RUBER's unreferenced part: the true reply is to be scored above one from elsewhere, by a margin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.progress import Progress
from rater.embeddings import put_embeddings
from rater.figures import auc
from rater.loop import Course, Measured, OnEpoch, OnNow, Taken, TrainConfig, run
from rater.ruber_examples import PairBatch, PairCorpus, PairExamples
from rater.ruber_model import RuberConfig, RuberNetwork

_VALIDATION_EPOCH: Final = 0  # its replies from elsewhere are the same after every epoch
_BINS: Final = 40

Scores = NDArray[np.float64]


def first_network(config: RuberConfig, seed: int, embeddings: Path | None) -> RuberNetwork:
    """The network with its first weights, its embeddings from a file or drawn as well."""
    torch.manual_seed(seed)
    model = RuberNetwork(config)
    if embeddings is not None:
        put_embeddings(model.embedding, embeddings)
    return model


def train_network(
    model: RuberNetwork,
    examples: PairExamples,
    validation: PairExamples,
    margin: float,
    config: TrainConfig,
    folder: Path,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
) -> Course:
    """Train until the validation loss has not fallen for a while; what `folder` has from a stopped run is gone on with.

    The model comes with its first weights, and is changed: in the end it has those of the best epoch.
    """
    model.dropout = config.dropout
    return run(
        _Relating(model, examples, validation, margin, config.device), config, folder, progress, on_now, on_epoch
    )


def ranking_loss(good: Tensor, other: Tensor, margin: float) -> Tensor:
    """max(0, Δ − s(q, r) + s(q, r⁻)) of each pair; not a number where a score is none."""
    return torch.relu(margin - good + other)


@dataclass(frozen=True)
class _Relating:
    """The task: pairs, and how far the true reply is scored above one from elsewhere."""

    model: RuberNetwork
    examples: PairExamples
    validation: PairExamples
    margin: float
    device: str

    @property
    def of_an_epoch(self) -> int:
        return self.examples.of_an_epoch

    def batch_count(self) -> int:
        return self.examples.batch_count()

    def batches(self, number: int, *, skip: int = 0) -> Iterator[PairBatch]:
        return self.examples.batches(number, skip=skip)

    def taken(self, batch: PairBatch) -> Taken:
        good, other = (logits.sigmoid() for logits in _logits(self.model, batch, self.device))
        loss = ranking_loss(good, other, self.margin).mean()
        return Taken(loss, float((good > other).float().mean()), len(batch.rows))

    def measured(self) -> Measured:
        found = answers(self.model, self.validation, self.device)
        return Measured(found.loss(self.margin), found.accuracy, found.auc)


def _logits(model: RuberNetwork, batch: PairBatch, device: str) -> tuple[Tensor, Tensor]:
    """Logits (pairs,) of the true replies and of those from elsewhere, in single precision."""
    rows = torch.from_numpy(batch.rows).to(device)
    in_halves = device == "cuda" and torch.cuda.is_bf16_supported()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=in_halves):
        utterances = model.read_utterances(
            torch.from_numpy(batch.utterances).to(device), torch.from_numpy(batch.utterance_lengths)
        )[rows[:, 0]]
        replies = model.read_replies(torch.from_numpy(batch.replies).to(device), torch.from_numpy(batch.reply_lengths))
        good, other = (model.judge(utterances, replies[rows[:, place]]) for place in (1, 2))
    return good.float(), other.float()


# What is known of it


class Answers(NamedTuple):
    """The scores of true replies, and of one from elsewhere to the same utterance each."""

    good: Scores
    other: Scores

    @property
    def accuracy(self) -> float:
        """The share of pairs whose true reply is scored above the other one; equal is not above."""
        return float((self.good > self.other).mean())

    @property
    def auc(self) -> float:
        """The chance that a true reply is scored above one from elsewhere, whatever the utterances, ties half."""
        return auc(np.concatenate(self), np.arange(2 * len(self.good)) < len(self.good))

    def loss(self, margin: float) -> float:
        """The mean ranking loss."""
        return float(ranking_loss(torch.from_numpy(self.good), torch.from_numpy(self.other), margin).mean())


def answers(
    model: RuberNetwork, examples: PairExamples, device: str = "cpu", epoch: int = _VALIDATION_EPOCH
) -> Answers:
    """What the network says to the pairs of an epoch, in the order of its batches."""
    model.eval()
    good, other = list[Scores](), list[Scores]()
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            for kept, logits in zip((good, other), _logits(model, batch, device), strict=True):
                kept.append(logits.double().sigmoid().cpu().numpy())
    return Answers(np.concatenate(good), np.concatenate(other))


def report_of(model: RuberNetwork, course: Course, validation: PairExamples, margin: float) -> dict[str, Any]:
    """What is known of the network, all on utterances that it was not trained on."""
    found = answers(model, validation)
    edges = np.linspace(0, 1, _BINS + 1)
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(one) for one in course.epochs],
        "validation_loss": found.loss(margin),
        "ranking_accuracy": found.accuracy,
        "auc_good_vs_wrong": found.auc,
        "mean_score": {"good": float(found.good.mean()), "wrong": float(found.other.mean())},
        "scores": {
            "edges": edges.round(6).tolist(),
            "good": np.histogram(found.good, edges)[0].tolist(),
            "wrong": np.histogram(found.other, edges)[0].tolist(),
        },
    }


def statistics_of(corpus: PairCorpus, examples: PairExamples) -> dict[str, Any]:
    """What a side is made of: how many pairs, of how many utterances and dialogues, how long their texts, in pieces."""
    rows, lengths = examples.rows, np.diff(corpus.start)
    return {
        "pairs": len(rows),
        "without_reply_from_elsewhere": examples.without,
        "an_epoch": examples.of_an_epoch,
        "utterances": len(np.unique(corpus.asked[rows])),
        "dialogues": len(np.unique(corpus.dialogue[rows])),
        "pieces": {
            name: {"mean": round(float(some.mean()), 2), "median": float(np.median(some)), "most": int(some.max())}
            for name, some in (
                ("utterances", lengths[corpus.utterance[rows]]),
                ("replies", lengths[corpus.reply[rows]]),
            )
        },
    }
