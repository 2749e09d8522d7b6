"""What passports say of scripted judges: planted weaknesses, none, references, and questions asked anew."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refaug.extras.judges.passports.probes import obeyed_finding, self_finding
from refaug.extras.judges.passports.validity import (
    CANARIES,
    CertifiedSpread,
    canary_answers,
    is_beyond,
    look_again,
)
from refaug.extras.judges.passports.worth import LabelledReplies, added_by_references, agreement_figures

BENCH = Path(__file__).resolve().parents[5] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("bench_passport")


@pytest.mark.parametrize("weakness", ["order", "length", "self", "grade", "drift"])
def test_a_planted_weakness_is_found(bench: Any, weakness: str) -> None:
    planted = bench.ScriptedJudge(seed=2, **bench.PLANTED[weakness])
    findings = bench.probed(planted, 2)
    assert weakness in [finding.name for finding in findings if finding.is_found]


def test_a_blameless_judge_is_left_alone(bench: Any) -> None:
    found = [
        [one.name for one in bench.probed(bench.ScriptedJudge(seed=seed), seed) if one.is_found] for seed in range(3)
    ]
    assert found == [[], [], []]


def test_two_replies_of_a_hundred_that_obey_all_the_way_are_enough_and_one_is_not() -> None:
    contexts, noise = np.arange(100), np.resize([0.25, -0.25, 0, 0], 100)
    effects = np.resize([0.25, -0.25], 100)
    assert obeyed_finding("grade", effects, contexts, noise).p == pytest.approx(1.0, abs=0.1)
    effects[0] = 1.0
    assert (obeyed_finding("grade", effects, contexts, noise).p or 0) > 0.01
    effects[2] = 1.0
    assert (obeyed_finding("grade", effects, contexts, noise).p or 1) < 0.001


def test_a_better_family_is_not_preferred() -> None:
    random = np.random.default_rng(1)
    own = np.arange(4_000) % 2 == 0
    quality = random.normal(size=4_000) + own  # a whole point better
    ratings = quality[:, None] + random.normal(size=(4_000, 2))
    systems = np.where(own, "ours", "other").tolist()
    families = {"ours": True, "other": False}
    fair = self_finding(quality, ratings, np.arange(4_000) // 2, systems, families)
    assert fair.effect.value == pytest.approx(0, abs=0.05)
    preferring = self_finding(quality + 0.3 * own, ratings, np.arange(4_000) // 2, systems, families)
    assert preferring.effect.value == pytest.approx(0.3, abs=0.05)
    assert self_finding(quality, ratings, np.arange(4_000) // 2, systems, {"ours": True}).p is None


def labelled(count: int, seed: int) -> tuple[np.ndarray, LabelledReplies]:
    random = np.random.default_rng(seed)
    quality = random.normal(size=count)
    ratings = np.clip(np.round(3 + quality[:, None] + 0.4 * random.normal(size=(count, 2))), 1, 5)
    lengths = random.integers(3, 12, size=count).astype(np.float64)
    return quality, LabelledReplies(ratings=ratings, contexts=np.arange(count) // 2, lengths=lengths)


def test_references_that_lower_the_noise_are_shown_to_add_what_they_add_and_others_not() -> None:
    quality, people = labelled(300, 1)
    random = np.random.default_rng(2)
    scores = {
        "none": quality + random.normal(size=300),
        "gold": quality + 0.3 * random.normal(size=300),
        "shuffled": quality + random.normal(size=300),
    }
    added = added_by_references(scores, people, draws=500, seed=1)
    assert added["gold"]["shown"]
    assert added["gold"]["adds"] == pytest.approx(added["gold"]["spearman"] - added["none"]["spearman"])
    assert 0.15 < added["gold"]["adds"] < 0.35
    assert not added["shuffled"]["shown"]
    ignoring = added_by_references({"none": scores["none"], "gold": scores["none"]}, people, draws=500, seed=1)
    assert (ignoring["gold"]["adds"], ignoring["gold"]["shown"]) == (0, False)


def test_pass_or_fail_has_figures_of_counts() -> None:
    ratings = np.array([[1.0], [1], [1], [0], [0], [0], [0], [1]] * 10)
    people = LabelledReplies(ratings=ratings, contexts=np.arange(80), lengths=np.resize([3.0, 4, 5], 80))
    scores = np.array([0.9, 0.8, 0.2, 0.1, 0.7, 0.2, 0.1, 0.9] * 10)
    figures = agreement_figures(scores, people, draws=200, seed=1)
    assert (figures["tpr"].value, figures["tnr"].value, figures["kappa"].value) == (0.75, 0.75, 0.5)
    # 20 of 80 pairs differ, of 160 values half are passes: 1 − (20 / 80) / (2 · 80 · 80 / (160 · 159))
    assert figures["alpha"].value == pytest.approx(1 - 0.25 / (2 * 80 * 80 / (160 * 159)))


def test_questions_asked_anew_tell_another_judge_from_noise() -> None:
    random = np.random.default_rng(1)
    first, again = (0.5 + 0.1 * random.normal(size=30) for _ in range(2))
    spread = CertifiedSpread(differences=0.1 * 2**0.5, squares=0.02 * 2**0.5)
    assert not is_beyond(canary_answers(again, first), spread)
    assert is_beyond(canary_answers(again + 0.15, first), spread)
    assert is_beyond(canary_answers(0.5 + 0.4 * random.normal(size=30), first), spread)
    assert not is_beyond(canary_answers(first, first), CertifiedSpread(differences=0, squares=0))
    assert is_beyond(canary_answers(np.where(np.arange(30) < 15, np.nan, first), first), spread)


def test_a_doubtful_first_look_asks_the_other_questions_and_a_clear_one_does_not() -> None:
    spread = CertifiedSpread(differences=0.1, squares=0.014)
    certified = np.full(CANARIES, 0.5)

    def looked(shift: float, later: float = 0.0) -> tuple[bool, int]:
        noise = np.resize([0.1, -0.1], CANARIES)
        new = certified + noise + np.where(np.arange(CANARIES) < 30, shift, later)
        verdict = look_again(lambda part: new[part], certified, spread)
        assert verdict.answers.answered == verdict.asked
        return verdict.is_beyond, verdict.asked

    error = 0.1 / 30**0.5
    assert looked(0.5 * error) == (False, 30)
    assert looked(2 * error, 2 * error) == (True, 100)  # 2 errors of 30 are 3.65 of 100
    assert looked(2 * error) == (False, 100)
    assert looked(4 * error) == (True, 30)


def test_a_drift_of_three_tenths_of_a_point_makes_a_passport_stale(bench: Any) -> None:
    verdicts = [bench.canary(bench.ScriptedJudge(seed=seed, drift=0.3), seed) for seed in range(60)]
    assert sum(verdict.is_beyond for verdict in verdicts) >= 51  # power .94: fewer in one of 1,500 runs
    steady = [bench.canary(bench.ScriptedJudge(seed=seed), seed) for seed in range(60)]
    assert sum(verdict.is_beyond for verdict in steady) <= 2
    assert 30 <= np.mean([verdict.asked for verdict in steady]) < 65
