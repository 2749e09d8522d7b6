"""Prediction-powered means beside ppi-python, each on the same rows, in a process with the packages of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_library import packages, printed  # noqa: F401  a fixture

BOTH = """
import json
import numpy as np
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from scipy import stats
from refaug.metrics.statistics.prediction_powered import powered_difference, powered_mean

def theirs(labels, scores):
    n = int((~np.isnan(labels)).sum())
    rows = labels[:n], scores[:n], scores[n:]
    low, high = (float(np.ravel(end)[0]) for end in ppi_mean_ci(*rows, alpha=0.05))
    return [float(np.ravel(ppi_mean_pointestimate(*rows))[0]), (high - low) / 2]

def ours(estimated):
    n = estimated.labelled
    student = stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975) * np.sqrt(n / (n - 1))  # what ours are wider by
    return [estimated.powered.value, estimated.half_width / student]

found = []
for seed in range(5):
    for n, more in ((30, 1000), (50, 400), (100, 100), (300, 3000)):
        random = np.random.default_rng([seed, n])
        quality = random.normal(size=n + more)
        systems = []
        for better in (0.0, 0.4):
            worth = quality + better + random.normal(size=n + more)
            labels = worth + 0.5 * random.normal(size=n + more)
            labels[n:] = np.nan
            systems.append((labels, 2 * (worth + 0.9 * random.normal(size=n + more))))
        (first, judged), (second, other) = systems
        mean, gap = powered_mean(first, judged), powered_difference((first, second), (judged, other))
        found.append(["mean", mean.weight, ours(mean), theirs(first, judged)])
        found.append(["difference", gap.weight, ours(gap), theirs(first - second, judged - other)])
print(json.dumps(found))
"""


def test_means_and_differences_are_those_of_ppi_python(packages: str, tmp_path: Path) -> None:  # noqa: F811
    compared = json.loads(printed(BOTH, packages, tmp_path).splitlines()[-1])
    assert len(compared) == 40
    for kind, weight, ours, theirs in compared:
        assert 0 < weight < 1, "ppi-python ends it at 1, and draws none outside"
        assert ours == pytest.approx(theirs, rel=1e-9), kind
