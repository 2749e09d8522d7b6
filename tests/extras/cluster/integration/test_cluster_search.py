"""An index whose shards are searched by processes of a cluster: to the last bit the answers of one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from cluster_machines import add_machine
from cluster_shards import home_of_chance, log_of_chance, pairs_of_chance, processes_of_shards, until
from indexes import add_to_log, build
from plain_search import MODES, RawPair

from refaug.core.progress import Silent
from refaug.extras.cluster.connection import connect
from refaug.extras.cluster.search.fleet import ShardHosts
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.manifest import software
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.searched_segments import ShardsMissing


@pytest.fixture(scope="module")
def log():
    return log_of_chance(1, 1_500, 24)


@pytest.fixture(scope="module")
def places(log, tmp_path_factory):
    return home_of_chance(tmp_path_factory.mktemp("serving"), log[0])


@pytest.fixture(scope="module")
def joined(machines):
    with connect(machines.address) as cluster:
        yield cluster


@pytest.fixture
def hosts(joined):
    hosts = ShardHosts(joined, replicas=1, timeout_s=10.0, store=None)
    yield hosts
    hosts.close()


def build_shards(places, name, factory, shards):
    build(places, name, shards=shards, check_queries=50, limits=Limits(factory=factory, recall=0.5))


def without_excluded(references, notes):
    return references, {name: note for name, note in notes.items() if name != "excluded_references"}


def answers(index, tests, how, excluded=50):
    return [(found.references, found.search_notes) for found in index.search(tests, how, excluded=excluded)]


def settings_to_try():
    for mode in MODES:
        yield SearchSettings(mode=mode)
        yield SearchSettings(mode=mode, k=3, depth=20)
    yield SearchSettings(k=400)


def assert_same(alone, spread, tests):
    for how in settings_to_try():
        expected = answers(alone, tests, how)
        assert answers(spread, tests, how) == expected, how
        for number in (0, 1, 5):  # alone, and a few at once: shards look ahead
            assert answers(spread, tests[number : number + 2], how, 0) == [
                without_excluded(*one) for one in expected[number : number + 2]
            ], how
        assert answers(spread, tests[:1], how) == expected[:1], how
    assert [spread.draw_utterance(number) for number in range(9)] == [alone.draw_utterance(place) for place in range(9)]


@pytest.mark.parametrize(
    ("factory", "shards"),
    [("Flat", 3), pytest.param("PCAR8,IVF8,PQ4x4fs", 8, marks=pytest.mark.faults), ("IVF8,SQ8", 1)],
)
def test_shards_on_a_cluster_answer_as_one_process_does(hosts, places, log, factory, shards):
    name = f"same-{shards}"
    build_shards(places, name, factory, shards)
    with ReferenceIndex.open(places, name) as alone, ReferenceIndex.open_on(places, name, hosts) as spread:
        assert len(spread.fleet.shards) == shards
        assert_same(alone, spread, log[1])
        assert list(spread.neighbours("w1 w2")) == list(alone.neighbours("w1 w2"))


def test_updates_and_masks_lie_with_the_shards(hosts, places, log):
    build_shards(places, "updated", "PCAR8,IVF8,PQ4x4fs", 3)
    add_to_log(places, "chat", pairs_of_chance(Random(7), 300))
    update_index(places, "updated", Silent(), erase=erased_keys(dialogues=[f"d{number}" for number in range(20)]))
    with ReferenceIndex.open(places, "updated") as alone, ReferenceIndex.open_on(places, "updated", hosts) as spread:
        assert len(alone.segments) == 4
        assert any(len(segment.tables.superseded) for segment in alone.segments)
        assert [shard.numbers for shard in spread.fleet.shards] == [(0, 3), (1,), (2,)]
        assert_same(alone, spread, log[1])


def answers_again(spread, tests, how, expected, hosts):
    """Wait until a search answers, which must be right."""

    def has_answered():
        try:
            answer = answers(spread, tests, how)
        except ShardsMissing:
            return False
        assert answer == expected
        return True

    until(has_answered, hosts.states)


@pytest.fixture(scope="module")
def chat(places):
    build_shards(places, "chat", "PCAR8,IVF8,PQ4x4fs", 3)
    with ReferenceIndex.open(places, "chat") as alone:
        yield alone


def test_a_killed_replica_is_stood_in_for_at_once(joined, places, chat, log):
    hosts, how = ShardHosts(joined, replicas=2, timeout_s=30.0, store=None), SearchSettings()
    expected = answers(chat, log[1], how)
    before = set(processes_of_shards())
    try:
        with ReferenceIndex.open_on(places, "chat", hosts) as spread:
            assert [state.alive for state in hosts.states()] == [2, 2, 2]
            own = [process for process in processes_of_shards() if process not in before]
            for process in own[:2]:  # at most one machine's replicas of a shard each
                os.kill(process, signal.SIGSTOP)  # slow beyond measure: another replica is asked
                try:
                    assert answers(spread, log[1], how) == expected
                finally:
                    os.kill(process, signal.SIGCONT)
            for process in own[:1]:
                os.kill(process, signal.SIGKILL)
            for mode in MODES:
                assert answers(spread, log[1], SearchSettings(mode=mode)) == answers(
                    chat, log[1], SearchSettings(mode=mode)
                )
            until(lambda: [state.alive for state in hosts.states()] == [2, 2, 2], hosts.states)
            assert answers(spread, log[1], how) == expected
    finally:
        hosts.close()


@pytest.mark.slow
def test_shards_of_a_machine_that_goes_open_elsewhere(hosts, machines, places, chat, log):
    how = SearchSettings()
    expected = answers(chat, log[1], how)
    with ReferenceIndex.open_on(places, "chat", hosts) as spread:
        assert answers(spread, log[1], how) == expected
        try:
            before = set(processes_of_shards())
            first = spread.fleet.shards[0].replicas.members[0].node.id
            gone = next(machine for machine in machines.worker_nodes if machine.node_id == first)
            machines.remove_node(gone, allow_graceful=False)
            until(lambda: not before <= set(processes_of_shards()))
            answers_again(spread, log[1], how, expected, hosts)
        finally:
            add_machine(machines)


@pytest.mark.slow
@pytest.mark.faults
def test_replicas_have_different_machines_again_after_one_was_lost(joined, machines, places, chat, log):
    hosts, how = ShardHosts(joined, replicas=2, timeout_s=30.0, store=None), SearchSettings()
    expected = answers(chat, log[1], how)
    try:
        with ReferenceIndex.open_on(places, "chat", hosts) as spread:
            for gone in tuple(machines.worker_nodes):
                machines.remove_node(gone, allow_graceful=False)
                try:
                    assert answers(spread, log[1], how) == expected  # of the replicas on the other machine
                finally:
                    add_machine(machines)
                there = {machine.node_id for machine in machines.worker_nodes}
                until(lambda there=there: all(shard.replicas.machines == there for shard in spread.fleet.shards))
                assert [(state.alive, state.machines) for state in hosts.states()] == [(2, 2)] * 3
                assert answers(spread, log[1], how) == expected
            until(lambda: len(processes_of_shards()) == 6, processes_of_shards)  # those that were left have ended
    finally:
        hosts.close()


def damage(path):
    """Write other bytes in place, into the copy alone."""
    with path.open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(bytes(64))


def test_a_copy_with_another_hash_is_fetched_again(joined, hosts, places, chat, log, node_cache):
    how = SearchSettings()
    expected = answers(chat, log[1], how)
    copy = node_cache / "held" / f"{chat.manifest.id[:16]}-1" / "shards" / "1" / "response_sha.npy"
    with ReferenceIndex.open_on(places, "chat", hosts) as spread:
        assert answers(spread, log[1], how) == expected
        damage(copy)  # while it is mapped: nothing of it is shown
        answers_again(spread, log[1], how, expected, hosts)
        assert copy.read_bytes() == (chat.held.folder / "shards" / "1" / "response_sha.npy").read_bytes()
    damage(copy)  # while no process has it open
    again = ShardHosts(joined, replicas=1, timeout_s=10.0, store=None)
    try:
        with ReferenceIndex.open_on(places, "chat", again) as spread:
            fetched = [again.actors.call_each(shard.replicas, "fetched") for shard in spread.fleet.shards]
            assert fetched == [[0], [1], [0]]
            assert answers(spread, log[1], how) == expected
    finally:
        again.close()


def raise_unless_gone(error):
    if not isinstance(error, FileNotFoundError):
        raise error


def holding(node_cache, text):
    """The copies on the machines that have this text; files and whole folders may go while they are looked for."""
    names = list[str]()
    for folder, _, files in os.walk(node_cache, onerror=raise_unless_gone):
        for name in files:
            with suppress(FileNotFoundError):
                if text.encode() in Path(folder, name).read_bytes():
                    names.append(name)
    return names


def test_copies_of_an_old_version_go_and_erased_text_with_them(hosts, places, log, node_cache):
    text = "w1 quincunx w2"
    add_to_log(places, "chat", [RawPair("chat", "erased", "1", text, "w3", None, "s")])
    build_shards(places, "old", "PCAR8,IVF8,PQ4x4fs", 3)
    old = ReferenceIndex.open_on(places, "old", hosts)
    try:
        assert holding(node_cache, text)
        old_names = {f"{old.manifest.id[:16]}-{place}" for place in range(3)}
        update_index(places, "old", Silent(), erase=erased_keys(dialogues=["erased"]))
        compact_index(places, "old", Silent())
        new = ReferenceIndex.open_on(places, "old", hosts)
    finally:
        old.close()
    with new, ReferenceIndex.open(places, "old") as alone:
        until(lambda: not old_names & {folder.name for folder in (node_cache / "held").iterdir()}, hosts.states)
        until(lambda: not holding(node_cache, text), lambda: holding(node_cache, text))
        for how in (SearchSettings(), SearchSettings(mode="bm25-utterance")):
            assert answers(new, log[1], how) == answers(alone, log[1], how)


def plant(cache, name, text):
    """A copy that no process has open."""
    folder = cache / "held" / name
    folder.mkdir(parents=True)
    (cache / "files").mkdir(exist_ok=True)
    (folder / "pairs.arrow").write_text(text)
    os.link(folder / "pairs.arrow", cache / "files" / name)


def test_machines_without_a_shard_lose_old_copies_too(machines, joined, hosts, places, chat, node_cache, tmp_path):
    own, text = tmp_path / "node-cache", "w1 sesquipedalian w2"
    machine = add_machine(machines, env_vars={"REFAUG_NODE_CACHE": str(own)})
    try:
        for cache in (own, node_cache):  # one of them is that of machines without the only shard
            plant(cache, "0123456789abcdef-0", text)
        build_shards(places, "small", "Flat", 1)
        with ReferenceIndex.open_on(places, "small", hosts) as small:
            until(lambda: not holding(own, text) + holding(node_cache, text), hosts.states)
            until(lambda: "collect" not in [thread.name for thread in threading.enumerate()], hosts.states)
            plant(own, "fedcba9876543210-0", text)
            plant(own, f"{chat.manifest.id[:16]}-1", text)
            opened = f"{small.manifest.id[:16]}-0"
            environment = {**os.environ, "RAY_ADDRESS": machines.address}
            listed = copies_command(places, machines, environment)
            assert {copy["open"] for copy in listed if copy["copy"] == opened} == {True}
            planted = {copy["copy"]: copy for copy in listed if copy["copy"] != opened}
            old = planted["fedcba9876543210-0"]
            assert (old["versions"], old["open"], old["bytes"], old["removed"]) == ([], False, len(text), False)
            assert f"chat@{chat.held.version}" in planted[f"{chat.manifest.id[:16]}-1"]["versions"]
            removed = copies_command(places, machines, environment, "--remove")
            assert {copy["copy"] for copy in removed if copy["removed"]} >= {"fedcba9876543210-0"}
            assert {copy["copy"] for copy in removed if copy["published"]}.isdisjoint(
                {copy["copy"] for copy in removed if copy["removed"]}
            )
        assert [path.name for path in (own / "held").iterdir() if "fed" in path.name] == []
        assert (own / "held" / f"{chat.manifest.id[:16]}-1").is_dir()
    finally:
        machines.remove_node(machine)


def copies_command(places, machines, environment, *options):
    command = [sys.executable, "-m", "refaug", "--home", str(places.logs.parent), "index", "copies", "--json"]
    ended = subprocess.run(
        [*command, "--on", machines.address, *options], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_a_machine_is_drained_while_its_shards_answer(joined, machines, places, chat, log):
    hosts, how = ShardHosts(joined, replicas=2, timeout_s=30.0, store=None), SearchSettings()
    expected = answers(chat, log[1], how)
    try:
        with ReferenceIndex.open_on(places, "chat", hosts) as spread:
            replicas = [member for shard in spread.fleet.shards for member in shard.replicas.members]
            drained = next(node for node in machines.worker_nodes if node.node_id == replicas[0].node.id)
            ray = str(Path(sys.executable).with_name("ray"))
            reason = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "an upgrade"]
            node = ["--address", machines.address, "--node-id", drained.node_id, "--deadline-remaining-seconds", "600"]
            subprocess.run([ray, "drain-node", *node, *reason], check=True, timeout=120)
            assert answers(spread, log[1], how) == expected
            takes_tasks = [node.id for node, _ in joined.on_every_node(software)]
            assert takes_tasks == [node.node_id for node in machines.worker_nodes if node is not drained]
            add_machine(machines)
            machines.remove_node(drained)
            try:
                for _ in range(20):
                    assert answers(spread, log[1], how) == expected
                until(lambda: [state.alive for state in hosts.states()] == [2, 2, 2], hosts.states)
            finally:
                assert len(machines.worker_nodes) == 2
            assert answers(spread, log[1], how) == expected
    finally:
        hosts.close()
