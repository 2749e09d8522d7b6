"""Shards that are opened while something is wrong with a machine: one replica of each is enough."""

from __future__ import annotations

import logging
import socket
from contextlib import contextmanager

import pytest
from cluster_machines import machine_with_its_own_disk
from cluster_shards import home_of_chance, log_of_chance, until
from disks import fill
from indexes import build
from refusals import refusing

from refaug.core.artefacts.manifests import NamedFile
from refaug.core.artefacts.store.locations import StoreSettings
from refaug.core.errors import StorageFull, Unavailable
from refaug.extras.cluster import startup
from refaug.extras.cluster.actors import ActorHost
from refaug.extras.cluster.connection import connect
from refaug.extras.cluster.replicas import NoReplica
from refaug.extras.cluster.search.fleet import ShardHosts
from refaug.extras.cluster.search.node_copies import VARIABLE, CopySource
from refaug.extras.cluster.search.shard_server import IndexSizes, ShardFiles, ShardServer
from refaug.indexer.manifest import software
from refaug.indexer.search.index import ReferenceIndex

SHARDS = 3  # one for each machine


@pytest.fixture(scope="module")
def log():
    return log_of_chance(5, 600, 12)


@pytest.fixture(scope="module")
def places(log, tmp_path_factory):
    places = home_of_chance(tmp_path_factory.mktemp("openings"), log[0])
    build(places, "chat", shards=SHARDS)
    build(places, "small")
    return places


@pytest.fixture(scope="module")
def joined(machines):
    with connect(machines.address) as cluster:
        yield cluster


@contextmanager
def hosts_of(joined, replicas):
    hosts = ShardHosts(joined, replicas=replicas, timeout_s=30.0, store=None)
    try:
        yield hosts
    finally:
        hosts.close()


@pytest.fixture
def machine_with_a_full_disk(joined, machines, node_cache, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(node_cache))
    with machine_with_its_own_disk(joined, machines.address, node_cache, "size=64m") as disk:
        yield fill(disk)


@pytest.mark.machine
def test_a_full_disk_on_one_machine_stops_no_version(joined, machine_with_a_full_disk, places, log, caplog):
    with hosts_of(joined, 1) as hosts, refusing(StorageFull, "shard", "chat@", socket.gethostname()):
        ReferenceIndex.open_on(places, "chat", hosts)  # the shard on that machine is nowhere else
    caplog.clear()
    with (
        hosts_of(joined, 3) as hosts,
        ReferenceIndex.open(places, "chat") as alone,
        ReferenceIndex.open_on(places, "chat", hosts) as spread,
    ):
        assert [(state.replicas, state.alive, len(state.silent)) for state in hosts.states()] == [(3, 2, 1)] * SHARDS
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        for shard in range(SHARDS):
            [why] = [warning for warning in warnings if warning.startswith(f"shard {shard} of chat@")]
            assert "does not answer on" in why
            assert "are free" in why
        expected = alone.search(log[1])
        assert all(spread.search(log[1]) == expected for _ in range(4))
        machine_with_a_full_disk.unlink()
        until(lambda: [state.alive for state in hosts.states()] == [3] * SHARDS, hosts.states)
        assert spread.search(log[1]) == expected


@contextmanager
def room_for(joined, processes):
    """Leave room for so many processes on the first machine, and for none on the others, until the block ends."""
    ray, host, held = joined.ray, joined.ray.remote(ActorHost), []
    machines = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("memory")]
    first = joined.nodes()[0].id
    for node in machines:
        room = int(node["Resources"]["memory"]) - (processes * (1 << 20) if node["NodeID"] == first else 0)
        at_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        held.append(host.options(num_cpus=0, memory=room, scheduling_strategy=at_node).remote("", {}))
    ray.get([holder.touch.remote() for holder in held])  # it opens nothing, and stays for a minute
    try:
        yield lambda: [ray.kill(holder) for holder in held]
    finally:
        for holder in held:
            ray.kill(holder)


def test_a_process_that_no_machine_takes_is_not_waited_for_without_end(joined, places, monkeypatch):
    monkeypatch.setattr(startup, "_PLACE_S", 3.0)
    with room_for(joined, 0), hosts_of(joined, 1) as hosts, pytest.raises(NoReplica) as refused:
        ReferenceIndex.open_on(places, "small", hosts)
    assert refused.value.message.startswith("shard 0 of small@")
    assert refused.value.message.endswith(
        f"has had no process on the cluster for 3 s: the machine {joined.nodes()[0].address} has no room for one"
    )


@pytest.mark.slow
@pytest.mark.faults
def test_a_replica_that_no_machine_takes_is_left_out_and_joins_later(joined, places, log, monkeypatch):
    monkeypatch.setattr(startup, "_PLACE_S", 30.0)  # the other one begins before that
    with (
        room_for(joined, 1) as give_room,
        hosts_of(joined, 2) as hosts,
        ReferenceIndex.open(places, "small") as alone,
        ReferenceIndex.open_on(places, "small", hosts) as spread,
    ):
        assert [(state.replicas, state.alive) for state in hosts.states()] == [(2, 1)]
        assert spread.search(log[1]) == alone.search(log[1])
        give_room()
        until(lambda: [state.alive for state in hosts.states()] == [2], hosts.states)
        assert spread.search(log[1]) == alone.search(log[1])


def test_a_store_without_an_answer_is_named_with_shard_and_machine(joined, tmp_path):
    with socket.socket() as silent, hosts_of(joined, 1) as hosts:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = StoreSettings(location="s3://bucket/indexes", endpoint=endpoint, timeout_s=2.0)
        source = CopySource(folder=tmp_path / "none", store=store)
        file = NamedFile(name="shards/0/pairs.arrow", size=1, sha256="0" * 64)
        arguments = {
            "files": ShardFiles(name="chat-0", segments=(), files=(file,), source=source),
            "vectors": None,
            "sizes": IndexSizes(words=1, logs=1, dimensions=1),
            "expected": software(),
        }
        started = hosts.actors.start("shard 0 of chat@1", ShardServer, arguments, joined.nodes()[:1])
        try:
            with pytest.raises(Unavailable) as refused:
                startup.first_answers(joined, [started], "facts")
        finally:
            hosts.actors.end([started])
    assert refused.value.message.startswith(
        f"shard 0 of chat@1: on {socket.gethostname()}: shards/0/pairs.arrow is nowhere to be fetched from: the home "
        "does not have it; the store s3://bucket/indexes cannot be read: "
    )
