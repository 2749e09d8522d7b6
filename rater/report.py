"""What is known of a trained rater, all on utterances that it was not trained on; and what its examples are like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rater.examples import Corpus, Examples, ExampleSettings
from rater.figures import auc, calibration_error, fitted_temperature, reliability, with_temperature
from rater.hard import Hard
from rater.mining import LEAST_UTTERANCES, open_corpus
from rater.model import BiGRURater
from rater.train import Answers, Trained, answers

_RATING_BINS: Final = 40
_READ: Final = 100  # hard negatives that are looked at for how many of them would do as responses


def report_of(trained: Trained, validation: Examples) -> dict[str, Any]:
    """What is known of the network, all on utterances that it was not trained on."""
    found = answers(trained.model, validation)
    temperature = fitted_temperature(
        np.concatenate([found.first, found.second]), np.concatenate([found.positive, found.positive])
    )
    cooler = with_temperature(found.first, temperature)
    best = trained.epochs[trained.best_epoch - 1]
    return {
        "parameters": trained.model.parameter_count,
        "best_epoch": trained.best_epoch,
        "epochs": [asdict(one) for one in trained.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "auc_good_vs_wrong": auc(found.first, found.positive),
        "temperature": temperature,
        "calibration": {
            "raw": {
                "error": calibration_error(found.first, found.positive),
                "bins": [asdict(one) for one in reliability(found.first, found.positive)],
            },
            "cal": {
                "error": calibration_error(cooler, found.positive),
                "bins": [asdict(one) for one in reliability(cooler, found.positive)],
            },
        },
        "ratings": _histogram(found),
    }


def _histogram(found: Answers) -> dict[str, Any]:
    """How often which rating is given to good and to wrong responses."""
    edges = np.linspace(-1, 1, _RATING_BINS + 1)
    return {
        "edges": edges.round(6).tolist(),
        "good": np.histogram(2 * found.first[found.positive] - 1, edges)[0].tolist(),
        "wrong": np.histogram(2 * found.first[~found.positive] - 1, edges)[0].tolist(),
    }


def statistics_of(corpus: Corpus, examples: Examples) -> dict[str, Any]:
    """What a split is made of: how many, how many responses an utterance has, how long texts are, in pieces."""
    first, after = corpus.first[examples.utterances], corpus.first[examples.utterances + 1]
    lengths = np.diff(corpus.start)
    is_response = np.ones(len(lengths), np.bool_)
    is_response[corpus.first[:-1]] = False
    mine_too = np.zeros(len(lengths) + 1, np.int64)
    np.add.at(mine_too, first, 1)
    np.add.at(mine_too, after, -1)
    of_split = np.cumsum(mine_too[:-1]) > 0
    responses, how_often = np.unique(after - first - 1, return_counts=True)
    return {
        "utterances": len(examples.utterances),
        "positive": examples.positive_count,
        "an_epoch": examples.of_an_epoch,
        "responses": {str(count): int(times) for count, times in zip(responses, how_often, strict=True)},
        "pieces": {
            name: {"mean": round(float(some.mean()), 2), "median": float(np.median(some)), "most": int(some.max())}
            for name, some in (
                ("utterances", lengths[of_split & ~is_response]),
                ("responses", lengths[of_split & is_response]),
            )
        },
    }


def of_short(model: BiGRURater, settings: ExampleSettings, folder: Path, found: Mapping[str, Any]) -> dict[str, Any]:
    """How well right and wrong responses to short utterances are told apart; None where there are too few."""
    said = {name: found[name] for name in ("utterances", "positive_pairs")}
    if found["utterances"] < LEAST_UTTERANCES:
        return {**said, "auc_good_vs_wrong": None}
    examples = Examples(open_corpus(folder), "all", replace(settings, limit=None), model.config.max_tokens)
    answered = answers(model, examples)
    return {**said, "auc_good_vs_wrong": auc(answered.first, answered.positive)}


def of_hard(model: BiGRURater, corpus: Corpus, settings: ExampleSettings, hard: Hard) -> dict[str, Any] | None:
    """How well hard negatives on the validation side are told from good responses; None where there are too few.

    Some hard negatives would do as responses. Their share is the one that the rater takes for good, in place of a
    reader, of a hundred drawn ones.
    """
    wanted = replace(settings, negatives="hard", limit=None)
    examples = Examples(corpus, "validation", wanted, model.config.max_tokens, hard.partners, all_hard=True)
    if examples.positive_count < _READ or not examples.has_negatives:
        return None
    found = answers(model, examples)
    read = np.random.default_rng(settings.seed).choice(found.first[~found.positive], _READ, replace=False)
    return {
        "examples": examples.of_an_epoch,
        "auc_good_vs_hard": auc(found.first, found.positive),
        "taken_for_good": float((read > 0.5).mean()),
        "without_partner": hard.without_partner,
    }
