"""Training RUBER's unreferenced part: its loss, its figures, what is learnt, and that a stop changes nothing."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
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

from refaug.core.errors import CheckFailed, Corrupt
from refaug.core.progress import Silent
from refaug.rater.ruber.build import (
    PairScores,
    ranking_loss,
    report_of,
    score_pairs,
    statistics_of,
    task_of,
)
from refaug.rater.ruber.network import RuberNetwork
from refaug.rater.training.initial_embeddings import new_network
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


@pytest.mark.parametrize("stop", [1, 3, STEPS, STEPS + 3, 3 * STEPS])
def test_a_training_stopped_at_a_step_ends_as_if_it_had_not_been(whole, tmp_path, stop):
    with pytest.raises(Stopped):
        tiny_course(tmp_path, stopping(stop))
    assert_same(tiny_course(tmp_path), whole)


def test_what_is_left_out_and_the_rate_are_the_same_after_a_stop(tmp_path):
    how = {"dropout": 0.3, "decay": "linear"}
    unstopped = tiny_course(tmp_path / "whole", **how)
    with pytest.raises(Stopped):
        tiny_course(tmp_path / "stopped", stopping(STEPS + 1), **how)
    assert_same(tiny_course(tmp_path / "stopped", **how), unstopped)


def test_a_damaged_save_is_named_and_not_taken_for_a_fresh_start(tmp_path):
    with pytest.raises(Stopped):
        tiny_course(tmp_path, stopping(5))
    saved = tmp_path / f"{json.loads((tmp_path / 'state.json').read_text())['slot']}.safetensors"
    os.truncate(saved, 1000)
    with pytest.raises(Corrupt, match=f"{saved.name} cannot be read.*train anew"):
        tiny_course(tmp_path)


# Trains in each folder, in a process of its own that is killed at the n-th event of a kind.
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from rubers import tiny_course

warm = torch.nn.Parameter(torch.zeros(1))  # or every child would load what Adam loads when it is first used
warm.grad = torch.zeros(1)
torch.optim.Adam([warm]).step()

def killing(number, real):
    seen = 0
    def watched(*given):
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)
    return watched

for order in sys.argv[1:]:
    folder, kind, number = order.split("|")
    child = os.fork()
    if child == 0:
        on_now = lambda now: None
        if kind == "step":
            on_now = killing(int(number), on_now)
        else:
            setattr(os, kind, killing(int(number), getattr(os, kind)))
        tiny_course(Path(folder), on_now)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_training_that_was_killed_anywhere_ends_as_if_it_had_not_been(whole, tmp_path):
    drawn = random.Random(5)
    kills = [("step", 2), ("step", drawn.randrange(3, 3 * STEPS)), ("step", 3 * STEPS)]
    kills += [("replace", 1), ("replace", drawn.randrange(2, 20)), ("fsync", drawn.randrange(1, 30))]
    folders = [tmp_path / f"{kind}-{number}" for kind, number in kills]
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLED,
            *(f"{folder}|{kind}|{number}" for folder, (kind, number) in zip(folders, kills, strict=True)),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert [int(code) for code in said.stdout.split()] == [-signal.SIGKILL] * len(kills)
    for folder in folders:
        assert_same(tiny_course(folder), whole)


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


def test_the_network_of_the_best_epoch_is_kept(tmp_path):
    config = TrainConfig(epochs=5, learning_rate=0.05, patience=5)
    model, kept = tiny_network(), []
    course = run(
        task_of(model, *tiny_sides(), MARGIN, config),
        config,
        tmp_path,
        Silent(),
        on_epoch=lambda _figures: kept.append({name: one.clone() for name, one in model.state_dict().items()}),
    )
    losses = [figures.validation_loss for figures in course.epochs]
    assert course.best_epoch == 1 + losses.index(min(losses)) < 5
    best = kept[course.best_epoch - 1]
    assert all(torch.equal(best[name], one) for name, one in model.state_dict().items())


def test_a_loss_that_is_no_number_ends_it_with_the_batch(tmp_path):
    model = tiny_network()
    with torch.no_grad():
        model.quadratic[0, 0] = math.nan
    with pytest.raises(CheckFailed) as caught:
        run(task_of(model, *tiny_sides(), MARGIN, TrainConfig()), TrainConfig(), tmp_path, Silent())
    assert caught.value.message.startswith("the loss is nan in batch 1 of epoch 1; nothing is published")
    assert "--learning-rate" in caught.value.remedy


def test_embeddings_start_from_a_file_and_all_else_as_without(tmp_path):
    config = tiny_network().config
    matrix = np.random.default_rng(1).standard_normal((config.vocabulary, config.embedding)).astype(np.float32)
    np.save(tmp_path / "embeddings.npy", matrix)
    drawn, given = (
        new_network(lambda: RuberNetwork(config), 1, None),
        new_network(lambda: RuberNetwork(config), 1, tmp_path / "embeddings.npy"),
    )
    assert given.embedding.weight[0].tolist() == [0] * 8
    assert np.array_equal(given.embedding.weight.detach()[1:].numpy(), matrix[1:])
    others = {name: tensor for name, tensor in drawn.state_dict().items() if not name.startswith("embedding")}
    assert all(torch.equal(given.state_dict()[name], tensor) for name, tensor in others.items())
