"""Baselines of `reproduce metrics`: each at the setting that is best for it, by the correlation that is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from proofs import tiny_set

from metrics.correlation import PARTIAL, partial_spearman, spearman
from metrics.specification import build
from service.proof.agreement import _PENALTIES, _SMOOTHINGS, _at_best
from service.proof.references import scores_of


@pytest.mark.parametrize("kind", ["spearman", PARTIAL])
def test_no_setting_of_a_baseline_beats_the_one_it_is_shown_at(kind: str) -> None:
    one = tiny_set("first", 15).with_first_gold()

    def value(scores: np.ndarray) -> float:
        ratings, lengths, scores = one.ratings[one.fair], one.lengths[one.fair], scores[one.fair]
        found = partial_spearman(scores, ratings, lengths) if kind == PARTIAL else spearman(scores, ratings)
        return found.value or 0.0

    best = _at_best([one], "best", "bleu", _PENALTIES, kind)

    tried = [value(scores_of(one, build(f"bleu:smooth={s},bp={bp}"))) for s in _SMOOTHINGS for bp in _PENALTIES]
    assert value(best.scores[one.name][0]) == max(tried) > min(tried)
