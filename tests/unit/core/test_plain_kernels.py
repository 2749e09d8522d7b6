"""Loops run as Python before numba is imported: the same numbers, within a budget, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refaug.core.kernels.kernel import KERNELS, PlainBudget, compiled, plain_form, quickest

ROOT = Path(__file__).resolve().parents[3]
STEP = np.int64(2**62)


@compiled
def doubled(number: np.int64) -> np.int64:
    return number * np.int64(4) + number


@compiled
def quotients(numbers: np.ndarray, divisor: float, out: np.ndarray) -> None:
    for place in range(numbers.size):
        out[place] = doubled(numbers[place]) / divisor


def run(program: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=300
    )
    return finished.stdout.split("\n")[:-1]


@pytest.mark.parametrize("divisor", [3.0, 0.0])
@pytest.mark.filterwarnings("error")
def test_a_loop_and_the_loops_it_calls_compute_the_same_as_python(divisor: float) -> None:
    numbers = np.array([STEP, -STEP, 5, 0])  # products wrap around, and a division by 0 is infinite or no number
    by_python, by_numba = np.empty(4), np.empty(4)
    plain_form(quotients)(numbers, divisor, by_python)
    quotients(numbers, divisor, by_numba)
    assert by_python.tobytes() == by_numba.tobytes()
    assert quotients in KERNELS
    assert doubled.__doc__ is None
    assert quotients.__name__ == "quotients"


def test_a_budget_is_spent_until_a_call_exceeds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "refaug.core.kernels.compiler", raising=False)
    budget = PlainBudget(100)
    assert [budget.spend(lambda steps=steps: steps) for steps in (60, 41, 40, 1)] == [True, False, True, False]


def test_steps_are_not_even_counted_once_numba_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "refaug.core.kernels.compiler", object())

    def count_steps() -> int:
        raise AssertionError

    assert quickest(quotients, count_steps, PlainBudget(100)) is quotients


def test_small_scores_import_no_numba_and_larger_ones_do_once_the_budget_is_spent() -> None:
    program = """
import sys
import refaug
replies, references = ["you can buy it at counter 5 ."] * 60, [["ask at counter 5 , please ."]] * 60
scores = [refaug.score(predictions=replies, references=references, metric="bleu") for _ in range(30)]
is_loaded = lambda: "numba" in sys.modules
print(len({(score.corpus, tuple(score.replies)) for score in scores}), is_loaded())
"""
    once = program.replace("range(30)", "range(2)")
    assert run(once) == ["1 False"]
    assert run(program) == ["1 True"]


def test_threads_that_call_a_loop_first_share_one_dispatcher() -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from refaug.metrics.words import ngrams
with ThreadPoolExecutor(8) as threads:
    print(len(set(map(id, threads.map(lambda _: ngrams.credit_rows.dispatcher, range(8))))))
"""
    assert run(program) == ["1"]
