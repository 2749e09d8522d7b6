"""The report of a trained cross rater: its quality on held-out utterances, and statistics of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from scipy.special import expit

from refaug.rater.cross.examples import DIALOGUE, HARD, KIND_NAMES, RANDOM, CrossExamples
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.train import ReplyPredictions, predict
from refaug.rater.training.accuracy import Labels, Probabilities, calibration_error, fit_temperature, reliability
from refaug.rater.training.loop import TrainingCourse
from refaug.rater.training.pair_corpus import PairCorpus

_RATING_BINS: Final = 40


def report_of(model: CrossNetwork, course: TrainingCourse, validation: CrossExamples) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    predictions = _balanced(predict(model, validation))
    likely, positive = expit(predictions.logits), predictions.positive
    temperature = fit_temperature(likely, positive)
    best = course.epochs[course.best_epoch - 1]
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(figures) for figures in course.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "auc_good_vs_wrong": predictions.auc(),
        "auc_by_kind": {
            KIND_NAMES[kind]: predictions.auc(kind)
            for kind in (RANDOM, DIALOGUE, HARD)
            if (predictions.kinds == kind).any()
        },
        "temperature": temperature,
        "calibration": {
            "raw": _calibration(likely, positive),
            "cal": _calibration(expit(predictions.logits / temperature), positive),
        },
        "ratings": _histogram(likely, positive),
    }


def _balanced(predictions: ReplyPredictions) -> ReplyPredictions:
    """Keep as many wrong replies as right ones: probabilities are meant for even chances."""
    wrong = np.flatnonzero(~predictions.positive)
    chosen = np.random.default_rng(0).permutation(wrong)[: int(predictions.positive.sum())]
    rows = np.sort(np.concatenate([np.flatnonzero(predictions.positive), chosen]))
    return ReplyPredictions(predictions.logits[rows], predictions.positive[rows], predictions.kinds[rows])


def _calibration(likely: Probabilities, positive: Labels) -> dict[str, object]:
    return {
        "error": calibration_error(likely, positive),
        "bins": [asdict(bin_) for bin_ in reliability(likely, positive)],
    }


def _histogram(likely: Probabilities, positive: Labels) -> dict[str, object]:
    """Return how often right and wrong replies get which rating."""
    edges = np.linspace(-1, 1, _RATING_BINS + 1)
    return {
        "edges": edges.round(6).tolist(),
        "good": np.histogram(2 * likely[positive] - 1, edges)[0].tolist(),
        "wrong": np.histogram(2 * likely[~positive] - 1, edges)[0].tolist(),
    }


def statistics_of(corpus: PairCorpus, examples: CrossExamples) -> Mapping[str, Any]:
    """Return statistics of a side: its pairs, their utterances and dialogues, and lengths of texts in pieces."""
    rows, lengths = examples.rows, np.diff(corpus.start)
    return {
        "positive": len(rows),
        "an_epoch": examples.epoch_size,
        "utterances": len(np.unique(corpus.asked[rows])),
        "dialogues": len(np.unique(corpus.dialogue[rows])),
        "pieces": {
            name: {"mean": round(float(sizes.mean()), 2), "median": float(np.median(sizes)), "most": int(sizes.max())}
            for name, sizes in (
                ("utterances", lengths[corpus.utterance[rows]]),
                ("responses", lengths[corpus.reply[rows]]),
            )
        },
    }
