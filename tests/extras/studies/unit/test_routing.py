"""Active routing: the most telling pair, the floor of exploration, when it stops, and what a report prints then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import erfc, exp, log, log1p, sqrt
from typing import Any

import numpy as np
import pytest
from refusals import refusing
from scipy.optimize import minimize
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput
from refaug.extras.studies.protocol.study_protocol import StudyProtocol
from refaug.extras.studies.questions import routed_question
from refaug.extras.studies.records import StudyTask
from refaug.extras.studies.report.numbers import study_report
from refaug.extras.studies.report.pages import study_warnings
from refaug.extras.studies.routing import (
    RoutedStudies,
    decides,
    next_pairs,
    pair_table,
    routed_pair,
    routed_strengths,
    routed_target,
    wins_of,
)
from refaug.metrics.statistics.pairwise import PairVote

STRENGTHS = (3.0, 1.5, 0.0)
BOTS = ("a", "b", "c")


def drawn_wins(bots: int, seed: int, votes: int = 40) -> np.ndarray:
    """Wins of bots that are better the lower their number is, unevenly spread over the pairs."""
    drawn, wins = random.Random(seed), np.zeros((bots, bots))
    for _ in range(votes):
        first, second = sorted(drawn.sample(range(bots), 2))
        if first and drawn.random() < 0.5:
            continue
        winner = drawn.random() < 1 / (1 + exp(first - second))
        wins[(first, second) if winner else (second, first)] += 1
    return wins


def telling(wins: np.ndarray) -> list[float]:
    """What each pair tells, from the posterior that a general optimiser finds."""
    bots = len(wins)

    def loss(strengths: np.ndarray) -> float:
        cost = 0.05 * float(strengths @ strengths)
        for one in range(bots):
            for other in range(bots):
                cost += wins[one, other] * log1p(exp(strengths[other] - strengths[one]))
        return cost

    strengths = minimize(loss, np.zeros(bots), tol=1e-12).x
    precision = 0.1 * np.eye(bots)
    for one, other in combinations(range(bots), 2):
        chance = 1 / (1 + exp(strengths[other] - strengths[one]))
        contrast = np.eye(bots)[one] - np.eye(bots)[other]
        precision += (wins[one, other] + wins[other, one]) * chance * (1 - chance) * np.outer(contrast, contrast)
    covariance, merits = np.linalg.inv(precision), list[float]()
    for one, other in combinations(range(bots), 2):
        contrast = np.eye(bots)[one] - np.eye(bots)[other]
        gap, variance = strengths[one] - strengths[other], float(contrast @ covariance @ contrast)
        chance = 1 / (1 + exp(-gap))
        is_wrong = 0.5 * erfc(abs(gap) / sqrt(variance) / sqrt(2))
        merits.append(is_wrong * log(1 + chance * (1 - chance) * variance))
    return merits


@pytest.mark.parametrize("bots", [3, 5, 8])
@pytest.mark.parametrize("seed", range(5))
def test_the_pair_is_the_one_that_tells_most_about_the_order(bots: int, seed: int) -> None:
    wins = drawn_wins(bots, seed)
    study = RoutedStudies.counted(wins)
    covariance, pairs = study.fit(), bots * (bots - 1) // 2
    given, never = (wins + wins.T)[None], np.array([False])
    everything = np.ones((1, pairs), dtype=bool)
    merits = telling(wins)
    for _ in range(3):  # and the next best ones, where the best is not allowed
        chosen = next_pairs(study, covariance, given, everything, never, np.zeros((1, pairs)))[0]
        assert merits[chosen] == pytest.approx(max(merits), rel=1e-4)
        merits[chosen], everything[0, chosen] = -1.0, False
        if not everything.any():
            break


def test_one_vote_in_five_goes_to_the_pair_with_the_fewest() -> None:
    wins = np.array([[0.0, 12, 2], [8, 0, 11], [0, 9, 0]])  # the ends were compared twice, and are far apart
    nobody, everything = np.zeros((3, 3)), [True, True, True]
    chosen = [routed_pair(wins, nobody, everything, seed) for seed in range(500)]
    assert 0.15 < chosen.count(1) / 500 < 0.25
    assert len(set(chosen) - {1}) == 1
    assert chosen == [routed_pair(wins, nobody, everything, seed) for seed in range(500)]


def test_pairs_that_others_hold_count_as_votes_to_come() -> None:
    wins = np.array([[0.0, 12, 2], [8, 0, 11], [0, 9, 0]])
    seed = next(n for n in range(100) if np.random.default_rng([n, 21]).random() > 0.2)
    usual = routed_pair(wins, np.zeros((3, 3)), [True] * 3, seed)
    assert usual is not None
    held = [0.0, 0.0, 0.0]
    held[usual] = 40
    other = next(n for n in range(100) if np.random.default_rng([n, 61]).random() > 0.2)
    assert routed_pair(wins, pair_table(held, 3), [True] * 3, other) != usual
    assert routed_pair(wins, np.zeros((3, 3)), [False] * 3, seed) is None
    assert routed_pair(wins, np.zeros((3, 3)), [False, False, True], seed) == 2


def test_it_stops_when_each_two_neighbours_are_decided_after_sixty_votes() -> None:
    shares = np.array([[0.0, 0.9, 0.9], [0.1, 0, 0.9], [0.1, 0.1, 0]])
    assert decides(20 * shares)
    assert not decides(19.9 * shares)  # fewer than sixty votes
    close = np.array([[0.0, 0.55, 0.9], [0.45, 0, 0.9], [0.1, 0.1, 0]])
    assert not decides(40 * close)
    assert decides(1_000 * close)


def test_a_study_takes_at_most_as_many_tasks_as_the_targets_of_its_pairs() -> None:
    assert routed_target([40, 40, 40, 40]) == 6 * 40
    assert routed_target([40, 0, 40]) == 40


def test_intervals_of_strengths_are_over_participants() -> None:
    votes = [PairVote(first="a", second="b", outcome=1 if n % 4 else -1, participant=f"P-{n}") for n in range(40)]
    fit = routed_strengths(votes)
    low, high = fit.interval(np.array([1.0, -1.0]), 0.95) or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(log(3), rel=0.01)
    assert (high - low) / 2 == pytest.approx(2.0227 * sqrt(1 / (40 * 0.75 * 0.25)) * sqrt(40 / 39), rel=0.01)
    twice = routed_strengths([vote for vote in votes for _ in range(2)])  # nobody new: as wide as before
    wide = twice.interval(np.array([1.0, -1.0]), 0.95) or (0.0, 0.0)
    assert wide == pytest.approx((low, high), rel=0.02)


# ── The protocol and the report ───────────────────────────────────────────────────────────────────────────────────────

BETTER = {"id": "better", "text": "Which?", "type": "pair"}
NICER = {"id": "nicer", "text": "Which?", "type": "pair"}
PAIRS = {"kind": "chat-pair", "bots": [*BOTS], "form": {"name": "f", "questions": [NICER, BETTER]}}


def test_routing_is_part_of_the_protocol_and_of_its_hash() -> None:
    balanced, active = StudyProtocol.of(PAIRS), StudyProtocol.of({**PAIRS, "routing": "active"})
    assert (balanced["routing"], active["routing"]) == ("balanced", "active")
    assert balanced.sha256 == StudyProtocol.of({**PAIRS, "routing": "balanced"}).sha256 != active.sha256
    assert routed_question(balanced.fields) is None
    assert routed_question(active.fields) == "nicer"
    main = StudyProtocol.of({**PAIRS, "routing": "active", "analysis": {"main": ["better"]}})
    assert routed_question(main.fields) == "better"
    assert "routing" not in StudyProtocol.of({"kind": "chat", "bots": ["a"]}).fields


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"routing": "greedy"}, "greedy", "balanced"),
        ({"bots": ["a", "b"]}, "2 bots, which have one pair", "3 bots"),
        ({"kind": "chat", "form": "chat-quality-5"}, "kind chat, which has no pairs", "chat-pair"),
        ({"form": {"name": "f", "questions": [{"id": "q", "text": "?", "type": "text"}]}}, "no", ""),
        ({"analysis": {"ties": "davidson"}}, "half a win", '"ties": "half"'),
        ({"form": {"name": "f", "questions": [BETTER, {"id": "q", "text": "?", "type": "likert", "scope": "side"}]}},
         "question q", "choices and texts"),
    ],
)  # fmt: skip
def test_active_routing_is_refused_where_it_makes_no_sense(changes: dict[str, Any], message: str, remedy: str) -> None:
    with refusing(BadInput) as refused:
        StudyProtocol.of({**PAIRS, "routing": "active", **changes})
    assert message in str(refused.value)
    assert remedy in getattr(refused.value, "remedy", "")


def test_a_study_of_items_has_no_routing() -> None:
    with refusing(BadInput) as refused:
        StudyProtocol.of({"kind": "pair-reply", "routing": "active"})
    assert "no effect in a study of kind pair-reply" in str(refused.value)


def routed_tasks(strengths: Sequence[float], votes: int, seed: int = 1) -> list[StudyTask]:
    drawn, tasks = random.Random(seed), list[StudyTask]()
    for number in range(votes):
        first, second = drawn.sample(range(len(strengths)), 2)
        is_left = drawn.random() < 1 / (1 + exp(strengths[second] - strengths[first]))
        answers = {"better": "left" if is_left else "right", "nicer": "left"}
        tasks.append(study_task(f"P-{number // 10}", (BOTS[first], BOTS[second]), answers, position=number % 10 + 1))
    return tasks


ACTIVE = protocol(
    BETTER,
    NICER,
    kind="chat-pair",
    bots=[*BOTS],
    routing="active",
    analysis={"draws": 50, "seed": 1, "main": ["better"]},
)


def test_a_study_that_stopped_has_intervals_of_strengths_and_no_others() -> None:
    report = study_report(routed_tasks(STRENGTHS, 150), ACTIVE)
    routing, choices = report["routing"], report["analyses"]["kept"]["choices"]
    assert (routing["question"], routing["votes"], routing["stopped"]) == ("better", 150, {"kept": True, "all": True})
    assert "stopped by itself" in routing["note"]
    bots = choices["better"]["bradley_terry"]["half"]["bots"]
    assert [row["bot"] for row in bots] == [*BOTS]
    assert all(one["strength"] > other["strength"] for one, other in pairwise(bots))
    assert all(row["low"] < row["strength"] < row["high"] and row["why"] is None for row in bots)
    assert [row["rank_low"] for row in bots] == [None] * 3
    assert {row["why"] for row in choices["nicer"]["bradley_terry"]["half"]["bots"]} == {"routed"}
    for pair in choices["better"]["pairs"]:
        assert (pair["outcome"]["halved"]["low"], pair["outcome"]["p_halved"], pair["halved_holm"]) == (
            None,
            None,
            None,
        )
    assert routing["note"] in study_warnings(report)


def test_a_study_that_went_on_to_its_target_has_no_interval_and_says_why() -> None:
    report = study_report(routed_tasks((0.1, 0.0, 0.0), 150), ACTIVE)
    assert report["routing"]["stopped"] == {"kept": False, "all": False}
    assert "did not stop" in report["routing"]["note"]
    assert {row["why"] for row in bots_of(report)} == {"routed"}
    assert {row["low"] for row in bots_of(report)} == {None}


def test_a_bot_that_an_amendment_drops_is_no_part_of_the_order() -> None:
    tasks = routed_tasks(STRENGTHS, 150)
    dropped = [study_task(f"P-{n}", ("dropped", "a"), {"better": "left"}) for n in range(12)]  # the strongest
    report = study_report([*tasks, *dropped], ACTIVE)
    assert report["routing"]["stopped"] == {"kept": True, "all": True}
    assert report["routing"]["votes"] == 150
    without = {row["bot"]: row for row in bots_of(study_report(tasks, ACTIVE))}
    assert {row["bot"]: row for row in bots_of(report)} == without


def test_a_study_that_stopped_by_votes_of_excluded_people_says_so() -> None:
    tasks = routed_tasks(STRENGTHS, 90)
    for task in tasks[:50]:
        task.answers["attention"] = False
    report = study_report(tasks, {**ACTIVE, "exclude": {"failed_attention": 1}})
    assert report["routing"]["stopped"] == {"kept": False, "all": True}
    assert "it stopped by itself, by votes that the rules exclude" in report["routing"]["note"]
    by_hand = [replace(task, excluded="copied") if n < 50 else task for n, task in enumerate(tasks)]
    report = study_report(by_hand, ACTIVE)  # the routing does not count them either
    assert "did not stop" in report["routing"]["note"]


@pytest.mark.parametrize("name", ["p", "low", "draws", "why"])
def test_names_that_figures_have_are_names_of_questions_labels_and_bots_too(name: str) -> None:
    bots = [name, *BOTS[1:]]
    label = {"id": "label", "type": "choice", "scope": "turn", "options": [{"value": name, "text": "!"}]}
    tasks = [
        study_task(f"P-{n}", (bots[n % 3], bots[n % 3 - 1]), {name: "left"}, turns=["Hi", "Hm"]) for n in range(60)
    ]
    for task in tasks:
        replies = [replace(side, turns=[replace(turn, vote=1, labels={"label": name}) for turn in side.turns])
                   for side in task.sides]  # fmt: skip
        task.sides[:] = replies
    asked = protocol({**BETTER, "id": name}, label, kind="chat-pair", bots=bots, routing="active")
    kept = study_report(tasks, {**asked, "analysis": {"draws": 5}})["analyses"]["kept"]
    fit = kept["choices"][name]["bradley_terry"]["half"]
    assert (fit["draws"], [row["why"] for row in fit["bots"]]) == (0, ["routed"] * 3)
    assert kept["labels"]["label"]["labels"][name]["means"][0]["mean"] == 1
    assert kept["votes"][name]["up"] == 40
    assert set(kept["votes"]) == set(bots)


def test_a_balanced_study_says_nothing_of_routing() -> None:
    report = study_report(routed_tasks(STRENGTHS, 150), {**ACTIVE, "routing": "balanced"})
    assert "routing" not in report
    assert {row["why"] for row in bots_of(report)} == {None}
    assert all(row["rank_low"] is not None for row in bots_of(report))


def bots_of(report: Any) -> list[dict[str, Any]]:
    return list(report["analyses"]["kept"]["choices"]["better"]["bradley_terry"]["half"]["bots"])


def test_ties_are_half_a_win_of_each() -> None:
    votes = [PairVote(first="b", second="a", outcome=outcome, participant="P") for outcome in (1, 0, 0, -1, 1)]
    assert wins_of(votes).tolist() == [[0, 2], [3, 0]]
