"""All machines are asked what they have: also busy ones, and the command sees a stop and silence meanwhile."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager

import pytest
from told import Told

from refaug.core.errors import Interrupted, Unavailable
from refaug.core.progress import Silent
from refaug.extras.cluster import connection
from refaug.extras.cluster.node_requirements import require_alike, versions_of

PACKAGES = ("numpy", "pyarrow")


@contextmanager
def all_cores_busy(cluster, folder):
    """A task on every core, which ends with the block."""

    def read(pipe):
        return pipe.read_bytes()

    pipes = [folder / f"pipe-{number}" for number in range(sum(node.cores for node in cluster.nodes()))]
    for pipe in pipes:
        os.mkfifo(pipe)
    tasks = [cluster.ray.remote(num_cpus=1)(read).remote(pipe) for pipe in pipes]
    with ExitStack() as ends:
        for pipe in pipes:
            ends.enter_context(pipe.open("wb"))  # which waits for its reader
        yield
    cluster.ray.get(tasks)


@pytest.fixture
def silent_file(tmp_path):
    """A file that no machine gets to read."""
    pipe = tmp_path / "silent"
    os.mkfifo(pipe)
    yield pipe
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # a task that still waits for it reads an empty file


def test_machines_whose_cores_are_busy_answer(cluster, tmp_path):
    steps, folder = Told(), tmp_path / "seen"
    with all_cores_busy(cluster, tmp_path):
        machines = require_alike(cluster, folder, PACKAGES, steps, files=[tmp_path / "gone"])
    assert sorted(node.id for node, _ in machines) == sorted(node.id for node in cluster.nodes())
    assert [seen.versions for _, seen in machines] == [versions_of(PACKAGES)] * 2
    assert [seen.unreadable for _, seen in machines] == [[(tmp_path / "gone", "No such file or directory")]] * 2
    assert steps.stages == [("checking machines", 2, "machines")]
    assert steps.done == 2
    assert list(folder.iterdir()) == []


def test_a_stop_is_seen_while_machines_are_asked(cluster, tmp_path, silent_file, monkeypatch):
    cancelled = []  # none: Ray may end the process that cancels a call at the moment of its answer
    monkeypatch.setattr(cluster.ray, "cancel", lambda reference, **_options: cancelled.append(reference))

    class Stops(Silent):
        def advance(self, amount):
            raise Interrupted("stopped")

    folder = tmp_path / "seen"
    with pytest.raises(Interrupted, match="stopped"):
        require_alike(cluster, folder, PACKAGES, Stops(), files=[silent_file])
    assert list(folder.iterdir()) == []
    assert cancelled == []


def test_machines_that_stay_silent_are_named(cluster, tmp_path, silent_file, monkeypatch):
    monkeypatch.setattr(connection, "_PATIENCE_S", 0.0)
    with pytest.raises(Unavailable) as refused:
        require_alike(cluster, tmp_path / "seen", PACKAGES, Silent(), files=[silent_file])
    addresses = ", ".join(node.address for node in cluster.nodes())
    assert refused.value.message == f"no answer for 0 s from {addresses} of the cluster at {cluster.address}"
    assert list((tmp_path / "seen").iterdir()) == []
