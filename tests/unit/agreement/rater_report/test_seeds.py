"""Versions of a rater that differ in their seed alone are found, and their figures added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refaug.agreement.rater_report.seeds import with_other_seeds
from refaug.core.artefacts.versions import Versions
from refaug.core.files import write_json


def written(raters: Versions, version: str, *, seed: int, auc: float, **training: Any) -> dict[str, Any]:
    """Write what a report needs of a version."""
    folder = raters.root / "chat" / version
    folder.mkdir(parents=True)
    report = {"auc_good_vs_wrong": auc, "validation_accuracy": auc - 0.1, "validation_loss": 1 - auc}
    details = {
        "logs": {"chat": ["abc"]},
        "shared": {"min_words": 4, "seed": seed},
        "examples": {"batch": 128, "seed": seed},
        "training": {"epochs": 2, "threads": seed, "seed": seed, **training},
    }
    write_json(folder / "manifest.json", {"config": {"hidden": 64}, "details": details})
    write_json(folder / "report.json", report)
    return report


def test_the_spread_is_over_versions_that_differ_in_nothing_but_their_seed(tmp_path: Path) -> None:
    raters = Versions(tmp_path, "rater")
    own = written(raters, "2026-01-01.1", seed=1, auc=0.8)
    written(raters, "2026-01-01.2", seed=2, auc=0.83)
    written(raters, "2026-01-01.3", seed=2, auc=0.83)  # trained again
    written(raters, "2026-01-01.4", seed=3, auc=0.81)
    written(raters, "2026-01-01.5", seed=4, auc=0.99, epochs=5)
    report = with_other_seeds(own, raters, "chat", "2026-01-01.1")
    assert report["seeds"]["seeds"] == [1, 2, 3]
    figures = report["seeds"]["figures"]
    assert figures["auc_good_vs_wrong"]["values"] == [0.8, 0.83, 0.81]
    for name, offset in (("auc_good_vs_wrong", 0.0), ("validation_accuracy", -0.1)):
        values = np.array([0.8, 0.83, 0.81]) + offset
        assert figures[name]["mean"] == pytest.approx(values.mean())
        assert figures[name]["sd"] == pytest.approx(np.sqrt(((values - values.mean()) ** 2).sum() / 2))


def test_one_seed_has_no_spread_and_a_spread_of_its_own_stays(tmp_path: Path) -> None:
    raters = Versions(tmp_path, "rater")
    own = written(raters, "2026-01-01.1", seed=1, auc=0.8)
    written(raters, "2026-01-01.2", seed=2, auc=0.83, dropout=0.5)
    assert with_other_seeds(own, raters, "chat", "2026-01-01.1") == own
    of_heads = {**own, "seeds": {"seeds": [1, 2]}}
    assert with_other_seeds(of_heads, raters, "chat", "2026-01-01.1") is of_heads
