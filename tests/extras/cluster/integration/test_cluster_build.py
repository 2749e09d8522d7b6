"""Indexes built on a cluster: file by file those of one machine, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from cluster_builds import Stages, assert_is, command_of, left_of, order_of, processes_titled, small_home
from cluster_machines import add_machine
from refusals import refusing

from refaug.core.errors import Conflict, Interrupted, Usage
from refaug.core.progress import Silent
from refaug.extras.cluster import node_requirements
from refaug.indexer.building.build import build_index
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.manifest import IndexManifest


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return small_home(tmp_path_factory.mktemp("cluster") / "home")


@pytest.fixture(scope="module")
def expected(places):
    """What one machine builds."""
    return build_index(places, order_of("alone"), Silent()).manifest


@pytest.mark.parametrize(("factory", "shards"), [("Flat", 3), ("PCAR8,IVF8,PQ4x4fs", 5)])
def test_a_cluster_builds_the_files_that_one_machine_builds(cluster, places, factory, shards):
    alone = build_index(places, order_of("one", shards, factory), Silent(), again=True)
    shown = Stages()
    together = build_index(places, order_of("two", shards, factory), shown, again=True, cluster=cluster)
    assert shown.steps == [f"{step} of 10" for step in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]
    assert_is(together.manifest, alone.manifest)
    assert together.published
    assert together.manifest.utterances == alone.manifest.utterances > 1_000
    folder = places.indexes.folder("two", together.version)
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert left_of("two", places) == []


def test_a_build_on_a_cluster_leaves_out_what_was_deleted(cluster, places):
    shown = Stages()
    first = build_index(places, order_of("gone", 3, bm25=None), shown, again=True, cluster=cluster)
    assert shown.steps == [f"{step} of 9" for step in range(1, 10)]  # no encoder and no BM25
    keys = erased_keys(dialogues=[f"d{number}" for number in range(50)])
    update_index(places, "gone", Silent(), erase=keys)
    again = build_index(places, order_of("gone", 3, bm25=None), Silent(), again=True, cluster=cluster)
    alone = build_index(places, order_of("gone", 3, bm25=None), Silent(), again=True)
    assert again.manifest.pairs < first.manifest.pairs
    assert_is(again.manifest, alone.manifest)


@pytest.mark.slow
def test_killed_tasks_are_done_again(cluster, places, expected):
    killed = []

    def kill(stage):
        for process, title in processes_titled("write_table", "code_shard", "add_shard", "number_words"):
            os.kill(process, signal.SIGKILL)
            killed.append((stage, title))

    built = build_index(places, order_of("killed"), Stages(kill), cluster=cluster)
    assert killed
    assert_is(built.manifest, expected)
    assert left_of("killed", places) == []


def test_a_build_survives_the_death_of_a_machine(cluster, machines, places, expected):
    gone = []

    def remove(stage):
        if stage == "adding vectors":
            gone.append(stage)
            machines.remove_node(machines.worker_nodes.copy().pop(), allow_graceful=False)

    try:
        built = build_index(places, order_of("machine"), Stages(remove), cluster=cluster)
    finally:
        add_machine(machines)
    assert gone == ["adding vectors"]
    assert_is(built.manifest, expected)


@pytest.mark.slow
def test_a_stopped_build_goes_on_from_finished_stages(cluster, places, expected):
    def stop(stage):
        if stage == "adding vectors":
            raise Interrupted("stopped")

    first, second = Stages(stop), Stages()
    with pytest.raises(Interrupted):
        build_index(places, order_of("stopped"), first, cluster=cluster)
    built = build_index(places, order_of("stopped"), second, cluster=cluster)
    assert first.stages[:4] == ["checking machines", "grouping", "writing tables", "reading words"]
    assert second.stages[:2] == ["checking machines", "adding vectors"]
    assert_is(built.manifest, expected)


def test_a_build_begun_on_a_cluster_goes_on_alone(cluster, places, expected):
    def stop(now):
        if now == "numbering words":
            raise Interrupted("stopped")

    name = "alone-then"
    with pytest.raises(Interrupted):
        build_index(places, order_of(name), Stages(stop), cluster=cluster)
    assert_is(build_index(places, order_of(name), Silent()).manifest, expected)
    assert left_of(name, places) == []


def test_a_build_begun_alone_goes_on_on_a_cluster(cluster, places, expected):
    class StopsInWords(Silent):
        words = 0

        def stage(self, name, total=None, unit=""):
            self.words += name == "reading words"
            if self.words == 3:
                raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        build_index(places, order_of("begun"), StopsInWords())
    after = Stages()
    assert_is(build_index(places, order_of("begun"), after, cluster=cluster).manifest, expected)
    assert after.stages[:2] == ["checking machines", "reading words"]


def test_the_command_goes_on_after_kill_9(machines, places, expected):
    command = command_of(places, "command", machines.address)
    with subprocess.Popen(**command) as first:
        for line in first.stderr:
            if line.startswith("writing tables") and "done in" in line:
                first.kill()
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(**command, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    assert "writing tables" not in second.stderr
    name, version = places.indexes.resolve("command")
    assert_is(IndexManifest.read(places.indexes.folder(name, version)), expected)


def test_what_cannot_be_built_on_this_cluster_is_refused_at_once(cluster, places, monkeypatch):
    with refusing(Usage, "shards"):
        build_index(places, order_of("refused", 1), Silent(), cluster=cluster)
    with refusing(Conflict, 1, 4):
        build_index(places, order_of("refused", threads=4), Silent(), cluster=cluster)
    monkeypatch.setattr(node_requirements, "versions_of", lambda _: {"numpy": "1.0"})
    with refusing(Conflict, "numpy", "1.0"):
        build_index(places, order_of("refused"), Silent(), cluster=cluster)
    assert places.indexes.current("refused") is None
    assert not list(places.cache.rglob(".seen-*"))
