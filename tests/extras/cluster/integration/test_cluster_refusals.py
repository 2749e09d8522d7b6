"""What a build on a cluster refuses, and what it says: each row of the page's table."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from cluster_builds import Stages, assert_is, command_of, left_of, order_of, processes_titled, small_home
from cluster_machines import machine_with_its_own_disk
from disks import fill, require_tmpfs, small_disk
from refusals import refusing

from refaug.core.errors import Conflict, Locked, StorageFull, Unavailable
from refaug.core.progress import Silent
from refaug.extras.cluster.building import shards as shards_on_cluster
from refaug.extras.cluster.building.shards import PROCESS
from refaug.extras.cluster.connection import connect
from refaug.indexer.building.build import build_index
from refaug.indexer.index_folders import Places

FEW = 2  # shards


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return small_home(tmp_path_factory.mktemp("cluster") / "home")


@pytest.mark.parametrize("own_token", ["another", None])
def test_another_token_and_none_are_refused(machines, places, tmp_path, own_token):
    command = command_of(places, "refused", machines.address, HOME=str(tmp_path), RAY_AUTH_TOKEN=own_token or "")
    if own_token is None:
        del command["env"]["RAY_AUTH_TOKEN"]
    ended = subprocess.run(**command, check=False, timeout=120)
    assert ended.returncode == 3, ended.stderr
    assert f"the cluster at {machines.address} wants a token, and the one here is missing or another" in ended.stderr
    assert "RAY_AUTH_TOKEN_PATH" in ended.stderr
    assert places.indexes.current("refused") is None


@pytest.mark.parametrize(("what", "version"), [("Ray", ("2.1.0", "3.11.0")), ("Python", (None, "3.9.1"))])
def test_another_ray_and_another_python_are_refused(machines, monkeypatch, what, version):
    import ray  # noqa: PLC0415  it reads the token when it is imported

    there, _ = ray._private.utils.compute_version_info()
    here = (version[0] or there, version[1])
    monkeypatch.setattr("ray._private.utils.compute_version_info", lambda: here)
    with pytest.raises(Conflict) as refused, connect(machines.address):
        pass
    assert refused.value.message.startswith(f"the cluster at {machines.address} has another Ray or Python: ")
    assert f"Ray: {there}" in refused.value.message
    assert f"Ray: {here[0]}" in refused.value.message
    assert f"Python: {here[1]}" in refused.value.message
    monkeypatch.undo()
    with connect(machines.address) as cluster:  # the refused attempt left nothing behind
        assert len(cluster.nodes()) == 2


@pytest.mark.slow
@pytest.mark.faults  # Ray looks for half a minute, twice
@pytest.mark.machine
def test_a_machine_that_does_not_belong_to_the_cluster_is_refused(machines, places):
    require_tmpfs()  # and with it the right to make namespaces
    command = command_of(places, "outside", machines.address)
    command["args"] = ["unshare", "--pid", "--fork", "--mount-proc", *command["args"]]  # it sees no process of Ray
    ended = subprocess.run(**command, check=False, timeout=200)
    assert ended.returncode == 4, ended.stderr
    assert f"this machine does not belong to the cluster at {machines.address}" in ended.stderr
    assert f"ray start --address {machines.address} adds it" in ended.stderr


@pytest.mark.machine
def test_a_machine_that_does_not_see_the_home_is_refused(cluster, machines, places):
    home = places.logs.parent
    with machine_with_its_own_disk(cluster, machines.address, home), pytest.raises(Conflict) as refused:
        build_index(places, order_of("unseen", FEW), Silent(), cluster=cluster)
    (scratch,) = places.cache.resolve().glob("cluster-index-unseen-*")
    assert refused.value.message.endswith(f"of the cluster does not see {scratch}")
    assert list(scratch.iterdir()) == []
    assert refused.value.remedy == "mount REFAUG_HOME under the same path on all machines"
    assert places.indexes.current("unseen") is None


@pytest.mark.slow
def test_a_task_that_dies_six_times_ends_the_build_which_goes_on_later(cluster, places):
    killed, over = set(), threading.Event()

    def kill():
        while not over.is_set():
            for process, _ in processes_titled("train_index"):
                if process not in killed:
                    os.kill(process, signal.SIGKILL)
                    killed.add(process)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(Unavailable) as ended:
            build_index(places, order_of("dies", FEW), Silent(), cluster=cluster)
    finally:
        over.set()
        killer.join()
    assert ended.value.message == "the task train_index died 6 times on the cluster: WorkerCrashedError"
    assert "the same command goes on from finished stages" in ended.value.remedy
    assert len(killed) == 6
    assert places.indexes.current("dies") is None
    stages = Stages()
    assert build_index(places, order_of("dies", FEW), stages, cluster=cluster).published
    assert stages.stages[1] == "training, comparing, writing postings"
    assert left_of("dies", places) == []


def test_a_cluster_smaller_than_the_plan_is_refused(cluster, places, monkeypatch):
    most = max(node.memory for node in cluster.nodes())
    with pytest.raises(Conflict) as refused:
        build_index(places, order_of("small", FEW, memory=most + 2**30 - PROCESS), Silent(), cluster=cluster)
    room = f"{most / 2**30:,.1f} GiB for tasks at most; a task of this build takes {most / 2**30 + 1:,.1f} GiB"
    assert refused.value.message.endswith(room)
    monkeypatch.setattr(
        shards_on_cluster, "shard_memory", lambda *_: 2**50 - PROCESS
    )  # what a plan for a giant log would say
    stages = Stages()
    with refusing(Conflict, "1,048,576.0 GiB"):
        build_index(places, order_of("small", FEW), stages, cluster=cluster)
    assert stages.stages[-1] == "drawing queries"  # and no task of vectors ran
    assert not list(places.cache.glob("index-small-*/trained/*"))
    assert places.indexes.current("small") is None


def test_of_two_builds_of_one_name_the_second_is_refused(cluster, places):
    refused = []

    def again(stage):
        if stage == "writing tables":
            with pytest.raises(Locked) as error:
                build_index(places, order_of("twice", FEW), Silent(), cluster=cluster)
            refused.append(error.value.message)

    assert build_index(places, order_of("twice", FEW), Stages(again), cluster=cluster).published
    assert len(refused) == 1
    assert "building index twice" in refused[0]


@pytest.mark.machine
def test_a_full_disk_is_named_and_the_build_goes_on_when_there_is_room(cluster, places, tmp_path):
    alone = build_index(places, order_of("alone", FEW), Silent()).manifest
    with small_disk("size=64m") as disk:
        here = Places.under(disk / "home")
        _copy(places, here)

        class Full(Silent):
            def stage(self, name, total=None, unit=""):
                if name.startswith("adding vectors"):
                    fill(disk)

        with pytest.raises(StorageFull) as full:
            build_index(here, order_of("full", FEW), Full(), cluster=cluster)
        assert "the disk is full" in full.value.message
        assert here.indexes.current("full") is None
        (disk / "filler").unlink()
        built = build_index(here, order_of("full", FEW), Silent(), cluster=cluster)
        assert_is(built.manifest, alone)


def _copy(places, target):
    """Copy logs and vectors into another home."""
    for name in ("logs", "vectors"):
        source = places.logs.parent / name
        subprocess.run(["cp", "-a", str(source), str(_made(target.logs.parent) / name)], check=True)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
