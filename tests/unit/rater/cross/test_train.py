"""Training the cross rater: its loss, what is learnt, its report, and that a stop changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from crosses import tiny_course, tiny_cross, tiny_dialogues, tiny_sides

from refaug.rater.cross.build import balanced_loss, predict, report_of, statistics_of
from refaug.rater.training.accuracy import auc


class Stopped(Exception):
    """The training is interrupted."""


def stopping(at: int):
    seen = []

    def on_now(now) -> None:
        seen.append(now)
        if len(seen) == at:
            raise Stopped

    return on_now


def test_right_and_wrong_replies_weigh_the_same() -> None:
    logits, labels = torch.tensor([2.0, 1.0, -1.0, 0.0]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    wrong = [math.log1p(math.exp(logit)) for logit in (1, -1, 0)]
    expected = (math.log1p(math.exp(-2)) + sum(wrong) / 3) / 2
    assert float(balanced_loss(logits, labels)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_topics_of_dialogues_are_learnt(tmp_path: Path) -> None:
    corpus = tiny_dialogues(dialogues=120)
    model, course = tiny_course(tmp_path, epochs=8, dropout=0.0, learning_rate=0.01, patience=8, corpus=corpus)
    _, validation = tiny_sides(corpus)
    report = report_of(model, course, validation)
    assert report["auc_good_vs_wrong"] > 0.65
    assert report["auc_by_kind"].keys() == {"random"}
    assert sum(report["ratings"]["good"]) == sum(report["ratings"]["wrong"]) == validation.epoch_size


def test_a_stopped_training_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    model, course = tiny_course(tmp_path / "whole")
    with pytest.raises(Stopped):
        tiny_course(tmp_path / "stopped", stopping(5))
    again, other_course = tiny_course(tmp_path / "stopped")
    assert [replace(epoch, seconds=0) for epoch in course.epochs] == [
        replace(epoch, seconds=0) for epoch in other_course.epochs
    ]
    weights, others = model.state_dict(), again.state_dict()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_predictions_are_counted_by_kind() -> None:
    train, validation = tiny_sides(negatives="mixed")
    predictions = predict(tiny_cross(), validation)
    assert predictions.positive.sum() == validation.epoch_size
    counted = predictions.positive | (predictions.kinds == 1)
    assert predictions.auc(1) == auc(predictions.logits[counted], predictions.positive[counted])
    correct = (predictions.logits > 0) == predictions.positive
    by_label = [correct[predictions.positive].mean(), correct[~predictions.positive].mean()]
    assert predictions.accuracy == pytest.approx(np.mean(by_label))
    statistics = statistics_of(tiny_dialogues(), train)
    assert statistics["positive"] == len(train.rows)
