"""Training a rater in several processes of a cluster: the network of one process with the same batches."""

from __future__ import annotations

import os
import signal

import numpy as np
import orjson
import pytest
from cluster_builds import processes_titled
from refusals import refusing
from safetensors.numpy import load_file
from trainings import talk

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Conflict
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.rater.nn.build import RaterOrder, train_rater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.training.examples import ExampleSettings
from refaug.rater.training.loop import TrainConfig
from refaug.scoring.home.networks import rater_places

SIZES = RaterConfig(embedding=16, hidden=16, width=32, max_tokens=32)
TOLERANCE = 1e-4  # of losses and weights: sums of gradients in another order, over some fifty steps of Adam


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    log = talk(folder / "chat.jsonl", 200)
    assert main(["--home", str(folder / "home"), "--quiet", "log", "ingest", str(log), "--log", "chat"]) == 0
    return Settings(home=folder / "home", quiet=True)


def order_of(name, **training):
    return RaterOrder(
        name=name,
        logs=("chat",),
        model=SIZES,
        pieces=200,
        examples=ExampleSettings(batch=40, validation_share=0.3),
        training=TrainConfig(
            **{"epochs": 2, "learning_rate": 0.005, "dropout": 0.2, "save_every": 4, "accumulate": 2, **training}
        ),
    )


def trained(home, name, cluster=None, on_epoch=lambda _: None, **training):
    """The report of a rater, its weights, and the manifest of its version."""
    made = train_rater(
        rater_places(home), order_of(name, **training), Silent(), on_epoch=on_epoch, cluster=cluster, again=True
    )
    folder = artefact_stores(home)["rater"].folder(name, made.version)
    return made.report, load_file(folder / "weights.safetensors"), orjson.loads((folder / "manifest.json").read_bytes())


@pytest.fixture(scope="module")
def alone(home):
    return trained(home, "alone")


def assert_alike(found, expected):
    for here, there in zip(found[0]["epochs"], expected[0]["epochs"], strict=True):
        for name in ("train_loss", "validation_loss", "auc"):
            assert here[name] == pytest.approx(there[name], abs=TOLERANCE), name
    assert found[1].keys() == expected[1].keys()
    for name, weights in found[1].items():
        np.testing.assert_allclose(weights, expected[1][name], atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("kills", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_workers_train_the_network_of_one_and_a_killed_one_changes_nothing(cluster, home, alone, kills):
    killed = []

    def kill(figures):
        if kills and figures.epoch == 1 and not killed:
            killed.extend(process for process, _ in processes_titled("ActorHost")[:1])
            for process in killed:
                os.kill(process, signal.SIGKILL)

    both = trained(home, f"both-{kills:d}", cluster, on_epoch=kill, workers=2)
    assert bool(killed) == kills
    assert_alike(both, alone)
    assert both[2]["details"]["training"]["workers"] == 2
    assert alone[2]["details"]["training"]["workers"] == 1
    assert both[2]["details"]["training"]["seed"] == alone[2]["details"]["training"]["seed"] == 1
    assert both[2]["details"]["inputs"] == alone[2]["details"]["inputs"]


@pytest.mark.faults
def test_a_training_that_was_stopped_on_a_cluster_goes_on_without_it(cluster, home):
    class Stopped(Exception):
        pass

    def stop(_figures):
        raise Stopped

    # the workers are told to stop a second after the first epoch, and may have ended some more by then
    course = {"workers": 2, "epochs": 30, "patience": 30, "learning_rate": 0.0005}
    with pytest.raises(Stopped):
        trained(home, "moved", cluster, on_epoch=stop, **course)
    seen = []
    moved = trained(home, "moved", on_epoch=lambda figures: seen.append(figures.epoch), **course)
    assert seen == list(range(min(seen, default=0), 31))
    assert seen[0] > 1
    assert_alike(moved, trained(home, "alone-longer", **course))


def test_more_workers_than_there_are_cores_are_refused(cluster, home):
    with refusing(Conflict, "2 cores", 3):
        trained(home, "many", cluster, workers=3, accumulate=3)
    assert artefact_stores(home)["rater"].current("many") is None
