"""Baselines of `reproduce metrics`: each at the setting that is best for it, by the correlation that is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from proofs import tiny_set

from refaug.extras.reproduction.figures.main_lines import PENALTIES, SMOOTHINGS, line_at_best
from refaug.extras.reproduction.material.reference_kinds import scores_of
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL, partial_spearman, spearman


@pytest.mark.parametrize("kind", ["spearman", PARTIAL])
def test_no_setting_of_a_baseline_beats_the_one_it_is_shown_at(kind: str) -> None:
    one = tiny_set("first", 15).with_first_gold()

    def value(scores: np.ndarray) -> float:
        ratings, lengths, scores = one.ratings[one.fair], one.lengths[one.fair], scores[one.fair]
        found = partial_spearman(scores, ratings, lengths) if kind == PARTIAL else spearman(scores, ratings)
        return found.value or 0.0

    best = line_at_best([one], "best", "bleu", PENALTIES, kind)

    tried = [value(scores_of(one, build(f"bleu:smooth={s},bp={bp}"))) for s in SMOOTHINGS for bp in PENALTIES]
    assert value(best.scores[one.name][0]) == max(tried) > min(tried)
