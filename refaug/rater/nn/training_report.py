"""The report of a trained rater: its quality on held-out utterances, and statistics of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.train import TrainedRater, TripletPredictions, predict
from refaug.rater.training.accuracy import apply_temperature, auc, calibration_error, fit_temperature, reliability
from refaug.rater.training.corpus import LEAST_UTTERANCES, open_corpus
from refaug.rater.training.examples import ExampleCorpus, Examples, ExampleSettings
from refaug.rater.training.hard_negatives import HardPartners

_RATING_BINS: Final = 40
_READ: Final = 100  # hard negatives sampled for the share that would do as responses


def report_of(trained: TrainedRater, validation: Examples) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    predictions = predict(trained.model, validation)
    temperature = fit_temperature(
        np.concatenate([predictions.first, predictions.second]),
        np.concatenate([predictions.positive, predictions.positive]),
    )
    cooler = apply_temperature(predictions.first, temperature)
    best = trained.epochs[trained.best_epoch - 1]
    return {
        "parameters": trained.model.parameter_count,
        "best_epoch": trained.best_epoch,
        "epochs": [asdict(figures) for figures in trained.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "auc_good_vs_wrong": auc(predictions.first, predictions.positive),
        "temperature": temperature,
        "calibration": {
            "raw": {
                "error": calibration_error(predictions.first, predictions.positive),
                "bins": [asdict(each) for each in reliability(predictions.first, predictions.positive)],
            },
            "cal": {
                "error": calibration_error(cooler, predictions.positive),
                "bins": [asdict(each) for each in reliability(cooler, predictions.positive)],
            },
        },
        "ratings": _histogram(predictions),
    }


def _histogram(predictions: TripletPredictions) -> dict[str, object]:
    """Return how often good and wrong responses get which rating."""
    edges = np.linspace(-1, 1, _RATING_BINS + 1)
    return {
        "edges": edges.round(6).tolist(),
        "good": np.histogram(2 * predictions.first[predictions.positive] - 1, edges)[0].tolist(),
        "wrong": np.histogram(2 * predictions.first[~predictions.positive] - 1, edges)[0].tolist(),
    }


def statistics_of(corpus: ExampleCorpus, examples: Examples) -> dict[str, object]:
    """Return statistics of a split: its size, responses an utterance, and lengths of texts in pieces."""
    first, after = corpus.first[examples.utterances], corpus.first[examples.utterances + 1]
    lengths = np.diff(corpus.start)
    is_response = np.ones(len(lengths), np.bool_)
    is_response[corpus.first[:-1]] = False
    boundaries = np.zeros(len(lengths) + 1, np.int64)
    np.add.at(boundaries, first, 1)
    np.add.at(boundaries, after, -1)
    of_split = np.cumsum(boundaries[:-1]) > 0
    responses, how_often = np.unique(after - first - 1, return_counts=True)
    return {
        "utterances": len(examples.utterances),
        "positive": examples.positive_count,
        "an_epoch": examples.epoch_size,
        "responses": {str(count): int(times) for count, times in zip(responses, how_often, strict=True)},
        "pieces": {
            name: {"mean": round(float(sizes.mean()), 2), "median": float(np.median(sizes)), "most": int(sizes.max())}
            for name, sizes in (
                ("utterances", lengths[of_split & ~is_response]),
                ("responses", lengths[of_split & is_response]),
            )
        },
    }


def short_report(
    model: BiGRURater, settings: ExampleSettings, folder: Path, counts: Mapping[str, Any]
) -> dict[str, object]:
    """Measure how well the rater separates right and wrong responses to short utterances; None if there are too few."""
    sizes = {name: counts[name] for name in ("utterances", "positive_pairs")}
    if counts["utterances"] < LEAST_UTTERANCES:
        return {**sizes, "auc_good_vs_wrong": None}
    examples = Examples(open_corpus(folder), "all", replace(settings, limit=None), model.config.max_tokens)
    predictions = predict(model, examples)
    return {**sizes, "auc_good_vs_wrong": auc(predictions.first, predictions.positive)}


def hard_report(
    model: BiGRURater, corpus: ExampleCorpus, settings: ExampleSettings, hard: HardPartners
) -> dict[str, object] | None:
    """Measure how well the rater separates hard negatives from good responses in validation; None if there are too few.

    Some hard negatives would do as responses. Their share is estimated by the rater, in place of a reader: of a
    hundred drawn ones, those that it considers good.
    """
    hard_settings = replace(settings, negatives="hard", limit=None)
    examples = Examples(corpus, "validation", hard_settings, model.config.max_tokens, hard.partners, all_hard=True)
    if examples.positive_count < _READ or not examples.has_negatives:
        return None
    predictions = predict(model, examples)
    sampled = np.random.default_rng(settings.seed).choice(
        predictions.first[~predictions.positive], _READ, replace=False
    )
    return {
        "examples": examples.epoch_size,
        "auc_good_vs_hard": auc(predictions.first, predictions.positive),
        "taken_for_good": float((sampled > 0.5).mean()),
        "without_partner": hard.without_partner,
    }
