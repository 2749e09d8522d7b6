"""Training: a stopped or killed run ends as one that was not, what can be learnt is learnt, and nothing else is."""

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
from raters import tiny_corpus, tiny_examples, tiny_model, tiny_training, train
from refusals import refusing
from safeguards import mostly_slow
from safetensors.torch import load_file
from torch import nn

from refaug.core.errors import CheckFailed, Corrupt, Usage
from refaug.core.progress import Silent
from refaug.rater.nn.build import TripletPredictions, accuracy, predict
from refaug.rater.training.accuracy import auc
from refaug.rater.training.examples import Examples, ExampleSettings, Quadruples
from refaug.rater.training.loop import TrainConfig, rate_at

ROOT = Path(__file__).parents[4]
STEPS = tiny_examples()[0].batch_count()  # of an epoch of tiny_training


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


class Heard:
    """What a training has told; at one of its steps, or after one of its epochs, it is stopped."""

    def __init__(self, *, at_step: int | None = None, after_epoch: int | None = None) -> None:
        self.at_step, self.after_epoch = at_step, after_epoch
        self.steps, self.epochs = [], []

    def on_now(self, now):
        self.steps.append((now.epoch, now.step))
        if len(self.steps) == self.at_step:
            raise Stopped

    def on_epoch(self, figures):
        self.epochs.append(figures.epoch)
        if figures.epoch == self.after_epoch:
            raise Stopped


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_weights(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_seconds(trained):
    return [replace(figures, seconds=0) for figures in trained.epochs]


def assert_same(trained, other):
    """All but how long it took."""
    assert without_seconds(trained) == without_seconds(other)
    assert trained.best_epoch == other.best_epoch
    assert same_weights(trained.model.state_dict(), other.model.state_dict())


class OneEpochAgain(Examples):
    """The same examples in every epoch, with the same negatives."""

    def batches(self, number, *, skip=0):
        return super().batches(1, skip=skip)


class InParts(Examples):
    """The same examples, each batch in several of one size."""

    def __init__(self, *given, parts) -> None:
        super().__init__(*given)
        self.large, self.parts = Examples(*given), parts

    def batch_count(self):
        return self.large.batch_count() * self.parts

    def batches(self, number, *, skip=0):
        for some in self.large.draw(number):
            for rows in np.split(np.arange(len(some.texts)), self.parts):
                yield self.batch(Quadruples(some.texts[rows], some.positive[rows]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody stopped."""
    heard = Heard()
    trained = tiny_training(tmp_path_factory.mktemp("whole"), heard.on_now, heard.on_epoch)
    assert heard.steps == list(product([1, 2, 3], range(1, STEPS + 1)))
    assert heard.epochs == [1, 2, 3]
    return trained


# ── stopped and gone on with ─────────────────────────────────────────────────────────────────────────────────────


def test_the_same_training_twice_is_the_same_network(whole, tmp_path):
    assert_same(tiny_training(tmp_path), whole)


@pytest.mark.parametrize("stop", mostly_slow([1, 2, 3, 6, STEPS, STEPS + 1, STEPS + 4, 3 * STEPS], quick=[1, 4, 6, 7]))
def test_training_resumed_at_a_step_ends_as_if_never_stopped(whole, tmp_path, stop):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, Heard(at_step=stop).on_now)
    heard = Heard()
    assert_same(tiny_training(tmp_path, heard.on_now, heard.on_epoch), whole)
    epoch, step = (stop - 1) // STEPS + 1, (stop - 1) % STEPS + 1
    assert heard.steps[0] == (epoch, (step - 1) // 2 * 2 + 1)  # after the last of every two steps that was saved
    assert heard.steps[-1] == (3, STEPS)
    assert heard.epochs == list(range(epoch, 4))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_training_stopped_right_after_an_epoch_begins_the_next_one(whole, tmp_path, epoch):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, on_epoch=Heard(after_epoch=epoch).on_epoch)
    heard = Heard()
    assert_same(tiny_training(tmp_path, heard.on_now), whole)
    assert heard.steps[0] == (epoch + 1, 1)


def test_a_training_that_was_at_its_end_only_answers(whole, tmp_path):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, on_epoch=Heard(after_epoch=3).on_epoch)
    heard = Heard()
    trained = tiny_training(tmp_path, heard.on_now, heard.on_epoch)
    assert_same(trained, whole)
    assert_same(tiny_training(tmp_path), whole)
    assert (heard.steps, heard.epochs) == ([], [])


def test_a_training_stopped_again_and_again_ends_as_if_it_had_not_been(whole, tmp_path):
    for stop in (4, 3, 6, 5, 7):
        with pytest.raises(Stopped):
            tiny_training(tmp_path, Heard(at_step=stop).on_now)
    assert_same(tiny_training(tmp_path), whole)


@pytest.mark.parametrize("stop", mostly_slow([3, 4, 6, STEPS, STEPS + 3], quick=[1, 4]))
def test_a_stop_between_two_batches_of_one_step_loses_none_of_its_sums(tmp_path, stop):
    config = {"accumulate": 3, "save_every": 1, "epochs": 2}
    unstopped = tiny_training(tmp_path / "whole", **config)
    with pytest.raises(Stopped):
        tiny_training(tmp_path / "stopped", Heard(at_step=stop).on_now, **config)
    assert_same(tiny_training(tmp_path / "stopped", **config), unstopped)


def test_patience_goes_on_counting_after_a_stop(tmp_path):
    config = {"epochs": 12, "patience": 2, "learning_rate": 0.1}
    unstopped = tiny_training(tmp_path / "whole", **config)
    assert unstopped.best_epoch + 2 == len(unstopped.epochs) < 12
    with pytest.raises(Stopped):
        tiny_training(tmp_path / "stopped", on_epoch=Heard(after_epoch=unstopped.best_epoch + 1).on_epoch, **config)
    assert_same(tiny_training(tmp_path / "stopped", **config), unstopped)


def test_seconds_before_a_stop_are_not_forgotten(tmp_path):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, Heard(at_step=5).on_now)
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 1000.0}))
    trained = tiny_training(tmp_path)
    assert [figures.seconds >= 1000 for figures in trained.epochs] == [True, False, False]


@pytest.mark.parametrize("length", [0, 5, 1000])
def test_a_damaged_save_is_named_and_not_taken_for_a_fresh_start(tmp_path, length):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, Heard(at_step=5).on_now)
    saved = tmp_path / f"{json.loads((tmp_path / 'state.json').read_text())['slot']}.safetensors"
    os.truncate(saved, length)
    with refusing(Corrupt, saved.name):
        tiny_training(tmp_path)


# ── killed ───────────────────────────────────────────────────────────────────────────────────────────────────────

# Trains in each folder, in a process of its own that is killed at the n-th event of a kind.
KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from raters import tiny_training

warm = torch.nn.Parameter(torch.zeros(1))  # or every child would load what Adam loads when it is first used
warm.grad = torch.zeros(1)
torch.optim.Adam([warm]).step()

def killing(kind, number, real):
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
            on_now = killing(kind, int(number), on_now)
        else:
            setattr(os, kind, killing(kind, int(number), getattr(os, kind)))
        tiny_training(Path(folder), on_now)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_training_that_was_killed_anywhere_ends_as_if_it_had_not_been(whole, tmp_path):
    drawn = random.Random(20)
    kills = [("step", 2), ("step", drawn.randrange(3, 3 * STEPS)), ("step", 3 * STEPS)]
    # Two files are written in a save: the sums, then the state; at an epoch's end the best weights may come before.
    kills += [("replace", 1), ("replace", 2), *(("replace", drawn.randrange(3, 24)) for _ in range(2))]
    kills += [("fsync", drawn.randrange(1, 36)) for _ in range(2)]
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
        assert_same(tiny_training(folder), whole)


# ── what is learnt ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_two_hundred_examples_are_learnt_by_heart(tmp_path):
    drawn = ExampleSettings(batch=50, limit=100)
    same = OneEpochAgain(tiny_corpus(utterances=150, related=False), "train", drawn, 16)
    assert same.epoch_size == 200
    model = tiny_model(embedding=16, hidden=16, width=32)
    config = TrainConfig(epochs=30, learning_rate=0.01, patience=30)
    trained = train(model, same, same, config, tmp_path, Silent())
    assert trained.epochs[0].validation_accuracy < 0.7
    assert accuracy(predict(trained.model, same)) > 0.97
    assert min(figures.train_loss for figures in trained.epochs) < 0.1


def learnt(corpus, folder):
    """The validation figures of epochs of training on a corpus."""
    config = TrainConfig(epochs=6, learning_rate=0.01, patience=6)
    model = tiny_model(hidden=12, width=24)
    return train(model, *tiny_examples(corpus, batch=64), config, folder, Silent()).epochs


@pytest.mark.parametrize("seed", mostly_slow([1, 2], quick=[0]))
def test_network_separates_pairs_on_utterances_it_was_not_trained_on(tmp_path, seed):
    last = learnt(tiny_corpus(seed, utterances=500), tmp_path)[-1]
    assert last.auc > 0.85
    assert last.validation_accuracy > 0.8
    assert last.validation_loss < 0.45


@pytest.mark.parametrize("seed", mostly_slow([1, 2], quick=[0]))
def test_where_nothing_belongs_together_nothing_is_told_apart(tmp_path, seed):
    for figures in learnt(tiny_corpus(seed, utterances=500, related=False), tmp_path):
        assert figures.auc == pytest.approx(0.5, abs=0.1)
        assert figures.validation_accuracy == pytest.approx(0.5, abs=0.1)
        assert figures.validation_loss > 0.68  # ln 2 is .693


# ── when it ends, and with what ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """Runs by patience of a training whose loss falls, rises, falls again and at last only rises; and their weights."""

    def trained(patience):
        model, kept = tiny_model(), []
        training, validation = tiny_examples(tiny_corpus(27, utterances=60))
        found = train(
            model,
            training,
            validation,
            TrainConfig(epochs=14, learning_rate=0.05, patience=patience),
            tmp_path_factory.mktemp("patience"),
            Silent(),
            on_epoch=lambda _figures: kept.append(weights_of(model)),
        )
        return found, kept, validation

    return trained


def epochs_run(losses, patience):
    """How many epochs there are until the loss has not been a new least for so many in a row."""
    for epoch in range(patience, len(losses)):
        if min(losses[epoch - patience + 1 : epoch + 1]) >= min(losses[: epoch - patience + 1]):
            return epoch + 1
    return len(losses)


def test_training_ends_after_patience_epochs_without_a_lower_loss(impatient):
    losses = [figures.validation_loss for figures in impatient(14)[0].epochs]
    assert len(losses) == 14
    counts = {}
    for patience in (1, 2, 3):
        found, _, _ = impatient(patience)
        counts[patience] = len(found.epochs)
        assert [figures.validation_loss for figures in found.epochs] == losses[: epochs_run(losses, patience)]
        assert [figures.epoch for figures in found.epochs] == list(range(1, len(found.epochs) + 1))
        assert found.best_epoch == 1 + int(np.argmin(losses[: len(found.epochs)]))
    assert counts[2] - counts[1] > 1  # a lower loss after a higher one starts the count anew
    assert counts[2] < counts[3] < 14


@pytest.mark.parametrize("patience", [1, 2])
def test_the_network_that_is_returned_is_that_of_the_best_epoch(impatient, patience):
    found, kept, validation = impatient(patience)
    assert found.best_epoch < len(found.epochs)
    assert same_weights(found.model.state_dict(), kept[found.best_epoch - 1])
    assert not same_weights(found.model.state_dict(), kept[-1])
    best = found.epochs[found.best_epoch - 1]
    again = predict(found.model, validation)
    assert (again.loss, accuracy(again)) == (best.validation_loss, best.validation_accuracy)
    assert auc(again.first, again.positive) == best.auc


# ── losses that are no numbers ───────────────────────────────────────────────────────────────────────────────────


def spoil(model):
    with torch.no_grad():
        model.last.weight[0, 0] = math.nan


def spoilt_training(folder, *, at_step=None, after_epoch=None, epochs=3):
    """Training of a network that turns into one that answers no numbers."""
    model, seen = tiny_model(), []

    def on_now(now):
        seen.append(now)
        if len(seen) == at_step:
            spoil(model)

    def on_epoch(figures):
        if figures.epoch == after_epoch:
            spoil(model)

    examples = tiny_examples()
    config = TrainConfig(epochs=epochs, learning_rate=0.01, save_every=2)
    return train(model, *examples, config, folder, Silent(), on_now, on_epoch)


def test_weights_too_large_from_the_start_are_refused_in_the_first_batch(tmp_path):
    model = tiny_model()
    with torch.no_grad():
        model.last.weight.fill_(3e38)
    with refusing(CheckFailed, "batch 1 of epoch 1", "--learning-rate"):
        train(model, *tiny_examples(), TrainConfig(), tmp_path, Silent())
    assert not (tmp_path / "best.safetensors").exists()


def test_nan_loss_names_batch_and_epoch_and_leaves_the_best_weights(tmp_path):
    with refusing(CheckFailed, "nan", "batch 4 of epoch 2"):
        spoilt_training(tmp_path, at_step=STEPS + 3)
    kept = weights_of(tiny_training(tmp_path / "one", epochs=1).model)
    assert same_weights(load_file(tmp_path / "best.safetensors"), kept)


def test_nan_loss_after_an_epoch_is_reported_in_the_next_first_batch(tmp_path):
    with refusing(CheckFailed, "nan", "batch 1 of epoch 3"):
        spoilt_training(tmp_path, after_epoch=2)
    assert all(tensor.isfinite().all() for tensor in load_file(tmp_path / "best.safetensors").values())


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_validation_loss_that_is_no_number_fails_the_check_of_its_epoch(tmp_path, epochs):
    with refusing(CheckFailed, "epoch 1"):
        spoilt_training(tmp_path, at_step=STEPS, epochs=epochs)
    assert not (tmp_path / "best.safetensors").exists()


def test_network_with_nan_after_its_last_step_is_not_saved_as_a_checkpoint(tmp_path):
    with refusing(CheckFailed, "epoch 2"):
        spoilt_training(tmp_path, at_step=2 * STEPS, epochs=2)
    assert_same(tiny_training(tmp_path, epochs=2), tiny_training(tmp_path / "fresh", epochs=2))


# ── several batches to a step ────────────────────────────────────────────────────────────────────────────────────


def adams_sums(folder):
    """What Adam remembers at the end: a tenth of the last gradient, nine tenths of what it remembered before."""
    slot = json.loads((folder / "state.json").read_text())["slot"]
    saved = load_file(folder / f"{slot}.safetensors")
    return {name: tensor.numpy() for name, tensor in saved.items() if name.endswith("exp_avg")}


def assert_like_sums(found, expected):
    assert found.keys() == expected.keys()
    for name, sums in found.items():
        np.testing.assert_allclose(sums, expected[name], rtol=1e-3, atol=2e-6, err_msg=name)


def sums_after_an_epoch(folder, examples, accumulate):
    _, validation = tiny_examples()
    train(tiny_model(), examples, validation, TrainConfig(epochs=1, accumulate=accumulate), folder, Silent())
    return adams_sums(folder)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_step_of_several_small_batches_is_that_of_one_large_one(tmp_path, parts):
    asked = tiny_corpus(), "train", ExampleSettings(batch=96, limit=96), 16
    assert [len(some.texts) for some in Examples(*asked).draw(1)] == [96, 96]
    small = sums_after_an_epoch(tmp_path / "small", InParts(*asked, parts=parts), parts)
    assert_like_sums(small, sums_after_an_epoch(tmp_path / "large", Examples(*asked), 1))
    assert max(np.abs(sums).max() for sums in small.values()) > 1e-3


@pytest.mark.parametrize(("batch", "accumulate"), [(32, 2), (24, 3), (32, 4)])
def test_last_step_of_an_epoch_averages_the_remaining_batches(tmp_path, batch, accumulate):
    examples, _ = tiny_examples(batch=batch, limit=48)
    batches = list(examples.batches(1))
    assert len(batches) % accumulate
    model = tiny_model().train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for begin in range(0, len(batches), accumulate):
        losses = [
            nn.functional.cross_entropy(model(*map(torch.from_numpy, one[:3])), torch.from_numpy(one.labels))
            for one in batches[begin : begin + accumulate]
        ]
        adam.zero_grad()
        torch.stack(losses).mean().backward()
        adam.step()
    expected = {f"adam.{name}.exp_avg": adam.state[one]["exp_avg"].numpy() for name, one in model.named_parameters()}
    assert_like_sums(sums_after_an_epoch(tmp_path, examples, accumulate), expected)


@pytest.mark.parametrize("decay", ["none", "linear"])
def test_steps_are_adams_by_definition(tmp_path, decay):
    examples, validation = tiny_examples()
    steps = examples.batch_count()
    model = tiny_model().train()
    first = {name: np.zeros(one.shape) for name, one in model.named_parameters()}
    second = {name: np.zeros(one.shape) for name, one in model.named_parameters()}
    losses = []
    for step, one in enumerate(examples.batches(1), start=1):
        done = (step - 1) / steps
        rate = 0.01 * (1 if decay == "none" else min(1, (1 - done) / 0.8))
        model.zero_grad()
        logits = model(*map(torch.from_numpy, one[:3]))
        loss = -torch.log_softmax(logits, dim=1)[torch.arange(len(one.labels)), torch.from_numpy(one.labels)].mean()
        loss.backward()
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                gradient = parameter.grad.double().numpy()
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                parameter.sub_(torch.from_numpy(rate * mean / (np.sqrt(square) + 1e-8)).float())
    config = TrainConfig(epochs=1, learning_rate=0.01, decay=decay)
    trained = train(tiny_model(), examples, validation, config, tmp_path / "train", Silent())
    for name, tensor in trained.model.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), model.state_dict()[name].numpy(), rtol=0, atol=1e-4, err_msg=name)
    assert trained.epochs[0].train_loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_what_is_left_is_all_that_is_still_to_come_at_the_speed_so_far(tmp_path):
    heard = []
    tiny_training(tmp_path, heard.append)
    epoch_size = tiny_examples()[0].epoch_size
    for now in heard:
        to_come = (3 - now.epoch) * epoch_size + (1 - now.step / now.steps) * epoch_size
        assert now.seconds_left * now.examples_a_second == pytest.approx(to_come, abs=1e-6)
    assert heard[-1].seconds_left == 0


def test_linear_decay_starts_after_a_fifth_of_epochs_and_stays_positive():
    assert [rate_at(done, "linear") for done in (0, 0.1, 0.2, 0.6, 0.8)] == pytest.approx([1, 1, 1, 0.5, 0.25])
    assert [rate_at(done, "linear") for done in (0.99, 1.0)] == [0.02, 0.02]
    assert [rate_at(done, "none") for done in (0, 0.5, 1)] == [1, 1, 1]


def test_dropout_drops_its_share_of_embeddings_in_training_only():
    model = tiny_model(vocabulary=400, embedding=50)
    model.dropout = 0.3
    read = []
    model.reader.register_forward_pre_hook(lambda _module, given: read.append(given[0].data.detach()))
    tokens = torch.arange(2, 400)[:, None]
    lengths = torch.ones(398, dtype=torch.int64)
    expected = model.embedding(tokens)[:, 0].detach()
    model.train()
    model.read(tokens, lengths)
    left_out = read[0] == 0
    assert float(left_out.double().mean()) == pytest.approx(0.3, abs=0.02)
    torch.testing.assert_close(read[0], torch.where(left_out, 0.0, expected / 0.7))
    model.eval()
    model.read(tokens, lengths)
    assert torch.equal(read[1], expected)


@pytest.mark.parametrize("stop", mostly_slow([1, 3, STEPS, STEPS + 4], quick=[3]))
def test_what_is_left_out_and_the_rate_are_the_same_after_a_stop(tmp_path, stop):
    how = {"dropout": 0.3, "decay": "linear"}
    whole = tiny_training(tmp_path / "whole", **how)
    assert not same_weights(whole.model.state_dict(), tiny_training(tmp_path / "plain").model.state_dict())
    with pytest.raises(Stopped):
        tiny_training(tmp_path / "stopped", Heard(at_step=stop).on_now, **how)
    assert_same(tiny_training(tmp_path / "stopped", **how), whole)


@pytest.mark.parametrize("wrong", [{"decay": "cosine"}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_a_decay_or_dropout_that_cannot_be_meant_is_refused_with_its_value(wrong):
    with refusing(Usage, *wrong.values()):
        TrainConfig(**wrong)


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.50001, 0.9, 1.0]), st.booleans()), min_size=1))
def test_auc_is_the_share_of_correctly_ordered_pairs_with_ties_half(rows):
    positives = [score for score, positive in rows if positive]
    negatives = [score for score, positive in rows if not positive]
    found = auc(np.array([score for score, _ in rows]), np.array([positive for _, positive in rows]))
    if not positives or not negatives:
        assert math.isnan(found)
        return
    won = sum((one > other) + (one == other) / 2 for one, other in product(positives, negatives))
    assert found == pytest.approx(won / (len(positives) * len(negatives)), abs=1e-12)


def test_auc_by_hand():
    positive = np.array([True, False, True, False])
    assert auc(np.array([0.9, 0.1, 0.8, 0.2]), positive) == 1
    assert auc(np.array([0.1, 0.9, 0.2, 0.8]), positive) == 0
    assert auc(np.array([0.5, 0.5, 0.5, 0.5]), positive) == 0.5
    assert auc(np.array([0.9, 0.8, 0.3, 0.3]), positive) == 0.625  # won, won, lost, tied


@pytest.mark.parametrize(
    ("first", "second", "positive", "right"),
    [
        (0.9, 0.6, True, True),
        (0.9, 0.6, False, False),
        (0.6, 0.1, False, True),  # the second is the surer
        (0.6, 0.1, True, False),
        (0.4, 0.8, True, True),
        (0.75, 0.25, True, True),  # as sure as each other: the first
        (0.25, 0.75, True, False),
        (0.5, 0.5, False, True),  # undecided is not positive
        (0.5, 0.5, True, False),
    ],
)
def test_accuracy_goes_by_the_triplet_that_is_the_surer_of_itself(first, second, positive, right):
    assert accuracy(TripletPredictions(np.array([first]), np.array([second]), np.array([positive]), 0.0)) == float(
        right
    )


def test_accuracy_is_the_share_of_examples_that_are_right():
    first, second = np.array([0.9, 0.8, 0.3, 0.45, 0.2]), np.array([0.5, 0.1, 0.4, 0.6, 0.9])
    positive = np.array([True, True, False, True, True])  # right, wrong, right, right, right
    assert accuracy(TripletPredictions(first, second, positive, 0.0)) == pytest.approx(0.8)


def test_predictions_are_softmax_of_both_triplets_in_order_with_mean_loss():
    _, validation = tiny_examples(batch=16)
    model = tiny_model().train()
    found = predict(model, validation)
    assert not model.training
    first, second, positive, losses = [], [], [], []
    with torch.inference_mode():
        for batch in validation.batches(0):
            logits = model(*map(torch.from_numpy, batch[:3])).double().numpy()
            likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            losses += [-math.log(row[label]) for row, label in zip(likely, batch.labels.tolist(), strict=True)]
            half = len(likely) // 2
            first += likely[:half, 1].tolist()
            second += likely[half:, 1].tolist()
            positive += (batch.labels[:half] == 1).tolist()
    assert len(first) == validation.epoch_size
    np.testing.assert_allclose(found.first, first, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.second, second, rtol=0, atol=1e-6)
    assert found.positive.tolist() == positive
    assert found.loss == pytest.approx(sum(losses) / len(losses), abs=1e-6)


# ── the folder, and settings ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_kept_is_tensors_and_json_and_never_a_pickle(tmp_path):
    trained = tiny_training(tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["a.safetensors", "b.safetensors", "best.safetensors", "state.json"]
    assert same_weights(load_file(tmp_path / "best.safetensors"), weights_of(trained.model))
    names = [name for name, _ in trained.model.named_parameters()]
    sums = {f"adam.{name}.{key}" for name in names for key in ("step", "exp_avg", "exp_avg_sq")}
    for slot in "ab":
        assert load_file(tmp_path / f"{slot}.safetensors").keys() == sums | {f"model.{name}" for name in names}
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["epoch"], state["step"], state["best_epoch"]) == (3, 0, trained.best_epoch - 1)


@pytest.mark.parametrize("name", ["epochs", "patience", "accumulate", "save_every", "threads"])
def test_counts_below_one_are_refused(name):
    with refusing(Usage, 1):
        TrainConfig(**{name: 0})


@pytest.mark.parametrize("rate", [0, -0.001, 1, math.inf, math.nan])
def test_learning_rates_that_cannot_be_meant_are_refused(rate):
    with refusing(Usage, rate):
        TrainConfig(learning_rate=rate)


def test_a_device_that_nobody_knows_is_refused():
    with refusing(Usage, "tpu", "cuda"):
        TrainConfig(device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_is_refused_where_there_is_none():
    with refusing(Usage, "CUDA", "--device cpu"):
        TrainConfig(device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_on_cuda_it_learns_as_on_the_processor_and_goes_on_after_a_stop(whole, tmp_path):
    with pytest.raises(Stopped):
        tiny_training(tmp_path, Heard(at_step=STEPS + 3).on_now, device="cuda")
    trained = tiny_training(tmp_path, device="cuda")
    assert {tensor.device.type for tensor in trained.model.state_dict().values()} == {"cpu"}
    for figures, expected in zip(trained.epochs, whole.epochs, strict=True):
        assert figures.train_loss == pytest.approx(expected.train_loss, abs=0.05)
        assert figures.validation_loss == pytest.approx(expected.validation_loss, abs=0.05)
