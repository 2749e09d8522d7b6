"""Which replica of an object on a cluster a call goes to: nothing here needs Ray."""

from __future__ import annotations

import pytest

from refaug.extras.cluster.connection import ClusterNode
from refaug.extras.cluster.replicas import Replica, Replicas


@pytest.fixture
def members():
    nodes = [ClusterNode(id=name, address="127.0.0.1", cores=1, memory=0) for name in ("a", "b", "c")]
    return [Replica(f"actor on {node.id}", node) for node in nodes]


def test_replicas_are_asked_in_turn(members):
    first, second, third = members
    replicas = Replicas(name="shard 0", members=members)
    assert [replicas.choose(()) for _ in range(5)] == [second, third, first, second, third]
    second.is_alive = False
    assert [replicas.choose(()) for _ in range(3)] == [first, third, first]
    assert replicas.choose([first, third]) is None


def test_a_replica_that_let_a_call_wait_is_asked_after_the_others(members):
    first, second, third = members
    replicas = Replicas(name="shard 0", members=members)
    second.late_at = 1.0
    assert [replicas.choose(()) for _ in range(4)] == [third, first, third, first]
    assert replicas.choose([first, third]) is second
    first.late_at, third.is_alive = 2.0, False
    assert {id(replicas.choose(())) for _ in range(2)} == {id(first), id(second)}
    second.late_at = None
    assert [replicas.choose(()) for _ in range(2)] == [second, second]


def test_a_replica_that_shares_a_machine_or_has_a_strange_one_is_misplaced(members):
    first, second, third = members
    replicas = Replicas(name="shard 0", members=members)
    first.node_id, second.node_id, third.node_id = "a", "b", "c"
    assert replicas.misplaced({"a", "b", "c", "d"}) is None
    assert replicas.misplaced({"a", "c"}) is second
    third.node_id = "a"
    assert replicas.misplaced({"a", "b", "c"}) is third
    assert replicas.machines == {"a", "b"}


def test_a_replica_counts_when_it_has_answered_what_it_practises_on(members):
    replicas = Replicas(name="shard 0", members=members)
    members[0].node_id, members[1].node_id = "a", "b"
    members[0].practice = ["a call"]
    members[2].note("shard 0", "its process has ended")
    assert (replicas.alive, replicas.machines) == (1, {"b"})
    members[0].practice = []
    members[2].note("shard 0")
    assert (replicas.alive, replicas.machines) == (3, {"a", "b"})
