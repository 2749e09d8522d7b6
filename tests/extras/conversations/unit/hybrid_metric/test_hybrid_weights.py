"""What a fit leaves behind scores as the fit that left the bot out, and reads back bit for bit."""

from __future__ import annotations

import math

import numpy as np
import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.extras.conversations.hybrid_metric.fit import HybridWeights, leave_one_bot_out

NAMES = ("a", "b", "c", "d", "e", "f")
COLUMNS = ("one", "two", "three")


def study(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    bots = np.repeat(np.arange(6), [9, 14, 8, 20, 11, 10])
    features = random.normal(size=(len(bots), 3)) + random.normal(size=(6, 3))[bots]
    return features, features @ [1.0, -0.5, 0.2] + random.normal(size=len(bots)) + 4, bots


@pytest.mark.parametrize("intercept", ["common", "fold"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_bots_have_the_predictions_of_the_fit_without_them(intercept: str, penalty: float) -> None:
    features, ratings, bots = study()
    options = {"intercept": intercept, "penalty": penalty}
    expected = leave_one_bot_out(features, ratings, bots, **options).predictions(ratings)  # type: ignore[arg-type]
    weights = HybridWeights.of(COLUMNS, features, ratings, bots, NAMES, **options)  # type: ignore[arg-type]
    scores = weights.scores(features, [NAMES[bot] for bot in bots])
    assert [scores[bots == bot].mean() for bot in range(6)] == pytest.approx(expected.tolist(), abs=1e-12)


def test_a_bot_that_was_not_fitted_to_is_scored_by_all() -> None:
    features, ratings, bots = study()
    weights = HybridWeights.of(COLUMNS, features, ratings, bots, NAMES)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    coefficients = np.linalg.lstsq(scaled, ratings - ratings.mean(), rcond=None)[0]
    fresh = np.array([[1.0, 2.0, 3.0], [0.0, math.nan, 1.0]])
    expected = np.nan_to_num((fresh - features.mean(axis=0)) / features.std(axis=0)) @ coefficients
    assert weights.scores(fresh, ["new", "new"]) == pytest.approx(expected)
    centred = weights.scores(fresh, ["new", "new"], centre=np.array([1.0, 2.0, 3.0]))
    assert centred[0] == pytest.approx(0.0)


def test_weights_read_back_bit_for_bit() -> None:
    features, ratings, bots = study()
    weights = HybridWeights.of(COLUMNS, features, ratings, bots, NAMES)
    again = HybridWeights.read(orjson.loads(orjson.dumps(weights.as_json())))
    assert again.as_json() == weights.as_json()
    labels = [NAMES[bot] for bot in bots]
    assert again.scores(features, labels).tolist() == weights.scores(features, labels).tolist()


def test_damaged_weights_are_refused() -> None:
    fields = HybridWeights.of(COLUMNS, *study(), NAMES).as_json()
    with refusing(BadInput, "middle"):
        HybridWeights.read({**fields, "intercept": "middle"})
    with refusing(BadInput):
        HybridWeights.read({**fields, "columns": ["one", "two"]})
    with refusing(BadInput):
        HybridWeights.read({**fields, "all_bots": {**fields["all_bots"], "means": [1.0]}})
