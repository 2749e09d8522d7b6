"""Simulated people: the same from a seed, of four careless kinds; rules catch them, and intervals hold the truth."""

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.extras.studies.questions import main_tasks, protocol_questions, rating_rows
from refaug.extras.studies.simulation.people import DEGRADED, Carelessness, SimulatedPeople, simulated_study
from refaug.extras.studies.simulation.rehearsal import rehearse

QUALITIES = {"bot-1": 4.6, "bot-2": 4.2, "bot-3": 3.8, "bot-4": 3.4}


def test_a_seed_gives_the_same_study_and_more_people_change_none_of_the_first():
    people = SimulatedPeople(qualities=QUALITIES, participants=8, careless=0)
    study = simulated_study(people, 5)
    assert simulated_study(people, 5).tasks == study.tasks
    assert simulated_study(people, 6).tasks != study.tasks
    more = simulated_study(SimulatedPeople(qualities=QUALITIES, participants=12, careless=0), 5)
    assert more.tasks[: len(study.tasks)] == study.tasks


def test_every_participant_has_each_bot_once_and_the_degraded_one():
    study = simulated_study(SimulatedPeople(qualities=QUALITIES, participants=20), 1)
    for participant in {task.participant for task in study.tasks}:
        own = [task.bots[0].bot for task in study.tasks if task.participant == participant]
        assert sorted(own) == sorted([*QUALITIES, DEGRADED])
    assert Counter(study.careless.values()) == dict.fromkeys(Carelessness, 1)


def test_honest_ratings_have_the_means_and_the_correlation_of_their_making():
    people = SimulatedPeople(qualities=QUALITIES, participants=600, careless=0, questions=("quality",), sd=0.9)
    study = simulated_study(people, 1)
    rows = list(rating_rows(main_tasks(study.tasks), protocol_questions(study.protocol, study.tasks)))
    numbers = {bot: np.array([row.number for row in rows if row.bot == bot]) for bot in QUALITIES}
    assert {bot: float(own.mean()) for bot, own in numbers.items()} == pytest.approx(QUALITIES, abs=0.12)
    by_person = np.array(
        [
            [row.number for row in sorted(rows, key=lambda row: (row.participant, row.bot)) if row.bot == bot]
            for bot in QUALITIES
        ]
    )
    correlations = np.corrcoef(by_person)[np.triu_indices(4, 1)]
    assert correlations.mean() == pytest.approx(0.3, abs=0.06)


@pytest.mark.slow
def test_exclusions_catch_careless_people_and_restore_the_order_of_the_bots():
    found = rehearse(SimulatedPeople(qualities=QUALITIES), studies=30, seed=100)
    assert found["caught"]["careless"]["share"] >= 0.9
    assert all(found["caught"][kind]["share"] >= 0.85 for kind in Carelessness)
    assert found["caught"]["honest"]["share"] <= 0.07  # 5 in a hundred over many studies, which the bench has
    assert found["order"]["kept"]["found"] >= found["order"]["all"]["found"]
    assert found["order"]["kept"]["spearman"] > 0.9
    assert found["balance"] == 0


@pytest.mark.slow
def test_clustered_intervals_hold_the_truth_and_unclustered_ones_do_not(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[4] / "bench")
    coverage = import_module("interval_coverage").interval_coverage(studies=300, draws=400)
    assert 0.915 <= coverage.clustered <= 0.98
    assert coverage.unclustered < 0.9
    assert coverage.student < 0.9
    assert 0.915 <= coverage.difference <= 0.98


def test_people_without_sense_are_refused():
    with refusing(Usage):
        SimulatedPeople(qualities={"a": 1})
    with refusing(Usage):
        SimulatedPeople(qualities=QUALITIES, careless=2)
    with refusing(Usage):
        rehearse(SimulatedPeople(qualities=QUALITIES), studies=0, seed=1)
