"""BLEU before numba is imported: its loops run as Python give the bits of the compiled ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_bleu import PENALTIES, VARIANTS

from refaug.core.kernels.kernel import PlainBudget, compiled, plain_form
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build
from refaug.metrics.words import bleu as bleu_module
from refaug.metrics.words.bleu import Bleu

words = st.lists(st.sampled_from(["a", "b", "c", "d", "the", "é", "猫", ",", "4"]), max_size=12).map(" ".join)
SMOOTH = st.sampled_from(["none", "floor", "floor[1]", "add-k", "add-k[0.2]", "exp", "epsilon"])
weights = st.sampled_from([-1.0, -0.3, 0.0, 0.1, 1 / 3, 0.5, 0.7, 1.0])


@st.composite
def metrics(draw: st.DrawFn) -> Bleu:
    variant = draw(st.sampled_from(sorted(VARIANTS)))
    chosen = {"variant": variant, "n": str(draw(st.integers(1, 4))), "bp": draw(st.sampled_from(sorted(PENALTIES)))}
    if variant != "tsuta20":
        chosen |= {"smooth": draw(SMOOTH), "eff": draw(st.sampled_from(["auto", "yes", "no"]))}
    metric = build("delta-bleu:" + ",".join(f"{name}={setting}" for name, setting in chosen.items()))
    assert isinstance(metric, Bleu)
    return metric


@st.composite
def items(draw: st.DrawFn) -> tuple[list[str], References]:
    texts = draw(st.lists(words.filter(bool), min_size=1, max_size=5))
    of_texts = [draw(weights) for _ in texts]
    gold = draw(st.integers(0, len(texts) - 1))
    return draw(st.lists(words, min_size=1, max_size=3)), References(texts=texts, weights=of_texts, gold=gold)


def scored(metric: Bleu, several: list[tuple[list[str], References]], quickest: Callable[..., Any]) -> list[bytes]:
    """Return the bytes of statistics, and of the scores of replies and of the corpus."""
    replies = [reply for of_item, _ in several for reply in of_item]
    places = np.repeat(np.arange(len(several)), [len(of_item) for of_item, _ in several])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bleu_module, "quickest", quickest)
        prepared = metric.prepare([references for _, references in several])
        rows = metric.statistics(replies, prepared, np.arange(len(replies)), places)
        corpus = np.nansum(rows, axis=0, keepdims=True)
        return [
            rows.tobytes(),
            metric._score(rows, Level.REPLY).tobytes(),
            metric._score(corpus, Level.CORPUS).tobytes(),
        ]


@given(metrics(), st.lists(items(), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_python_and_numba_give_the_same_bits(metric: Bleu, several: list[tuple[list[str], References]]) -> None:
    by_python = scored(metric, several, lambda loop, _: plain_form(loop))
    by_numba = scored(metric, several, lambda loop, _: loop)
    assert by_python == by_numba


@compiled
def logarithms(numbers: np.ndarray, logs: np.ndarray, powers: np.ndarray) -> None:
    for place in range(numbers.size):
        logs[place] = math.log(numbers[place])
        powers[place] = math.exp(-numbers[place])


def test_logarithms_and_powers_of_python_are_those_of_numba() -> None:
    numbers = np.random.default_rng(5).uniform(1e-9, 40.0, 20_000)
    results = []
    for loop in (logarithms, plain_form(logarithms)):
        logs, powers = np.empty_like(numbers), np.empty_like(numbers)
        loop(numbers, logs, powers)
        results.append((logs.tobytes(), powers.tobytes()))
    assert results[0] == results[1]


def test_steps_are_the_tokens_of_replies_and_references_times_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "refaug.core.kernels.compiler", raising=False)
    counted = list[int]()

    class Budget(PlainBudget):
        def spend(self, count_steps: Callable[[], int]) -> bool:
            counted.append(count_steps())
            return False

    monkeypatch.setattr(bleu_module, "quickest", lambda loop, count: loop if not Budget(0).spend(count) else None)
    metric = build("bleu:n=3")
    assert isinstance(metric, Bleu)
    prepared = metric.prepare([References.unweighted(["a b c", "a"]), References.unweighted(["a b"])])
    metric.statistics(["a b", "c"], prepared, np.array([0, 1, 0]), np.array([0, 1, 1]))
    assert counted == [3 * ((2 + 4) + (1 + 2) + (2 + 2))]
