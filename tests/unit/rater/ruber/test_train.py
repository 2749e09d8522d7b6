"""Training RUBER's unreferenced part: its loss, its figures, what is learnt, and that a stop changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rubers import MARGIN, pairs_of, score_plainly, tiny_course, tiny_network, tiny_pairs, tiny_sides
from safeguards import mostly_slow

from refaug.core.progress import Silent
from refaug.rater.ruber.build import (
    PairScores,
    ranking_loss,
    report_of,
    score_pairs,
    statistics_of,
    task_of,
)
from refaug.rater.training.loop import TrainConfig, run

ROOT = Path(__file__).parents[4]
STEPS = tiny_sides()[0].batch_count()


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def stopping(at):
    """Stop at the n-th step."""
    heard = []

    def on_now(now):
        heard.append((now.epoch, now.step))
        if len(heard) == at:
            raise Stopped

    return on_now


def assert_same(found, whole):
    """All but how long it took."""
    (model, course), (other, expected) = found, whole
    assert [replace(one, seconds=0) for one in course.epochs] == [replace(one, seconds=0) for one in expected.epochs]
    assert course.best_epoch == expected.best_epoch
    weights, others = model.state_dict(), other.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody stopped."""
    return tiny_course(tmp_path_factory.mktemp("whole"))


# ── the loss, and the figures ────────────────────────────────────────────────────────────────────────────────────


SCORE = st.floats(0, 1)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=20), st.floats(0.1, 1))
def test_the_loss_and_the_figures_are_those_of_a_plain_loop(rows, margin):
    good, other = np.array([one for one, _ in rows]), np.array([one for _, one in rows])
    found = PairScores(good, other)
    losses = [max(0.0, margin - one + wrong) for one, wrong in rows]
    assert found.loss(margin) == pytest.approx(sum(losses) / len(losses), abs=1e-12)
    assert found.accuracy == sum(one > wrong for one, wrong in rows) / len(rows)
    won = sum((one > wrong) + (one == wrong) / 2 for one, wrong in product(good.tolist(), other.tolist()))
    assert found.auc == pytest.approx(won / len(rows) ** 2, abs=1e-12)


def test_the_loss_by_hand_and_of_what_is_no_number():
    good, other = torch.tensor([0.9, 0.9, 0.5, math.nan]), torch.tensor([0.1, 0.5, 0.5, 0.5])
    found = ranking_loss(good, other, 0.5).tolist()
    assert found[:3] == pytest.approx([0, 0.1, 0.5])
    assert math.isnan(found[3])


@pytest.mark.parametrize("readers", [1, 2])
def test_answers_are_the_scores_of_the_pairs_in_the_order_of_the_batches(readers):
    corpus = tiny_pairs()
    _, validation = tiny_sides(corpus)
    model = tiny_network(readers=readers).train()
    model.dropout = 0.5  # nothing is left out where nothing is learnt
    found = score_pairs(model, validation)
    assert not model.training

    def text(number):
        return corpus.pieces[corpus.start[number] : corpus.start[number + 1]].tolist()

    triples = np.concatenate(validation.draw(0)).tolist()
    good = [score_plainly(model, text(u), text(r)) for u, r, _ in triples]
    other = [score_plainly(model, text(u), text(n)) for u, _, n in triples]
    assert found.good.tolist() == pytest.approx(good, abs=1e-6)
    assert found.other.tolist() == pytest.approx(other, abs=1e-6)


def test_the_report_is_of_the_held_out_pairs(whole):
    model, course = whole
    _, validation = tiny_sides()
    report = report_of(model, course, validation, MARGIN)
    found = score_pairs(model, validation)
    best = course.epochs[course.best_epoch - 1]
    assert report["validation_loss"] == pytest.approx(best.validation_loss, abs=1e-9)
    assert report["ranking_accuracy"] == best.validation_accuracy == float((found.good > found.other).mean())
    assert report["auc_good_vs_wrong"] == best.auc
    assert report["mean_score"] == {"good": found.good.mean(), "wrong": found.other.mean()}
    assert report["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert [one["epoch"] for one in report["epochs"]] == [1, 2, 3]
    scores = report["scores"]
    for which, own in (("good", found.good), ("wrong", found.other)):
        expected = [0] * 40
        for one in own.tolist():
            expected[min(39, int(one * 40))] += 1
        assert scores[which] == expected
    assert (len(scores["edges"]), scores["edges"][0], scores["edges"][-1]) == (41, 0, 1)


def test_statistics_count_pairs_utterances_dialogues_and_pieces():
    rows = [((2,), (3, 4), 0), ((2,), (5,), 1), ((6, 7), (8, 9, 9), 1), ((6, 7, 8), (9, 9, 9), 2), ((8,), (4,), 2)]
    corpus = pairs_of([[*rows, ((11,), (12,), 3)], [((13,), (14,), 0)]])  # the second log has one dialogue
    examples, _ = tiny_sides(corpus, validation_share=1e-9)
    assert statistics_of(corpus, examples) == {
        "pairs": 6,
        "without_reply_from_elsewhere": 1,
        "an_epoch": 6,
        "utterances": 5,
        "dialogues": 4,
        "pieces": {
            "utterances": {"mean": 1.5, "median": 1.0, "most": 3},
            "replies": {"mean": 1.83, "median": 1.5, "most": 3},
        },
    }


# ── stopped and gone on with ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stop", [1, STEPS + 3])
def test_a_training_stopped_at_a_step_ends_as_if_it_had_not_been(whole, tmp_path, stop):
    with pytest.raises(Stopped):
        tiny_course(tmp_path, stopping(stop))
    assert_same(tiny_course(tmp_path), whole)


# ── what is learnt ───────────────────────────────────────────────────────────────────────────────────────────────


def learnt(corpus, folder, **sizes):
    config = TrainConfig(epochs=6, learning_rate=0.01, patience=6)
    model = tiny_network(hidden=12, **sizes)
    sides = tiny_sides(corpus, batch=32)
    return run(task_of(model, *sides, MARGIN, config), config, folder, Silent()).epochs


@pytest.mark.parametrize("readers", mostly_slow([1, 2], quick=[0]))
def test_network_separates_pairs_on_utterances_it_was_not_trained_on(tmp_path, readers):
    last = learnt(tiny_pairs(2, dialogues=1500), tmp_path, readers=readers)[-1]
    assert last.validation_accuracy > 0.75
    assert last.auc > 0.8
    assert last.validation_loss < 0.3


@pytest.mark.slow
def test_where_nothing_belongs_together_nothing_is_told_apart(tmp_path):
    for figures in learnt(tiny_pairs(2, dialogues=1500, related=False), tmp_path):
        assert figures.validation_accuracy == pytest.approx(0.5, abs=0.1)
        assert figures.auc == pytest.approx(0.5, abs=0.1)
        assert figures.validation_loss > 0.45
